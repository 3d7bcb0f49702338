"""`docs/presets.md`: the guardrails that are known to be useful, from the code that makes them."""

from collections.abc import Iterator

from ppojob_operator.api.v1alpha1.guardrails import Preset
from ppojob_operator.codegen.reference import GENERATED, table
from ppojob_operator.domain.guardrails.bounds import figure, in_words
from ppojob_operator.domain.guardrails.guards import Guard, default_name, rule_guard
from ppojob_operator.domain.guardrails.presets import DEFAULTS, PRESETS
from ppojob_operator.domain.guardrails.status import bound

_INTRODUCTION = (
    "`preset: KLRunaway` in a guardrail. Its conditions, `forSteps` or `failing`, `afterStep`, `action` and `dryRun` "
    "override the preset's (`docs/guardrails.md`). A preset of several rules is several guardrails in status, events "
    "and metrics, with the rule's name behind the guardrail's."
)


def presets_page() -> str:
    """One table for all."""
    rows = [
        [
            f"`{preset.value}`" + (", on by default" if preset in DEFAULTS else ""),
            "<br>".join(_rules(preset)),
            info.meaning,
            info.advice,
        ]
        for preset, info in PRESETS.items()
    ]
    parts = [GENERATED, "# Presets", _INTRODUCTION, table(["preset", "rule", "what it means", "what to do"], rows)]
    return "\n\n".join(parts) + "\n"


def _rules(preset: Preset) -> Iterator[str]:
    for rule in PRESETS[preset].rules:
        guard = rule_guard(rule, default_name(preset, rule), preset)
        named = f"{rule.suffix}: " if rule.suffix else ""
        yield f"{named}{_bad(guard)}, {bound(guard)}: {guard.action.value}"


def _bad(guard: Guard) -> str:
    return " and ".join(f"`{figure(condition)}` {in_words(condition)}" for condition in guard.conditions)

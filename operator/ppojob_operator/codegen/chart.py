"""The chart README's table of values, from the comments (`# -- ...`) and defaults of values.yaml."""

import json
import re
from collections.abc import Iterator
from itertools import takewhile

import yaml

from ppojob_operator.codegen.reference import table

_BEGIN = "<!-- Values: generated from values.yaml by `make generate`. -->"
_END = "<!-- End of values. -->"


class UndocumentedValue(ValueError):
    """A value without a comment, or a README without the place for the table."""


def readme(text: str, values: str) -> str:
    """The README with its table made anew. Raises UndocumentedValue."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise UndocumentedValue(f"the chart's README lacks the lines {_BEGIN!r} and {_END!r}")
    rows = [[f"`{path}`", f"`{default}`", meaning] for path, default, meaning in documented(values)]
    return f"{before}{_BEGIN}\n\n{table(['value', 'default', 'meaning'], rows)}\n\n{_END}{after}"


def documented(values: str) -> Iterator[tuple[str, str, str]]:
    """Path, default as JSON, and comment of each value, as they stand in the file. Raises UndocumentedValue."""
    root = yaml.compose(values, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "values are a map"
    yield from _walk(root, "", values.splitlines())


def _walk(node: yaml.MappingNode, path: str, lines: list[str]) -> Iterator[tuple[str, str, str]]:
    for key, value in node.value:
        name = f"{path}{key.value}"
        comment = _comment(lines[: key.start_mark.line])
        if comment:
            yield name, json.dumps(yaml.SafeLoader("").construct_document(value)), comment
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _walk(value, f"{name}.", lines)
        else:
            raise UndocumentedValue(f"values.yaml: {name} has no comment that begins with '# -- '")


def _comment(before: list[str]) -> str:
    """What the lines straight above say, from the one with dashes on."""
    block = [line.strip() for line in takewhile(lambda line: line.lstrip().startswith("#"), reversed(before))][::-1]
    starts = [number for number, line in enumerate(block) if line.startswith("# -- ")]
    if not starts:
        return ""
    return " ".join(re.sub(r"^# (-- )?", "", line) for line in block[starts[-1] :])

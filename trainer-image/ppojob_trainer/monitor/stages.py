"""Stages as they are on disk. Sizes tell whether an output is there; its checksums are read by who would make it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json
from ppojob_contract.manifest import Compare, Manifest
from ppojob_contract.outcomes import Outcome
from ppojob_contract.stages import Stage, StageLayout, StageResult, StageRunLayout, StageState, figures_of

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


def scan(root: Path, now: Callable[[], float]) -> tuple[StageState, ...]:
    """The newest run of each stage and key; of a stage's keys the one that was begun last comes last."""
    return tuple(
        _state(layout, stage, now)
        for stage in Stage
        for layout in sorted((StageLayout.of(root, stage, key) for key in _keys(root, stage)), key=_begun)
    )


def newest(states: tuple[StageState, ...]) -> dict[Stage, StageState]:
    """Of each stage the key that was begun last."""
    return {state.stage: state for state in states}


def _keys(root: Path, stage: Stage) -> list[str]:
    folder = StageLayout.of(root, stage, "").folder
    return [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []


def _begun(layout: StageLayout) -> float:
    runs = layout.runs()
    try:
        return layout.run(runs[-1]).started.stat().st_mtime if runs else 0.0
    except FileNotFoundError:
        return 0.0


def _state(layout: StageLayout, stage: Stage, now: Callable[[], float]) -> StageState:
    number = max(layout.runs(), default=0)
    run = layout.run(number)
    result = _result(layout)
    outcome = _read(run.outcome)
    return StageState(
        stage=stage,
        key=layout.folder.name,
        run=number,
        last_heartbeat_age_seconds=_age(run, now),
        outcome=Outcome.from_json(outcome) if outcome else None,
        complete=result is not None,
        message=result.message if result else "",
        figures=result.figures if result else figures_of(_read(run.figures) or {}),
    )


def _result(layout: StageLayout) -> StageResult | None:
    """Of an output that is there."""
    try:
        manifest = read_json(layout.output / manifests.NAME)
        if manifest is None or manifests.problems(layout.output, Manifest.from_json(manifest), Compare.SIZES):
            return None
        return StageResult.from_json(read_json(layout.result) or {})
    except _UNREADABLE:
        return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = read_json(path)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _age(run: StageRunLayout, now: Callable[[], float]) -> float | None:
    try:
        return max(0.0, now() - run.heartbeat.stat().st_mtime)
    except FileNotFoundError:
        return None

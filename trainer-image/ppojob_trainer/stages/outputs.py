"""A stage's output: made beside, and there by one rename once it is whole.

`work/output-<run>` is where run `<run>` makes it; its manifest is written last, then the folder becomes `output`. A
process that was taken for dead and is not can therefore never mix its files into another run's output.
"""

import logging
import shutil
from pathlib import Path

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json, sync_directory, write_json
from ppojob_contract.manifest import Manifest
from ppojob_contract.stages import StageLayout, StageResult
from ppojob_trainer import sealing
from ppojob_trainer.errors import StorageError

log = logging.getLogger(__name__)

_RESULT = "result.json"
_DISCARDED = "discarded-"


def draft(layout: StageLayout, run: int) -> Path:
    """Where a run makes the output."""
    return layout.work / f"output-{run:04d}"


def begin(layout: StageLayout, run: int) -> StageResult | None:
    """The result, where the output is there and whole; else an empty `draft`.

    What an earlier run has finished, and was killed before it could rename it, is taken up. A damaged output and
    unfinished drafts go.
    """
    for path in layout.folder.glob(f"{_DISCARDED}*"):
        shutil.rmtree(path)
    if layout.output.exists():
        if (result := _whole(layout.output)) is not None:
            shutil.rmtree(layout.work, ignore_errors=True)
            return result
        log.warning("%s is damaged and is made anew", layout.output)
        _discard(layout, run)
    for path in sorted(layout.work.glob("output-*")):
        if (result := _whole(path)) is not None:
            return _place(layout, path, result)
        shutil.rmtree(path)
    draft(layout, run).mkdir(parents=True)
    return None


def publish(layout: StageLayout, run: int, result: StageResult) -> StageResult:
    """Makes the run's draft the output; the result that stands, which is another's where that was there first.

    What else is in `work` is of no use any more and goes.
    """
    folder = draft(layout, run)
    write_json(folder / _RESULT, result.to_json())
    sealing.sync(folder)
    manifest = Manifest(
        attempt=run,
        step=0,
        world_size=1,
        files=manifests.scan(folder, checksums=True),
        figures=result.figures,
    )
    write_json(folder / manifests.NAME, manifest.to_json())
    return _place(layout, folder, result)


def _place(layout: StageLayout, folder: Path, result: StageResult) -> StageResult:
    try:
        folder.rename(layout.output)
    except OSError as error:
        there = _whole(layout.output)
        if there is None:
            raise StorageError(f"{folder} cannot be renamed to {layout.output}: {error.strerror}") from error
        result = there
    sync_directory(layout.folder)
    shutil.rmtree(layout.work, ignore_errors=True)
    return result


def _whole(folder: Path) -> StageResult | None:
    """Its result, where every file is there with the content that it was made with."""
    try:
        value = read_json(folder / manifests.NAME)
        if value is None:
            return None
        if found := manifests.problems(folder, Manifest.from_json(value)):
            log.warning("%s: %s", folder, "; ".join(found[:5]))
            return None
        return StageResult.from_json(read_json(folder / _RESULT) or {})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning("%s cannot be read: %r", folder, error)
        return None


def _discard(layout: StageLayout, run: int) -> None:
    """Renamed first: a folder that is being removed must not be taken for an output."""
    discarded = layout.folder / f"{_DISCARDED}{run:04d}"
    layout.output.rename(discarded)
    sync_directory(layout.folder)
    shutil.rmtree(discarded)

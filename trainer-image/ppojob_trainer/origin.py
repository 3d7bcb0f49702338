"""The checkpoint that an attempt begins from: one of the job's own, another job's, or plain verl output.

verl 0.9.1 (`utils/checkpoint/fsdp_checkpoint_manager.py`) writes `actor/` and `critic/` with a file of each kind for
each rank, the number of ranks in its name, and `data.pt` beside them. It has no manifest: what is there is all there
is to go by.
"""

import re
from collections import defaultdict
from pathlib import Path

from ppojob_contract import manifest as manifests
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import Manifest
from ppojob_trainer import sealing
from ppojob_trainer.errors import CheckpointError

_SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d+)_rank_(\d+)\.pt")
_WEIGHTS, _EVERYTHING = frozenset({"model"}), frozenset({"model", "optim", "extra_state"})
ROLES = ("actor", "critic")


def folder_of(attempt: AttemptConfig) -> Path | None:
    """Where the attempt's checkpoint is; None where it begins with the initial weights."""
    resume = attempt.resume
    if resume is None:
        return None
    if resume.folder:
        return Path(resume.folder)
    return JobLayout(Path(attempt.root)).attempt(resume.checkpoint.attempt).checkpoint(resume.checkpoint.step)


def manifest_of(attempt: AttemptConfig) -> Manifest | None:
    """Of the attempt's checkpoint. Raises CheckpointError for one that cannot be loaded."""
    folder, resume = folder_of(attempt), attempt.resume
    if folder is None or resume is None:
        return None
    if resume.folder and folder.is_dir() and not (folder / manifests.NAME).exists():
        return adopted(folder, weights_only=resume.weights_only)
    return sealing.verified(folder)


def adopted(folder: Path, *, weights_only: bool) -> Manifest:
    """A manifest for plain verl output, of what its files' names say. Raises CheckpointError where one is lacking."""
    roles = [role for role in ROLES if role == "actor" or (folder / role).is_dir()]
    sizes = {role: _world_size(folder / role, _WEIGHTS if weights_only else _EVERYTHING) for role in roles}
    if len(set(sizes.values())) > 1:
        raise CheckpointError(f"checkpoint {folder}: actor and critic are of {sizes} devices", str(folder))
    if not weights_only and not (folder / "data.pt").is_file():
        raise CheckpointError(f"checkpoint {folder}: data.pt is missing (weightsOnly does without)", str(folder))
    step = int(folder.name.rsplit("_", 1)[-1])
    return Manifest(attempt=0, step=step, world_size=sizes["actor"], files=manifests.scan(folder))


def _world_size(folder: Path, kinds: frozenset[str]) -> int:
    """Raises CheckpointError unless every rank of one number of ranks has a file of each kind."""
    ranks: dict[tuple[str, int], set[int]] = defaultdict(set)
    for path in folder.iterdir() if folder.is_dir() else ():
        shard = _SHARD.fullmatch(path.name)
        if shard and path.stat().st_size:
            ranks[shard[1], int(shard[2])].add(int(shard[3]))
    sizes = {size for kind, size in ranks if kind in kinds}
    if len(sizes) != 1:
        found = f"shards of {sorted(sizes)} devices" if sizes else "no verl shards (model_world_size_N_rank_R.pt)"
        raise CheckpointError(f"checkpoint {folder.parent}: {folder.name} has {found}", str(folder.parent))
    (size,) = sizes
    for kind in sorted(kinds):
        missing = sorted(set(range(size)) - ranks[kind, size])
        if missing:
            message = f"checkpoint {folder.parent}: {folder.name} lacks {kind} of ranks {missing} of {size}"
            raise CheckpointError(message, str(folder.parent))
    return size

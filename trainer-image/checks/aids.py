"""What the checks need inside the trainer: answers that repeat, fingerprints of the weights, faults at a named point.

`aids.json` in the job's folder says what (see `Aids`); it is read anew at each rollback. Answers repeat when rows come
in an order of their content and each request is sampled with a seed of its own: verl's rows come in the order of random
ids, and the rollout draws for whatever requests arrived together. Prompts must differ from each other.
"""

import hashlib
import json
import os
import signal
import zlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import ray
import torch
import transfer_queue as tq
from torch.distributed.tensor import DTensor
from verl.experimental.reward_loop import RewardLoopManager

from ppojob_contract.durable import read_json, write_json
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult

POINTS = ("claim", "config", "load", "push", "journal", "ack")
"""Where the driver can be killed: behind each effect of a rollback, in their order."""


@dataclass(frozen=True, slots=True)
class Aids:
    repeatable: bool = True
    """Only with the rollout `hf_cpu`: another engine draws from a generator that cannot be set."""
    fingerprints: bool = True
    kill_at: str | None = None
    push: bool = True
    """Whether a rollback gives the weights to the engine."""
    keep_iterator: bool = False
    """Whether a rollback leaves the data where they are."""
    half_load: bool = False
    """Whether a rollback's load fails behind the actor's weights."""
    score_later: bool = False
    """Whether rewards are computed after generation, as with a reward model on the policy's devices."""

    @classmethod
    def read(cls, root: Path) -> "Aids":
        return cls(**(read_json(root / "aids.json") or {}))

    def write(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        write_json(root / "aids.json", asdict(self))


def aid(trainer_class: Any) -> None:
    """In the task runner."""
    _repeatable(trainer_class)
    _faulty(trainer_class)
    _fingerprinted(trainer_class)
    _scored_later()


def fingerprints(root: Path) -> list[dict[str, Any]]:
    """In the order in which they were taken: `when` (saved or loaded), `attempt`, `step`, `actor`, `critic`, `engine`,
    `memory` of the worker processes.
    """
    path = root / "fingerprints.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _scored_later() -> None:
    """Verl decides by this property (`experimental/reward_loop/reward_loop.py`)."""
    handles = RewardLoopManager.reward_loop_worker_handles.fget

    def found(self: Any) -> Any:
        root = Path(self.config.trainer.default_local_dir).parents[2]
        return None if Aids.read(root).score_later else handles(self)

    RewardLoopManager.reward_loop_worker_handles = property(found)


# ---- faults ---------------------------------------------------------------------------------------------------------


def _faulty(cls: Any) -> None:
    check, leave, load, put = cls._check_rollback, cls.leave, cls.load, cls.put_in_force

    def aids_of(trainer: Any) -> Aids:
        return Aids.read(Path(trainer.attempt.root))

    def check_rollback(self: Any, command: Any) -> None:
        _die(self, "claim")
        check(self, command)
        _watch_acknowledgement(self)

    def leave_(self: Any) -> None:
        _die(self, "config")
        leave(self)

    def load_(self: Any, attempt: Any, keys: Any) -> None:
        aids, iterator = aids_of(self), self.train_dataloader_it
        if aids.half_load:
            self.critic_wg.load_checkpoint = _refuse
        load(self, attempt, keys)
        if aids.keep_iterator:
            self.train_dataloader_it = iterator
        self.rolled_back = True
        _die(self, "load")

    def put_in_force(self: Any) -> Any:
        rolled_back = getattr(self, "rolled_back", False)
        manager = self.checkpoint_manager
        if rolled_back and not aids_of(self).push:
            manager.update_weights = lambda _: None
        try:
            return put(self)
        finally:
            vars(manager).pop("update_weights", None)
            if rolled_back:
                _die(self, "push")

    cls._check_rollback, cls.leave, cls.load, cls.put_in_force = check_rollback, leave_, load_, put_in_force


def _refuse(**_: Any) -> None:
    raise RuntimeError("PytorchStreamReader failed reading zip archive: a check wants it so")


def _watch_acknowledgement(trainer: Any) -> None:
    mailbox = trainer.orders.mailbox
    acknowledge = mailbox.acknowledge

    def acknowledge_(command: Any, result: Any, **rest: Any) -> None:
        if result is AckResult.DONE:
            _die(trainer, "journal")
        acknowledge(command, result, **rest)
        if result is AckResult.DONE:
            _die(trainer, "ack")

    mailbox.acknowledge = acknowledge_


def _die(trainer: Any, point: str) -> None:
    """Kills the driver, both of its processes, as a node's failure would."""
    root = Path(trainer.attempt.root)
    if Aids.read(root).kill_at != point:
        return
    job = JobLayout(root)
    entry = max(
        started["pid"]
        for number in job.attempts()
        if (started := read_json(job.attempt(number).started)) and "after" not in started
    )
    os.kill(entry, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


# ---- fingerprints ---------------------------------------------------------------------------------------------------


def _fingerprinted(cls: Any) -> None:
    put, seal, stop = cls.put_in_force, cls._seal, cls._save_and_stop

    def put_in_force(self: Any) -> Any:
        result = put(self)
        _note(self, "loaded", self.global_steps)
        return result

    def seal_(self: Any) -> None:
        saved = self._unsealed
        seal(self)
        if saved is not None and not getattr(self, "stopping", False):
            _note(self, "saved", saved[0])

    def save_and_stop(self: Any, request: Any) -> None:
        self.stopping = True  # the engine sleeps
        stop(self, request)

    cls.put_in_force, cls._seal, cls._save_and_stop = put_in_force, seal_, save_and_stop


def _note(trainer: Any, when: str, step: int) -> None:
    root = Path(trainer.attempt.root)
    if not Aids.read(root).fingerprints:
        return
    line = {"when": when, "attempt": trainer.attempt.attempt, "step": step, **_group(trainer.actor_rollout_wg)}
    if trainer.use_critic and trainer.critic_wg is not trainer.actor_rollout_wg:
        line |= _group(trainer.critic_wg)
    line["engine"] = _engine(trainer, root)
    with (root / "fingerprints.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def _group(group: Any) -> dict[str, Any]:
    found: list[dict[str, Any]] = ray.get([worker.__ray_call__.remote(worker_digests) for worker in group.workers])
    return found[0]


def _servers(trainer: Any) -> list[Any]:
    return [server for replica in trainer.llm_server_manager.get_replicas() for server in replica.servers]


def worker_digests(worker: Any) -> dict[str, Any]:
    """Runs in a worker process: of every model that it trains; and the process's memory, bytes."""
    inner = getattr(worker, "worker_dict", {"": worker}).values()
    found: dict[str, Any] = {"memory": _memory()}
    for item in inner:
        trained = getattr(item, "actor", item)
        engine = trained.engine
        moments = engine.optimizer.state_dict()["state"]
        found["critic" if trained is item else "actor"] = {
            "weights": digest(engine.module.state_dict().items()),
            "optimizer": digest(
                (f"{i}.{key}", value) for i, s in moments.items() for key, value in s.items() if torch.is_tensor(value)
            ),
            "place": engine.lr_scheduler.last_epoch,
        }
    return found


def _memory() -> dict[str, int]:
    found = {"resident": psutil.Process().memory_info().rss}
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        found |= {"allocated": torch.cuda.memory_allocated(), "device": total - free}
    return found


def _engine(trainer: Any, root: Path) -> list[str]:
    servers = _servers(trainer)
    if trainer.config.actor_rollout_ref.rollout.name == "hf_cpu":
        return list(ray.get([server.__ray_call__.remote(server_digest) for server in servers]))
    digests = []
    for number, server in enumerate(servers):
        path = root / f"engine-{number}"
        ray.get(server.collective_rpc.remote(method=vllm_digest, args=(str(path),)))
        digests.append(path.read_text())
    return digests


def server_digest(server: Any) -> str:
    """Runs in the rollout server `hf_cpu`."""
    return digest(server.model.named_parameters())


def vllm_digest(worker: Any, path: str) -> None:
    """Runs in vLLM's worker process (needs VLLM_ALLOW_INSECURE_SERIALIZATION=1); verl drops what is returned."""
    Path(path).write_text(digest(worker.model_runner.model.named_parameters()))


def digest(named: Any) -> str:
    """Of names and bits. On a device the bits are summed there, each with a weight of its place."""
    result = hashlib.sha256()
    for name, tensor in sorted(named, key=lambda item: item[0]):
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        bits = whole.detach().contiguous().reshape(-1).view(torch.uint8)
        result.update(name.encode())
        if bits.is_cuda and bits.numel() % 2 == 0:
            words = bits.view(torch.int16)
            parts = [
                (part.long() * torch.arange(1, 2 * part.numel(), 2, device=part.device)).sum().item()
                for part in words.split(1 << 26)
            ]
            result.update(repr(parts).encode())
        else:
            result.update(bits.cpu().numpy().tobytes())
    return result.hexdigest()[:16]


# ---- answers that repeat --------------------------------------------------------------------------------------------


def _repeatable(cls: Any) -> None:
    put, balance = cls.put_in_force, cls._balance_batch

    def put_in_force(self: Any) -> Any:
        if Aids.read(Path(self.attempt.root)).repeatable:
            ray.get([server.__ray_call__.remote(seed_each_request) for server in _servers(self)])
        return put(self)

    def balance_batch(self: Any, batch: Any, metrics: Any, **rest: Any) -> Any:
        if Aids.read(Path(self.attempt.root)).repeatable:
            _order_by_content(batch)
        return balance(self, batch, metrics, **rest)

    cls.put_in_force, cls._balance_batch = put_in_force, balance_batch


def seed_each_request(server: Any) -> None:
    """Runs in the rollout server: an answer depends on the weights' step, the prompt, and its how-many-th asking."""
    sample, seen = type(server)._sample, Counter[Any]()

    def one_by_one(batch: list[Any]) -> list[Any]:
        outputs = []
        for request in batch:
            key = (server.version, tuple(request.prompt), request.limit)
            server.generator.manual_seed(zlib.crc32(repr((key, seen[key])).encode()))
            seen[key] += 1
            outputs += sample(server, [request])
        return outputs

    server._sample = one_by_one


def _order_by_content(batch: Any) -> None:
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["prompts", "responses"])
    rows = list(zip(data["prompts"].unbind(), data["responses"].unbind(), strict=True))
    batch.reorder(sorted(range(len(rows)), key=lambda row: (rows[row][0].tolist(), rows[row][1].tolist())))

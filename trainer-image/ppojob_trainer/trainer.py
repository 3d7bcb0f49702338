# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's synchronous trainer for one attempt: a journal, sealed checkpoints, settings, and a way out between steps.

What ends a run early is an exception raised out of verl's `fit()` at a step boundary or while it waits for
generation; `fit` here catches it and acts. verl's loop itself is never copied.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import ray
from omegaconf import open_dict
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.journal import CHECKPOINT_SAVED
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult, Command, CommandKind
from ppojob_contract.manifest import Manifest
from ppojob_contract.parameters import Parameter
from ppojob_trainer import datasets, sealing, settings
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.data_order import DataOrder
from ppojob_trainer.errors import ConfigError, DataError
from ppojob_trainer.heartbeats import show_life
from ppojob_trainer.mailbox import POLL_SECONDS, Mailbox
from ppojob_trainer.plugin.registration import register_rollout
from ppojob_trainer.records import Records
from ppojob_trainer.workers import ActorWorker, CriticWorker

REPLAY_POLL_SECONDS = 0.05
"""verl looks for finished samples every 2 s, with no key to change it: more than many a whole step."""

register_rollout()


class LeaveFit(Exception):
    """Raised out of verl's loop; `JobTrainer.fit` acts on it."""


class StopRequested(LeaveFit):
    """Save what is done (unless the command says not to) and end; `command` is None where a signal asked for it."""

    def __init__(self, command: Command | None) -> None:
        super().__init__("stop")
        self.command = command


@register_trainer("ppojob")
class JobTrainer(PPOTrainerSync):
    """The trainer named by `trainer.v1.trainer_mode`. The attempt comes in the process's environment."""

    def __init__(self, config: Any) -> None:
        self.attempt = AttemptConfig.from_json(json.loads(os.environ[names.ENV_ATTEMPT]))
        job = JobLayout(Path(self.attempt.root))
        layout = job.attempt(self.attempt.attempt)
        self.files = AttemptFiles(layout)
        self.mailbox = Mailbox(layout, process="runner")
        self.ending: dict[str, Any] | None = None
        self.loaded: Manifest | None = None
        self.first_step = 0
        self.data = DataOrder(self, job, lambda line: self.files.event(self.global_steps, "BatchesPassedOver", line))
        self._data_said = ""
        self.records = Records(self)
        self._unsealed: tuple[int, float] | None = None
        show_life(self, self.files)
        super().__init__(config)

    # ---- verl's wiring ---------------------------------------------------------------------------------------------

    def _build_replay_buffer(self) -> Any:
        """Verl compares the mode with "sync" in seven places; this trainer is to count as that in all of them."""
        self.trainer_mode = "sync"
        buffer: Any = super()._build_replay_buffer()
        buffer.poll_interval = REPLAY_POLL_SECONDS
        wait, done = buffer._wait_for_next_poll, -1  # noqa: SLF001

        def wait_or_leave(partition_id: str, last_debug_time: float) -> float:
            nonlocal done
            now_done = len(buffer.finished_keys[partition_id]) + len(buffer.failure_keys[partition_id])
            if now_done != done:
                done = now_done
                self.files.beat()
            if partition_id == "train":
                self._leave_if_told(at_most_every=POLL_SECONDS)
            return float(wait(partition_id, last_debug_time))

        buffer._wait_for_next_poll = wait_or_leave  # noqa: SLF001
        return self.records.watching_validation(buffer)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        ours = {Role.ActorRollout: ActorWorker, Role.ActorRolloutRef: ActorWorker, Role.Critic: CriticWorker}
        for role in self.role_worker_mapping:
            self.role_worker_mapping[role] = ray.remote(ours[role])

    def _init_dataloader(self) -> None:
        try:
            super()._init_dataloader()
        except (FileNotFoundError, KeyError, ValueError) as error:
            raise DataError(f"data cannot be read: {error}") from error
        if self.steps_per_epoch < 1:
            rows, batch = len(self.train_dataset), self.config.data.train_batch_size
            raise DataError(f"{rows} training rows (after filtering) are fewer than a batch of {batch}")

    # ---- beginning -------------------------------------------------------------------------------------------------

    def _load_checkpoint(self) -> None:
        resume = self.attempt.resume
        if resume is None:
            super()._load_checkpoint()
            self._data_said = self.data.position(self.attempt.data)
            return
        folder = Path(self.config.trainer.resume_from_path)
        self.loaded = sealing.verified(folder)
        if self.loaded.world_size != self._world_size:
            raise ConfigError(
                f"checkpoint {folder} was saved by {self.loaded.world_size} devices, the job has {self._world_size}"
            )
        if resume.weights_only:
            self._load_weights(folder)
        else:
            super()._load_checkpoint()
        self._data_said = self.data.position(self.attempt.data, self.loaded, folder)
        self.first_step = self.global_steps

    def _load_weights(self, folder: Path) -> None:
        """Weights alone: training, its data and its schedules begin at step 0."""
        self.global_steps, self.loaded = 0, None
        self.actor_rollout_wg.load_checkpoint(local_path=str(folder / "actor"), del_local_after_load=False)
        if self.use_critic and (folder / str(Role.Critic)).is_dir():
            self.critic_wg.load_checkpoint(local_path=str(folder / str(Role.Critic)), del_local_after_load=False)

    def on_init_end(self) -> None:
        rates = self._apply_settings()
        super().on_init_end()
        source = self.attempt.resume.checkpoint if self.attempt.resume else None
        origin = f"attempt {source.attempt} step {source.step}" if source else "the initial weights"
        in_force = ", ".join(f"{name} {value:g}" for name, value in (rates | dict(self.attempt.settings)).items())
        said = "; ".join(filter(None, [f"from {origin}", in_force, self._data_said]))
        self.files.event(self.global_steps, "AttemptStarted", said)

    def _apply_settings(self) -> dict[str, float]:
        """After every load, since a checkpoint brings back the rate it was saved with. Returns the rates in force."""
        given = dict(self.attempt.settings)
        algorithm, actor = self.config.algorithm, self.config.actor_rollout_ref.actor
        settings.check(
            given,
            settings.Capabilities(
                critic=self.use_critic, kl_loss=actor.use_kl_loss, kl_reward=algorithm.use_kl_in_reward
            ),
        )
        rates = {"learning rate": float(self.actor_rollout_wg.apply_settings(given)[0]["lr"])}
        if self.use_critic:
            rates["critic learning rate"] = float(self.critic_wg.apply_settings(given)[0]["lr"])
        if Parameter.ENTROPY_COEFFICIENT in given:
            with open_dict(self.config):  # the driver decides by it whether entropy is computed
                actor.entropy_coeff = given[Parameter.ENTROPY_COEFFICIENT]
        coefficient = settings.kl_coefficient(given, self.loaded)
        if algorithm.use_kl_in_reward and coefficient is not None:
            self.kl_ctrl_in_reward.value = coefficient
        return rates

    # ---- steps -----------------------------------------------------------------------------------------------------

    def fit(self, agent_loop_manager: Any) -> None:
        """Trains until the last step or until told to stop; `ending` says which."""
        try:
            super().fit(agent_loop_manager)
            self.records.flush()
            self.ending = {"stopped": False, "step": self.global_steps - 1}
        except StopRequested as stop:
            self._save_and_stop(stop)

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self.files.beat()
        self.data.begin_step()
        self._leave_if_told()

    def _fetch_one_gen_batch(self) -> Any:
        return self.data.draw(super()._fetch_one_gen_batch)

    def _leave_if_told(self, *, at_most_every: float = 0.0) -> None:
        """Raises StopRequested where a signal or a command asks for it and this process is the one to act."""
        if not self.mailbox.due(at_most_every):
            return
        if self.files.stop_request.exists():
            raise StopRequested(None)
        command = self.mailbox.look()
        if command is None or not self.mailbox.claim(command):
            return
        if command.kind is CommandKind.STOP:
            raise StopRequested(command)
        self.mailbox.acknowledge(command, AckResult.REFUSED, message="this trainer does not roll back in process")

    def _save_and_stop(self, stop: StopRequested) -> None:
        """Verl's counter is at the step that was about to begin or had only begun to generate."""
        self.global_steps -= 1
        step = self.global_steps
        self.files.event(step, "Stopping", "asked by a command" if stop.command else "asked by SIGTERM")
        wanted = stop.command is None or stop.command.save
        if wanted and step > self.first_step and not self._is_sealed(step):
            self.checkpoint_manager.abort_replicas()
            self.checkpoint_manager.sleep_replicas()
            self._save_checkpoint()
            self.data.take_back(self.files.layout.checkpoint(step))
            self._seal()
        self._shutdown_dump_executor()
        self.records.flush()
        if stop.command:
            self.mailbox.acknowledge(stop.command, AckResult.DONE, step=step)
        self.ending = {"stopped": True, "step": step}

    # ---- records ---------------------------------------------------------------------------------------------------

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        self.records.step(batch, metrics, global_steps, epoch)
        self._seal()

    def _validate(self) -> dict[str, float]:
        metrics: dict[str, float] = super()._validate()
        self.records.validation(metrics)
        return metrics

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def _save_checkpoint(self) -> None:
        """Saves; the manifest waits for the step's row, since verl saves before it logs."""
        begin = time.monotonic()
        super()._save_checkpoint()
        self._unsealed = (self.global_steps, time.monotonic() - begin)

    def _seal(self) -> None:
        """Completes the checkpoint that has been saved, if one has."""
        if self._unsealed is None:
            return
        (step, seconds), self._unsealed = self._unsealed, None
        begin, row = time.monotonic(), self.records.last_step_row
        state = {}
        if self.config.algorithm.use_kl_in_reward:
            state[Parameter.KL_COEFFICIENT.value] = float(self.kl_ctrl_in_reward.value)
        manifest = sealing.seal(
            self.files.layout.checkpoint(step),
            attempt=self.attempt.attempt,
            step=step,
            world_size=self._world_size,
            figures=row.figures if row else {},
            state=state,
            settings=self.attempt.settings,
            last_command=None,
            dataset_digest=datasets.digest_of(self.files.layout),
            batches=row.batches if row else None,
        )
        seconds += time.monotonic() - begin
        self.files.event(step, CHECKPOINT_SAVED, f"{manifest.size_bytes} bytes in {seconds:.2f} s")

    def _is_sealed(self, step: int) -> bool:
        return (self.files.layout.checkpoint(step) / "manifest.json").exists()

    @property
    def _world_size(self) -> int:
        return self.attempt.nodes * self.attempt.devices_per_node

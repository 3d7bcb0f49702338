# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's synchronous trainer for one attempt: a journal, sealed checkpoints, settings, and a way out between steps.

What ends a run early, or takes it back, is an exception raised out of verl's `fit()` at a step boundary or while it
waits for generation; `fit` here catches it and acts. verl's loop itself is never copied.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import ray
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.journal import CHECKPOINT_SAVED, REWARD_FAILED
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult, Command
from ppojob_contract.manifest import Manifest
from ppojob_contract.parameters import Parameter
from ppojob_trainer import datasets, generation, origin, rollback, sealing
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.data_order import DataOrder
from ppojob_trainer.errors import DataError
from ppojob_trainer.heartbeats import show_life
from ppojob_trainer.live_settings import LiveSettings
from ppojob_trainer.mailbox import POLL_SECONDS
from ppojob_trainer.orders import Orders, RollbackRequested, StopRequested
from ppojob_trainer.plugin.registration import register_rollout
from ppojob_trainer.records import Records
from ppojob_trainer.rewards import colocated
from ppojob_trainer.workers import ActorWorker, CriticWorker

register_rollout()


@register_trainer("ppojob")
class JobTrainer(PPOTrainerSync):
    """The trainer named by `trainer.v1.trainer_mode`. The first attempt comes in the process's environment."""

    def __init__(self, config: Any) -> None:
        self.attempt = AttemptConfig.from_json(json.loads(os.environ[names.ENV_ATTEMPT]))
        job = JobLayout(Path(self.attempt.root))
        self.files = AttemptFiles(job.attempt(self.attempt.attempt))
        self.orders = Orders(self.files, self._check_rollback)
        self.ending: dict[str, Any] | None = None
        self.loaded: Manifest | None = None
        self.data = DataOrder(self, job, lambda line: self.files.event(self.global_steps, "BatchesPassedOver", line))
        self._data_said = ""
        self.records = Records(self)
        self._unsealed: tuple[int, float] | None = None
        show_life(self)
        super().__init__(config)
        self.live_settings = LiveSettings(self)

    # ---- verl's wiring ---------------------------------------------------------------------------------------------

    def _build_replay_buffer(self) -> Any:
        """Verl compares the mode with "sync" in seven places; this trainer is to count as that in all of them."""
        self.trainer_mode = "sync"
        buffer = generation.watched(
            super()._build_replay_buffer(), on_progress=self._beat, on_wait=self._while_generating
        )
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
        self.loaded = origin.manifest_of(self.attempt)
        assert self.loaded is not None, "there is a checkpoint to begin from"
        rollback.same_world(folder, self.loaded.world_size, self._world_size)
        with sealing.loading(folder):
            if resume.weights_only:
                self._load_weights(folder)
            else:
                super()._load_checkpoint()
        self._data_said = self.data.position(self.attempt.data, self.loaded, folder)

    def _load_weights(self, folder: Path) -> None:
        """Weights alone: training, its data and its schedules begin at step 0."""
        self.global_steps, self.loaded = 0, None
        self.actor_rollout_wg.load_weights(str(folder / "actor"))
        if self.use_critic and (folder / str(Role.Critic)).is_dir():
            self.critic_wg.load_weights(str(folder / str(Role.Critic)))

    def on_init_end(self) -> None:
        rollback.begin_journal(self.files, self.attempt, self.put_in_force())
        for finding in self.files.findings():
            self.files.event(self.attempt.first_step, REWARD_FAILED, finding)

    def put_in_force(self) -> str:
        """Settings, then the weights into the engine; returns what is in force, in words."""
        in_force = self.live_settings.apply(self.attempt.settings, self.loaded)
        super().on_init_end()
        return "; ".join(filter(None, [in_force, self._data_said]))

    # ---- steps -----------------------------------------------------------------------------------------------------

    def fit(self, agent_loop_manager: Any) -> None:
        """Trains until the last step or until told to stop; `ending` says which. A rollback begins verl's loop anew."""
        while self.ending is None:
            try:
                super().fit(agent_loop_manager)
                self.records.flush()
                self.ending = {"stopped": False, "step": self.global_steps - 1}
            except StopRequested as stop:
                self._save_and_stop(stop)
            except RollbackRequested as request:
                self._roll_back(request.command)

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self.files.beat()
        self.data.begin_step()
        self.orders.obey()

    def _fetch_one_gen_batch(self) -> Any:
        return self.data.draw(super()._fetch_one_gen_batch)

    def _beat(self) -> None:
        self.files.beat()  # those of the attempt that it is by then

    def _while_generating(self) -> None:
        if not self.curr_step_profile:  # a profile must come to its end
            self.orders.obey(at_most_every=POLL_SECONDS)

    # ---- hot rollback (`rollback.Trainer`) -------------------------------------------------------------------------

    def _check_rollback(self, command: Command) -> None:
        rollback.check(command, self.attempt, self.live_settings.capabilities, world_size=self._world_size)

    def _roll_back(self, command: Command) -> None:
        rollback.carry_out(command, self, self.orders.mailbox)
        self.orders = Orders(self.files, self._check_rollback)

    def leave(self) -> None:
        """Ends what is under way."""
        self.logger.finish(0)  # before `fit` makes the next one: its finalizer would end that one's run
        generation.end(self.checkpoint_manager, on_wait=self._beat)
        self.records.flush()

    def load(self, attempt: AttemptConfig, changed_keys: dict[str, Any]) -> None:
        """Becomes that attempt, at its checkpoint and its place in the data."""
        for key, value in changed_keys.items():
            OmegaConf.update(self.config, key, value, merge=False, force_add=True)
        self.attempt, self._unsealed = attempt, None
        self.records.begin_attempt()
        self._load_checkpoint()

    def _save_and_stop(self, stop: StopRequested) -> None:
        """Verl's counter is at the step that was about to begin or had only begun to generate."""
        self.global_steps -= 1
        step = self.global_steps
        self.files.event(step, "Stopping", f"asked by {stop.by}")
        if stop.save and step > self.attempt.first_step and not self._is_sealed(step):
            self.checkpoint_manager.abort_replicas()
            self.checkpoint_manager.sleep_replicas()
            self._save_checkpoint()
            self.data.take_back(self.files.layout.checkpoint(step))
            self._seal()
        self._shutdown_dump_executor()
        self.records.flush()
        if stop.command:
            self.orders.mailbox.acknowledge(stop.command, AckResult.DONE, step=step)
        self.ending = {"stopped": True, "step": step}

    # ---- records ---------------------------------------------------------------------------------------------------

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        self.records.step(batch, metrics, global_steps, epoch)
        self._seal()

    def _compute_reward_colocate(self, batch: Any, metrics: dict[str, Any] | None = None) -> Any:  # noqa: ARG002
        """Verl gives a reward model nothing but the conversation, and keeps nothing of it but the score."""
        batch = colocated.score(batch, self.tokenizer.pad_token_id, self.reward_loop_manager.compute_rm_score)
        self.records.scored(batch)
        return batch

    @property
    def scores_later(self) -> bool:
        """A reward model on the policy's devices scores when generation has ended."""
        return self.reward_loop_manager.reward_loop_worker_handles is None

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
            dataset_digest=datasets.digest_of(self.files.layout),
            batches=row.batches if row else None,
            checksums=self.attempt.checksums,
        )
        seconds += time.monotonic() - begin
        self.files.event(step, CHECKPOINT_SAVED, f"{manifest.size_bytes} bytes in {seconds:.2f} s")

    def _is_sealed(self, step: int) -> bool:
        return (self.files.layout.checkpoint(step) / "manifest.json").exists()

    @property
    def _world_size(self) -> int:
        return self.attempt.nodes * self.attempt.devices_per_node

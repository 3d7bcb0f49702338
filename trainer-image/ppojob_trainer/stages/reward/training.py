# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined, union-attr, arg-type"
"""What each process of a reward model's training does: TRL's RewardTrainer, with sealed checkpoints and a way to stop.

`work` is run by `gang` in every process; the first one publishes the model and measures what it published.
"""

import gc
import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from peft import LoraConfig, TaskType
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback, set_seed
from trl import RewardConfig, RewardTrainer

from ppojob_contract.durable import read_json, write_json
from ppojob_trainer.errors import ConfigError, NonFiniteError
from ppojob_trainer.stages.conversations import require_padding
from ppojob_trainer.stages.reward import checkpoints
from ppojob_trainer.stages.reward.files import RewardFiles
from ppojob_trainer.stages.reward.settings import Lora, RewardSettings, batches
from ppojob_trainer.stages.scoring import Scorer, device_of_this_process

AVERAGED_STEPS = 10
"""The last ones, for the figures of training in the result: a single batch says little."""


class BradleyTerryTrainer(RewardTrainer):
    """P(chosen is better) = sigmoid(r_chosen - r_rejected), as TRL has it."""

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            raise NonFiniteError(
                f"the reward model's loss is {loss.item()} in step {self.state.global_step + 1}; lower "
                "training.learningRate"
            )
        return loss

    def _save_checkpoint(self, *args: Any) -> None:
        super()._save_checkpoint(*args)
        self.accelerator.wait_for_everyone()  # each process writes its random state
        if self.is_world_process_zero():
            step = self.state.global_step
            checkpoints.seal(Path(self.args.output_dir) / f"checkpoint-{step}", step)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """The export has one."""


class Reporter(TrainerCallback):
    """Tells the driver how it goes, and ends where the driver asks for it."""

    def __init__(self, files: RewardFiles) -> None:
        self.files = files

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, float], **_: Any) -> None:
        if state.is_world_process_zero and "loss" in logs:
            write_json(self.files.progress, _figures(logs) | {"step": state.global_step, "steps": state.max_steps})

    def on_step_end(self, args: Any, _state: Any, control: Any, **_: Any) -> None:
        """All processes leave behind the same step, or those that go on would wait for the others."""
        asked = [self.files.stop.exists()]
        if args.world_size > 1:
            broadcast_object_list(asked)
        if asked[0]:
            control.should_save = control.should_training_stop = True


def work(task: dict[str, Any]) -> dict[str, Any] | None:
    """Trains; the first process returns what came of it, the others None."""
    settings, files = RewardSettings.from_json(task["settings"]), RewardFiles(Path(task["work"]), Path(task["output"]))
    trainer = _trainer(settings, files, devices=int(task["ranks"]))
    trainer.train(resume_from_checkpoint=task["checkpoint"])
    state = trainer.state
    if not trainer.is_world_process_zero():
        return None
    result = {"step": state.global_step, "steps": state.max_steps}
    if state.global_step < state.max_steps:
        return result | {"stopped": True}
    logs = [entry for entry in state.log_history if "loss" in entry][-AVERAGED_STEPS:]
    figures = {name: sum(entry[name] for entry in logs) / len(logs) for name in _figures(logs[-1])}
    _publish(trainer, files)
    del trainer
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return result | {"stopped": False, "figures": figures | _held_out(settings, files)}


def _trainer(settings: RewardSettings, files: RewardFiles, *, devices: int) -> BradleyTerryTrainer:
    accelerated = torch.cuda.is_available()
    plan = batches(settings, devices)
    set_seed(settings.seed)  # the head's first weights
    tokenizer = AutoTokenizer.from_pretrained(settings.model, trust_remote_code=settings.trust_remote_code)
    require_padding(tokenizer, settings.model)
    return BradleyTerryTrainer(
        model=_model(settings),
        args=RewardConfig(
            output_dir=str(files.checkpoints),
            max_length=None,
            num_train_epochs=settings.epochs,
            max_steps=-1 if settings.max_steps is None else settings.max_steps,
            per_device_train_batch_size=plan.per_device,
            gradient_accumulation_steps=plan.accumulation,
            learning_rate=settings.learning_rate,
            save_strategy="steps",
            save_steps=settings.save_steps,
            save_total_limit=2,
            logging_steps=1,
            logging_nan_inf_filter=False,
            seed=settings.seed,
            report_to="none",
            disable_tqdm=True,
            use_cpu=not accelerated,
            ddp_backend=None if devices == 1 else "nccl" if accelerated else "gloo",
            bf16=accelerated,
            gradient_checkpointing=accelerated,
            dataloader_pin_memory=accelerated,
        ),
        train_dataset=Dataset(pq.read_table(files.tokens("train"))),
        processing_class=tokenizer,
        peft_config=None if settings.lora is None else _lora(settings.lora),
        callbacks=[Reporter(files)],
    )


def _model(settings: RewardSettings) -> Any:
    """In float32: the updates of late steps are too small for bfloat16 weights."""
    try:
        return AutoModelForSequenceClassification.from_pretrained(
            settings.model, num_labels=1, dtype=torch.float32, trust_remote_code=settings.trust_remote_code
        )
    except ValueError as error:
        raise ConfigError(f"{settings.model} cannot be made a reward model: {error}") from error


def _lora(lora: Lora) -> LoraConfig:
    return LoraConfig(
        task_type=TaskType.SEQ_CLS,  # trains the head as well
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=list(lora.target_modules) or "all-linear",
    )


def _publish(trainer: BradleyTerryTrainer, files: RewardFiles) -> None:
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    model.save_pretrained(files.model)
    trainer.processing_class.save_pretrained(files.model)


def _held_out(settings: RewardSettings, files: RewardFiles) -> dict[str, float]:
    """Of the model as it was written, so that the figures are of what is used."""
    if not files.tokens("validation").exists():
        return {}
    scorer = Scorer.load(files.model, trust_remote_code=settings.trust_remote_code, device=device_of_this_process())
    table = pq.read_table(files.tokens("validation")).to_pydict()
    said = read_json(files.progress) or {}
    batches_scored = itertools.count(1)

    def tell() -> None:
        write_json(files.progress, said | {"batchesScored": next(batches_scored)})

    chosen, rejected = (
        torch.tensor(scorer.score(table[name], settings.micro_batch_size_per_device, tell))
        for name in ("chosen_ids", "rejected_ids")
    )
    margin = chosen - rejected
    return {
        "validationAccuracy": float((margin > 0).float().mean()),
        "validationLoss": float(torch.nn.functional.softplus(-margin).mean()),
        "validationMargin": float(margin.mean()),
        "pairsValidation": float(len(margin)),
    }


def _figures(logs: dict[str, float]) -> dict[str, float]:
    return {name: float(logs[name]) for name in ("loss", "accuracy", "margin") if name in logs}

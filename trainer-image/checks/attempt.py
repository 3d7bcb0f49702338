"""Runs one attempt of a toy job by hand, without Kubernetes: `python checks/attempt.py ROOT ATTEMPT [options]`.

Needs what the image has, toy assets (`python -m ppojob_trainer.toy DIR`), a local Ray with logical GPUs
(`ray start --head --num-cpus=16 --num-gpus=1`), a writable /ppojob/run, and VERL_PLATFORM=cpu.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig, Resume
from ppojob_contract.data_plan import DataPlan
from ppojob_contract.mailbox import CheckpointRef

TERMS = [
    {"name": "digits", "weight": 1.0, "rule": {"type": "Regex", "pattern": "[0-9]", "mode": "Share"}},
    {"name": "right", "weight": 1.0, "rule": {"type": "GSM8K"}},
]


def overrides(toy: str, arguments: argparse.Namespace) -> dict[str, object]:
    """What the operator renders for a PPO job with critic and reference on the toy assets."""
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return {
        "data.train_files": [f"{toy}/train.parquet"],
        "data.val_files": [f"{toy}/validation.parquet"],
        "data.train_batch_size": 16,
        "data.max_prompt_length": 48,
        "data.max_response_length": arguments.response_length,
        "data.seed": 42,
        "data.shuffle": True,
        "actor_rollout_ref.model.path": f"{toy}/model",
        f"{actor}.ppo_mini_batch_size": 8,
        f"{actor}.ppo_micro_batch_size_per_gpu": 8,
        f"{actor}.ppo_epochs": arguments.epochs,
        f"{actor}.optim.lr": arguments.lr,
        f"{actor}.use_kl_loss": not arguments.kl_in_reward,
        f"{actor}.kl_loss_coef": 0.001,
        f"{rollout}.n": arguments.samples,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": 16,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 16,
        "algorithm.adv_estimator": arguments.algorithm,
        "algorithm.use_kl_in_reward": arguments.kl_in_reward,
        "algorithm.kl_ctrl.type": "adaptive" if arguments.kl_in_reward else "fixed",
        "algorithm.kl_ctrl.horizon": 1000,
        "critic.model.path": f"{toy}/model",
        "critic.optim.lr": 1e-3,
        "critic.ppo_micro_batch_size_per_gpu": 8,
        "trainer.save_freq": arguments.save,
        "trainer.test_freq": arguments.validate,
        **json.loads(arguments.overrides),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("attempt", type=int)
    parser.add_argument("--toy", default=os.environ.get("PPOJOB_TOY", "/opt/ppojob/toy"))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--save", type=int, default=2)
    parser.add_argument("--validate", type=int, default=-1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--response-length", type=int, default=16)
    parser.add_argument("--algorithm", default="gae")
    parser.add_argument("--kl-in-reward", action="store_true")
    parser.add_argument("--overrides", default="{}", help="JSON")
    parser.add_argument("--settings", default="{}", help="JSON")
    parser.add_argument("--resume", help="ATTEMPT:STEP")
    parser.add_argument("--data", default="{}", help="JSON of a data plan")
    parser.add_argument("--terms", help="JSON of reward terms")
    parser.add_argument("--weights-only", action="store_true")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--aided", action="store_true", help="under aids.py, as ROOT/aids.json says")
    arguments = parser.parse_args()
    source = [int(part) for part in arguments.resume.split(":")] if arguments.resume else None
    attempt = AttemptConfig(
        namespace="default",
        name="toy",
        uid="00000000-0000-0000-0000-000000000000",
        attempt=arguments.attempt,
        root=arguments.root,
        overrides=overrides(arguments.toy, arguments),
        reward_terms=json.loads(arguments.terms) if arguments.terms else TERMS,
        total_steps=arguments.steps,
        max_response_length=arguments.response_length,
        devices_per_node=arguments.devices,
        nodes=1,
        settings=json.loads(arguments.settings),
        data=DataPlan.from_json(json.loads(arguments.data)),
        resume=Resume(checkpoint=CheckpointRef(attempt=source[0], step=source[1]), weights_only=arguments.weights_only)
        if source
        else None,
    )
    os.environ[names.ENV_ATTEMPT] = json.dumps(attempt.to_json())
    entry = [str(Path(__file__).with_name("aided.py"))] if arguments.aided else ["-m", "ppojob_trainer.main"]
    os.execvp(sys.executable, [sys.executable, *entry])  # noqa: S606 - no shell


if __name__ == "__main__":
    main()

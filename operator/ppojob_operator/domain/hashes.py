"""Which change of a spec needs what: hashes over accepted fields.

Over the fields and not the rendering, so that a newer operator changes nothing of a running job. Only what differs
from a field's default counts: writing a default out, or a field of a later version, changes no hash.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from ppojob_operator.api.v1alpha1.reward import Reward
from ppojob_operator.api.v1alpha1.reward_scoring import RewardScoring
from ppojob_operator.api.v1alpha1.reward_training import RewardTraining
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec

_LENGTH = 16


def spec_hash(spec: PPOJobSpec) -> str:
    """Of the whole spec."""
    return hash_of({"spec": spec})


def training_hash(spec: PPOJobSpec) -> str:
    """Another one needs a new attempt."""
    return hash_of(
        {
            "training": spec.training,
            "rollout": spec.rollout,
            "algorithm": spec.algorithm,
            "trainer": spec.trainer,
            "data": spec.data,
            "reward": _without_gates(spec.reward),
            "model": spec.model,
            "everySteps": spec.checkpoints.every_steps,
        }
    )


def data_hash(spec: PPOJobSpec) -> str:
    """Another one makes the order of the prompts another one: a checkpoint's place in it means nothing any more."""
    data = spec.data
    return hash_of(
        {
            "train": data.train,
            "maxPromptLength": data.max_prompt_length,
            "seed": data.seed,
            "shuffle": data.shuffle,
            "batchSize": spec.training.batch_size,
            **({"prepare": data.prepare} if data.prepare else {}),
        }
    )


def cluster_hash(spec: PPOJobSpec) -> str:
    """Another one needs a new RayCluster: what is in its pods, reward functions' ConfigMaps included."""
    trainer = spec.trainer
    return hash_of(
        {
            "cluster": spec.cluster,
            "image": trainer.image,
            "imagePullPolicy": trainer.image_pull_policy,
            "imagePullSecrets": trainer.image_pull_secrets,
            "env": trainer.env,
            "storage": spec.storage,
            "functions": {term.name: term.function.config_map for term in spec.reward.terms if term.function},
            **_later_parts(spec),
        }
    )


def _without_gates(reward: Reward) -> Reward:
    """What says when to save a reward model and whether it is good enough changes nothing of the run."""
    terms = [
        term
        if term.training is None
        else term.model_copy(
            update={"training": lasting(term.training).model_copy(update={"scoring": term.training.scoring})}
        )
        for term in reward.terms
    ]
    return reward.model_copy(update={"terms": terms})


def lasting(training: RewardTraining) -> RewardTraining:
    """What the reward model follows from."""
    save_steps = RewardTraining.model_fields["save_steps"].default
    unused = {"minimum_accuracy": None, "save_steps": save_steps, "scoring": RewardScoring()}
    return training.model_copy(update=unused)


def _later_parts(spec: PPOJobSpec) -> dict[str, Any]:
    """Of the pods as well, but left out where unused: jobs of earlier versions keep their hash."""
    sources = spec.data.prepare.sources if spec.data.prepare else []
    prepare = {source.name: source.function.config_map for source in sources if source.function}
    endpoint = spec.evaluation.judge.endpoint if spec.evaluation else None
    secret = endpoint.api_key_secret if endpoint else None
    return ({"prepare": prepare} if prepare else {}) | ({"judgeKey": secret} if secret else {})


def hash_of(parts: Mapping[str, Any]) -> str:
    """Of models, lists and plain values."""
    text = json.dumps(_canonical(dict(parts)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def _canonical(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {
            name: _canonical(getattr(value, name))
            for name, field in type(value).model_fields.items()
            if field.is_required() or getattr(value, name) != field.get_default(call_default_factory=True)
        }
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value.value if isinstance(value, Enum) else value

"""Users' Python files: which ConfigMaps a job's pods have, and where."""

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec


def reward_folder(term: str) -> str:
    """Where a reward term's ConfigMap is mounted."""
    return f"/ppojob/functions/{term}"


def prepare_folder(source: str) -> str:
    """Where the ConfigMap of a source of `data.prepare` is mounted."""
    return f"/ppojob/prepare/{source}"


def function_folders(spec: PPOJobSpec) -> tuple[tuple[str, str], ...]:
    """(folder in the pods, ConfigMap), in the spec's order."""
    rewards = ((reward_folder(term.name), term.function) for term in spec.reward.terms)
    sources = spec.data.prepare.sources if spec.data.prepare else []
    prepared = ((prepare_folder(source.name), source.function) for source in sources)
    found = [(folder, function.config_map) for folder, function in rewards if function is not None]
    return (*found, *((folder, function.config_map) for folder, function in prepared if function is not None))

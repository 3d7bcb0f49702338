"""Names of labels, annotations, environment variables, ports and mount points that both sides use."""

API_GROUP = "rlhf.dev"

LABEL_JOB = f"{API_GROUP}/job"
LABEL_JOB_UID = f"{API_GROUP}/job-uid"
LABEL_COMPONENT = "app.kubernetes.io/component"
ANNOTATION_CLUSTER_HASH = f"{API_GROUP}/cluster-hash"

MONITOR_PORT = 8477
MONITOR_PORT_NAME = "monitor"

STORAGE_MOUNT = "/ppojob/storage"
"""Where the job's claim is mounted in every trainer pod."""

RUN_MOUNT = "/ppojob/run"
"""An emptyDir of the head pod, shared by the Ray and the monitor container: locks live and die with the pod."""

TOKEN_MOUNT = "/ppojob/token"  # noqa: S105 (a folder, no secret)
TOKEN_FILE = f"{TOKEN_MOUNT}/token"

DRIVER_LOCK = f"{RUN_MOUNT}/driver.lock"
"""Held (flock) by the entry process from before its first effect to its end."""

RUNNER_LOCK = f"{RUN_MOUNT}/runner.lock"
"""Held (flock) by the task runner, a process of Ray's own that can outlive a killed entry by seconds."""

ENV_ATTEMPT = "PPOJOB_ATTEMPT"
"""One JSON value, an `attempt.AttemptConfig`: all that the trainer is told."""

ENV_STAGE = "PPOJOB_STAGE"
"""One JSON value, a `stages.StageConfig`."""

ENV_JUDGE_KEY = "PPOJOB_JUDGE_API_KEY"
"""Bearer token of an evaluation's endpoint, from its Secret."""

ENV_NAMESPACE = "PPOJOB_NAMESPACE"
ENV_NAME = "PPOJOB_NAME"
ENV_UID = "PPOJOB_UID"
ENV_POD_UID = "PPOJOB_POD_UID"
ENV_JOB_ROOT = "PPOJOB_JOB_ROOT"
"""Absolute path of the job's folder on the claim (see `layout.JobLayout`)."""

TRAIN_ENTRYPOINT = "ppojob-train"
STAGE_ENTRYPOINT = "ppojob-stage"
MONITOR_COMMAND = "ppojob-monitor"
STOP_COMMAND = "ppojob-stop"
"""Run by the pods' preStop hook: asks the trainer to stop and waits for its outcome."""

ENV_STOP_SECONDS = "PPOJOB_STOP_SECONDS"
"""How long the hook waits, where its argument does not say it."""

ENV_PLATFORM = "VERL_PLATFORM"
"""verl's name of the platform (`cpu`, `nvidia`), set by the image: a head pod of a GPU job need not have a GPU."""

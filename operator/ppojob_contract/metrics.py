"""Every Prometheus metric of the project, declared once: exporters, alerts, dashboards and docs follow this table.

Trainer metrics carry the labels `namespace` and `ppojob` (the attempt is a value, not a label: no series per attempt).
"""

from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    figures: tuple[tuple[str, ...], ...] = ()
    """Where the values come from: (figure or verl key, label value ...) for each series; empty where computed."""


JOB_LABELS = ("namespace", "ppojob")
_G, _C, _H = MetricType.GAUGE, MetricType.COUNTER, MetricType.HISTOGRAM

STEP = Metric("ppojob_step", _G, "Last finished training step", JOB_LABELS)
ATTEMPT = Metric("ppojob_attempt", _G, "Attempt that runs or ran last", JOB_LABELS)
LAST_STEP_TIME = Metric(
    "ppojob_last_step_timestamp_seconds", _G, "When the last step finished, seconds since the epoch", JOB_LABELS
)
TOKENS = Metric("ppojob_tokens_total", _C, "Prompt and response tokens of all steps and attempts", JOB_LABELS)
STEP_DURATION = Metric("ppojob_step_duration_seconds", _H, "Duration of a training step", JOB_LABELS)
STAGE_DURATION = Metric(
    "ppojob_stage_duration_seconds", _G, "Duration of a phase of the last step", (*JOB_LABELS, "stage")
)
CHECKPOINT_STEP = Metric("ppojob_checkpoint_step", _G, "Newest checkpoint's step in each state", (*JOB_LABELS, "state"))
CHECKPOINT_BYTES = Metric("ppojob_checkpoint_bytes", _G, "Size of all checkpoints on the claim", JOB_LABELS)
CHECKPOINT_SAVE = Metric("ppojob_checkpoint_save_seconds", _G, "Duration of the last checkpoint's save", JOB_LABELS)
VERL = Metric("ppojob_verl", _G, "Every other figure of verl's last step", (*JOB_LABELS, "key"))

FROM_FIGURES = (
    Metric("ppojob_kl", _G, "KL of the policy to the reference", JOB_LABELS, (("kl",),)),
    Metric("ppojob_update_kl", _G, "KL between old and updated policy", JOB_LABELS, (("updateKL",),)),
    Metric("ppojob_reward_mean", _G, "Mean reward", JOB_LABELS, (("rewardMean",),)),
    Metric("ppojob_reward_std", _G, "Standard deviation of the rewards", JOB_LABELS, (("rewardStd",),)),
    Metric("ppojob_reward_min", _G, "Smallest reward", JOB_LABELS, (("rewardMin",),)),
    Metric("ppojob_reward_max", _G, "Largest reward", JOB_LABELS, (("rewardMax",),)),
    Metric(
        "ppojob_gradient_norm",
        _G,
        "Gradient norm before clipping",
        (*JOB_LABELS, "role"),
        (("gradNorm", "actor"), ("criticGradNorm", "critic")),
    ),
    Metric("ppojob_entropy", _G, "Entropy of the policy, nats", JOB_LABELS, (("entropy",),)),
    Metric("ppojob_loss", _G, "Loss", (*JOB_LABELS, "role"), (("policyLoss", "actor"), ("valueLoss", "critic"))),
    Metric(
        "ppojob_clip_fraction",
        _G,
        "Share of clipped tokens",
        (*JOB_LABELS, "role"),
        (("clipFraction", "actor"), ("valueClipFraction", "critic")),
    ),
    Metric(
        "ppojob_learning_rate",
        _G,
        "Learning rate",
        (*JOB_LABELS, "role"),
        (("learningRate", "actor"), ("criticLearningRate", "critic")),
    ),
    Metric("ppojob_kl_coefficient", _G, "Weight of the KL term", JOB_LABELS, (("klCoefficient",),)),
    Metric(
        "ppojob_response_length_tokens",
        _G,
        "Response length",
        (*JOB_LABELS, "stat"),
        (("responseLengthMean", "mean"), ("responseLengthP10", "p10"), ("responseLengthMax", "max")),
    ),
    Metric(
        "ppojob_response_clipped_fraction",
        _G,
        "Share of responses that reached the limit",
        JOB_LABELS,
        (("responseClippedFraction",),),
    ),
    Metric("ppojob_tokens_per_second", _G, "Tokens a second, all devices", JOB_LABELS, (("tokensPerSecond",),)),
    Metric("ppojob_rollout_kl", _G, "KL between rollout's and trainer's tokens", JOB_LABELS, (("rolloutKL",),)),
    Metric(
        "ppojob_rollout_correlation",
        _G,
        "Correlation of rollout's and trainer's token probabilities",
        JOB_LABELS,
        (("rolloutCorrelation",),),
    ),
    Metric("ppojob_reward_group_std", _G, "Mean standard deviation inside groups", JOB_LABELS, (("rewardGroupStd",),)),
    Metric(
        "ppojob_zero_variance_group_fraction",
        _G,
        "Share of groups whose rewards are all equal",
        JOB_LABELS,
        (("zeroVarianceGroupFraction",),),
    ),
    Metric(
        "ppojob_failed_prompt_fraction",
        _G,
        "Share of samples whose generation or reward failed",
        JOB_LABELS,
        (("failedPromptFraction",),),
    ),
    Metric(
        "ppojob_device_memory_fraction",
        _G,
        "Trainer's peak reserved device memory as a share of all",
        JOB_LABELS,
        (("deviceMemoryFraction",),),
    ),
    Metric("ppojob_validation_reward", _G, "Reward of the last validation", JOB_LABELS, (("validationReward",),)),
)

TRAINER_METRICS = (
    STEP,
    ATTEMPT,
    LAST_STEP_TIME,
    TOKENS,
    STEP_DURATION,
    STAGE_DURATION,
    CHECKPOINT_STEP,
    CHECKPOINT_BYTES,
    CHECKPOINT_SAVE,
    VERL,
    *FROM_FIGURES,
)

RECONCILE = Metric("ppojob_operator_reconcile_seconds", _H, "Duration of one pass over a job")
DECISIONS = Metric("ppojob_operator_decisions_total", _C, "Decisions taken", ("decision",))
JOBS = Metric("ppojob_operator_jobs", _G, "PPOJobs in each phase", ("phase",))
ROLLBACKS = Metric("ppojob_operator_rollbacks_total", _C, "Rollbacks begun", ("path",))
ROLLBACK_SECONDS = Metric(
    "ppojob_operator_rollback_seconds", _H, "From a breach's decision to the next attempt's first step", ("path",)
)
RESTARTS = Metric("ppojob_operator_restarts_total", _C, "Restarts after a failure", ("class",))
API_REQUESTS = Metric("ppojob_operator_api_requests_total", _C, "Requests to the API server", ("verb", "code"))
JOB_ROLLBACKS = Metric("ppojob_rollbacks", _G, "Rollbacks of the job so far, from its status", JOB_LABELS)
VERDICT = Metric(
    "ppojob_guardrail_verdict",
    _G,
    "0 Healthy, 1 Breached, 2 Inconclusive, 3 Waiting",
    (*JOB_LABELS, "guardrail"),
)

OPERATOR_METRICS = (
    RECONCILE,
    DECISIONS,
    JOBS,
    ROLLBACKS,
    ROLLBACK_SECONDS,
    RESTARTS,
    API_REQUESTS,
    JOB_ROLLBACKS,
    VERDICT,
)

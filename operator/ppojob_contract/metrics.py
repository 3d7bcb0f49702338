"""Every Prometheus metric of the project, declared once: exporters, alerts, dashboards and docs follow this table.

Metrics of a job carry the labels `namespace` and `ppojob` (the attempt is a value, not a label: no series per attempt).
Each says how many series it has at most, so that the cost of a job to Prometheus is known.
"""

from dataclasses import dataclass
from enum import StrEnum

from ppojob_contract.stages import MAX_FIGURES, Stage


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
    combinations: int = 1
    """Most combinations of label values beside those of `JOB_LABELS`; exporters keep to it."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""
    own_unit: str = ""
    """Where the name does not end with it."""

    @property
    def unit(self) -> str:
        """Of its values; "1" for counts and what has none."""
        named = self.name.removesuffix("_total")
        return self.own_unit or next((unit for end, unit in _UNITS.items() if named.endswith(end)), "1")

    @property
    def series(self) -> int:
        """Series at most: of one job, or of the operator."""
        return max(self.combinations, len(self.figures)) * (len(self.bounds) + 3 if self.bounds else 1)


_UNITS = {
    "_tokens_per_second": "tokens/second",
    "_timestamp_seconds": "seconds since the epoch",
    "_seconds": "seconds",
    "_bytes": "bytes",
    "_tokens": "tokens",
    "_step": "steps",
    "_steps": "steps",
    "_fraction": "0 to 1",
}
NATS, SCORE = "nats", "score"
"""Of a reward: whatever its rules, functions and models give."""

JOB_LABELS = ("namespace", "ppojob")
_G, _C, _H = MetricType.GAUGE, MetricType.COUNTER, MetricType.HISTOGRAM

STEP = Metric("ppojob_step", _G, "Last finished training step", JOB_LABELS)
ATTEMPT = Metric("ppojob_attempt", _G, "Attempt that runs or ran last", JOB_LABELS)
LAST_STEP_TIME = Metric("ppojob_last_step_timestamp_seconds", _G, "When the last step finished", JOB_LABELS)
TOKENS = Metric("ppojob_tokens_total", _C, "Prompt and response tokens of all steps and attempts", JOB_LABELS)
STEP_DURATION = Metric(
    "ppojob_step_duration_seconds",
    _H,
    "Duration of a training step, of all attempts",
    JOB_LABELS,
    bounds=(0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0),
)
STAGE_DURATION = Metric(
    "ppojob_stage_duration_seconds",
    _G,
    "Duration of a stage of the last step, by verl's name of it",
    (*JOB_LABELS, "stage"),
    combinations=32,
)
CHECKPOINT_STEP = Metric(
    "ppojob_checkpoint_step", _G, "Newest checkpoint's step in each state", (*JOB_LABELS, "state"), combinations=4
)
CHECKPOINT_BYTES = Metric("ppojob_checkpoint_bytes", _G, "Size of all checkpoints on the claim", JOB_LABELS)
CHECKPOINT_SAVE = Metric("ppojob_checkpoint_save_seconds", _G, "Duration of the last checkpoint's save", JOB_LABELS)
REWARD_TERM_MEAN = Metric(
    "ppojob_reward_term",
    _G,
    "Mean of each reward term's own score",
    (*JOB_LABELS, "term"),
    combinations=16,
    own_unit=SCORE,
)
VERL = Metric(
    "ppojob_verl",
    _G,
    "Every other figure of verl's last step",
    (*JOB_LABELS, "key"),
    combinations=200,
    own_unit="by key",
)
LEFT_OUT = Metric(
    "ppojob_figures_left_out", _G, "Figures of the last step that had no room in the bounded metrics", JOB_LABELS
)
STAGE_FIGURE = Metric(
    "ppojob_stage_figure",
    _G,
    "Figures of each stage beside training: while it runs the newest, then those of its result",
    (*JOB_LABELS, "stage", "key"),
    combinations=len(Stage) * MAX_FIGURES,
    own_unit="by key",
)

_TRAINED = ("actor", "reference", "critic")
DEVICE_MEMORY = Metric(
    "ppojob_device_memory_bytes",
    _G,
    "Device memory of the last step while each role was at work, its peak on the fullest device; of the device, all",
    (*JOB_LABELS, "role", "kind"),
    (
        *((f"{role}Memory{kind.title()}Bytes", role, kind) for role in _TRAINED for kind in ("allocated", "reserved")),
        ("rolloutMemoryReservedBytes", "rollout", "reserved"),
        ("deviceMemoryTotalBytes", "device", "total"),
    ),
)

FROM_FIGURES = (
    Metric("ppojob_kl", _G, "KL of the policy to the reference", JOB_LABELS, (("kl",),), own_unit=NATS),
    Metric("ppojob_update_kl", _G, "KL between old and updated policy", JOB_LABELS, (("updateKL",),), own_unit=NATS),
    Metric("ppojob_reward_mean", _G, "Mean reward", JOB_LABELS, (("rewardMean",),), own_unit=SCORE),
    Metric("ppojob_reward_std", _G, "Standard deviation of the rewards", JOB_LABELS, (("rewardStd",),), own_unit=SCORE),
    Metric("ppojob_reward_min", _G, "Smallest reward", JOB_LABELS, (("rewardMin",),), own_unit=SCORE),
    Metric("ppojob_reward_max", _G, "Largest reward", JOB_LABELS, (("rewardMax",),), own_unit=SCORE),
    Metric(
        "ppojob_gradient_norm",
        _G,
        "Gradient norm before clipping",
        (*JOB_LABELS, "role"),
        (("gradNorm", "actor"), ("criticGradNorm", "critic")),
    ),
    Metric("ppojob_entropy", _G, "Entropy of the policy", JOB_LABELS, (("entropy",),), own_unit=NATS),
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
    Metric(
        "ppojob_rollout_kl",
        _G,
        "KL between rollout's and trainer's tokens",
        JOB_LABELS,
        (("rolloutKL",),),
        own_unit=NATS,
    ),
    Metric(
        "ppojob_rollout_correlation",
        _G,
        "Correlation of rollout's and trainer's token probabilities",
        JOB_LABELS,
        (("rolloutCorrelation",),),
    ),
    Metric(
        "ppojob_reward_group_std",
        _G,
        "Mean standard deviation inside groups",
        JOB_LABELS,
        (("rewardGroupStd",),),
        own_unit=SCORE,
    ),
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
    DEVICE_MEMORY,
    Metric(
        "ppojob_validation_reward",
        _G,
        "Reward of the last validation",
        JOB_LABELS,
        (("validationReward",),),
        own_unit=SCORE,
    ),
)


def of_figure(figure: str) -> tuple[Metric, dict[str, str]]:
    """The metric that exports a figure, and the labels of its series there. Raises KeyError."""
    for metric in FROM_FIGURES:
        for name, *values in metric.figures:
            if name == figure:
                return metric, dict(zip(metric.labels[len(JOB_LABELS) :], values, strict=True))
    raise KeyError(figure)


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
    REWARD_TERM_MEAN,
    VERL,
    LEFT_OUT,
    STAGE_FIGURE,
    *FROM_FIGURES,
)

RECONCILE = Metric(
    "ppojob_operator_reconcile_seconds",
    _H,
    "Duration of one pass over a job",
    bounds=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
LEADER = Metric("ppojob_operator_leader", _G, "1 where this process holds the Lease and serves jobs, else 0")
DECISIONS = Metric("ppojob_operator_decisions_total", _C, "Decisions taken", ("decision",), combinations=24)
JOBS = Metric("ppojob_operator_jobs", _G, "PPOJobs in each phase", ("phase",), combinations=12)
ROLLBACKS = Metric("ppojob_operator_rollbacks_total", _C, "Rollbacks begun", ("path",), combinations=2)
ROLLBACK_SECONDS = Metric(
    "ppojob_operator_rollback_seconds",
    _H,
    "From a breach's decision to the next attempt's first step",
    ("path",),
    combinations=2,
    bounds=(0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
)
RESTARTS = Metric("ppojob_operator_restarts_total", _C, "Restarts after a failure", ("class",), combinations=24)
CHECKPOINTS_DELETED = Metric("ppojob_operator_checkpoints_deleted_total", _C, "Checkpoints deleted by retention")
API_REQUESTS = Metric(
    "ppojob_operator_api_requests_total", _C, "Requests to the API server", ("verb", "code"), combinations=100
)

PHASE = Metric("ppojob_phase", _G, "1 for the phase that the job is in", (*JOB_LABELS, "phase"))
CONDITION = Metric(
    "ppojob_condition",
    _G,
    "1 for what each of the job's conditions says",
    (*JOB_LABELS, "condition", "status", "reason"),
    combinations=16,
)
PAUSED = Metric(
    "ppojob_paused", _G, "1 while the job waits for a person, whom a guardrail has called", (*JOB_LABELS, "reason")
)
TARGET_STEPS = Metric("ppojob_target_steps", _G, "Steps that the job is to train", JOB_LABELS)
ESTIMATED_COMPLETION = Metric(
    "ppojob_estimated_completion_timestamp_seconds",
    _G,
    "When the last step will be done at the present pace",
    JOB_LABELS,
)
JOB_ROLLBACKS = Metric("ppojob_rollbacks_total", _C, "Rollbacks of the job, from its status", JOB_LABELS)
JOB_RESTARTS = Metric("ppojob_restarts_total", _C, "Restarts of the job after failures, from its status", JOB_LABELS)
STEPS = Metric("ppojob_steps_total", _C, "Steps finished by all attempts, useful or not", JOB_LABELS)
USEFUL_STEPS = Metric("ppojob_useful_steps", _G, "Steps that led to the weights of now", JOB_LABELS)
TRAINING_SECONDS = Metric("ppojob_training_seconds_total", _C, "Time spent in finished steps", JOB_LABELS)
HELD_SECONDS = Metric("ppojob_held_seconds_total", _C, "Time during which a RayCluster of the job existed", JOB_LABELS)
CHECKPOINTS = Metric(
    "ppojob_checkpoints",
    _G,
    "Checkpoints in each state, of those in the status",
    (*JOB_LABELS, "state"),
    combinations=8,
)
CHECKPOINT_INTERVAL = Metric("ppojob_checkpoint_interval_steps", _G, "Steps between two saves, by the spec", JOB_LABELS)
CONFIRMATION_WINDOW = Metric(
    "ppojob_confirmation_window_steps", _G, "Clean steps behind a checkpoint that confirm it, by the spec", JOB_LABELS
)
VERDICT = Metric(
    "ppojob_guardrail_verdict",
    _G,
    "0 Healthy, 1 Breached, 2 Inconclusive, 3 Waiting; with dry_run true the action is what would have been done",
    (*JOB_LABELS, "guardrail", "action", "dry_run"),
    combinations=128,
)
BREACHES = Metric(
    "ppojob_guardrail_breaches_total",
    _C,
    "Breaches of the guardrail since this operator serves the job",
    (*JOB_LABELS, "guardrail"),
    combinations=128,
)
RECONCILE_ERRORS = Metric(
    "ppojob_reconcile_errors_total", _C, "Passes over the job that failed", (*JOB_LABELS, "error"), combinations=7
)

FROM_STATUS = (
    PHASE,
    CONDITION,
    PAUSED,
    TARGET_STEPS,
    ESTIMATED_COMPLETION,
    JOB_ROLLBACKS,
    JOB_RESTARTS,
    STEPS,
    USEFUL_STEPS,
    TRAINING_SECONDS,
    HELD_SECONDS,
    CHECKPOINTS,
    CHECKPOINT_INTERVAL,
    CONFIRMATION_WINDOW,
    VERDICT,
    BREACHES,
    RECONCILE_ERRORS,
)
"""Of one job, told by the operator: they are there before the first step and after the last pod is gone."""

OPERATOR_METRICS = (
    RECONCILE,
    LEADER,
    DECISIONS,
    JOBS,
    ROLLBACKS,
    ROLLBACK_SECONDS,
    RESTARTS,
    CHECKPOINTS_DELETED,
    API_REQUESTS,
)

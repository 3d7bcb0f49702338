"""Dashboard *PPOJob*: one run, from its policy to its checkpoints."""

from typing import Final

from ppojob_contract import metrics as m
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, Verdict
from ppojob_operator.codegen.monitoring import queries as q
from ppojob_operator.codegen.monitoring.job_stages import STAGES
from ppojob_operator.codegen.monitoring.panels import OF_JOB, Dashboard, Look, Mark, Panel, Query, Row
from ppojob_operator.codegen.monitoring.promql import by_job, series
from ppojob_operator.job_series import VERDICT_VALUES


def _told(metric: m.Metric, *labels: str, **equal: str) -> str:
    return by_job(series(metric, *OF_JOB, **equal), *labels)


def _figures(**legends: str) -> tuple[Query, ...]:
    return tuple(Query(q.of(name, *OF_JOB), legend) for name, legend in legends.items())


def _number(title: str, good: str, query: str, unit: str = "short", legend: str = "") -> Panel:
    return Panel(
        title=title,
        good=good,
        queries=(Query(query, legend or title.lower()),),
        unit=unit,
        look=Look.NUMBER,
        width=3,
        height=4,
    )


_NOW = Row(
    "Now",
    (
        _number("Phase", "Running.", _told(m.PHASE, "phase"), "string", "{{phase}}"),
        _number("Step", "Rises at every refresh.", f"{_told(m.STEP)} or {_told(m.USEFUL_STEPS)}"),
        _number("Of steps", "What `training.totalSteps` asks for.", _told(m.TARGET_STEPS)),
        _number(
            "Done at",
            "Moves little between two refreshes.",
            f"{_told(m.ESTIMATED_COMPLETION)} * 1000",
            "dateTimeAsLocal",
        ),
        _number("Attempt", "1 where nothing happened.", _told(m.ATTEMPT)),
        _number("Rollbacks", "0.", _told(m.JOB_ROLLBACKS)),
        _number("Step goodput", "Useful steps of all steps: near 100 %.", q.step_goodput(*OF_JOB), "percentunit"),
        _number(
            "Time goodput",
            "Time in steps of the time for which a RayCluster was held: rises from the start, above 80 % after hours.",
            q.time_goodput(*OF_JOB),
            "percentunit",
        ),
    ),
)

_POLICY = Row(
    "Policy and reward",
    (
        Panel(
            title="KL to the reference",
            good=f"Rises slowly and levels off. Above {q.KL_NOTICE} look at samples; above {q.KL_HIGH} the policy has "
            "usually left what the reward was made for.",
            queries=_figures(kl="KL"),
            bounds=((q.KL_NOTICE, "yellow"), (q.KL_HIGH, "red")),
        ),
        Panel(
            title="Reward",
            good="The mean rises inside the band, then levels off; the band gets narrower, not empty: without "
            "differences between samples nothing is learnt.",
            queries=_figures(rewardMean="mean", rewardMin="least", rewardMax="most"),
        ),
        Panel(
            title="Spread of rewards",
            good="Above 0. With groups (GRPO, RLOO): few groups in which all samples got the same reward.",
            queries=_figures(
                rewardStd="standard deviation",
                rewardGroupStd="inside groups",
                zeroVarianceGroupFraction="groups without difference",
            ),
            low=0,
        ),
        Panel(
            title="Reward terms",
            good="All rise, or hold. One that rises while another falls is what the policy found easier to please.",
            queries=(Query(_told(m.REWARD_TERM_MEAN, "term"), "{{term}}"),),
        ),
        Panel(
            title="Validation reward",
            good="Follows the training reward. Flat or falling while that rises is reward hacking.",
            queries=_figures(validationReward="validation"),
        ),
        Panel(
            title="Entropy",
            good="Falls slowly. Close to 0 the policy says the same thing always and learns nothing new.",
            queries=_figures(entropy="entropy"),
            low=0,
        ),
        Panel(
            title="KL of an update, KL coefficient",
            good="An update moves the policy by less than 0.01; the coefficient is constant, or moves slowly where "
            "Adaptive.",
            queries=_figures(updateKL="KL of an update", klCoefficient="KL coefficient"),
        ),
    ),
)

_OPTIMIZATION = Row(
    "Optimization",
    (
        Panel(
            title="Losses",
            good="The policy's stays around 0, the critic's falls and stays low.",
            queries=_figures(policyLoss="policy", valueLoss="critic"),
        ),
        Panel(
            title="Gradient norms",
            good="Even, without peaks that grow. An untrained critic begins at 10 to 50.",
            queries=_figures(gradNorm="actor", criticGradNorm="critic"),
            low=0,
        ),
        Panel(
            title="Clipped tokens",
            good="Below 30 %. More: updates are larger than PPO means them to be.",
            queries=_figures(clipFraction="actor", valueClipFraction="critic"),
            unit="percentunit",
            low=0,
        ),
        Panel(
            title="Learning rate",
            good="As the spec says; a step down follows a rollback that adjusts it.",
            queries=_figures(learningRate="actor", criticLearningRate="critic"),
            unit="sci",
            low=0,
        ),
    ),
)

_GENERATION = Row(
    "Generation",
    (
        Panel(
            title="Response length",
            good="Changes slowly. A collapse or a run to the limit goes with a policy that cheats.",
            queries=_figures(responseLengthMean="mean", responseLengthP10="tenth", responseLengthMax="longest"),
            unit="short",
            low=0,
        ),
        Panel(
            title="Clipped responses, failed samples",
            good="Few responses reach the limit; no sample fails.",
            queries=_figures(responseClippedFraction="reached the limit", failedPromptFraction="failed"),
            unit="percentunit",
            low=0,
            high=1,
        ),
        Panel(
            title="Agreement of rollout and trainer",
            good="Correlation above 0.98, KL below 0.01. Otherwise the engine does not have the trainer's weights.",
            queries=_figures(rolloutCorrelation="correlation", rolloutKL="KL"),
        ),
    ),
)

_TIME = Row(
    "Time and memory",
    (
        Panel(
            title="Stages of a step",
            good=f"Generation is most of it and takes less than {q.GENERATION_SLOW_SECONDS} s; the rest is even. "
            "verl's names: gen, old_log_prob, ref, values, adv, update_actor ...",
            queries=(Query(_told(m.STAGE_DURATION, "stage"), "{{stage}}"),),
            unit="s",
            width=12,
        ),
        Panel(
            title="Step duration",
            good="Flat. It rises with the length of responses.",
            queries=(
                Query(q.recent_step_seconds(*OF_JOB), "mean of 5 minutes"),
                Query(q.mean_step_seconds(*OF_JOB), "mean of all"),
            ),
            unit="s",
            width=6,
            low=0,
        ),
        Panel(
            title="Throughput",
            good="Flat; prompts and responses of all devices together.",
            queries=(*_figures(tokensPerSecond="in steps"), Query(q.token_rate(*OF_JOB), "over all time")),
            unit="short",
            width=6,
            low=0,
        ),
        Panel(
            title="Device memory",
            good=f"Below {q.DEVICE_MEMORY_HIGH:.0%}: room for longer batches.",
            queries=_figures(deviceMemoryFraction="trainer's peak"),
            unit="percentunit",
            bounds=((q.DEVICE_MEMORY_HIGH, "red"),),
            low=0,
            high=1,
        ),
        Panel(
            title="Device memory by role",
            good="Flat, below the device's. Actor, reference and critic share one process and take turns: each shows "
            "the peak of its turn, on the fullest device.",
            queries=(Query(_told(m.DEVICE_MEMORY, "role", "kind"), "{{role}} {{kind}}"),),
            unit="bytes",
            low=0,
        ),
        Panel(
            title="Useful and all steps",
            good="One line. The gap is what rollbacks and crashes have cost.",
            queries=(Query(_told(m.STEPS), "all"), Query(_told(m.USEFUL_STEPS), "useful")),
            low=0,
        ),
        Panel(
            title="Time held and trained",
            good="Both rise, in parallel once the start is over.",
            queries=(Query(_told(m.HELD_SECONDS), "held"), Query(_told(m.TRAINING_SECONDS), "in steps")),
            unit="s",
            low=0,
        ),
    ),
)

_SAFETY = Row(
    "Guardrails and checkpoints",
    (
        Panel(
            title="Guardrails",
            good="Healthy. Inconclusive: no figures came; nothing is decided on that.",
            queries=(Query(_told(m.VERDICT, "guardrail"), "{{guardrail}}"),),
            look=Look.STATES,
            words=tuple(
                (VERDICT_VALUES[verdict], verdict.value, colour)
                for verdict, colour in (
                    (Verdict.HEALTHY, "green"),
                    (Verdict.BREACHED, "red"),
                    (Verdict.INCONCLUSIVE, "orange"),
                    (Verdict.WAITING, "blue"),
                )
            ),
        ),
        Panel(
            title="Newest checkpoint in each state",
            good="Complete follows the step, Confirmed follows Complete by a few steps. Unusable never leads.",
            queries=(Query(_told(m.CHECKPOINT_STEP, "state"), "{{state}}"), Query(_told(m.STEP), "step")),
            low=0,
        ),
        Panel(
            title="Checkpoints by state",
            good="Confirmed is most. Suspect and Abandoned ones come with a rollback and can be deleted.",
            queries=(Query(_told(m.CHECKPOINTS, "state"), "{{state}}"),),
            look=Look.STACK,
            low=0,
        ),
        Panel(
            title="Steps at risk",
            good="A sawtooth. Behind Complete: what a crash would cost; behind Confirmed: what a rollback would.",
            queries=(
                Query(q.steps_behind(CheckpointPhase.COMPLETE, *OF_JOB), "behind Complete"),
                Query(q.steps_behind(CheckpointPhase.CONFIRMED, *OF_JOB), "behind Confirmed"),
            ),
            low=0,
        ),
        Panel(
            title="Saving",
            good="Even, and short beside what is trained between two saves.",
            queries=(Query(_told(m.CHECKPOINT_SAVE), "last save"),),
            unit="s",
            low=0,
        ),
        Panel(
            title="Space on the claim",
            good="Below what the claim has.",
            queries=(Query(_told(m.CHECKPOINT_BYTES), "checkpoints"),),
            unit="bytes",
            low=0,
        ),
    ),
)

JOB: Final = Dashboard(
    uid="ppojob-job",
    title="PPOJob",
    about="One run: policy, reward, optimization, time, checkpoints. Rollbacks and restarts are marked.",
    rows=(_NOW, _POLICY, _OPTIMIZATION, _GENERATION, _TIME, _SAFETY, STAGES),
    marks=(
        Mark("Rollbacks", f"{q.growth(m.JOB_ROLLBACKS, '1m', *OF_JOB)} > 0", "red"),
        Mark("Restarts", f"{q.growth(m.JOB_RESTARTS, '1m', *OF_JOB)} > 0", "orange"),
    ),
)

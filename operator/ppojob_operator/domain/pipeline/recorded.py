"""What the status knows of stages."""

from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.stage_status import StageName, StagePhase, StageStatus
from ppojob_operator.api.v1alpha1.status import PPOJobStatus


def recorded(status: PPOJobStatus, stage: Stage | StageName) -> StageStatus | None:
    """The newest run of the stage."""
    return next((item for item in status.stages if item.name.value == stage.value), None)


def running(status: PPOJobStatus) -> StageStatus | None:
    """The stage that runs."""
    return next((item for item in status.stages if item.phase is StagePhase.RUNNING), None)


def with_stage(status: PPOJobStatus, entry: StageStatus) -> PPOJobStatus:
    """The status with this entry instead of the stage's earlier one."""
    order = list(StageName)
    others = [item for item in status.stages if item.name is not entry.name]
    return status.model_copy(update={"stages": sorted([*others, entry], key=lambda item: order.index(item.name))})

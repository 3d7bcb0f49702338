"""Carries a recorded decision out. Every act may be done again: names, UIDs and command ids make it idempotent."""

import secrets
from dataclasses import dataclass
from typing import Any, assert_never

from ppojob_contract.mailbox import Command, CommandKind
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.controller.observe import Observer
from ppojob_operator.domain.data_plan import plan
from ppojob_operator.domain.decisions import (
    AskToStop,
    Begin,
    CloseAttempt,
    CloseStage,
    CreateCluster,
    Decision,
    DeleteJob,
    Finish,
    GoCold,
    Refuse,
    RemoveCluster,
    RemoveRayJob,
    RemoveTrial,
    Revoke,
    RollBackInPlace,
    Settle,
    StartAttempt,
    StartStage,
    StartTrial,
    SwitchAttempt,
    Wait,
)
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.errors import MonitorRefused, MonitorUnavailable
from ppojob_operator.ports import Cluster, Endpoint, Monitor
from ppojob_operator.render import names
from ppojob_operator.render.raycluster import render_cluster
from ppojob_operator.render.rayjob import render_attempt
from ppojob_operator.render.secret import render_token_secret
from ppojob_operator.render.settings import RenderSettings
from ppojob_operator.render.stages import render_stage, render_trial


@dataclass(frozen=True, slots=True)
class Actor:
    """Turns decisions into calls on the ports."""

    cluster: Cluster
    monitor: Monitor
    observer: Observer
    settings: RenderSettings

    async def act(self, decision: Decision, job: PPOJob, accepted: AcceptedJob | None) -> None:
        """Raises `ClusterUnavailable`, `MonitorUnavailable` or `Conflict`; what was done so far may be done again."""
        match decision:
            case (
                Wait()
                | Refuse()
                | Begin()
                | GoCold()
                | SwitchAttempt()
                | CloseAttempt()
                | CloseStage()
                | Settle()
                | Finish()
            ):
                return  # recording was all there was to do
            case DeleteJob() | RemoveTrial():
                await self.cluster.delete_job(decision.trial if isinstance(decision, RemoveTrial) else job)
            case RemoveRayJob(name=name, uid=uid):
                await self.cluster.delete("RayJob", job.namespace, name, uid)
            case RemoveCluster(name=name, uid=uid):
                await self.cluster.delete("RayCluster", job.namespace, name, uid)
            case AskToStop(attempt=attempt, command_id=command_id, save=save):
                await self._put(attempt, Command(id=command_id, kind=CommandKind.STOP, save=save), job)
            case RollBackInPlace(attempt=attempt, command=command):
                await self._put(attempt, command, job)
            case Revoke(attempt=attempt):
                await self.monitor.revoke(await self._endpoint(job), attempt)
            case CreateCluster() | StartAttempt() | StartStage() | StartTrial():
                assert accepted is not None, "nothing is made for a job that was not accepted"
                await self._create(decision, accepted)
            case _:
                assert_never(decision)

    async def _create(
        self, decision: CreateCluster | StartAttempt | StartStage | StartTrial, accepted: AcceptedJob
    ) -> None:
        match decision:
            case CreateCluster(number=number):
                secret = names.secret_name(names.base(accepted.name, accepted.uid))
                if await self.cluster.read_token(accepted.namespace, secret) is None:
                    await self.cluster.create(render_token_secret(accepted, secrets.token_urlsafe(32)))
                await self.cluster.create(render_cluster(accepted, number, self.settings))
            case StartAttempt():
                await self.cluster.create(_attempt(decision, accepted))
            case StartStage():
                await self.cluster.create(_stage(decision, accepted))
            case StartTrial(run=run, spec=spec):
                await self.cluster.create(render_trial(accepted, run=run, spec=spec))

    async def _put(self, attempt: int, command: Command, job: PPOJob) -> None:
        try:
            await self.monitor.put_command(await self._endpoint(job), attempt, command)
        except MonitorRefused:
            return  # it has ended: the next look shows its outcome

    async def _endpoint(self, job: PPOJob) -> Endpoint:
        endpoint = await self.observer.endpoint(job)
        if endpoint is None:
            raise MonitorUnavailable("the head pod has no address")
        return endpoint


def _attempt(decision: StartAttempt, accepted: AcceptedJob) -> dict[str, Any]:
    return render_attempt(
        accepted,
        cluster_number=decision.cluster,
        attempt=decision.number,
        resume=decision.resume,
        source=decision.source,
        adjustments=decision.adjustments,
        data=plan(decision.data),
    )


def _stage(decision: StartStage, accepted: AcceptedJob) -> dict[str, Any]:
    return render_stage(
        accepted,
        cluster_number=decision.cluster,
        stage=decision.stage,
        run=decision.run,
        key=decision.key,
        settings=decision.settings,
    )

"""Carries a recorded decision out. Every act may be done again: names, UIDs and command ids make it idempotent."""

import secrets
from dataclasses import dataclass
from typing import assert_never

from ppojob_contract.mailbox import Command, CommandKind
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.controller.observe import Observer
from ppojob_operator.domain.data_plan import plan
from ppojob_operator.domain.decisions import (
    AskToStop,
    Begin,
    CloseAttempt,
    CreateCluster,
    Decision,
    DeleteJob,
    Finish,
    GoCold,
    Refuse,
    RemoveCluster,
    RemoveRayJob,
    Revoke,
    RollBackInPlace,
    Settle,
    StartAttempt,
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
            case Wait() | Refuse() | Begin() | GoCold() | SwitchAttempt() | CloseAttempt() | Settle() | Finish():
                return  # recording was all there was to do
            case DeleteJob():
                await self.cluster.delete_job(job)
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
            case CreateCluster(number=number):
                assert accepted is not None, "clusters are made for accepted jobs only"
                await self._create_cluster(number, accepted)
            case StartAttempt():
                assert accepted is not None, "attempts are started for accepted jobs only"
                await self.cluster.create(
                    render_attempt(
                        accepted,
                        cluster_number=decision.cluster,
                        attempt=decision.number,
                        resume=decision.resume,
                        source=decision.source,
                        adjustments=decision.adjustments,
                        data=plan(decision.data),
                    )
                )
            case _:
                assert_never(decision)

    async def _create_cluster(self, number: int, accepted: AcceptedJob) -> None:
        secret = names.secret_name(names.base(accepted.name, accepted.uid))
        if await self.cluster.read_token(accepted.namespace, secret) is None:
            await self.cluster.create(render_token_secret(accepted, secrets.token_urlsafe(32)))
        await self.cluster.create(render_cluster(accepted, number, self.settings))

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

"""Wiring to kopf: watch events fill the store and wake workers. Nothing is decided here.

Only `on.event` handlers: they need no finalizer and write nothing to the objects, so a PPOJob can be deleted also
while no operator runs, and GitOps sees no annotations that it did not put.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import kopf

from ppojob_operator.adapters.kubernetes import Api, Change, Store, watched
from ppojob_operator.ports import Key

SERVER_SECONDS = 240
"""A watch is renewed at least so often; without any event or bookmark kopf renews it after 70 s."""
_IDENTITY: Any = "ppojob-operator"
"""Of peering, which is off. Left out, kopf asks for the user's name, and a container's user often has none."""
BACKOFFS = (0.5, 1, 2, 5, 10, 15, 15)


class Wakeable(Protocol):
    """What handlers need of `controller.workers.Workers`."""

    def wake(self, key: Key) -> None: ...

    def forget(self, key: Key) -> None: ...


def tell(workers: Wakeable, change: Change | None) -> None:
    """Passes a change on."""
    if change is None:
        return
    if change.gone:
        workers.forget(change.key)
    else:
        workers.wake(change.key)


def registry(api: Api, store: Store, workers: Wakeable) -> kopf.OperatorRegistry:
    """All handlers, bound to what they serve."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        # Again after every 401, so that a renewed service-account token is taken up.
        found = await api.credentials()
        return kopf.ConnectionInfo(
            server=found.server,
            ca_path=found.ca_path,
            insecure=found.insecure,
            certificate_path=found.certificate_path,
            private_key_path=found.private_key_path,
            token=found.token,
        )

    for kind, _ in watched():

        @kopf.on.event(kind.group, kind.version, kind.plural, registry=handlers, param=kind)
        async def observe(event: Any, param: Any = None, **_: Any) -> None:
            body = event["object"]
            store.watches.told(param.plural, body["metadata"]["uid"], int(body["metadata"]["resourceVersion"]))
            if event["type"] == "DELETED":
                tell(workers, store.remove(param, body["metadata"]["uid"]))
            else:
                tell(workers, store.put(param, body))

    return handlers


def configuration() -> kopf.OperatorSettings:
    """Settings of kopf: watch only, never write, never hang, never give up early."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True  # no right to list CRDs or namespaces is needed
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = SERVER_SECONDS + 30
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 250
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = BACKOFFS
    settings.queueing.idle_timeout = 1.0  # a task for each object with news; no need to keep it
    settings.queueing.error_delays = BACKOFFS
    settings.process.ultimate_exiting_timeout = 20
    for kind, selector in watched():
        if selector is not None:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = selector
    return settings


async def spawn(handlers: kopf.OperatorRegistry, namespaces: Sequence[str], stop_flag: Any) -> Sequence[Any]:
    """Begins to watch; `kopf.run_tasks` waits for the tasks that this returns."""
    return tuple(
        await kopf.spawn_tasks(
            registry=handlers,
            settings=configuration(),
            clusterwide=not namespaces,
            namespaces=tuple(namespaces),
            standalone=True,
            identity=_IDENTITY,
            stop_flag=stop_flag,
        )
    )

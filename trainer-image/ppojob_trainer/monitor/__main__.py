"""`ppojob-monitor`: serves one job's files on the monitor port. Everything it needs comes from the environment."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

from aiohttp import web

from ppojob_contract import names
from ppojob_trainer.monitor.app import Monitor
from ppojob_trainer.monitor.job import Identity, Job

log = logging.getLogger("ppojob_monitor")


def main() -> int:
    """Runs until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        identity = Identity.from_environment()
    except KeyError as error:
        log.error("environment variable %s is not set", error)  # noqa: TRY400
        return 2
    asyncio.run(serve(identity, names.MONITOR_PORT, Path(names.TOKEN_FILE)))
    return 0


async def serve(identity: Identity, port: int, token_file: Path) -> None:
    """Listens on all addresses, IPv6 too where there is one."""
    runner = web.AppRunner(Monitor(Job(identity), token_file).app(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    log.info("serving %s/%s on port %d", identity.namespace, identity.name, port)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())

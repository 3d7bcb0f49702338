"""The operator's settings: flags, or environment variables of the same meaning; flags win."""

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NoReturn

from ppojob_operator.api.v1alpha1.spec import Device, ImagePullPolicy
from ppojob_operator.errors import PPOJobError

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class SettingsError(PPOJobError):
    """A setting has a value that cannot be used; the message names the variable."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be chosen when the operator starts."""

    namespaces: tuple[str, ...]
    """Namespaces of the jobs that are served; empty means all."""
    image_cpu: str
    image_cuda: str
    image_ascend: str
    image_pull_policy: ImagePullPolicy
    log_format: LogFormat
    log_level: LogLevel
    metrics_port: int
    lease_name: str
    lease_namespace: str
    identity: str
    status_interval_seconds: float
    monitor_wait_seconds: float
    resync_seconds: float
    prometheus_url: str
    prometheus_interval_seconds: float
    scrape_annotations: bool

    @property
    def trainer_images(self) -> Mapping[Device, str]:
        """Default trainer image for each device; a device that is missing has none."""
        images = {
            Device.CPU: self.image_cpu,
            Device.NVIDIA_GPU: self.image_cuda,
            Device.ASCEND_NPU: self.image_ascend,
        }
        return {device: image for device, image in images.items() if image}


@dataclass(frozen=True, slots=True)
class _Option:
    field: str
    default: str
    read: Callable[[str], Any]
    help: str

    @property
    def variable(self) -> str:
        return f"PPOJOB_OPERATOR_{self.field.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.field.replace('_', '-')}"


def _text(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    return value


def _name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise ValueError("is no Kubernetes name (lower case letters, digits and '-', at most 63)")
    return value


def _url(value: str) -> str:
    if value and not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value):
        raise ValueError("is no address like http://prometheus:9090")
    return value


def _names(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(part.strip()) for part in value.split(",") if part.strip()))


def _port(value: str) -> int:
    if not value.isdigit() or not 0 <= int(value) <= 65535:
        raise ValueError("is no port number")
    return int(value)


def _flag(value: str) -> bool:
    if value not in {"true", "false"}:
        raise ValueError("must be true or false")
    return value == "true"


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            raise ValueError("is no number of seconds") from None
        if not least <= number <= most:
            raise ValueError(f"must be between {least:g} and {most:g} seconds")
        return number

    return read


def _choice(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    def read(value: str) -> StrEnum:
        allowed = {choice.value: choice for choice in kind}
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return allowed[value]

    return read


OPTIONS: Final = (
    _Option("namespaces", "", _names, "namespaces to serve, separated by commas; none: all of the cluster"),
    _Option("image_cpu", "", str, "trainer image of jobs with device CPU that name none"),
    _Option("image_cuda", "", str, "trainer image of jobs with device NvidiaGPU that name none"),
    _Option("image_ascend", "", str, "trainer image of jobs with device AscendNPU that name none"),
    _Option("image_pull_policy", "IfNotPresent", _choice(ImagePullPolicy), "of trainer images where a job names none"),
    _Option("log_format", "text", _choice(LogFormat), "text or json"),
    _Option("log_level", "info", _choice(LogLevel), "debug, info, warning or error"),
    _Option("metrics_port", "8080", _port, "port of /metrics, /healthz and /readyz"),
    _Option("lease_name", "ppojob-operator", _name, "Lease that makes one of several operators the leader"),
    _Option("lease_namespace", "", _name, "namespace of the Lease; default: the pod's, else 'default'"),
    _Option("identity", "", _text, "name in the Lease, unique to the pod; default: host name and process"),
    _Option("status_interval_seconds", "30", _seconds(1, 3600), "age at which figures in a job's status are renewed"),
    _Option("monitor_wait_seconds", "25", _seconds(0, 60), "how long a monitor may wait for a step before it answers"),
    _Option("prometheus_url", "", _url, "address of Prometheus for guardrails with promql; none: these are refused"),
    _Option("prometheus_interval_seconds", "30", _seconds(1, 600), "its scrape interval of the jobs' monitors"),
    _Option("resync_seconds", "300", _seconds(10, 86400), "time between two full lists that correct the watches"),
    _Option("scrape_annotations", "false", _flag, "true: head pods of jobs carry prometheus.io annotations"),
)


def load(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from command-line arguments and the environment. Raises `SettingsError`; `--help` exits."""
    given = vars(_parser().parse_args(arguments))
    computed = {"lease_namespace": _own_namespace, "identity": _own_identity}
    values = {}
    for option in OPTIONS:
        raw, source = given[option.field], option.flag
        if raw is None:
            raw, source = environ.get(option.variable, option.default), option.variable
        if not raw and option.field in computed:
            raw = computed[option.field]()
        try:
            values[option.field] = option.read(raw)
        except ValueError as error:
            raise SettingsError(f"{source}={raw!r} {error}") from None
    return Settings(**values)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ppojob-operator run",
        description="Runs the operator. Each flag can also be given as an environment variable.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option in OPTIONS:
        default = f", default {option.default}" if option.default else ""
        parser.add_argument(
            option.flag, dest=option.field, metavar="VALUE", help=f"{option.help} ({option.variable}{default})"
        )
    return parser


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip()
    except OSError:
        return "default"


def _own_identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"

"""What the operator's installation decides about rendered objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ppojob_operator.api.v1alpha1.spec import Device, ImagePullPolicy

RAY_VERSION = "2.60.0"


def _images() -> dict[Device, str]:
    return {Device.CPU: "ppojob-trainer:cpu", Device.NVIDIA_GPU: "ppojob-trainer:cuda"}


def _monitor_resources() -> dict[str, Any]:
    return {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderSettings:
    """From the operator's own configuration (the chart's values)."""

    images: Mapping[Device, str] = field(default_factory=_images)
    """Trainer image of each device; a device without one needs `trainer.image` in the spec."""
    image_pull_policy: ImagePullPolicy = ImagePullPolicy.IF_NOT_PRESENT
    monitor_resources: Mapping[str, Any] = field(default_factory=_monitor_resources)
    ray_version: str = RAY_VERSION
    scrape_annotations: bool = False
    """For a Prometheus that finds its targets by the customary `prometheus.io/...` annotations on pods."""

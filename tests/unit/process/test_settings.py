"""Settings: flags, environment, and errors that name what is wrong."""

from pathlib import Path

import pytest

from ppojob_operator.api.v1alpha1.spec import Device
from ppojob_operator.settings import OPTIONS, LogFormat, SettingsError, load


def test_defaults() -> None:
    found = load([], {})
    assert (found.namespaces, found.metrics_port, found.log_format) == ((), 8080, LogFormat.TEXT)
    assert found.trainer_images == {}
    assert found.identity


def test_flags_win_over_the_environment() -> None:
    environ = {"PPOJOB_OPERATOR_METRICS_PORT": "1", "PPOJOB_OPERATOR_NAMESPACES": "a, b,,a"}
    found = load(["--metrics-port", "9090"], environ)
    assert (found.metrics_port, found.namespaces) == (9090, ("a", "b"))


def test_images_by_device() -> None:
    found = load(["--image-cpu=trainer:cpu", "--image-cuda=trainer:cuda"], {})
    assert found.trainer_images == {Device.CPU: "trainer:cpu", Device.NVIDIA_GPU: "trainer:cuda"}


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("METRICS_PORT", "http", "no port number"),
        ("METRICS_PORT", "70000", "no port number"),
        ("LOG_FORMAT", "xml", "must be one of text, json"),
        ("LOG_LEVEL", "", "must be one of"),
        ("NAMESPACES", "Team_A", "no Kubernetes name"),
        ("LEASE_NAME", "", "no Kubernetes name"),
        ("STATUS_INTERVAL_SECONDS", "soon", "no number of seconds"),
        ("MONITOR_WAIT_SECONDS", "1000", "between 0 and 60"),
        ("RESYNC_SECONDS", "nan", "between 10 and 86400"),
        ("PROMETHEUS_URL", "prometheus:9090", "no address"),
        ("PROMETHEUS_URL", "http://user@prometheus", "no address"),
        ("PROMETHEUS_INTERVAL_SECONDS", "0", "between 1 and 600"),
        ("SCRAPE_ANNOTATIONS", "yes", "must be true or false"),
    ],
)
def test_a_bad_value_is_refused_by_name(variable: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError, match=f"PPOJOB_OPERATOR_{variable}='.*' .*{told}"):
        load([], {f"PPOJOB_OPERATOR_{variable}": value})


def test_a_bad_flag_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="--metrics-port='x'"):
        load(["--metrics-port", "x"], {})
    with pytest.raises(SettingsError, match="--colour"):
        load(["--colour"], {})


def test_help_names_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(["--help"], {})
    told = capsys.readouterr().out
    assert all(option.variable in told and option.flag in told for option in OPTIONS)


def test_every_option_is_in_the_chart() -> None:
    """An option that the chart cannot set is one that nobody finds."""
    chart = Path(__file__).parents[3] / "charts" / "ppojob-operator" / "templates" / "deployment.yaml"
    text = chart.read_text()
    assert [option.variable for option in OPTIONS if option.variable not in text] == []

"""`docs/alerts.md`: alerts and recording rules."""

from ppojob_operator.codegen.monitoring.alerts import ALERTS
from ppojob_operator.codegen.monitoring.records import RECORDS
from ppojob_operator.codegen.reference import GENERATED, table


def alerts_page() -> str:
    """Each alert with its runbook, each recorded series."""
    alerts = [
        [f"[{item.name}](runbooks/{item.name}.md)", item.severity.value, item.hold, item.description] for item in ALERTS
    ]
    records = [[f"`{item.name}`", item.meaning] for item in RECORDS]
    return "\n\n".join(
        [
            GENERATED,
            "# Alerts and recording rules",
            "## Alerts",
            table(["alert", "severity", "for", "meaning"], alerts),
            "## Recorded series",
            "One each for a job, labels `namespace` and `ppojob`.",
            table(["series", "meaning"], records),
        ]
    ) + "\n"  # fmt: skip

"""All dashboards, by the name of their file."""

from typing import Final

from ppojob_operator.codegen.monitoring.fleet import FLEET
from ppojob_operator.codegen.monitoring.job import JOB
from ppojob_operator.codegen.monitoring.operator_dashboard import OPERATOR
from ppojob_operator.codegen.monitoring.panels import Dashboard

DASHBOARDS: Final[dict[str, Dashboard]] = {"fleet": FLEET, "job": JOB, "operator": OPERATOR}

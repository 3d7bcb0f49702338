"""Dashboards as Grafana's JSON, built with its foundation SDK: fields that Grafana does not know cannot be written.

The only module that imports the SDK, which is a development dependency: the operator does not need it.
"""

import json
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from ppojob_contract.metrics import PHASE
from ppojob_operator.codegen.monitoring.panels import Dashboard, Look, Mark, Panel, Query

SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG: Final = "ppojob"
FINE: Final = "green"

AnyPanel = timeseries.Panel | stat.Panel | table.Panel | statetimeline.Panel


def to_json(value: Dashboard) -> str:
    """The content of a dashboard's file; the same for the same dashboard."""
    return json.dumps(_build(value), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def _build(value: Dashboard) -> model.Dashboard:
    builder = (
        dashboard.Dashboard(value.title)
        .uid(value.uid)
        .description(value.about)
        .tags([TAG])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(_links())
    )
    for variable in _variables(value):
        builder.with_variable(variable)
    for mark in value.marks:
        builder.annotation(_annotation(mark))
    number = 0
    for row in value.rows:
        number += 1
        builder.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            builder.with_panel(_panel(panel).id(number))
    return builder.build()


def _links() -> dashboard.DashboardLink:
    """To the other dashboards, with the same variables and time."""
    link = dashboard.DashboardLink("PPOJob dashboards").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(True).include_vars(True).keep_time(True)


def _variables(value: Dashboard) -> list[Any]:
    variables: list[Any] = [dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")]
    if not value.has_jobs:
        return variables
    sign = "=~" if value.many_jobs else "="
    queries = {
        "namespace": f"label_values({PHASE.name}, namespace)",
        "job": f'label_values({PHASE.name}{{namespace{sign}"$namespace"}}, ppojob)',
    }
    for name, query in queries.items():
        variable = (
            dashboard.QueryVariable(name)
            .label("Job" if name == "job" else "Namespace")
            .query(query)
            .datasource(SOURCE)
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.ALPHABETICAL_ASC)
        )
        if value.many_jobs:
            variable.multi(True).include_all(True).all_value(".*")
            variable.current(model.VariableOption(text="All", value="$__all"))
        variables.append(variable)
    return variables


def _annotation(mark: Mark) -> dashboard.AnnotationQuery:
    query = dashboard.AnnotationQuery().name(mark.name).datasource(SOURCE).enable(True).icon_color(mark.colour)
    return query.expr(mark.expression)


def _panel(panel: Panel) -> AnyPanel:
    builder = _drawn(panel)
    builder.title(panel.title).description(panel.good).datasource(SOURCE)
    builder.span(panel.width).height(panel.height).unit(panel.unit)
    for index, query in enumerate(panel.queries):
        builder.with_target(_target(query, chr(ord("A") + index), panel.look))
    if panel.bounds:
        builder.thresholds(_thresholds(panel))
    if panel.words:
        builder.mappings([_words(panel)])
    if panel.low is not None:
        builder.min(panel.low)
    if panel.high is not None:
        builder.max(panel.high)
    return builder


def _drawn(panel: Panel) -> AnyPanel:
    match panel.look:
        case Look.CURVES | Look.STACK:
            return _curves(panel)
        case Look.NUMBER:
            calculated = common.ReduceDataOptions().calcs(["lastNotNull"])
            mode = kinds.BigValueTextMode.NAME if panel.unit == "string" else kinds.BigValueTextMode.AUTO
            return stat.Panel().reduce_options(calculated).graph_mode(kinds.BigValueGraphMode.NONE).text_mode(mode)
        case Look.STATES:
            return statetimeline.Panel().show_value(kinds.VisibilityMode.AUTO).merge_values(True)
        case Look.TABLE:
            return _table(panel)


def _curves(panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST).show_legend(True)
    builder = timeseries.Panel().legend(legend.placement(kinds.LegendPlacement.BOTTOM))
    builder.tooltip(common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI))
    if panel.look is Look.STACK:
        builder.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL)).fill_opacity(40)
    if panel.bounds:
        builder.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED))
    return builder


def _table(panel: Panel) -> table.Panel:
    """One line for each job: the queries' answers are merged by their labels."""
    letters = {f"Value #{chr(ord('A') + n)}": query.legend for n, query in enumerate(panel.queries)}
    names = {"namespace": "namespace", "ppojob": "job"} | letters
    organize = {
        "excludeByName": {"Time": True},
        "renameByName": names,
        "indexByName": {name: index for index, name in enumerate(names)},
    }
    return (
        table.Panel()
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(model.DataTransformerConfig(id_val="organize", options=organize))
    )


def _target(query: Query, letter: str, look: Look) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(letter).datasource(SOURCE)
    if look is Look.TABLE:
        return target.instant().format(PromQueryFormat.TABLE)
    return target.instant() if look is Look.NUMBER else target.range()


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    steps = [model.Threshold(value=None, color=FINE)]
    steps += [model.Threshold(value=value, color=colour) for value, colour in panel.bounds]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def _words(panel: Panel) -> model.ValueMap:
    options = {str(value): model.ValueMappingResult(text=word, color=colour) for value, word, colour in panel.words}
    return model.ValueMap(options=options)

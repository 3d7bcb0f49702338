"""`python -m ppojob_operator.codegen [--check] [--root DIR]`: writes the generated files, or says which are stale."""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from ppojob_operator.codegen import chart
from ppojob_operator.codegen.crd import SIZE_LIMIT_BYTES, custom_resource_definition
from ppojob_operator.codegen.monitoring.dashboards import DASHBOARDS
from ppojob_operator.codegen.monitoring.grafana import to_json
from ppojob_operator.codegen.monitoring.reference import alerts_page
from ppojob_operator.codegen.monitoring.rule_file import rule_groups
from ppojob_operator.codegen.presets import presets_page
from ppojob_operator.codegen.reference import fields_page, figures_page, metrics_page, permissions_page
from ppojob_operator.codegen.schema import UnsupportedSchema

CRD_FILE = "crds/rlhf.dev_ppojobs.yaml"
CHART_COPY = "charts/ppojob-operator/files/rlhf.dev_ppojobs.yaml"
"""Helm reads nothing outside a chart."""
CHART_README = "charts/ppojob-operator/README.md"
CHART_VALUES = "charts/ppojob-operator/values.yaml"
DASHBOARDS_FOLDER = "charts/ppojob-operator/files/dashboards"
RULES_FILE = "charts/ppojob-operator/files/rules.yaml"

REPOSITORY = Path(__file__).resolve().parents[3]


class _Plain(yaml.SafeDumper):
    """Without anchors: not every reader of manifests follows them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def generated() -> dict[str, str]:
    """Content of every generated file by its path in the repository. Raises UnsupportedSchema."""
    crd = custom_resource_definition()
    text = _yaml(crd)
    if len(text.encode()) > SIZE_LIMIT_BYTES:
        raise UnsupportedSchema(f"the CRD has {len(text.encode())} bytes, more than {SIZE_LIMIT_BYTES}")
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    crd_file = f"# Generated from the API's models: change them, then run `make generate`.\n---\n{text}"
    return {
        CRD_FILE: crd_file,
        CHART_COPY: crd_file,
        RULES_FILE: f"# Generated from the code: change it, then run `make generate`.\n{_yaml(rule_groups())}",
        "docs/fields.md": fields_page(root),
        "docs/figures.md": figures_page(),
        "docs/metrics.md": metrics_page(),
        "docs/presets.md": presets_page(),
        "docs/permissions.md": permissions_page(),
        CHART_README: chart.readme(
            (REPOSITORY / CHART_README).read_text(encoding="utf-8"),
            (REPOSITORY / CHART_VALUES).read_text(encoding="utf-8"),
        ),
        "docs/alerts.md": alerts_page(),
        **{f"{DASHBOARDS_FOLDER}/{name}.json": to_json(dashboard) for name, dashboard in DASHBOARDS.items()},
    }


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ppojob_operator.codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file differs")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="of the repository (default: the one this is in)")
    options = parser.parse_args(arguments)
    try:
        files = generated()
    except UnsupportedSchema as error:
        print(f"the API's models do not fit into a CRD: {error}", file=sys.stderr)
        return 1
    except chart.UndocumentedValue as error:
        print(error, file=sys.stderr)
        return 1
    stale = [name for name, text in files.items() if _read(options.root / name) != text]
    if options.check:
        for name in stale:
            print(f"{name} differs from what the code says: run `make generate` and commit it", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        path = options.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name], encoding="utf-8")
        print(f"wrote {name}")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())

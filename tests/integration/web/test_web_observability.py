"""Dashboard and rules in `deploy/` speak of what /metrics really tells."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus-rules.yml"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))


def rules():
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions():
    variables = [
        item["definition"] for item in DASHBOARD["templating"]["list"] if "definition" in item
    ]
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [*panels, *variables, *(rule["expr"] for rule in rules())]


def names_in(expression):
    return set(re.findall(r"\bgroundwatch_\w+", expression))


@pytest.fixture(scope="module")
def families(server):
    """The names of all series of a real /metrics, each with its labels."""
    found = {}
    with server.client() as client:
        text = client.get("/metrics").text
    for line in text.splitlines():
        sample = re.match(r"(groundwatch_\w+)(?:\{(.*)\})? ", line)
        if sample:
            found.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    assert len(found) > 15
    # Told only while Redis answers.
    of_redis = ("queue_samples", "queue_oldest_seconds", "worker_stalls_total")
    return {f"groundwatch_{name}": set() for name in of_redis} | found


@pytest.mark.parametrize("expression", expressions())
def test_every_name_and_label_in_an_expression_is_exported(families, expression):
    names = names_in(expression)
    assert names
    assert names <= set(families)
    labels = set(re.findall(r'(\w+)\s*(?:=~|!=|=)\s*"', expression))
    labels |= {
        word for by in re.findall(r"by \(([\w, ]+)\)", expression) for word in by.split(", ")
    }
    assert all(labels <= families[name] for name in names)


def test_every_metric_family_is_on_the_dashboard_or_in_the_rules(families):
    shown = set().union(*map(names_in, expressions()))
    assert {"groundwatch_rows_left_out", *(name for name in families if "created" in name)} >= (
        set(families) - shown
    )


@pytest.mark.parametrize("expression", expressions())
def test_expressions_count_each_deployment_once_across_pages(expression):
    series = re.findall(r"[(\s]groundwatch_\w+", f" {expression}")
    once = re.findall(r"max (?:without \(instance, pod\)|by \([\w, ]+\))", expression)
    assert len(once) == len(series) or re.match(r"absent|label_values", expression)


def test_mapping_of_the_dashboard_has_every_status():
    (status,) = [panel for panel in DASHBOARD["panels"] if panel["title"] == "Status"]
    (mapping,) = status["fieldConfig"]["defaults"]["mappings"]
    assert set(mapping["options"]) == {"0", "1", "2", "-1", "-2"}


def test_panels_have_unique_ids_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for p in (panel["gridPos"] for panel in panels)
        for x in range(p["x"], p["x"] + p["w"])
        for y in range(p["y"], p["y"] + p["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_every_rule_has_a_severity_and_a_summary():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine")
def test_promtool_accepts_the_rules():
    subprocess.run(["promtool", "check", "rules", RULES], check=True, capture_output=True)

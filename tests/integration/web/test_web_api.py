"""What programs read: the API as its document says, Prometheus' format, badges."""

import html
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitor.web.schema import openapi
from monitor.web.time_range import slug

ROOT = Path(__file__).parents[3]


def test_openapi_document_matches_the_program():
    written = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    assert written == openapi(), "run: groundwatch web --openapi > docs/openapi.json"


def test_every_path_of_the_document_is_answered(world, get):
    incident = get("/api/v1/incidents").json()["items"][0]["incident_id"]
    values = {
        "{app}": "shop", "{metric}": "groundedness", "{incident_id}": incident,
        "{sample_id}": world.samples["shop"],
    }  # fmt: skip
    for path, ways in openapi()["paths"].items():
        if "get" not in ways:
            continue
        needed = [
            p["name"] for p in ways["get"]["parameters"] if p["in"] == "query" and p.get("required")
        ]
        for part, value in values.items():
            path = path.replace(part, value)  # noqa: PLW2901
        answer = get(path, params={name: values[f"{{{name}}}"] for name in needed})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), (
            path
        )


def test_status_counts_and_times_are_rfc_3339_in_utc(get):
    found = get("/api/v1/status").json()
    assert found["status"] == "critical"
    assert found["counts"]["critical"] >= 1
    assert found["open_incidents"] >= 1
    assert found["generated_at"].endswith("Z")


def test_rate_has_bounds_and_n(get):
    rate = get("/api/v1/apps/shop/metrics/groundedness").json()["pass_rate"]
    assert rate["value"] == 0.0
    assert rate["lo"] <= rate["value"] <= rate["hi"]
    assert rate["n"] == 12


def test_metric_says_why_evaluations_have_no_score(get):
    found = get("/api/v1/apps/support-bot/metrics/relevance").json()
    assert (found["failed"], found["skipped"]) == ({}, {"no_query": 1})


def test_series_adds_up_and_has_a_rate_only_where_it_has_scores(get):
    found = get("/api/v1/apps/shop/metrics/groundedness/series?span_s=3600").json()
    rates = [step["pass_rate"] for step in found["steps"]]
    assert sum(rate["n"] for rate in rates) == 12
    assert all((rate["value"] is None) == (rate["n"] == 0) for rate in rates)


def test_pagination_returns_every_item_once(get):
    whole = get("/api/v1/metrics").json()["items"]
    seen, cursor = [], {}
    while True:
        page = get("/api/v1/metrics", params={"limit": 1, **cursor}).json()
        seen += page["items"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == whole
    assert len(whole) > 3


@pytest.mark.parametrize(
    "path",
    [
        "metrics?limit=0",
        "metrics?limit=x",
        "metrics?limit=99999999999999999999",
        "metrics?limit=%EF%BC%95",
        "metrics?cursor=gone",
        "apps/shop/metrics/groundedness/series?span_s=-1",
    ],
)
def test_invalid_parameter_is_answered_with_a_problem_document(get, path):
    answer = get(f"/api/v1/{path}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 400


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        (
            "metrics?application=shop",
            "unknown parameter 'application': expected app, limit, cursor",
        ),
        ("status?app=shop", "unknown parameter 'app': expected none"),
        ("incidents?=x", "unknown parameter '': expected app, limit, cursor"),
    ],
)
def test_unknown_parameter_is_answered_with_those_that_exist(get, path, detail):
    answer = get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


@pytest.mark.parametrize("path", ["/api/v1/samples", "/samples.jsonl"])
def test_samples_with_an_unknown_parameter_are_not_handed_out(get, path):
    answer = get(f"{path}?session_id=shop-s1")
    assert answer.status_code == 400
    said = html.unescape(answer.text)
    assert "nknown parameter 'session_id': expected app, metric," in said
    assert " session, trace," in said


def test_unknown_parameter_stops_a_deploy(get, server):
    with server.client() as client:
        answer = client.post("/api/v1/deploys?app=shop", json={"app": "shop", "release": "v13"})
    assert answer.json()["detail"] == "unknown parameter 'app': expected none"
    names = [each["release"] for each in get("/api/v1/deploys?app=shop").json()["items"]]
    assert "v13" not in names


@pytest.mark.parametrize("path", ["nothing", "samples/x", "incidents/x", "apps/x/metrics/y"])
def test_missing_resource_is_answered_with_a_problem_document(get, path):
    answer = get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["title"]) == (404, "not found")


def test_prometheus_parses_the_metrics(get):
    families = {
        family.name: family for family in text_string_to_metric_families(get("/metrics").text)
    }
    values = {
        (s.labels["app"], s.labels["metric"]): s.value
        for s in families["groundwatch_status"].samples
    }
    assert values["shop", "groundedness"] == 2
    assert families["groundwatch_scored"].type == "counter"
    labels = {name for f in families.values() for s in f.samples for name in s.labels}
    assert labels <= {"app", "metric", "outcome", "state"}


def test_badge_shows_the_status_and_escapes_hostile_names(world, get):
    assert "CRITICAL" in get("/badge/shop.svg").text
    for app in world.samples:
        assert "<script" not in get(f"/badge/{slug(app)}.svg").text


def test_names_with_any_characters_have_an_address(world, get):
    # A mark that turns text around is not part of a name.
    for app in (name.replace("\u202e", "\ufffd") for name in world.samples):
        found = get(f"/api/v1/apps/{slug(app)}/metrics/groundedness")
        assert found.json()["app"] == app

"""``groundwatch metrics`` and ``score`` with metrics of every kind, from the command line."""

import json

import pytest
from typer.testing import CliRunner

from monitor.cli import console
from monitor.cli.app import app
from monitor.scoring.metrics import METRICS

RECORD = {
    "id": "1",
    "query": "How long does a refund take?",
    "contexts": ["Refunds take five days."],
    "output": "Refunds take five days [1].",
    "expected": {"relevant": ["1"]},
}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(console.out, "_width", 200)
    return lambda *words: CliRunner().invoke(app, list(words))


def test_every_metric_is_listed(run):
    shown = run("metrics").stdout
    assert [name for name in METRICS if name not in shown] == []


def test_custom_metric_is_listed_too(run, tmp_path, monkeypatch):
    path = tmp_path / "metrics.toml"
    path.write_text('[tone]\ncriteria = "Is the tone friendly?"\n', encoding="utf-8")
    monkeypatch.setenv("GROUNDWATCH_METRICS_FILE", str(path))
    assert "Is the tone friendly?" in run("metrics").stdout


def test_records_are_scored_with_the_metrics_named(run, tmp_path):
    records = tmp_path / "records.jsonl"
    records.write_text(json.dumps(RECORD), encoding="utf-8")
    done = run("score", str(records), "--metrics", "citation_accuracy,mrr,toxicity,quality")
    [line] = [json.loads(each) for each in done.stdout.splitlines() if each.startswith("{")]
    found = {e["evaluator_name"]: (e["status"], e["score"]) for e in line["evaluations"]}
    assert found == {
        "citation_accuracy": ("completed", 1.0),
        "mrr": ("completed", 1.0),
        "toxicity": ("skipped", None),
        "quality": ("skipped", None),
    }

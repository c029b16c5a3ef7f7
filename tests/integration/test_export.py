"""From records in the queue to sheets: every run once, with the figures that it was scored with."""

import csv
import re
from datetime import UTC, datetime, timedelta

import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.models import ToolCall
from monitor.settings import Settings
from monitor.store.drift import read_runs
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.scoring_run import commit, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
METRICS = ("answer_relevancy", "tool_calls", "tool_completeness", "latency_ms", "groundedness")


def fill(store, count=5):
    context = Components(Settings(metrics=METRICS))
    results = []
    for number in range(count):
        interaction = make_interaction(
            id=f"=run-{number}", app="shop", metadata={"latency_ms": 400 + number, "model": "m-1"},
            expected={"tools": ["search", "fetch"]}, tool_calls=[ToolCall(name="search")],
            tags={"company_name": "+Apple"},
        )  # fmt: skip
        at = NOW - timedelta(minutes=count - number)
        sample = make_sample(interaction, sampled_at=at)
        found = context.scorer.score(interaction)
        results.append(result_of(sample, found, context.rules, now=NOW))
    commit(store, results, context.rules, now=NOW)
    context.scorer.close()


def test_runs_are_read_oldest_first_with_every_figure(store):
    fill(store)
    with store.read() as connection:
        runs, total = read_runs(connection, since=NOW - timedelta(hours=1), limit=3)
    assert (total, [run.run_id for run in runs]) == (5, ["=run-2", "=run-3", "=run-4"])
    first = runs[0]
    assert (first.company_name, first.model_used) == ("+Apple", "m-1")
    assert first.figures["latency_ms"].value == 402.0
    assert first.figures["tool_completeness"].score == 0.5


@pytest.fixture
def command(sqlite_url, monkeypatch):
    from monitor.store.engine import Store

    store = Store(sqlite_url)
    fill(store)
    store.close()
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    return lambda *words: CliRunner().invoke(app, ["export", *map(str, words)])


def test_csv_is_a_folder_of_named_sheets(command, tmp_path):
    done = command("--to", "csv", "-o", tmp_path / "sheets")
    assert done.exit_code == 0, done.output
    with (tmp_path / "sheets" / "openevals_metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run_id"] for row in rows] == [f"'=run-{n}" for n in range(5)]
    assert {row["tool_calls"] for row in rows} == {"1.0"}
    assert (tmp_path / "sheets" / "llm_judge_results.csv").exists()


def test_xlsx_is_one_workbook_without_a_formula(command, tmp_path):
    done = command("--to", "xlsx", "-o", tmp_path / "book.xlsx", "--runs", 2)
    assert done.exit_code == 0, done.output
    assert "only the newest 2 of 5 runs are written" in done.output
    book = load_workbook(tmp_path / "book.xlsx")
    assert book["agent_metrics"].max_row == 3
    cells = [c for sheet in book for row in sheet.iter_rows() for c in row]
    assert not [cell for cell in cells if cell.data_type == "f"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "csv"], "needs --output"),
        (["--to", "google-sheets", "--spreadsheet", "x"], "needs --spreadsheet and --account"),
    ],
)
def test_export_names_what_is_missing(command, words, said):
    done = command(*words)
    assert done.exit_code == 2
    assert said in " ".join(re.findall(r"[^\s│]+", done.output))

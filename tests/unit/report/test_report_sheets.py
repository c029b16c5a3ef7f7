"""A report as sheets: one row a window, and no cell that a spreadsheet would run."""

import csv
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from monitor.cli.samples import write_folder, write_workbook
from monitor.models.interaction import Figure, RunRecord
from monitor.report.sheets import inert, run_sheets, sheets_of
from monitor.scoring.metrics import METRICS


def by_name(report):
    return {sheet.name: sheet for sheet in sheets_of(report)}


def test_windows_sheet_has_a_row_for_each_window(full_report):
    sheet = by_name(full_report)["windows"]
    windows = [w for app in full_report.apps for item in app.metrics for w in item.windows]
    assert len(sheet.rows) == len(windows)
    first = dict(zip(sheet.columns, sheet.rows[0], strict=True))
    assert (first["n"], first["pass_rate"]) == (windows[0].n, windows[0].pass_rate)


def test_every_row_is_as_long_as_its_header(full_report):
    for sheet in sheets_of(full_report):
        assert all(len(row) == len(sheet.columns) for row in sheet.rows), sheet.name


def test_row_keys_are_columns_and_unique(full_report):
    unnamed = {"incidents"}  # those of the fixture have one id
    for sheet in [*sheets_of(full_report), *run_sheets([RUN])]:
        places = [sheet.columns.index(name) for name in sheet.key]
        keys = [tuple(row[place] for place in places) for row in sheet.rows]
        assert places
        assert sheet.name in unnamed or len(set(keys)) == len(keys), sheet.name


RUN = RunRecord(
    sample_id="s1", run_id="=cmd()", app="+shop", at=datetime(2026, 3, 1, tzinfo=UTC),
    company_name="@apple", model_used="-gpt",
    figures={
        "faithfulness": Figure(0.9, explanation="all claims hold"),
        "rag_overall_score": Figure(0.8),
        "latency_ms": Figure(1.0, 412.0),
        "plan_quality": Figure(0.35, explanation="\t=1+1"),
        "bias": Figure(None),
        "groundedness": Figure(0.7, explanation="=HYPERLINK()"),
    },
)  # fmt: skip


def row_of(name):
    (sheet,) = [sheet for sheet in run_sheets([RUN]) if sheet.name == name]
    return dict(zip(sheet.columns, sheet.rows[0], strict=True)) if sheet.rows else None


def test_runs_are_in_the_sheets_of_their_frameworks():
    assert [sheet.name for sheet in run_sheets([])] == [
        "deepeval_metrics", "openevals_metrics", "agent_metrics", "unified_metrics",
        "llm_judge_results", "consistency_scores", "model_consistency", "cross_model_eval",
        "other_metrics",
    ]  # fmt: skip
    deepeval = row_of("deepeval_metrics")
    assert (deepeval["faithfulness"], deepeval["bias"], deepeval["overall_score"]) == (
        0.9, None, 0.8
    )  # fmt: skip
    assert row_of("openevals_metrics")["latency_ms"] == 412.0
    assert row_of("agent_metrics")["plan_quality_reason"] == "'=1+1"
    assert row_of("llm_judge_results") is None
    assert row_of("other_metrics")["metric"] == "groundedness"


def test_no_text_of_a_run_is_a_formula():
    for sheet in run_sheets([RUN]):
        for row in sheet.rows:
            assert not [c for c in row if isinstance(c, str) and c.startswith(tuple("=+-@\t\r"))]


def test_every_sheet_metric_can_be_scored():
    columns = {name for sheet in run_sheets([]) for name in sheet.columns}
    renamed = {"overall_score", "accuracy_score", "consistency_score", "agent_efficiency_score"}
    who = {"run_id", "timestamp", "app", "company_name", "model_used", "metric", "score", "reason"}
    metrics = {name.removesuffix("_reason") for name in columns - who - renamed}
    assert metrics <= set(METRICS)


@given(st.text())
def test_no_text_is_a_formula(text):
    assert not inert(text).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_workbook_reads_back_as_it_was_written(full_report, tmp_path):
    sheets = sheets_of(full_report)
    write_workbook(sheets, tmp_path / "book.xlsx")
    book = load_workbook(tmp_path / "book.xlsx")
    assert book.sheetnames == [sheet.name for sheet in sheets]
    for sheet in sheets:
        header, *rows = book[sheet.name].iter_rows(values_only=True)
        assert header == tuple(sheet.columns)
        assert len(rows) == len(sheet.rows)
        assert all(cell.data_type != "f" for row in book[sheet.name].iter_rows() for cell in row)


def test_files_read_back_as_they_were_written(empty_report, full_report, tmp_path):
    write_folder(sheets_of(empty_report), tmp_path)
    write_folder(sheets_of(full_report), tmp_path)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.csv")} == {0o600}
    with (tmp_path / "series.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(by_name(full_report)["series"].rows)
    assert {"", "0.5"} >= {row["pass_rate"] for row in rows}


@pytest.mark.parametrize("name", ["windows", "series", "incidents", "status_changes"])
def test_report_without_apps_has_empty_sheets(empty_report, name):
    assert by_name(empty_report)[name].rows == []

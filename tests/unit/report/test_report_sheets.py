"""A report as sheets: one row a window, and no cell that a spreadsheet would run."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from monitor.cli.export import write_csv, write_xlsx
from monitor.report.sheets import inert, sheets_of


def by_name(report):
    return {sheet.name: sheet for sheet in sheets_of(report)}


def test_unified_metrics_has_a_row_for_each_window(full_report):
    sheet = by_name(full_report)["unified_metrics"]
    windows = [w for app in full_report.apps for item in app.metrics for w in item.windows]
    assert len(sheet.rows) == len(windows)
    first = dict(zip(sheet.columns, sheet.rows[0], strict=True))
    assert (first["n"], first["pass_rate"]) == (windows[0].n, windows[0].pass_rate)


def test_every_row_is_as_long_as_its_header(full_report):
    for sheet in sheets_of(full_report):
        assert all(len(row) == len(sheet.columns) for row in sheet.rows), sheet.name


@given(st.text())
def test_no_text_is_a_formula(text):
    assert not inert(text).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_workbook_reads_back_as_it_was_written(full_report, tmp_path):
    sheets = sheets_of(full_report)
    write_xlsx(sheets, tmp_path / "book.xlsx")
    book = load_workbook(tmp_path / "book.xlsx")
    assert book.sheetnames == [sheet.name for sheet in sheets]
    for sheet in sheets:
        header, *rows = book[sheet.name].iter_rows(values_only=True)
        assert header == tuple(sheet.columns)
        assert len(rows) == len(sheet.rows)
        assert all(cell.data_type != "f" for row in book[sheet.name].iter_rows() for cell in row)


def test_files_read_back_as_they_were_written(empty_report, full_report, tmp_path):
    write_csv(sheets_of(empty_report), tmp_path)
    write_csv(sheets_of(full_report), tmp_path)
    with (tmp_path / "series.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(by_name(full_report)["series"].rows)
    assert {"", "0.5"} >= {row["pass_rate"] for row in rows}


@pytest.mark.parametrize("name", ["unified_metrics", "series", "incidents", "status_changes"])
def test_report_without_apps_has_empty_sheets(empty_report, name):
    assert by_name(empty_report)[name].rows == []

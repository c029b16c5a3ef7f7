"""The report as Markdown: tables hold, and nothing hostile becomes markup."""

import re

from monitor.report.render import render_markdown


def cells(line):
    return re.split(r"(?<!\\)\|", line)


def test_names_with_pipes_do_not_break_table_rows(full_report):
    rows = [line for line in render_markdown(full_report).splitlines() if line.startswith("|")]

    assert len(rows) == 2 * (2 + 2 + 6)
    assert {len(cells(row)) for row in rows} == {10}


def test_names_with_newlines_add_no_headings(full_report):
    headings = [line for line in render_markdown(full_report).splitlines() if line.startswith("#")]

    assert [heading.split(" ")[0] for heading in headings] == ["#", "##", "##"]


def test_hostile_names_are_escaped_in_markdown(full_report):
    ours = r"^\|[-:|]+\||^#+ |\*\*|^- |^`[▁▂▃▄▅▆▇█·]+`|^\| | \| | \|$|\(no_context 1\)"
    text = re.sub(ours, "", render_markdown(full_report), flags=re.MULTILINE)

    assert not re.search(r"(?<!\\)[`*_\[\]<>#|]", text)
    assert "\\<!channel\\>" in text


def test_hostile_names_write_no_invisible_characters(full_report):
    assert not set("\x1b\u202e\r") & set(render_markdown(full_report))


def test_markdown_title_without_apps_is_the_sentence(empty_report):
    assert render_markdown(empty_report).startswith("# No app has sent anything yet.\n")


def test_missing_figures_are_shown_as_dashes(full_report):
    assert "None" not in render_markdown(full_report)

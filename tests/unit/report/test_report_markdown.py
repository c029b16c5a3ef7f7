"""The report as Markdown: tables hold, and nothing hostile becomes markup."""

import re

from monitor.report.render import render_markdown


def cells(line):
    return re.split(r"(?<!\\)\|", line)


def test_every_row_has_as_many_cells_as_the_head_when_names_hold_pipes(full_report):
    rows = [line for line in render_markdown(full_report).splitlines() if line.startswith("|")]

    assert len(rows) == 2 * (2 + 2 + 6)
    assert {len(cells(row)) for row in rows} == {10}


def test_headings_are_ours_alone_when_names_hold_newlines(full_report):
    headings = [line for line in render_markdown(full_report).splitlines() if line.startswith("#")]

    assert [heading.split(" ")[0] for heading in headings] == ["#", "##", "##"]


def test_no_markup_is_left_unescaped_when_names_are_hostile(full_report):
    ours = r"^\|[-:|]+\||^#+ |\*\*|^- |^`[▁▂▃▄▅▆▇█·]+`|^\| | \| | \|$|\(no_context 1\)"
    text = re.sub(ours, "", render_markdown(full_report), flags=re.MULTILINE)

    assert not re.search(r"(?<!\\)[`*_\[\]<>#|]", text)
    assert "\\<!channel\\>" in text


def test_nothing_invisible_is_written_when_names_are_hostile(full_report):
    assert not set("\x1b\u202e\r") & set(render_markdown(full_report))


def test_sentence_is_the_title_when_there_is_no_app(empty_report):
    assert render_markdown(empty_report).startswith("# No app has sent anything yet.\n")


def test_dashes_stand_in_when_figures_are_missing(full_report):
    assert "None" not in render_markdown(full_report)

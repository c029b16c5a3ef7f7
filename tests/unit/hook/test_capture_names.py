"""What a sample is found by survives texts of any length."""

import pytest

from monitor.hook.capture import MARGIN, capture

NAMES = {"id": "mine", "trace_id": "t", "session_id": "s", "user_id": "u", "release": "v1"}


def captured(**given):
    return capture({"output": "o", **given}, limit=1_000, at_ns=0, sequence=0)


@pytest.mark.parametrize("contexts", [["x" * 1_000_000], ["x" * 10_000] * 400])
def test_names_are_kept_when_the_texts_are_cut(contexts):
    draft = captured(contexts=contexts, **NAMES)
    assert draft.cut == {"contexts"}
    assert {name: draft.rest[name] for name in NAMES} == NAMES


def test_overlong_id_is_cut():
    draft = captured(id="x" * 1_000_000)
    assert "id" in draft.cut
    assert draft.chars <= 1_000 + MARGIN + 2_000


@pytest.mark.parametrize("query", [object(), (word for word in "ab")])
def test_unreadable_question_is_reported(query):
    draft = captured(query=query, metadata={"k": 1})
    assert draft.query is None
    assert draft.rest["metadata"] == {
        "k": 1,
        "unreadable": {"query": f"<{type(query).__name__}>"},
    }


def test_question_text_may_look_like_a_placeholder():
    draft = captured(query="<generator>")
    assert (draft.query, "metadata" in draft.rest) == ("<generator>", False)

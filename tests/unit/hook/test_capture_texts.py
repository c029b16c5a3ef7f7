"""What a sample is made of: question, passages, turns, each read in every form apps have."""

from datetime import date
from types import SimpleNamespace

import pytest

from monitor.hook.capture import MARGIN, PASSAGES, capture


def captured(limit=1_000, **given):
    return capture({"output": "o", **given}, limit=limit, at_ns=5, sequence=7, rate=0.5)


def test_draft_contains_every_given_field():
    draft = captured(query="q", contexts=["c"], tags={"a": "b"}, label=1, id="i")
    assert draft[:6] == (5, 7, 0.5, "q", ("c",), "o")
    assert draft.rest == {"id": "i", "tags": {"a": "b"}, "label": 1}
    assert (draft.mask, draft.cut) == (None, frozenset())


def test_characters_of_texts_and_names_count():
    less = captured(query="q", user_id="u").chars
    assert captured(query="q" * 11, user_id="u").chars == less + 10
    assert captured(query="q", user_id="u" * 11).chars == less + 10
    assert captured(query="q", user_id="u", limit=2_000).chars == less


@pytest.mark.parametrize("output", [None, object(), (word for word in "ab")])
def test_sample_without_a_readable_answer_is_not_captured(output):
    assert captured(output=output) is None


def test_answer_text_may_look_like_a_placeholder():
    assert captured(output="<generator>").output == "<generator>"


@pytest.mark.parametrize("query", [None, "", "q", ["q"], {"q": 1}, 7])
def test_readable_question_adds_no_metadata(query):
    draft = captured(query=query)
    assert (draft.query, draft.rest) == (query, {})


def test_invalid_metadata_is_replaced_by_the_unreadable_fields():
    assert captured(query=object(), metadata=[1]).rest["metadata"] == {
        "unreadable": {"query": "<object>"}
    }


@pytest.mark.parametrize(
    ("contexts", "read"),
    [
        (None, ()),
        ([], ()),
        ("one", ("one",)),
        (("a", "b"), ("a", "b")),
        ({"text": "a"}, ({"text": "a"},)),
        ([{"text": "a", "id": 7, "score": 1}], ({"text": "a", "id": "7", "score": 1.0},)),
        (
            [SimpleNamespace(page_content="a", id="x", score=0.5)],
            ({"text": "a", "id": "x", "score": 0.5},),
        ),
        ([{"text": "a", "score": "high"}], ({"text": "a"},)),
    ],
)
def test_passages_are_read_in_every_form(contexts, read):
    draft = captured(contexts=contexts)
    assert (draft.contexts, draft.rest) == (read, {})


@pytest.mark.parametrize(
    ("contexts", "named", "read"),
    [(object(), "<object>", ()), (["a", object(), "b"], "<object>", ("a", "b")), (7, "<int>", ())],
)
def test_unreadable_passage_is_named_and_the_others_are_kept(contexts, named, read):
    draft = captured(contexts=contexts)
    assert draft.contexts == read
    assert draft.rest["metadata"]["unreadable"]["contexts"] == named


@pytest.mark.parametrize("more", [0, 1])
def test_passages_beyond_the_limit_are_dropped(more):
    draft = captured(contexts=["p"] * (PASSAGES + more))
    assert len(draft.contexts) == PASSAGES
    assert draft.cut == ({"contexts"} if more else frozenset())


def test_texts_are_cut_at_the_limit_plus_margin():
    draft = captured(contexts=["x" * 5_000, "y"])
    assert draft.cut == {"contexts"}
    assert 1_000 <= len(draft.contexts[0]) <= 1_000 + MARGIN


@pytest.mark.parametrize(
    "passage",
    [
        {"text": "a", "source": "policy", "year": 2024, "vector": [1], "tenant": "x"},
        {"text": "a", "metadata": {"source": "policy", "year": 2024, "tenant": "x"}},
        {"text": "a", "source": "policy", "metadata": {"source": "other", "year": 2024}},
        SimpleNamespace(content="a", meta={"source": "policy", "year": 2024, "tenant": "x"}),
        SimpleNamespace(content="a", source="policy", year=2024, tenant="x"),
    ],
)
def test_what_metrics_read_of_a_passage_is_kept_and_nothing_else(passage):
    kept = {"text": "a", "source": "policy", "year": 2024}
    assert captured(contexts=[passage]).contexts == (kept,)


def test_date_of_a_passage_is_kept_as_text():
    [passage] = captured(contexts=[{"text": "a", "published": date(2026, 1, 31)}]).contexts
    assert passage["published"] == "2026-01-31"


@pytest.mark.parametrize("value", ["x" * 501, ["x"], {"x": 1}, object(), ""])
def test_detail_of_a_passage_that_is_no_short_value_is_left_out(value):
    [passage] = captured(contexts=[{"text": "a", "title": value}]).contexts
    assert not passage.get("title")


def test_details_of_passages_count_towards_the_limit():
    passages = [{"text": "", "source": "x" * 500}] * 10
    kept = [passage for passage in captured(contexts=passages).contexts if "source" in passage]
    assert len(kept) == (1_000 + MARGIN) // 500 - 1


def history(turns):
    return captured(history=turns).rest.get("history")


def test_turns_keep_their_order_without_empty_ones():
    turns = ["a", {"role": "assistant", "content": "b"}, {"role": "tool", "content": ""}, {"x": 1}]
    assert history(turns) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]


def test_parts_of_a_turn_are_joined():
    content = [{"text": "a"}, {"image": 1}, "c", {"text": 7}, {"text": "b"}]
    assert history([{"role": "user", "content": content}])[0]["content"].split("\n")[0] == "a"
    assert history([{"role": "user", "content": content}])[0]["content"].endswith("\nb")


@pytest.mark.parametrize(
    ("value", "kind"), [({"a": 1}, "<dict>"), ([("a question", "its answer")], "<tuple>")]
)
def test_invalid_history_is_reported_as_unreadable(value, kind):
    draft = captured(history=value)
    assert "history" not in draft.rest
    assert draft.rest["metadata"]["unreadable"] == {"history": kind}

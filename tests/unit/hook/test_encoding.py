"""The sender's half: any draft becomes an entry that a worker can read."""

import json
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.hook.capture import MARGIN, capture, shares
from monitor.hook.encoding import MaskFailed, encode, encode_feedback
from monitor.hook.masks import build
from monitor.hook.options import Options
from monitor.hook.recorder import FeedbackDraft
from monitor.queue import wire
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=8)
    | st.text(st.characters(), max_size=8) | st.dates() | st.builds(object),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner)
    | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
    | st.fixed_dictionaries({"text": inner, "name": inner, "function": inner, "error": inner}),
    max_leaves=8,
)  # fmt: skip


def sent(given_, limit=1_000, **options):
    settings = Options(app="bot", max_text_chars=limit, **options)
    draft = capture(given_, limit, 1_000_000_000, 7, 0.5)
    return wire.decode(encode(draft, settings, hook_id="h", sample_rate=0.5, randomness=7).entry)


@given(*[ODD] * 6)
def test_worker_can_read_every_captured_value(query, contexts, tool_calls, metadata, tags, one):
    sample = sent(
        {
            "output": "a", "query": query, "contexts": contexts, "tool_calls": tool_calls,
            "metadata": metadata, "tags": tags, "id": one, "label": one, "expected": one,
            "session_id": one, "trace_id": one,
        }
    )  # fmt: skip
    assert sample.interaction.output == "a"


def test_sample_records_its_rate_hook_and_sequence():
    sample = sent({"output": "a"})
    assert (sample.sample_rate, sample.hook_id, sample.sequence) == (0.5, "h", 7)
    assert sample.sampled_at.timestamp() == 1.0
    assert sample.interaction.id == sample.sample_id


@pytest.mark.parametrize("name", ["release", "environment"])
def test_release_and_environment_default_to_the_apps(name):
    of_app = {name: "of the app"}
    assert getattr(sent({"output": "a"}, **of_app).interaction, name) == "of the app"
    assert getattr(sent({"output": "a", name: "own"}, **of_app).interaction, name) == "own"


def test_control_characters_in_an_id_become_spaces():
    assert sent({"output": "a", "id": "a\x00b\n"}).interaction.id == "a b "


def test_openai_tool_call_is_read():
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    [tool_call] = sent({"output": "a", "tool_calls": [call]}).interaction.tool_calls
    assert (tool_call.name, tool_call.arguments) == ("search", "{}")


@pytest.mark.parametrize(
    ("given_", "known"),
    [
        ("search", {"name": "search"}),
        ({"function": "search"}, {"name": "<unnamed>"}),
        ({"name": "f", "duration_ms": 0}, {"name": "f", "duration_ms": 0}),
        ({"name": "f", "duration_ms": -1}, {"name": "f", "duration_ms": None}),
        ({"name": "f", "duration_ms": "2"}, {"name": "f", "duration_ms": None}),
        ({"name": "f", "error": {"code": 7}}, {"name": "f", "error": '{"code":7}'}),
    ],
)
def test_tool_calls_in_every_form_are_read(given_, known):
    alone = sent({"output": "a", "tool_calls": given_}).interaction.tool_calls
    read, beside = sent(
        {"output": "a", "tool_calls": [given_, {"name": "n"}]}
    ).interaction.tool_calls
    assert (*alone, beside.name) == (read, "n")
    assert {name: getattr(read, name) for name in known} == known


def test_mask_of_the_call_wins_over_the_hooks():
    sample = sent({"output": "a", "mask": lambda _: "call"}, mask=lambda _: "hook")
    assert sample.interaction.output == "call"


def test_mask_error_does_not_quote_the_text():
    def mask(text):
        raise ValueError(text)

    with pytest.raises(MaskFailed) as caught:
        sent({"output": "SECRET"}, mask=mask)
    assert "SECRET" not in repr(caught.value)
    assert caught.value.__suppress_context__


LONG = 5_000  #: beyond the limit and its margin


@pytest.mark.parametrize("mask", [None, str])
@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ((LONG, 28, 40), (932, 28, 40)),
        ((28, LONG, 40), (28, 932, 40)),
        ((28, 40, LONG), (28, 40, 932)),
        ((900, 28, 100), (872, 28, 100)),
        ((LONG, 40, LONG), (480, 40, 480)),
        ((8, 8, LONG), (8, 8, 984)),
    ],
)
def test_longest_of_answer_question_and_passages_is_cut_first(lengths, kept, mask):
    answer, question, passages = lengths
    given_ = {"output": "o" * answer, "query": "q" * question, "contexts": ["c" * passages]}
    sample = sent(given_, mask=mask)
    it = sample.interaction
    assert (len(it.output), len(it.query), sum(len(c.text) for c in it.contexts)) == kept
    names = zip(("output", "query", "contexts"), lengths, kept, strict=True)
    assert sample.truncated == tuple(sorted(name for name, given, left in names if left < given))


@given(st.lists(st.integers(0, 3_000), min_size=3, max_size=3), st.integers(0, 4_000))
def test_shares_use_the_whole_limit_and_cut_only_the_longest(sizes, most):
    found = shares(sizes, most)
    assert sum(found) == min(most, sum(sizes))
    cut = [share for size, share in zip(sizes, found, strict=True) if share < size]
    assert all(share <= size for size, share in zip(sizes, found, strict=True))
    assert not cut or max(found) - min(cut) <= 1


def test_limit_of_a_sample_holds_for_all_its_texts_together():
    given_ = {"output": "o" * LONG, "query": "q" * LONG, "contexts": ["c" * 700] * 9,
              "metadata": {"m": "m" * LONG}, "history": ["h" * 30]}  # fmt: skip
    it = (sample := sent(given_)).interaction
    kept = [it.output, it.query, *(c.text for c in it.contexts), *it.metadata.values()]
    assert sum(map(len, kept)) == 1_000
    assert sample.truncated == ("contexts", "history", "metadata", "output", "query")


EVERYWHERE = {
    "output": "SECRET", "query": "SECRET",
    "contexts": ["SECRET", {"text": "SECRET", "id": "SECRET", "author": "SECRET"}],
    "tool_calls": [{"name": "SECRET", "arguments": {"SECRET": ["SECRET"]}, "result": "SECRET"}],
    "expected": {"SECRET": "SECRET"}, "metadata": {"SECRET": {"SECRET": {"b": "SECRET"}}},
    "tags": {"tenant": "SECRET"}, "user_id": "SECRET", "session_id": "SECRET",
}  # fmt: skip


def test_mask_is_applied_to_every_text_key_tag_and_user():
    sample = sent(EVERYWHERE, mask=lambda text: text.replace("SECRET", "#"))
    assert "SECRET" not in sample.model_dump_json()
    assert sample.interaction.tags == {"tenant": "#"}
    assert (sample.interaction.user_id, sample.interaction.session_id) == ("#", "#")


def test_mask_does_not_change_ids_and_release():
    sample = sent(EVERYWHERE | {"id": "r", "trace_id": "t", "release": "v"}, mask=lambda _: "#")
    interaction = sample.interaction
    assert (interaction.id, interaction.trace_id, interaction.release) == ("r", "t", "v")
    assert [context.text for context in interaction.contexts] == ["#", "#"]
    assert interaction.tool_calls[0].arguments == {"#": ["#"]}


@pytest.mark.parametrize("name", ["output", "query", "contexts", "metadata"])
@pytest.mark.parametrize("left", range(1, 22, 4))
def test_secret_split_by_the_cut_is_not_sent(name, left):
    # What is masked shrinks, so that the end of what was captured would fit.
    text = "somebody@department.example.com " * 200
    text = text[: 1_000 + MARGIN - len("out") - left] + " jo.doe@private.example.com"
    value = {"contexts": [text], "metadata": {"k": [text]}}.get(name, text)
    given_ = {"output": "out", name: value} if name != "output" else {"output": text}
    sample = sent(given_, mask=build("builtin"))
    assert "jo" not in sample.model_dump_json(include={"interaction"})
    assert name in sample.truncated


@pytest.mark.parametrize("left", range(1, 22, 4))
def test_secret_split_by_the_cut_of_two_fields_is_not_sent(left):
    half = (1_000 + MARGIN) // 2
    text = "somebody@department.example.com " * 200
    text = text[: half - left] + " jo.doe@private.example.com" + " and more" * 200
    passage = {"text": text, "title": "t" * 400}
    sample = sent({"output": text, "contexts": [passage]}, mask=build("builtin"))
    assert "jo" not in sample.model_dump_json(include={"interaction"})
    assert sample.truncated == ("contexts", "output")


def test_no_text_is_sent_when_only_metadata_is_captured():
    sample = sent(EVERYWHERE | {"release": "v", "label": 1}, capture="metadata")
    shown = sample.interaction.model_dump(exclude_defaults=True)
    assert shown.pop("id") == sample.sample_id
    assert shown == {
        "app": "bot", "output": "", "release": "v", "label": 1,
        "tags": {"tenant": "SECRET"}, "user_id": "SECRET", "session_id": "SECRET",
        "metadata": {
            "capture": "metadata", "output_chars": 6, "query_chars": 6, "contexts_chars": [6, 6],
            "history": 0, "tool_calls": 1,
        },
    }  # fmt: skip


def test_tags_and_ids_are_masked_when_only_metadata_is_captured():
    options = {"capture": "metadata", "mask": lambda _: "#"}
    assert "SECRET" not in sent(EVERYWHERE, **options).model_dump_json()


def test_scoring_skips_uncaptured_texts_with_a_reason():
    interaction = sent({"output": "a", "contexts": ["b"]}, capture="metadata").interaction
    scorer = JudgementScorer(
        LocalJudge(), resolve_metrics(Settings(metrics=["groundedness", "relevance"]))
    )
    for evaluation in scorer.score(interaction):
        assert (evaluation.status, evaluation.score) == ("skipped", None)
        assert "not_captured" in evaluation.model_dump_json()


def test_scoring_skips_an_incomplete_answer():
    given = {"query": "q", "contexts": ["Refunds take five days."], "output": "Refunds "}
    interaction = sent({**given, "metadata": {"incomplete": True}}).interaction
    scorer = JudgementScorer(
        LocalJudge(), resolve_metrics(Settings(metrics=["groundedness", "relevance"]))
    )
    for evaluation in scorer.score(interaction):
        assert (evaluation.status, evaluation.score) == ("skipped", None)
        assert evaluation.reason == "incomplete"


def test_masked_number_is_not_sent():
    card = {"card": 4111111111111111, "small": 7, "ratio": 0.5, "yes": True}
    sample = sent({"output": "a", "metadata": card}, mask=build("builtin"))
    assert sample.interaction.metadata == {**card, "card": "[CARD]"}


@pytest.mark.parametrize(
    ("options", "comment", "kept"),
    [
        ({}, "mail ann@a.example", "mail ann@a.example"),
        ({"mask": build("email")}, "mail ann@a.example", "mail [EMAIL]"),
        ({"mask": build("email")}, "", ""),
        ({"capture": "metadata"}, "mail ann@a.example", ""),
    ],
)
def test_user_feedback_is_masked_and_timestamped(options, comment, kept):
    said = FeedbackDraft(1_700_000_000_250_000_000, "t", False, comment)
    body = json.loads(encode_feedback(said, Options(app="bot", **options), 7)[b"body"])
    assert (body["comment"], body["good"], body["trace_id"], body["app"]) == (
        kept, False, "t", "bot",
    )  # fmt: skip
    assert body["given_at"] == "2023-11-14T22:13:20.250000Z"
    assert UUID(body["feedback_id"]).int >> 80 == 1_700_000_000_250


def test_ids_of_one_millisecond_keep_the_order_of_their_samples():
    def id_of(sequence, randomness):
        draft = capture({"output": "a"}, 100, 1_000_000_000, sequence)
        sent = encode(
            draft, Options(app="bot"), hook_id="h", sample_rate=1.0, randomness=randomness
        )
        return wire.decode(sent.entry).sample_id

    random = Random(1)
    ids = [id_of(sequence, random.getrandbits(74)) for sequence in range(1, 300)]
    assert ids == sorted(ids)
    assert id_of(1, 7) != id_of(1, 8)

"""Earlier turns travel with a sample: the latest whole ones, masked."""

from collections import deque
from itertools import count
from types import SimpleNamespace

import pytest

from monitor.hook.capture import TURNS, TURNS_CHARS, capture
from monitor.hook.encoding import encode
from monitor.hook.masks import build
from monitor.hook.options import Options
from monitor.hook.watch import watched
from monitor.queue import wire


def sent(history, query="q", limit=100_000, **options):
    given = {"output": "a", "query": query, "history": history}
    settings = Options(app="bot", max_text_chars=limit, **options)
    draft = capture(given, limit, 1_000_000_000, 7, 0.5)
    return wire.decode(encode(draft, settings, hook_id="h", sample_rate=0.5, randomness=7).entry)


def contents(sample):
    return [turn.content for turn in sample.interaction.history]


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "user", "content": "hi"},
        SimpleNamespace(role="user", content="hi"),
        SimpleNamespace(type="user", content="hi"),
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "user", "parts": ["hi"]},
        SimpleNamespace(type="human", content="hi"),
        ("human", "hi"),
        ["user", "hi"],
    ],
)
def test_turn_is_read_in_every_form(turn):
    [found] = sent([turn]).interaction.history
    assert (found.role, found.content) == ("user", "hi")


def test_latest_turns_are_kept_when_there_are_many():
    sample = sent([{"role": "user", "content": str(n)} for n in range(100)])
    assert contents(sample) == [str(n) for n in range(100 - TURNS, 100)]
    assert sample.truncated == ("history",)


def test_only_whole_turns_are_kept_when_they_are_long():
    long = "x" * (TURNS_CHARS - 100)
    assert contents(sent([{"role": "user", "content": text} for text in (long, long)])) == [long]


def test_oldest_turns_are_dropped_when_the_answer_takes_the_space():
    turns = [{"role": "user", "content": letter * 400} for letter in "abc"]
    kept = contents(sent(turns, limit=900, mask=lambda text: text))
    assert kept[-1] == "c" * 400


def test_latest_turns_of_a_deque_are_kept():
    sample = sent(deque({"role": "user", "content": str(n)} for n in range(100)))
    assert contents(sample) == [str(n) for n in range(100 - TURNS, 100)]


def test_turns_are_masked_like_other_texts():
    sample = sent([{"role": "user", "content": "write to ana@example.com"}], mask=build(("email",)))
    assert "ana@" not in contents(sample)[0]


@pytest.mark.parametrize("role", ["user", "human"])
def test_question_as_the_last_turn_is_not_repeated_in_the_history(role):
    turns = [{"role": "assistant", "content": "hello"}, {"role": role, "content": "q"}]
    assert contents(sent(turns)) == ["hello"]


def test_question_as_the_last_turn_takes_no_place_of_an_earlier_one():
    turns = [{"role": "user", "content": str(n)} for n in range(TURNS)]
    sample = sent([*turns, {"role": "user", "content": "q"}])
    assert (len(sample.interaction.history), sample.truncated) == (TURNS, ())


def test_question_as_the_last_turn_is_recognised_before_a_mask_changes_it():
    number = count(1)
    turns = [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "I am Ana."}]
    sample = sent(turns, "I am Ana.", mask=lambda text: text.replace("Ana", f"<{next(number)}>"))
    assert contents(sample) == ["hello"]


def test_turns_are_not_sent_when_texts_are_not():
    turns = [{"role": "user", "content": text} for text in ("hi", "q")]
    sample = sent(turns, "q", capture="metadata")
    assert contents(sample) == []
    assert sample.interaction.metadata["history"] == 1


def test_iterator_as_history_is_reported_and_not_consumed():
    sample = sent(iter([{"role": "user", "content": "hi"}]))
    assert sample.interaction.metadata["unreadable"] == {"history": "<list_iterator>"}


@pytest.mark.parametrize(
    "asked",
    [
        {"role": "user", "content": "how are you?"},
        {"role": "user", "content": [{"type": "text", "text": "how are you?"}]},
        SimpleNamespace(type="human", content="how are you?"),
        {"role": "User", "content": "how are you?"},
        ("human", "how are you?"),
    ],
)
@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_watched_function_has_its_turns_recorded(asked, kind):
    taken = []
    hook = SimpleNamespace(chance=lambda _=None: 1.0, take=lambda given, rate: taken.append(given))

    def answer(messages):
        return "fine"

    names = {"query": None, "contexts": None, "output": None}
    watched(answer, hook, names, {})(kind([asked]))
    assert taken[0]["query"] == "how are you?"

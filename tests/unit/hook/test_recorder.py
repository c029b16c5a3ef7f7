"""What callers and sender share: both ways to record agree, and every counter is exact."""

import _thread
import os
import time

import pytest

from monitor.hook import Hook, sender
from monitor.hook.capture import PASSAGES
from monitor.hook.options import resolve
from monitor.hook.recorder import MOST_WAITING, RETIRE_S, FeedbackBuffer, Progress, Recorder

TEXTS = {"query": "abc", "contexts": ["d", "ef"], "output": "ghij"}


def recorder(**options):
    return Recorder(resolve({"app": "bot", "redis_url": "redis://127.0.0.1:1/0", **options}, {}))


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS,
        TEXTS | {"contexts": []},
        TEXTS | {"contexts": ["p"] * PASSAGES},
        TEXTS | {"contexts": ["p"] * (PASSAGES + 1)},
        TEXTS | {"contexts": ["p", 7]},
        TEXTS | {"contexts": "one text"},
        TEXTS | {"query": None},
        TEXTS | {"query": "x" * 9_993},
        TEXTS | {"query": "x" * 9_994},
        TEXTS | {"query": "x" * 50_000},
    ],
)
def test_fast_path_records_what_the_general_path_does(texts):
    usual, quick = recorder(max_text_chars=10_000), recorder(max_text_chars=10_000)
    usual.record(texts, 0.5)
    quick.record_texts(*texts.values(), 0.5)
    [(_, *expected, chars)], [(_, *found, quick_chars)] = usual.buffer, quick.buffer
    assert found == expected
    assert (usual.sampled, usual.goal()) == (quick.sampled, quick.goal()) == (1, Progress(0, 1, 0))
    assert quick_chars <= chars  # exactly what the texts have


def test_calls_on_the_masking_thread_are_not_recorded():
    made = recorder()
    made.masking = _thread.get_ident()
    made.record(TEXTS, 1.0)
    made.record_texts(*TEXTS.values(), 1.0)
    assert (made.sampled, len(made.buffer)) == (0, 0)


def test_sample_without_an_output_is_counted_as_such():
    made = recorder()
    made.record({"query": "q"}, 1.0)
    assert (made.dropped, made.sampled) == ({"no_output": 1}, 1)


def test_interrupt_while_copying_reaches_the_host_and_is_counted():
    made = recorder()
    for error, raised in ((KeyboardInterrupt, True), (ValueError, False)):
        given = Raises(error)
        if raised:
            with pytest.raises(KeyboardInterrupt):
                made.record(given, 1.0)
        else:
            made.record(given, 1.0)
    assert made.dropped == {"capture_failed": 2}


class Raises(dict):
    """Fields that cannot be read."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def get(self, *_):
        raise self.error


@pytest.mark.parametrize("record", ["record", "record_texts"])
def test_sample_after_the_sender_ended_is_dropped(record):
    made = recorder()
    made.ended = True
    if record == "record":
        made.record(TEXTS, 1.0)
    else:
        made.record_texts(*TEXTS.values(), 1.0)
    assert (made.dropped, made.stats()["buffered"]) == ({"shutdown": 1}, 0)


@pytest.mark.parametrize(
    ("rate", "kept"), [(0.3, 0.3), (-1, 0.25), (1.5, 0.25), (1, 1.0), (0, 0.0)]
)
def test_rate_is_set_within_its_limits(rate, kept):
    made = recorder(sample_rate=0.25)
    assert made.set_rate(rate) == made.rate == made.sampler.rate == kept


def test_hook_with_rate_zero_ignores_a_requested_rate():
    made = recorder(sample_rate=0.0)
    assert (made.set_rate(0.5), made.sampler.rate) == (0.0, 0.0)


def test_errors_are_counted_by_name_up_to_twenty_names():
    made = recorder()
    for n in range(22):
        made.fail(f"E{n}", counted=n % 2 == 0)
    made.fail("E0", counted=True)
    made.fail("x" * 61, counted=True)
    assert made.errored == {f"E{n}": 1 for n in range(20)} | {"E0": 2, "other": 3}
    assert made.unseen == 11
    assert made.progress().dropped == 24


def test_overlong_error_name_is_cut():
    made = recorder()
    made.fail("x" * 61, counted=True)
    assert made.errored == {"x" * 60: 1}


def test_closed_hook_counts_no_errors():
    made = recorder()
    made.finish(0.0)
    made.fail("E", counted=False)
    assert (made.errored, made.unseen) == ({}, 0)


@pytest.mark.parametrize(("rate", "chosen"), [(0.0, False), (1.0, True)])
def test_interaction_is_sampled_at_its_rate(rate, chosen):
    hook = Hook(app="bot", sample_rate=rate, redis_url="redis://127.0.0.1:1/0")
    assert (hook.chosen(), hook.chance()) == (chosen, rate)
    hook.close(timeout=0)


def test_failure_within_the_hook_samples_nothing_and_is_reported(monkeypatch):
    hook = Hook(app="bot", sample_rate=1.0, redis_url="redis://127.0.0.1:1/0")
    with monkeypatch.context() as patch:
        patch.setattr("os.urandom", lambda _: 1 / 0)
        assert (hook.chance(), hook.chosen()) == (0.0, False)
    assert hook.stats()["last_error"] == "ZeroDivisionError in chance()"
    assert hook.close(timeout=0)


def test_only_one_thread_can_be_the_sender():
    made = recorder()
    assert made.claim()
    assert not made.claim()


def test_earliest_of_several_close_deadlines_applies():
    made = recorder()
    for deadline in (20.0, 10.0, 30.0):
        made.finish(deadline)
    assert made.close_by == 10.0
    assert made.wake.acquire(blocking=False)  # it was woken, and only once
    assert not made.wake.acquire(blocking=False)


def test_replaced_hook_has_a_minute_to_deliver():
    made, before = recorder(), time.monotonic()
    made.retire()
    assert before + RETIRE_S <= made.close_by <= time.monotonic() + RETIRE_S


def test_stats_account_for_every_sample():
    made = recorder(sample_rate=1.0, buffer_samples=2)
    for _ in range(4):
        made.record(TEXTS, made.choose(None))
    made.sent = 1
    made.encode_error = "ValueError"
    found = made.stats()
    where = ("seen", "sampled", "not_sampled", "buffered", "sent")
    assert [found[name] for name in where] == [4, 4, 0, 1, 1]
    assert (found["dropped"], found["enabled"]) == ({"buffer_full": 2}, True)
    assert found["last_error"] == "encode_failed: ValueError"
    made.last_error = "away"
    made.finish(0.0)
    assert (made.stats()["last_error"], made.stats()["enabled"]) == ("away", False)


def test_progress_covers_another_only_in_every_counter():
    goal = Progress(3, 2, 1, 1)
    assert goal.covers(goal)
    assert goal.covers(Progress(2, 1, 0, 0))
    for n in range(4):
        assert not Progress(*(value - (n == k) for k, value in enumerate(goal))).covers(goal)


@pytest.mark.parametrize(
    ("trace_id", "good", "comment"),
    [
        ("t", 2, None), ("t", None, None), ("", True, None), (7, True, None), ("t", True, 7),
        ("t", "1", None),
    ],
)  # fmt: skip
def test_feedback_that_cannot_be_read_is_counted(trace_id, good, comment):
    waiting = FeedbackBuffer()
    waiting.give(trace_id, good, comment)
    assert waiting.stats() == {"given": 1, "sent": 0, "dropped": {"invalid": 1}, "waiting": 0}


def test_feedback_texts_and_count_are_limited():
    waiting = FeedbackBuffer()
    waiting.give("t" * 201, 0, "c" * 2_001)
    [(_, trace_id, good, comment)] = waiting.waiting
    assert (trace_id, good, comment) == ("t" * 200, False, "c" * 2_000)
    for _ in range(MOST_WAITING):
        waiting.give("t", True, None)
    assert (len(waiting.waiting), waiting.stats()["dropped"]) == (MOST_WAITING, {"buffer_full": 1})
    assert (waiting.given, waiting.settled) == (MOST_WAITING + 1, 1)


def test_feedback_counters_include_entries_in_flight():
    waiting = FeedbackBuffer()
    assert waiting.counters(0) == {}
    for _ in range(3):
        waiting.give("t", True, None)
    waiting.sent = 1
    waiting.drop("encode_failed", 1)
    expected = {"feedback:given": 3, "feedback:sent": 2, "feedback:encode_failed": 1}
    assert waiting.counters(2) == expected
    waiting.abandon()
    assert waiting.stats()["dropped"] == {"encode_failed": 1, "shutdown": 3}


def test_child_does_not_inherit_the_parents_recorders():
    mine, parents = recorder(), recorder()
    parents.pid = os.getpid() + 1
    sender._running.update({mine, parents})
    try:
        assert mine in sender._recorders()
        assert parents not in sender._recorders()
    finally:
        sender._running.difference_update({mine, parents})

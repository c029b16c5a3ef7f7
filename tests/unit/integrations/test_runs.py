"""Runs are collected at their root, in bounded memory."""

import os

from monitor.integrations import runs
from monitor.integrations.runs import Runs


def answered():
    return "a"


def test_events_below_a_root_are_on_its_record(hook):
    collected = Runs(hook, {"tags": {"lang": "en"}})
    collected.start("root", None).query = lambda: "q"
    collected.start("child", "root").found(["c"])
    collected.start("grandchild", "child").called("grandchild", "find", '{"k": 1}')
    collected.get("grandchild").returned("grandchild", "found")
    for run_id in ("grandchild", "child", "root"):
        collected.end(run_id, answered)
    call = {"name": "find", "arguments": {"k": 1}, "result": "found"}
    expected = {"tags": {"lang": "en"}, "query": "q", "contexts": ["c"], "output": "a"}
    assert hook.taken == [{**expected, "tool_calls": [call]}]
    assert len(collected) == 0


def test_ending_root_closes_its_open_children(hook):
    collected = Runs(hook, {})
    collected.start("root", None)
    collected.start("child", "root")
    assert collected.forget("root") is not None
    assert (len(collected), collected.forget("root"), hook.taken) == (0, None, [])


def test_unsampled_root_keeps_no_children(unsampled):
    collected = Runs(unsampled, {})
    assert collected.start("root", None) is None
    assert collected.start("child", "root") is None
    collected.end("root", answered)
    assert (unsampled.asked, unsampled.taken, len(collected)) == ([None], [], 0)


def test_given_trace_id_decides_sampling(hook):
    Runs(hook, {"trace_id": "t"}).start("root", None)
    assert hook.asked == ["t"]


def test_run_whose_reading_raises_is_recorded_without_output(hook):
    collected = Runs(hook, {"tags": {"lang": "en"}})
    collected.start("root", None)
    collected.end("root", lambda: 1 / 0)
    assert hook.taken == [{"tags": {"lang": "en"}}]


def test_number_of_open_runs_is_bounded(hook, monkeypatch):
    monkeypatch.setattr(runs, "MOST_RUNS", 10)
    collected = Runs(hook, {})
    for n in range(100):
        collected.start(n, None)
    assert (len(collected), collected.get(0) is None, collected.get(99) is None) == (
        10,
        True,
        False,
    )


def test_number_of_items_on_a_record_is_bounded(hook):
    collected = Runs(hook, {})
    run = collected.start("root", None)
    for n in range(2 * runs.MOST_ITEMS):
        run.found(["c"])
        run.called(n, "find", None)
    collected.end("root", answered)
    [taken] = hook.taken
    assert len(taken["contexts"]) == len(taken["tool_calls"]) == runs.MOST_ITEMS


def test_forked_child_leaves_the_runs_to_the_parent(hook):
    collected = Runs(hook, {})
    collected.start("root", None)
    child = os.fork()
    if not child:
        os._exit(len(collected))
    assert os.waitpid(child, 0)[1] == 0
    assert len(collected) == 1


def test_dropped_sampled_root_is_passed_on_for_counting(hook, monkeypatch):
    monkeypatch.setattr(runs, "MOST_RUNS", 2)
    collected = Runs(hook, {})
    for number in range(3):
        collected.start(number, None)
    assert (len(collected), hook.taken) == (2, [{}])

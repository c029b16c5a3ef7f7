"""The spans of a trace become one interaction, in bounded memory."""

import os
import threading

import pytest

from monitor.integrations.spans import read
from monitor.integrations.traces import Traces

PASSAGE = {"text": "Refunds take five days."}
RETRIEVED = {"query": "refund duration", "contexts": [PASSAGE]}
ANSWERED = {"query": "How long?", "output": "Five days.", "session_id": "s"}


@pytest.fixture
def traces(hook):
    return Adding(hook)


class Adding:
    """Traces to which spans are added in a line."""

    def __init__(self, hook, **bounds):
        self.hook = hook
        self.traces = Traces(wait_s=10.0, **bounds)

    def add(self, kind, fields, trace_id="t", now_s=0.0, chars=10):
        self.traces.add(trace_id, kind, lambda: fields, lambda: chars, hook=self.hook, now_s=now_s)


def test_documents_are_joined_to_the_answer(traces, hook):
    traces.add("retrieval", RETRIEVED)
    traces.add("model", ANSWERED)
    traces.traces.finish("t")
    assert hook.taken == [{**ANSWERED, "contexts": [PASSAGE], "trace_id": "t"}]
    assert (hook.asked, len(traces.traces)) == (["t"], 0)


def test_documents_may_come_after_the_answer(traces, hook):
    traces.add("model", ANSWERED)
    traces.add("retrieval", RETRIEVED)
    traces.traces.finish("t")
    assert hook.taken[0]["contexts"] == [PASSAGE]


def test_same_document_is_kept_once(traces, hook):
    for _ in range(2):
        traces.add("retrieval", RETRIEVED)
    traces.add("model", ANSWERED)
    traces.traces.finish("t")
    assert hook.taken[0]["contexts"] == [PASSAGE]


def test_reranked_documents_replace_retrieved_ones(traces, hook):
    better = {"text": "better"}
    traces.add("retrieval", RETRIEVED)
    traces.add("reranking", {"contexts": [better]})
    traces.add("model", ANSWERED)
    traces.traces.finish("t")
    assert hook.taken[0]["contexts"] == [better]


def test_flow_answer_wins_over_its_model_calls(traces, hook):
    traces.add("model", {"output": "a step", "query": "prompt", "metadata": {"model": "m"}})
    traces.add("flow", ANSWERED)
    traces.add("model", {"output": "a later step"})
    traces.traces.finish("t")
    assert hook.taken == [{**ANSWERED, "metadata": {"model": "m"}, "trace_id": "t"}]


def test_model_answer_replaces_a_generator_placeholder_of_the_flow(traces, hook):
    shown = {"openinference.span.kind": "CHAIN", "input.value": "How long?",
             "output.value": '{"response_gen": "<generator object>"}'}  # fmt: skip
    traces.add("model", {"output": "Five days.", "query": "prompt"})
    traces.add("flow", read("flow", shown))
    traces.traces.finish("t")
    assert hook.taken[0]["output"] == "Five days."


def test_last_model_call_gives_the_answer_without_a_flow(traces, hook):
    traces.add("model", {"output": "a plan"})
    traces.add("flow", {"session_id": "s"})
    traces.add("model", {"output": "Five days."})
    traces.traces.finish("t")
    assert hook.taken == [{"output": "Five days.", "session_id": "s", "trace_id": "t"}]


def test_prompt_that_quotes_the_passages_is_not_the_question(traces, hook):
    traces.add("retrieval", RETRIEVED)
    traces.add("model", {**ANSWERED, "query": f"Answer from: {PASSAGE['text']}"})
    traces.traces.finish("t")
    assert hook.taken[0]["query"] == "refund duration"


def test_flow_input_passages_are_used_when_no_retrieval_was_traced(traces, hook):
    given = {"text": "given to the flow"}
    for trace_id in "tu":
        traces.add("flow", {**ANSWERED, "contexts": [given]}, trace_id)
    traces.add("retrieval", RETRIEVED, "u")
    traces.traces.sweep(11.0)
    assert [taken["contexts"] for taken in hook.taken] == [[given], [PASSAGE]]


def test_flow_question_is_used_when_no_other_is_found(traces, hook):
    traces.add("retrieval", {"contexts": [PASSAGE]})
    traces.add("model", {**ANSWERED, "query": f"Answer from: {PASSAGE['text']}"})
    traces.add("flow", {"query": "How long?"})
    traces.traces.finish("t")
    assert hook.taken[0]["query"] == "How long?"


def test_tools_are_recorded(traces, hook):
    first, second = {"name": "find"}, {"name": "read"}
    traces.add("tool", {"tool_calls": [first]})
    traces.add("model", {"query": "How long?"})
    traces.add("tool", {"tool_calls": [second]})
    traces.add("model", ANSWERED)
    traces.traces.finish("t")
    assert hook.taken[0]["tool_calls"] == [first, second]
    assert len(traces.traces) == 0


def test_tool_call_without_an_answer_is_not_recorded(traces, hook):
    traces.add("tool", {"tool_calls": [{"name": "find"}]})
    traces.traces.sweep(0.0, everything=True)
    assert (hook.taken, len(traces.traces)) == ([], 0)


def test_traces_are_recorded_separately(traces, hook):
    for trace_id in "ab":
        traces.add("retrieval", {"contexts": [{"text": trace_id}]}, trace_id)
    for trace_id in "ba":
        traces.add("model", {"output": trace_id}, trace_id)
        traces.traces.finish(trace_id)
    assert [(t["output"], t["contexts"][0]["text"]) for t in hook.taken] == [("b", "b"), ("a", "a")]


def test_answer_that_comes_after_the_root_is_waited_for(traces, hook):
    traces.add("retrieval", RETRIEVED)
    traces.traces.finish("t")
    assert hook.taken == []
    traces.add("model", ANSWERED)
    traces.traces.sweep(11.0)
    assert hook.taken[0]["contexts"] == [PASSAGE]


def test_quiet_trace_is_recorded_and_a_busy_one_waits(traces, hook):
    traces.add("model", {"output": "quiet"}, "quiet", now_s=0.0)
    traces.add("model", {"output": "busy"}, "busy", now_s=0.0)
    traces.add("retrieval", RETRIEVED, "busy", now_s=8.0)
    traces.traces.sweep(11.0)
    assert [taken["output"] for taken in hook.taken] == ["quiet"]


def test_search_without_an_answer_is_not_recorded(traces, hook):
    traces.add("retrieval", RETRIEVED)
    traces.traces.sweep(11.0)
    assert len(traces.traces) == 1  # a slow model may still answer
    traces.traces.sweep(101.0)
    assert (hook.asked, hook.taken, len(traces.traces)) == ([], [], 0)


def test_answer_without_text_is_passed_on_for_counting(traces, hook):
    traces.add("model", {"query": "How long?"})
    traces.traces.sweep(11.0)
    assert hook.taken == [{"query": "How long?", "trace_id": "t"}]


def test_unsampled_trace_is_not_read(unsampled):
    traces = Traces(wait_s=10.0)
    for kind in ("retrieval", "model", "flow", "retrieval"):
        traces.add(
            "t", kind, lambda: pytest.fail("was read"), lambda: 10, hook=unsampled, now_s=0.0
        )  # fmt: skip
    traces.finish("t")
    assert (unsampled.asked, unsampled.taken, len(traces)) == (["t"], [], 0)


def test_oldest_trace_ends_when_there_are_too_many(hook):
    traces = Adding(hook, most=2)
    for trace_id in "abc":
        traces.add("model", {"output": trace_id}, trace_id)
        traces.traces.sweep(0.0)
    assert [taken["output"] for taken in hook.taken] == ["a"]


def test_oldest_traces_end_when_memory_is_exceeded(hook):
    traces = Adding(hook, most_chars=25)
    for trace_id in "abcd":
        traces.add("model", {"output": trace_id}, trace_id, chars=10)
    traces.traces.sweep(0.0)
    assert [taken["output"] for taken in hook.taken] == ["a", "b"]


def test_open_traces_are_recorded_at_shutdown(traces, hook):
    for trace_id in "ab":
        traces.add("model", {"output": trace_id}, trace_id)
    traces.traces.sweep(0.0, everything=True)
    assert len(hook.taken) == 2


def test_every_trace_is_recorded_once_under_concurrent_threads(hook):
    traces = Adding(hook, most=50)

    def work(name):
        for n in range(300):
            trace_id = f"{name}-{n}"
            traces.add("retrieval", RETRIEVED, trace_id)
            traces.add("model", {"output": trace_id}, trace_id)
            traces.traces.finish(trace_id)
            traces.traces.sweep(n / 100)  # nothing is overdue by then

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({taken["output"] for taken in hook.taken}) == len(hook.taken) == 1_200


def test_forked_child_leaves_the_traces_to_the_parent(traces):
    traces.add("model", ANSWERED)
    child = os.fork()
    if not child:
        os._exit(len(traces.traces))
    assert os.waitpid(child, 0)[1] == 0
    assert len(traces.traces) == 1


def test_late_answer_of_a_recorded_trace_is_not_recorded_again(traces, hook):
    traces.add("flow", ANSWERED)
    traces.traces.finish("t")
    traces.add("model", {"output": "A title"})
    traces.traces.sweep(1_000.0, everything=True)
    assert (len(hook.taken), hook.asked) == (1, ["t"])


def test_documents_are_bounded(traces, hook):
    many = [{"text": f"{number}"} for number in range(20_000)]
    traces.add("retrieval", {"contexts": many})
    traces.add("model", ANSWERED)
    traces.traces.finish("t")
    assert hook.taken[0]["contexts"] == many[:500]

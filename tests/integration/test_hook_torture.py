"""Whatever the app hands over, in whatever state it is: nothing raises, every count is exact."""

import contextlib
import gc
import itertools
import logging
import os
import signal
import sys
import threading
import time
import weakref

import pytest
import redis

import monitor
from monitor.hook.capture import BREADTH
from monitor.queue import names, wire

FIELDS = (
    "query", "contexts", "output", "tool_calls", "expected", "trace_id", "session_id", "user_id",
    "release", "environment", "tags", "metadata", "id", "label",
)  # fmt: skip


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


@pytest.fixture
def delivered(redis_url):
    def read():
        with redis.Redis.from_url(redis_url) as client:
            return [wire.decode(fields) for _, fields in client.xrange(names.SAMPLES)]

    return read


def assert_exact(hook, delivered, seen):
    assert hook.flush(60)
    stats = hook.stats()
    assert stats["seen"] == seen == stats["sampled"] + stats["not_sampled"]
    assert stats["sampled"] == stats["sent"] + sum(stats["dropped"].values())
    assert len({sample.sample_id for sample in delivered()}) == stats["sent"]


ran = []


def _trap(name):
    def trap(*_, **__):
        ran.append(name)
        raise RuntimeError(name)

    return trap


_SPECIAL = (
    "repr", "str", "bytes", "format", "eq", "hash", "bool", "len", "iter", "next", "getitem",
    "contains", "getattr", "getattribute", "index", "int", "float", "call", "reduce", "dir",
    "copy", "deepcopy", "instancecheck", "aiter", "anext", "await", "enter", "exit", "fspath",
)  # fmt: skip
TRAPS = {f"__{name}__": _trap(name) for name in _SPECIAL}
Trapped = type("Trapped", (), {**TRAPS, "__class__": property(_trap("class"))})
TrappedDict = type("TrappedDict", (dict,), {**TRAPS, "items": _trap("items"), "get": _trap("get")})
TrappedList = type("TrappedList", (list,), TRAPS)
TrappedText = type("TrappedText", (str,), {**TRAPS, "encode": _trap("encode")})
TrappedBytes = type("TrappedBytes", (bytes,), {**TRAPS, "decode": _trap("decode")})


ODDS = {
    "object": Trapped,
    "dict": lambda: TrappedDict(text="a", name="b"),
    "list": lambda: TrappedList(["a"]),
    "text": lambda: TrappedText("a"),
    "bytes": lambda: TrappedBytes(b"a"),
    "in list": lambda: [Trapped()],
    "in dict": lambda: {"k": Trapped()},
    "passage": lambda: {"text": TrappedText("a")},
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("odd", ODDS)
def test_capture_calls_no_host_method_on_the_callers_thread(field, odd):
    hook = monitor.Hook(sample_rate=1.0, redis_url="redis://127.0.0.1:1/0")
    ran.clear()
    hook.sample(**{"output": "a", field: ODDS[odd]()})
    assert ran == []
    assert hook.stats()["sampled"] == 1
    hook.close(0.0)


def test_hostile_objects_in_every_field_are_delivered_or_counted(hook, delivered):
    odds = (Trapped(), TrappedDict(a=1), TrappedList([1]), TrappedText("a"), TrappedBytes(b"a"))
    for odd, field in itertools.product(odds, FIELDS):
        hook.sample(**{"query": "q", "output": "a", field: odd})
    assert_exact(hook, delivered, len(odds) * len(FIELDS))
    assert set(hook.stats()["dropped"]) <= {"no_output"}


def test_non_callable_mask_drops_the_sample(hook, delivered):
    for mask in ("all", 7, ["email"], Trapped):
        hook.sample(output="secret", mask=mask)
    assert_exact(hook, delivered, 4)
    assert hook.stats()["dropped"] == {"mask_failed": 4}


def test_self_referencing_and_deep_structures_are_delivered(hook, delivered):
    row, table = [], {}
    row += [row, (row,), table]
    table |= {"row": row, "self": table}
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for odd, field in itertools.product((row, table, deep), FIELDS):
        hook.sample(**{"output": "a", field: odd})
    assert_exact(hook, delivered, 3 * len(FIELDS))
    assert hook.stats()["dropped"] == {}


BIG = 20_000_000


HUGE = {
    "text": lambda: "x" * BIG,
    "bytes": lambda: b"x" * BIG,
    "text of a class": lambda: TrappedText("x" * BIG),
    "bytearray": lambda: bytearray(BIG),
    "texts": lambda: ["x" * BIG] * 3,
    "list": lambda: [0] * BIG,
    "dict": lambda: dict.fromkeys(range(100_000), "x" * BIG),
    "passage": lambda: {"text": "x" * BIG},
}


@pytest.mark.parametrize("huge", HUGE)
def test_huge_values_are_cut_without_delay(hook, delivered, huge):
    big = HUGE[huge]()
    for field in ("query", "contexts", "output", "metadata"):
        taken_s = []
        for _ in range(5):  # a busy machine holds some of them up
            started = time.thread_time()
            hook.sample(**{"output": "a", field: big})
            taken_s.append(time.thread_time() - started)
        assert min(taken_s) < 0.02
    assert hook._recorder._chars_in < 20 * 202_000
    assert_exact(hook, delivered, 20)
    assert any(sample.truncated for sample in delivered())


def test_collections_are_copied_up_to_a_bound(hook, delivered):
    hook.sample(output="a", metadata={"many": list(range(10 * BREADTH))})
    assert_exact(hook, delivered, 1)
    [sample] = delivered()
    assert sample.interaction.metadata["many"] == list(range(BREADTH))


def test_iterators_are_not_consumed(hook, delivered):
    async def stream():
        yield "a"

    left = [iter(["a", "b"]), (c for c in "ab"), map(str, "ab"), reversed("ba"), zip("ab")]
    for iterator, field in itertools.product([*left, stream()], FIELDS):
        hook.sample(**{"output": "a", field: iterator})
    assert [len(list(iterator)) for iterator in left] == [2] * 5
    assert_exact(hook, delivered, 6 * len(FIELDS))


def test_file_objects_are_not_read(hook, tmp_path):
    path = tmp_path / "passages"
    path.write_text("a\nb\n")
    with path.open() as file:
        hook.sample(output="a", contexts=file, query=file)
        assert file.tell() == 0


def test_lone_surrogates_are_delivered_in_every_field(hook, delivered):
    odd = "a\ud800b\udfff"
    for field in FIELDS:
        for value in (odd, [odd], {odd: odd}, {"text": odd, "name": odd}):
            hook.sample(**{"output": "a", field: value})
    assert_exact(hook, delivered, 4 * len(FIELDS))
    assert hook.stats()["dropped"] == {}


def test_real_attributes_are_read_without_calling_getattr(hook, delivered):
    class Lazy:
        def __getattr__(self, name):
            time.sleep(60)

    class Answer:
        __slots__ = ("answer",)

        @property
        def text(self):
            raise RuntimeError

    answer = Answer()
    answer.answer = "found"
    hook.sample(output=answer)
    hook.sample(output=Lazy())
    assert_exact(hook, delivered, 2)
    assert [sample.interaction.output for sample in delivered()] == ["found"]
    assert hook.stats()["dropped"] == {"no_output": 1}


def test_collections_that_other_threads_change_are_copied_whole(hook, delivered):
    shared, stop = {"k": "v"}, threading.Event()

    def change():
        for number in itertools.count():
            shared[f"k{number % 50}"] = "v"
            shared.pop(f"k{(number + 25) % 50}", None)
            if stop.is_set():
                return

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(1_000):
        hook.sample(output="a", metadata=shared, contexts=[shared], tags=shared)
    stop.set()
    for thread in threads:
        thread.join()
    assert_exact(hook, delivered, 1_000)
    assert hook.stats()["dropped"] == {}


def test_change_after_the_call_is_not_recorded(hook, delivered):
    call = {"name": "search", "arguments": {"k": [1]}}
    passage, tags = {"text": "one"}, {"a": "b"}
    raw = bytearray(b"raw")
    hook.sample(output=raw, contexts=[passage, "two"], tool_calls=[call], tags=tags, expected=call)
    call["arguments"]["k"][0] = passage["text"] = tags["a"] = "changed"
    raw[:] = b"new"
    assert_exact(hook, delivered, 1)
    assert "changed" not in delivered()[0].model_dump_json()
    assert delivered()[0].interaction.output == "raw"


def test_call_near_the_recursion_limit_is_counted(hook, delivered):
    calls, former = 0, sys.getrecursionlimit()

    def deeper():
        nonlocal calls
        hook.sample(output="a", metadata={"a": [[[["b"]]]]})
        calls += 1
        deeper()

    hook.sample(output="first")
    sys.setrecursionlimit(300)
    try:
        with pytest.raises(RecursionError):
            deeper()
    finally:
        sys.setrecursionlimit(former)
    seen = hook.stats()["seen"]
    assert calls - 10 < seen <= calls + 2  # the last had no room even to be counted
    assert_exact(hook, delivered, seen)


def test_finalizers_and_log_handlers_may_sample(hook, delivered):
    class Sampling(logging.Handler):
        def emit(self, record):
            hook.sample(output="log")

    class Thing:
        pass

    handler, logger = Sampling(), logging.getLogger("groundwatch.hook")
    logger.addHandler(handler)
    try:
        for _ in range(200):
            weakref.finalize(Thing(), hook.sample, output="finalizer")
            logger.warning("something")
    finally:
        logger.removeHandler(handler)
    gc.collect()
    assert_exact(hook, delivered, 400)


def in_threads(*targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def ringing(handler):
    former = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_counts_are_exact_when_everything_happens_at_once(redis_url, delivered):
    hook = monitor.Hook(
        sample_rate=0.2, redis_url=redis_url, buffer_samples=60, buffer_chars=40_000,
        rules=[{"tags": {"t": "big"}, "sample_rate": 0.6}], never=lambda given: given["oops"],
    )  # fmt: skip
    handled, each = itertools.count(), 2_000

    def again(*_):
        next(handled)
        hook.sample(output="again", tags={"t": "big"})

    class Loop:
        def __init__(self):
            self.me = self

        __del__ = again

    def work():
        for number in range(each):
            hook.sample(output="a" * (number % 3_000), tags={"t": "big" if number % 2 else "small"})
            hook.sample(output=None, trace_id=f"{number * 7919:032x}")
            _ = Loop() if number % 10 == 0 else None

    def turn():
        for rate in (0.05, 0.5, 1.0, 0.0, 0.3) * 4:
            hook._recorder.set_rate(rate)
            time.sleep(0.01)

    hook.sample(output="first")
    with ringing(again):
        in_threads(work, work, work, turn)
    gc.collect()
    extra = int(repr(handled)[6:-1])
    assert extra >= 600
    assert_exact(hook, delivered, 1 + 3 * 2 * each + extra)
    assert set(hook.stats()["dropped"]) <= {"buffer_full", "no_output"}
    assert hook.close(60)


def test_sample_recorded_after_close_is_dropped_as_shutdown(hook, delivered):
    hook.sample(output="a")
    recorder = hook._recorder
    assert hook.close(60)
    recorder.record({"output": "late"}, 1.0)  # a thread that was chosen before the end
    stats = recorder.stats()
    assert (stats["sent"], stats["buffered"], stats["dropped"]) == (1, 0, {"shutdown": 1})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_first_call_in_a_child_counts_only_for_the_child(hook):
    hook.sample(output="a")
    child = os.fork()
    if not child:
        hook.sample(output="b")
        os._exit(0 if hook.stats()["seen"] == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert hook.stats()["seen"] == 1


def test_counts_balance_in_a_child_of_an_unhooked_fork(hook, delivered):
    hook.sample(output="parent")
    assert hook.flush(60)
    hook._recorder.pid = -1  # as C code leaves it that forks
    for _ in range(3):
        hook.sample(output="child")
    assert hook.flush(60)
    stats = hook.stats()
    assert (stats["seen"], stats["sampled"], stats["sent"]) == (3, 3, 3)
    assert len(delivered()) == 4

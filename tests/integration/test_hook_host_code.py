"""Code of the host's that the hook meets: masks, predicates, properties, streams under way."""

import asyncio
import copy
import gc
import os
import pickle
import threading
import time
import types
import weakref

import pytest
import redis

import monitor
from monitor.hook import sender
from monitor.hook.options import resolve
from monitor.hook.recorder import Recorder
from monitor.queue import names, wire


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


@pytest.fixture
def arrived(redis_url):
    def read():
        with redis.Redis.from_url(redis_url) as client:
            return [wire.decode(fields).interaction for _, fields in client.xrange(names.SAMPLES)]

    return read


class Panic(BaseException):
    """As extensions written in Rust raise it."""


def panics(text):
    raise Panic(text)


def test_mask_that_panics_drops_only_its_own_sample(hook, arrived):
    hook.sample(output="private", mask=panics)
    hook.sample(output="a")
    assert hook.flush(60)
    assert [item.output for item in arrived()] == ["a"]
    assert hook.stats()["dropped"] == {"mask_failed": 1}


def test_sender_ended_by_system_exit_is_replaced(hook, arrived, monkeypatch):
    from monitor.hook import delivery

    send = delivery.SenderLoop._send

    def leave(loop, now):
        # Not one of another hook of this process, nor one that carries counters alone.
        if loop._recorder is not hook._recorder or not loop._batch:
            return send(loop, now)
        monkeypatch.undo()
        raise SystemExit

    monkeypatch.setattr(delivery.SenderLoop, "_send", leave)
    hook.sample(output="a")
    assert hook.flush(60)
    hook.sample(output="b")
    assert hook.flush(60)
    assert [item.output for item in arrived()] == ["b"]
    assert hook.stats()["dropped"] == {"sender_failed": 1}


def test_broken_sender_reports_its_error_and_is_not_replaced_at_once(redis_url, monkeypatch):
    from monitor.hook import delivery

    def leave(loop, now):
        raise SystemExit

    monkeypatch.setattr(sender, "_not_before", {})
    recorder = Recorder(resolve({"app": "bot", "redis_url": redis_url}, {}))
    recorder.connected = True
    assert recorder.claim()
    with monkeypatch.context() as broken:
        broken.setattr(delivery.SenderLoop, "_send", leave)
        sender.serve(recorder)
    assert (recorder.connected, recorder.last_error) == (False, "SystemExit in the sender")
    sender.start(recorder)
    assert recorder.unstarted  # nobody took the right to send
    sender.start(recorder, again=True)
    assert sender.finish(recorder, 60)


def test_calls_made_by_a_mask_are_not_sampled(redis_url, arrived):
    def mask(text):
        hook.sample(output=f"masked {text}")
        hook.watch(lambda query: query)("masked")
        return text

    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url, mask=mask)
    hook.sample(output="a")
    hook.sample(query="q", contexts=[], output="b")
    assert hook.flush(60)
    time.sleep(0.5)
    assert [item.output for item in arrived()] == ["a", "b"]
    stats = hook.stats()
    assert stats["seen"] == stats["sampled"] + stats["not_sampled"]
    assert stats["sampled"] == stats["sent"] == 2
    hook.close(0.5)


def test_predicate_cannot_change_what_is_recorded(redis_url, arrived):
    def always(given):
        given["output"] = "changed"
        return True

    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url, always=always)
    hook.sample(output="a")
    assert hook.flush(60)
    assert [item.output for item in arrived()] == ["a"]
    assert hook.stats()["predicates_failed"] == 1
    hook.close(0.5)


class Response:
    """Reads its stream when asked for the text, as clients for HTTP do."""

    def __init__(self, text="a"):
        self._stream = iter([text])

    @property
    def text(self):
        return next(self._stream)


def test_property_of_a_result_is_not_called(hook, arrived):
    response = hook.watch(lambda query: Response())("q")
    assert response.text == "a"  # it is all still there
    assert hook.flush(60)
    assert arrived() == []
    assert hook.stats()["dropped"] == {"no_output": 1}


def test_property_that_the_user_names_is_called(hook, arrived):
    hook.watch(output="text")(lambda query: Response())("q")
    assert hook.flush(60)
    assert [item.output for item in arrived()] == ["a"]


def test_passages_changed_during_a_stream_are_recorded_unchanged(hook, arrived):
    given, found = ["given"], ["found"]

    @hook.watch
    def by_argument(query, contexts):
        yield "a"

    @hook.watch
    def by_chunk(query):
        yield {"contexts": found, "text": "b"}
        yield {"text": "c"}

    for stream, passages in ((by_argument("q", given), given), (by_chunk("q"), found)):
        next(stream)
        passages[:] = ["later"]
        list(stream)
    assert hook.flush(60)
    texts = [[passage.text for passage in item.contexts] for item in arrived()]
    assert texts == [["given"], ["found"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_stream_forked_midway_is_recorded_by_the_parent_only(hook, arrived):
    @hook.watch
    def answer(query):
        yield "a"
        yield "b"

    stream = answer("q")
    next(stream)
    child = os.fork()
    if not child:
        stream.close()
        hook.flush(5)
        os._exit(0)
    os.waitpid(child, 0)
    list(stream)
    assert hook.flush(60)
    assert [item.output for item in arrived()] == ["ab"]


def test_error_thrown_into_a_stream_is_released(hook):
    @hook.watch
    def answer(query):
        yield "a"

    class Held:
        pass

    def left_by_an_error():
        held = Held()
        stream = answer("q")
        next(stream)
        with pytest.raises(KeyError):
            stream.throw(KeyError("left"))
        return weakref.ref(held)

    gc.disable()
    try:
        assert left_by_an_error()() is None
    finally:
        gc.enable()


def test_error_thrown_into_an_async_stream_is_released(hook):
    @hook.watch
    async def answer(query):
        yield "a"

    class Held:
        pass

    async def left_by_an_error():
        held = Held()
        stream = answer("q")
        await anext(stream)
        with pytest.raises(KeyError):
            await stream.athrow(KeyError("left"))
        return weakref.ref(held)

    async def use():
        return (await left_by_an_error())() is None

    gc.disable()
    try:
        assert asyncio.run(use())
    finally:
        gc.enable()


def test_watched_function_can_be_sent_to_another_process_after_its_first_call(hook, arrived):
    cloudpickle = pytest.importorskip("cloudpickle")
    watched = [hook.watch(lambda query: query), hook.watch(lambda *args: args[0])]
    for function in watched:
        assert function("here") == "here"
        there = pickle.loads(cloudpickle.dumps(function))
        assert there("there") == "there"
        there.__groundwatch_hook__.close(5)
    assert hook.flush(60)
    assert [item.output for item in arrived()].count("here") == 2


def test_function_watched_twice_is_recorded_once(hook, arrived):
    assert hook.watch(hook.watch(lambda query: query))("q") == "q"
    assert hook.flush(60)
    assert (len(arrived()), hook.stats()["seen"]) == (1, 1)


def test_unpickled_hook_has_the_same_options_and_its_own_counters(hook, redis_url):
    hook.sample(output="a")
    there = pickle.loads(pickle.dumps(hook))
    there.sample(output="b")
    assert there.flush(60)
    assert (there.stats()["sampled"], there.stats()["hook_id"] == hook.stats()["hook_id"]) == (
        1,
        False,
    )
    assert copy.deepcopy({"hook": hook})["hook"] is hook
    there.close(0.5)


def test_default_hook_unpickles_to_itself():
    assert pickle.loads(pickle.dumps(monitor._hook)) is monitor._hook


def test_read_only_mapping_is_recorded_and_fits_rules(redis_url, arrived):
    rules = [{"sample_rate": 1.0, "tags": {"lang": "en"}}]
    hook = monitor.Hook(sample_rate=0.0, redis_url=redis_url, rules=rules)
    hook.sample(output="a", tags=types.MappingProxyType({"lang": "en"}))
    assert hook.flush(60)
    assert [dict(item.tags) for item in arrived()] == [{"lang": "en"}]
    hook.close(0.5)


def test_rate_key_of_another_type_causes_no_duplicates(hook, redis_url, arrived):
    with redis.Redis.from_url(redis_url) as client:
        client.hset(names.rate("default"), "not", "a rate")
    hook.sample(output="a")
    assert hook.flush(60)
    assert [item.output for item in arrived()] == ["a"]
    assert hook.stats()["sent"] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_import_lock_is_released_after_overlapping_forks(monkeypatch):
    from monitor.hook import sender

    monkeypatch.setattr(sender, "_IMPORTS_WAIT_S", 0.05)
    state = sender._state
    state.before_fork()
    other = threading.Thread(target=lambda: (state.before_fork(), state.after_fork_in_parent()))
    other.start()
    other.join()
    state.after_fork_in_parent()
    assert not sender._state.importing.locked()

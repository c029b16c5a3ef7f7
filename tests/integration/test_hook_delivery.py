"""What the hook records arrives in a real Redis, whole, and every count is exact."""

import itertools
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

import monitor
from monitor.hook.recorder import REASONS
from monitor.queue import names, wire
from support.waiting import wait_until


@pytest.fixture
def client(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def make_hook(redis_url):
    hooks = []

    def make(**arguments):
        hooks.append(
            monitor.Hook(**{"app": "bot", "sample_rate": 1.0, "redis_url": redis_url, **arguments})
        )
        return hooks[-1]

    yield make
    for hook in hooks:
        hook.close(0.2)


def delivered(client):
    return [wire.decode(fields) for _, fields in client.xrange(names.SAMPLES)]


def counters(client, hook):
    raw = client.hgetall(names.hook(hook.stats()["hook_id"]))
    return {key.decode(): value.decode() for key, value in raw.items()}


def balanced(stats):
    if stats["buffered"] < 0 or stats["not_sampled"] < 0:
        return False
    return stats["seen"] == stats["sampled"] + stats["not_sampled"] and stats["sampled"] == stats[
        "sent"
    ] + stats["buffered"] + sum(stats["dropped"].values())


def test_every_field_of_a_record_is_delivered(client, make_hook):
    hook = make_hook(release="v1", environment="production")
    hook.sample(
        query="q?", contexts=["one", {"page_content": "two", "id": 7, "score": 0.5}], output="a",
        tool_calls=[{"name": "search", "arguments": {"k": 3}, "result": ["r"]}], label=1,
        expected={"answer": "b"}, trace_id="a" * 32, session_id="s", user_id=9, release="v2",
        tags={"lang": "en", "n": 1}, metadata={"k": (1, None)}, id="record-1",
    )  # fmt: skip
    assert hook.flush(60)
    [sample] = delivered(client)
    interaction = sample.interaction.model_dump(exclude_defaults=True)
    assert interaction == {
        "id": "record-1", "app": "bot", "query": "q?", "output": "a",
        "contexts": ({"text": "one"}, {"text": "two", "id": "7", "score": 0.5}),
        "tool_calls": ({"name": "search", "arguments": {"k": 3}, "result": ["r"]},),
        "expected": {"answer": "b"}, "trace_id": "a" * 32, "session_id": "s", "user_id": "9",
        "release": "v2", "environment": "production", "tags": {"lang": "en", "n": "1"},
        "metadata": {"k": [1, None]}, "label": 1,
    }  # fmt: skip
    assert (sample.sample_rate, sample.sequence, sample.truncated) == (1.0, 0, ())
    assert sample.hook_id == hook.stats()["hook_id"]


def test_counts_balance_to_the_unit_when_a_share_is_sampled(client, make_hook):
    hook = make_hook(sample_rate=0.3)
    for _ in range(2_000):
        hook.sample(output="a")
    assert hook.flush(60)
    stats = hook.stats()
    assert stats["seen"] == 2_000
    assert stats["seen"] == stats["sampled"] + stats["not_sampled"]
    assert stats["sampled"] == stats["sent"] == client.xlen(names.SAMPLES)
    assert (stats["buffered"], stats["dropped"], stats["last_error"]) == (0, {}, None)
    assert {sample.sequence for sample in delivered(client)} == set(range(stats["sent"]))


def test_counts_balance_when_eight_threads_sample_while_flushing(client, make_hook):
    hook = make_hook(sample_rate=0.5, buffer_samples=100)
    each, unbalanced, stop = 1_000, [], threading.Event()

    def watch():
        while not stop.is_set():
            if not balanced(hook.stats()):
                unbalanced.append(hook.stats())

    workers = [
        threading.Thread(target=lambda: [hook.sample(output="a") for _ in range(each)])
        for _ in range(8)
    ]
    watcher = threading.Thread(target=watch)
    for thread in [watcher, *workers]:
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    watcher.join()
    assert hook.flush(60)
    stats = hook.stats()
    assert stats["seen"] == 8 * each
    assert stats["sent"] + sum(stats["dropped"].values()) == stats["sampled"]
    assert client.xlen(names.SAMPLES) == stats["sent"]
    assert set(stats["dropped"]) <= {"buffer_full"}
    assert not unbalanced


def test_non_text_passage_is_delivered_from_a_plain_call(client, make_hook):
    hook = make_hook()
    hook.sample(query="q?", contexts=["one", {"text": "two", "id": "7"}], output="a")
    assert hook.flush(60)
    (sample,) = delivered(client)
    assert [(each.text, each.id) for each in sample.interaction.contexts] == [
        ("one", None), ("two", "7"),
    ]  # fmt: skip


def test_counters_in_redis_are_those_of_the_app(client, make_hook):
    began = datetime.now(UTC) - timedelta(milliseconds=1)
    hook = make_hook(sample_rate=0.5)
    for output in itertools.islice(itertools.cycle(["a", None]), 100):
        hook.sample(output=output)
    assert hook.flush(60)
    stats, told = hook.stats(), counters(client, hook)
    assert [int(told[name]) for name in ("seen", "sampled", "sent")] == [
        stats["seen"], stats["sampled"], stats["sent"],
    ]  # fmt: skip
    assert int(told["dropped:no_output"]) == stats["dropped"]["no_output"]
    assert told["app"] == "bot"
    assert began <= datetime.fromisoformat(told["started_at"]) <= datetime.now(UTC)
    key = names.hook(stats["hook_id"])
    assert 0 < client.ttl(key) <= 7 * 86_400
    assert client.zscore(names.HOOKS, stats["hook_id"]) == int(told["heartbeat_at_ms"])


def test_heartbeat_reports_calls_seen_when_nothing_is_sampled(client, make_hook):
    hook = make_hook(sample_rate=0.0)
    for _ in range(10):
        hook.sample(output="a")
    wait_until(lambda: counters(client, hook).get("seen") == "10")
    assert counters(client, hook)["sampled"] == "0"


def test_full_queue_drops_the_newest_samples_until_it_has_room(client, make_hook):
    hook = make_hook(queue_limit=10)
    for _ in range(10):
        hook.sample(output="a")
    assert hook.flush(60)
    hook.sample(output="b")
    assert hook.flush(60)
    assert hook.stats()["dropped"] == {"queue_full": 1}
    client.xtrim(names.SAMPLES, maxlen=8, approximate=False)
    wait_until(lambda: not hook._recorder.full)
    hook.sample(output="c")
    assert hook.flush(60)
    assert delivered(client)[-1].interaction.output == "c"
    assert hook.stats()["sent"] == 11


def test_buffer_is_bounded_by_samples_and_by_characters(make_hook):
    few = make_hook(redis_url="redis://127.0.0.1:1/0", buffer_samples=5)
    long = make_hook(redis_url="redis://127.0.0.1:1/0", buffer_chars=1_000)
    for _ in range(200):
        few.sample(output="a")
        long.sample(output="a" * 100)
    assert few.stats()["buffered"] <= 5 + 25
    assert long.stats()["buffered"] <= 10
    for stats in (few.stats(), long.stats()):
        assert stats["dropped"]["buffer_full"] == 200 - stats["buffered"]


def test_mask_sees_every_text(client, make_hook):
    hook = make_hook(mask=lambda text: text.replace("PIN", "****"))
    hook.sample(
        query="my PIN", contexts=["c PIN", {"text": "d PIN"}], output={"answer": "o PIN"},
        tool_calls=[{"name": "pay", "arguments": {"card": "PIN"}}],
        metadata={"deep": [{"x": "PIN"}]}, expected={"answer": "PIN"},
    )  # fmt: skip
    assert hook.flush(60)
    [(_, fields)] = client.xrange(names.SAMPLES)
    assert b"PIN" not in fields[b"body"]
    assert fields[b"body"].count(b"****") == 7


@pytest.mark.parametrize("mask", [lambda text: 1 / 0, lambda text: None, len])
def test_sample_is_dropped_when_the_mask_fails(client, make_hook, mask):
    hook = make_hook()
    hook.sample(output="secret", mask=mask)
    hook.sample(output="fine")
    assert hook.flush(60)
    assert [sample.interaction.output for sample in delivered(client)] == ["fine"]
    assert hook.stats()["dropped"] == {"mask_failed": 1}


def test_long_texts_are_cut_and_named(client, make_hook):
    hook = make_hook(max_text_chars=100)
    hook.sample(query="q" * 10, contexts=["c" * 60, "d" * 60], output="o" * 40, metadata={"m": "x"})
    hook.sample(output="o" * 5_000_000)
    assert hook.flush(60)
    first, second = delivered(client)
    texts = [context.text for context in first.interaction.contexts]
    assert (texts, first.interaction.output) == (["c" * 50], "o" * 40)
    assert "contexts" in first.truncated
    assert len(second.interaction.output) == 100
    assert second.truncated == ("output",)


def test_secret_at_the_border_is_masked_before_the_cut(client, make_hook):
    hook = make_hook(max_text_chars=100, mask=lambda text: text.replace("SECRET-KEY", "#"))
    hook.sample(output="x" * 95 + "SECRET-KEY" + "y" * 5_000)
    assert hook.flush(60)
    [sample] = delivered(client)
    assert "SECR" not in sample.interaction.output


def test_odd_values_are_delivered_in_a_plain_form(client, make_hook):
    class Odd:
        def __repr__(self):
            raise RuntimeError

    loop = {}
    loop["self"] = loop
    hook = make_hook()
    for odd in (Odd(), loop, "\ud800", float("nan"), 10**400, b"\xff", {1: {2: 3}}, iter([])):
        hook.sample(
            query=odd, contexts=[odd, "c"], output="a", metadata={"odd": odd}, tags={"odd": odd},
            user_id=odd, expected=odd, tool_calls=odd, label=odd, id=odd,
        )  # fmt: skip
        hook.sample(output="a", contexts=odd, metadata=odd, tags=odd, tool_calls=[odd])
    assert hook.flush(60)
    assert len(delivered(client)) == 16
    assert hook.stats()["dropped"] == {}


def test_generator_is_not_consumed_and_is_reported(client, make_hook):
    hook, passages = make_hook(), (text for text in ["a", "b"])
    hook.sample(output="x", contexts=passages)
    assert hook.flush(60)
    assert list(passages) == ["a", "b"]
    [sample] = delivered(client)
    assert sample.interaction.contexts == ()
    assert sample.interaction.metadata == {"unreadable": {"contexts": "<generator>"}}


def test_later_change_by_the_caller_is_not_recorded(client, make_hook):
    hook, contexts, metadata = make_hook(), ["a"], {"k": [1]}
    hook.sample(output="x", contexts=contexts, metadata=metadata)
    contexts.append("b")
    metadata["k"].append(2)
    assert hook.flush(60)
    [sample] = delivered(client)
    assert ([c.text for c in sample.interaction.contexts], sample.interaction.metadata) == (
        ["a"], {"k": [1]},
    )  # fmt: skip


def test_nothing_is_lost_when_init_replaces_the_hook(client, redis_url, make_hook):
    hook = make_hook(app="before")
    for _ in range(100):
        hook.sample(output="a")
    hook.init(app="after", sample_rate=1.0, redis_url=redis_url)
    hook.sample(output="b")
    assert hook.flush(60)
    wait_until(lambda: client.xlen(names.SAMPLES) == 101)
    assert hook.stats()["seen"] == 1


def test_hook_is_disabled_and_says_why_when_a_variable_is_invalid(monkeypatch, caplog):
    monkeypatch.setenv("GROUNDWATCH_SAMPLE_RATE", "lots")
    hook = monitor.Hook()
    for _ in range(3):
        hook.sample(output="a")
    stats = hook.stats()
    assert (stats["enabled"], stats["seen"]) == (False, 0)
    assert stats["last_error"] == "GROUNDWATCH_SAMPLE_RATE: should be a number from 0 to 1"
    assert len(caplog.records) == 1
    assert hook.flush(60)


def test_redis_address_is_read_from_the_home_folder(client, redis_url, tmp_path: Path):
    (tmp_path / "redis.url").write_text(redis_url)
    hook = monitor.Hook(sample_rate=1.0, home=tmp_path)
    hook.sample(output="a")
    assert hook.close(60)
    assert client.xlen(names.SAMPLES) == 1


def test_close_delivers_and_stops_the_hook(client, make_hook):
    hook = make_hook()
    hook.sample(output="a")
    assert hook.close(60)
    hook.sample(output="b")
    assert client.xlen(names.SAMPLES) == hook.stats()["sampled"] == 1
    assert not hook.stats()["enabled"]
    assert hook._recorder.ended


def test_drop_reasons_are_among_the_known_reasons(make_hook):
    hook = make_hook()
    hook.sample(output=iter([]))
    assert set(hook.stats()["dropped"]) <= set(REASONS)
    assert hook.stats()["dropped"] == {"no_output": 1}


def test_misspelt_argument_is_counted_logged_once_and_kept(make_hook, client, caplog):
    hook = make_hook()
    for _ in range(2):
        hook.sample(query="q", contex=["c"], output="a", app="other", model="m-1")
    assert hook.flush(60)
    for sample in delivered(client):
        assert sample.interaction.app == "bot"
        assert sample.interaction.tags == {"model": "m-1"}
        assert sample.interaction.metadata == {"contex": ["c"], "app": "other"}
    assert hook.stats()["ignored"] == {"unknown_argument": 4}
    [misspelt, app] = [told for told in caplog.messages if "unknown_argument" in told]
    assert "did you mean contexts?" in misspelt
    assert "init(app=...)" in app


def test_argument_without_a_name_is_counted_logged_and_kept(make_hook, client, caplog):
    hook = make_hook()
    hook.sample("q", ["c"], output="a")
    assert hook.flush(60)
    [sample] = delivered(client)
    assert sample.interaction.metadata == {"unnamed_1": "q", "unnamed_2": ["c"]}
    assert hook.stats()["ignored"] == {"unknown_argument": 2}
    assert "by its name" in caplog.text


def test_passages_that_cannot_be_read_are_counted_and_logged_once(make_hook, caplog):
    hook = make_hook()
    for contexts in ([{"txt": "a"}], [1, 2], ["good", {"txt": "a"}], ["good"], None):
        hook.sample(query="q", contexts=contexts, output="a")
    hook.sample(query=object(), history="turns", output="a")
    counted = {"unreadable_contexts": 3, "unreadable_query": 1, "unreadable_history": 1}
    assert hook.stats()["ignored"] == counted
    [said] = [each for each in caplog.messages if "unreadable_contexts" in each]
    assert 'expected text or {"text": ...}' in said
    assert "got=<dict>" in said


def test_sample_without_an_output_is_counted_and_raises_nothing(make_hook):
    hook = make_hook()
    hook.sample(query="q")
    hook.sample(query="q", metadata="no mapping", tags=7, model="m", typo=1)
    assert hook.stats()["dropped"] == {"no_output": 2}

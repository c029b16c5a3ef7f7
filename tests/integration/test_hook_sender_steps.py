"""The sender's steps at given moments: when it reports, how long it rests, when it complains."""

import logging
import time

import pytest
import redis

from monitor.hook import Hook
from monitor.hook.delivery import BATCH_WORK_S, IDLE_POLL_S, POLL_S, SenderLoop
from monitor.hook.options import resolve
from monitor.hook.recorder import Recorder
from monitor.hook.sender import _await_end, _loaded_deadline, start
from monitor.queue import names
from monitor.queue.producer import Producer
from support.waiting import wait_until


def make(redis_url, **options):
    recorder = Recorder(resolve({"app": "bot", "redis_url": redis_url, **options}, {}))
    return recorder, SenderLoop(recorder)


@pytest.fixture
def reports(redis_url):
    """Step to some moments; say at each whether a report reached Redis."""
    with redis.Redis.from_url(redis_url) as client:

        def step(recorder, sender, *moments):
            found = []
            for moment in moments:
                client.delete(names.hook(recorder.hook_id))
                sender.step(1000.0 + moment)
                found.append(bool(client.exists(names.hook(recorder.hook_id))))
            return found

        yield step


def test_quiet_app_reports_every_ten_seconds(redis_url, reports):
    found = reports(*make(redis_url), 0.0, 5.0, 9.9, 10.0, 19.9, 20.0)
    assert found == [True, False, False, True, False, True]


def test_calls_seen_are_reported_at_most_once_a_second(redis_url, reports):
    recorder, sender = make(redis_url, sample_rate=0.0)
    reports(recorder, sender, 0.0)
    recorder.choose(None)
    assert reports(recorder, sender, 0.9, 1.0, 2.0) == [False, True, False]


def test_flush_reports_calls_seen_at_once(redis_url, reports):
    recorder, sender = make(redis_url, sample_rate=0.0)
    reports(recorder, sender, 0.0)
    recorder.choose(None)
    recorder.hurry = True
    assert reports(recorder, sender, 0.1) == [True]


def test_sender_polls_less_often_after_five_idle_seconds(redis_url):
    _, sender = make(redis_url)
    rests = [sender.step(1000.0 + s) for s in (0.0, 5.0, 5.1)]
    assert rests == [POLL_S, POLL_S, IDLE_POLL_S]


def test_app_without_logging_gets_one_line_after_five_seconds_without_redis(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    _, sender = make("redis://127.0.0.1:1/0")
    now, said = time.monotonic(), []
    for later in (0.0, 4.9, 5.0, 60.0):
        sender.step(now + later)
        said.append("Redis cannot be reached" in capsys.readouterr().err)
    assert said == [False, False, True, False]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"redis_url": "redis://127.0.0.1:1/0"}, "ConnectionError: "),
        ({"redis_url": None, "home": "~nobody-of-this-name/x"}, "RuntimeError"),
    ],
)
def test_error_is_named_in_our_words_or_by_its_class(options, said):
    recorder, sender = make(**options)
    sender.step(time.monotonic())
    assert recorder.stats()["last_error"].startswith(said)


def test_batch_is_dropped_after_a_minute_without_redis():
    recorder, sender = make("redis://127.0.0.1:1/0")
    recorder.record({"output": "a"}, 1.0)
    now, dropped = time.monotonic(), []
    for later in (0.0, 59.9, 60.0):
        sender.step(now + later)
        dropped.append(dict(recorder.dropped))
    assert dropped == [{}, {}, {"redis_unavailable": 1}]


@pytest.mark.parametrize(
    ("chars", "waiting", "taken"), [(500_000, 3, 2), (499_999, 3, 3), (1, 26, 25)]
)
def test_batch_ends_at_its_number_or_its_characters(chars, waiting, taken):
    recorder, sender = make("redis://127.0.0.1:1/0", max_text_chars=500_000)
    for _ in range(waiting):
        recorder.record({"output": "x" * chars}, 1.0)
    sender._fill(0.0, work_s=60.0)
    assert (len(sender._batch), len(recorder.buffer)) == (taken, waiting - taken)


def test_batch_ends_with_the_sample_whose_mask_was_slow():
    recorder, sender = make(
        "redis://127.0.0.1:1/0", mask=lambda text: time.sleep(2 * BATCH_WORK_S) or text
    )
    for _ in range(3):
        recorder.record({"output": "a"}, 1.0)
    sender._fill(0.0)
    assert (len(sender._batch), len(recorder.buffer)) == (1, 2)


def test_requested_rate_ends_when_its_redis_goes_away(redis_url):
    recorder, sender = make(redis_url, sample_rate=0.2)
    with redis.Redis.from_url(redis_url) as client:
        client.set(names.rate("bot"), "0.5")
    now = time.monotonic()
    sender.step(now)
    assert recorder.rate == 0.5
    sender._producer = Producer("redis://127.0.0.1:1/0", queue_limit=10)
    sender.step(now + 20.0)
    assert (recorder.connected, recorder.rate) == (False, 0.2)


def test_shares_are_read_again_once_redis_is_back(redis_url):
    recorder, sender = make(redis_url)
    recorder.chooses = True
    with redis.Redis.from_url(redis_url) as client:
        client.set(names.experiments("bot"), '{"prompt": {"A": 0.9, "B": 0.1}}')
    now = time.monotonic()
    sender._producer = Producer("redis://127.0.0.1:1/0", queue_limit=10)
    sender.step(now)
    assert (recorder.connected, recorder.experiments) == (False, {})
    sender.step(now + 20.0)
    assert recorder.experiments == {"prompt": {"A": 0.9, "B": 0.1}}


def test_rate_returns_to_the_apps_own_when_no_longer_requested(redis_url):
    recorder, sender = make(redis_url, sample_rate=0.2)
    with redis.Redis.from_url(redis_url) as client:
        client.set(names.rate("bot"), "0.5", ex=60)
        sender.step(1000.0)
        client.delete(names.rate("bot"))
        sender.step(1020.0)
    assert recorder.rate == 0.2


def test_short_redis_outages_do_not_accumulate(redis_url, monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    _, sender = make(redis_url)
    now = time.monotonic()
    for away_at, back_at in ((0.0, 4.0), (15.0, 19.0)):
        sender._producer = Producer("redis://127.0.0.1:1/0", queue_limit=10)
        sender.step(now + away_at)
        sender.step(now + back_at)
    assert "Redis cannot be reached" not in capsys.readouterr().err


def test_connection_is_closed_with_the_hook(redis_url):
    recorder, sender = make(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        before = {each["id"] for each in client.client_list()}
        sender.step(1000.0)
        [mine] = {each["id"] for each in client.client_list()} - before
        recorder.finish(0.0)
        assert sender.step(1001.0) is None
        wait_until(lambda: mine not in {each["id"] for each in client.client_list()})


def test_exit_waits_until_the_redis_client_is_loaded(redis_url):
    hook = Hook(app="bot", sample_rate=1.0, redis_url=redis_url)
    hook.sample(output="a")
    assert hook.flush(60)
    now = time.monotonic()
    assert _loaded_deadline([hook._recorder], 0.0) - now < 1.0
    assert hook.close(60)


@pytest.mark.parametrize("loaded", [True, False])
def test_exit_deadline_does_not_depend_on_loading_the_client(monkeypatch, loaded):
    monkeypatch.setattr("monitor.hook.sender._LOADED_WITHIN_S", 0.0)
    recorder, _ = make("redis://127.0.0.1:1/0")
    recorder.claim()
    recorder.loaded = loaded
    before = time.monotonic()
    assert before + 5.0 <= _loaded_deadline([recorder], 5.0) <= time.monotonic() + 5.0


def test_exit_gives_up_early_when_redis_is_unreachable():
    recorder, _ = make("redis://127.0.0.1:1/0")
    recorder.record({"output": "a"}, 1.0)
    start(recorder)
    wait_until(lambda: recorder.last_error)
    _await_end(recorder, time.monotonic() + 20.0, hopeless_s=0.0)
    wait_until(lambda: recorder.ended)
    assert recorder.dropped == {"shutdown": 1}

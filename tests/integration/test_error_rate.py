"""Requests that fail are counted beside the answers: in the app, in the store, on status."""

import asyncio
import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

import monitor
from alerts.message import render
from alerts.routing import Recipient
from monitor.integrations.asgi import InteractionMiddleware, current
from monitor.models.alerting import AlertEvent
from monitor.queue.consumer import connect
from monitor.report.text import render_status
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.ledger import Entry, Kind, book
from support.sent_messages import messages
from workers.evaluate import Evaluator
from workers.maintenance import Collector
from workers.reports import read_status


class AwayError(Exception):
    """What a model's client raises."""


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(app="shop", sample_rate=0.5, redis_url=redis_url)
    yield hook
    hook.close(0.2)


def plain(query):
    raise AwayError


async def coroutine(query):
    raise AwayError


def generator(query):
    yield "a"
    raise AwayError


async def async_generator(query):
    raise AwayError
    yield "a"


async def all_of(stream):
    return [chunk async for chunk in stream]


def block(hook):
    with hook.interaction(query="q"):
        raise AwayError


def answered_block(hook):
    with hook.interaction(query="q") as it:
        it.output = "a"
        raise AwayError


def request(hook, query):
    async def app(scope, receive, send):
        current().query = query
        raise AwayError

    middleware = InteractionMiddleware(app, hook=hook)
    asyncio.run(middleware({"type": "http", "headers": []}, None, None))


FAILING = {
    "function": lambda hook: hook.watch(plain)("q"),
    "coroutine": lambda hook: asyncio.run(hook.watch(coroutine)("q")),
    "generator": lambda hook: list(hook.watch(generator)("q")),
    "async generator": lambda hook: asyncio.run(all_of(hook.watch(async_generator)("q"))),
    "block": block,
    "web request": lambda hook: request(hook, "q"),
}


@pytest.mark.parametrize("fails", FAILING.values(), ids=FAILING)
def test_failure_is_raised_unchanged_and_counted_once(hook, fails):
    with pytest.raises(AwayError):
        fails(hook)
    stats = hook.stats()
    assert stats["errored"] == {"AwayError": 1}


@pytest.mark.parametrize(
    "fails", [answered_block, lambda hook: request(hook, None)], ids=["answered", "no question"]
)
def test_excluded_errors_are_not_counted(hook, fails):
    with pytest.raises(AwayError):
        fails(hook)
    assert hook.stats()["errored"] == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_are_not_counted_as_failures(hook, error):
    hook.fail(error())
    assert hook.stats()["errored"] == {}


def test_number_of_error_names_is_bounded(hook):
    for number in range(100):
        hook.fail(f"Error{number}")
    errored = hook.stats()["errored"]
    assert (len(errored), errored["other"], sum(errored.values())) == (21, 80, 100)


def test_status_shows_the_error_rate(hook, redis_url, store):
    for n in range(50):
        if n % 5 == 0:
            with pytest.raises(AwayError):
                hook.watch(plain)("q")
        else:
            hook.sample(query="q", contexts=["c"], output="a")
    assert hook.flush(60)
    client = connect(redis_url)
    Collector(client, store, bucket_s=60).run(acquire(store, "scheduler", "test", ttl_s=600))
    client.close()
    report = read_status(store, Settings(), now=datetime.now(UTC))
    (app,) = report.apps
    assert (app.ledger.seen, app.ledger.errored) == (40, {"AwayError": 10})
    assert app.error_rate == 0.2
    console = Console(width=120, file=io.StringIO())
    console.print(render_status(report))
    said = console.file.getvalue()
    assert "shop, error rate 20.0 % in the last" in said
    assert "10 of 50 requests failed" in said


class Shop:
    """An app with ten requests a minute, as its hooks count them, evaluated each minute."""

    def __init__(self, store, begin):
        self.store, self.now = store, begin
        self.lease = acquire(store, "scheduler", "test", ttl_s=600)
        self.evaluator = self.make()

    def make(self):
        settings = Settings(status_window_s=3600, false_alarms_per_month=1.0)
        return Evaluator(
            store=self.store, settings=settings,
            recipients=[Recipient("slack")],
        )  # fmt: skip

    def counted(self, minutes, failed, *, evaluate=True):
        for _ in range(minutes):
            self.now += timedelta(minutes=1)
            start_s = int(self.now.timestamp()) // 60 * 60 - 60
            entries = [Entry("shop", start_s, Kind.SEEN, "", 10)]
            entries += [Entry("shop", start_s, Kind.ERRORED, "TimeoutError", failed)]
            with self.store.write() as connection:
                book(connection, entries)
            if evaluate:
                self.evaluator.run(self.lease, now=self.now)

    def told(self):
        with self.store.read() as connection:
            return [(m.event, m.key.metric, m.verdict.reason) for m in messages(connection)][::-1]


def test_error_rate_that_rises_alerts_with_its_errors_and_resolves(store):
    shop = Shop(store, datetime(2026, 3, 1, tzinfo=UTC))
    shop.counted(1, 1, evaluate=False)
    shop.counted(60, 0, evaluate=False)
    shop.counted(1, 0)
    assert shop.told() == []
    shop.counted(8, 6)
    ((event, metric, reason),) = shop.told()
    assert (event, metric) == (AlertEvent.FIRED, "error_rate")
    assert "errors: TimeoutError" in reason
    with store.read() as connection:
        (newest,) = messages(connection)
    shown = render(newest, {AlertEvent.FIRED})
    assert shown.headline.endswith("of requests fail")
    assert dict(shown.facts)["Impact"].startswith("about 6 in 10 requests fail")
    shop.evaluator = shop.make()  # as after a restart
    shop.counted(2, 6)
    assert len(shop.told()) == 1
    shop.counted(20, 0)
    assert shop.told()[-1][0] is AlertEvent.RESOLVED


def test_app_without_errors_has_no_error_rate_status(store):
    shop = Shop(store, datetime(2026, 3, 1, tzinfo=UTC))
    shop.counted(3, 0)
    assert shop.evaluator._errors.apps == {}

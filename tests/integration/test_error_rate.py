"""Requests that fail are counted beside the answers: in the app, in the store, on status."""

import asyncio
import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

import monitor
from monitor.integrations.asgi import InteractionMiddleware, current
from monitor.queue.consumer import connect
from monitor.report.text import render_status
from monitor.settings import Settings
from monitor.store.lease import acquire
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
def test_failure_is_raised_as_it_was_and_counted_once(hook, fails):
    with pytest.raises(AwayError):
        fails(hook)
    stats = hook.stats()
    assert stats["errored"] == {"AwayError": 1}


@pytest.mark.parametrize(
    "fails", [answered_block, lambda hook: request(hook, None)], ids=["answered", "no question"]
)
def test_what_is_no_failed_answer_is_not_counted(hook, fails):
    with pytest.raises(AwayError):
        fails(hook)
    assert hook.stats()["errored"] == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_are_no_failures(hook, error):
    hook.fail(error())
    assert hook.stats()["errored"] == {}


def test_names_of_errors_are_bounded(hook):
    for number in range(100):
        hook.fail(f"Error{number}")
    errored = hook.stats()["errored"]
    assert (len(errored), errored["other"], sum(errored.values())) == (21, 80, 100)


def test_error_rate_is_on_status(hook, redis_url, store):
    for n in range(50):
        if n % 5 == 0:
            with pytest.raises(AwayError):
                hook.watch(plain)("q")
        else:
            hook.sample(query="q", contexts=["c"], output="a")
    assert hook.flush(timeout=10)
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

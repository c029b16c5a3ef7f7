"""A real hook that samples everything into a real Redis, and what has arrived there."""

import pytest
import redis

import monitor
from monitor.queue import names, wire


@pytest.fixture
def hook(redis_url):
    hook = monitor.Hook(sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close(0.2)


@pytest.fixture
def unsampled(redis_url):
    """A hook that chooses nothing, and records that it was handed nothing."""
    return Refusing()


@pytest.fixture
def recorded(hook, redis_url):
    """The interactions that arrived, in order."""

    def read():
        assert hook.flush(60)
        with redis.Redis.from_url(redis_url) as client:
            return [wire.decode(fields).interaction for _, fields in client.xrange(names.SAMPLES)]

    return read


class Refusing:
    """Chooses nothing; whatever is handed over all the same is a mistake."""

    def __init__(self):
        self.asked = 0
        self.taken = []
        self.ignored = []

    def chance(self, trace_id=None):
        self.asked += 1
        return 0.0

    def take(self, given, rate=None):
        self.taken.append(given)

    def ignore(self, reason):
        self.ignored.append(reason)

    def fail(self, error, *, counted=False):
        self.taken.append(error)


class Broken:
    """Raises whatever is asked of it."""

    def chance(self, trace_id=None):
        raise RuntimeError("a mistake of ours")

    def take(self, given, rate=None):
        raise RuntimeError("a mistake of ours")

    def ignore(self, reason):
        raise RuntimeError("a mistake of ours")

    def fail(self, error, *, counted=False):
        raise RuntimeError("a mistake of ours")


@pytest.fixture
def broken():
    return Broken()

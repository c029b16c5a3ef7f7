"""A hook that notes what it is asked and handed."""

import pytest


class Noting:
    """Chooses with the rate given; notes traces asked about, and what it was handed."""

    def __init__(self, rate=1.0):
        self.rate = rate
        self.asked = []
        self.taken = []
        self.ignored, self.failed = [], []

    def chance(self, trace_id=None):
        self.asked.append(trace_id)
        return self.rate

    def take(self, given, rate=None):
        assert rate == self.rate
        self.taken.append({key: value for key, value in given.items() if value is not None})

    def ignore(self, reason):
        self.ignored.append(reason)

    def fail(self, error, *, counted=False):
        self.failed.append((error if isinstance(error, str) else type(error).__name__, counted))


@pytest.fixture
def hook():
    return Noting()


@pytest.fixture
def unsampled():
    return Noting(0.0)

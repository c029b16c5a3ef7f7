"""Each service has a hook of its own, up to a bound."""

import pytest

from monitor.ingest import MOST_SERVICES, OTHER, Services


class Made:
    def __init__(self, app=None):
        self.app = app
        self.closed = None

    def close(self, timeout):
        self.closed = timeout
        return True


@pytest.mark.parametrize(
    ("name", "app"),
    [
        ("bot", "bot"),
        ("b\n\x00ot", "bot"),
        ("x" * 300, "x" * 200),
        ("groundwatch-doctor", OTHER),
        ("", None),
        (7, None),
        (None, None),
    ],
)
def test_app_is_the_printable_service_name(name, app):
    assert Services(make=Made).hook({"service.name": name}).app == app


def test_each_service_keeps_its_own_hook():
    services = Services(make=Made)
    assert services.hook({"service.name": "a"}) is services.hook({"service.name": "a"})
    assert services.hook({"service.name": "a"}) is not services.hook({"service.name": "b"})


def test_fixed_app_wins_over_the_service_name():
    assert Services("fixed", make=Made).hook({"service.name": "a"}).app == "fixed"


def test_services_beyond_the_limit_share_a_hook():
    services = Services(make=Made)
    for n in range(MOST_SERVICES):
        services.hook({"service.name": f"s{n}"})
    first, second = (services.hook({"service.name": name}) for name in ("more", "still more"))
    assert first is second
    assert first.app == OTHER


def test_closing_several_hooks_shares_one_deadline():
    services = Services(make=Made)
    hooks = [services.hook({"service.name": name}) for name in "ab"]
    assert services.close(1.0)
    assert all(0 < hook.closed <= 1.0 for hook in hooks)

"""A hook for each service that sends spans: a service is an app."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from monitor.hook import Hook
from monitor.queue import names

#: Services with a hook of their own; what further ones send counts as `OTHER`'s.
MOST_SERVICES = 100
OTHER = "other-services"
_LONGEST_NAME = 200


class Services:
    """Gives each service's hook; the app's name is ``service.name`` unless one is fixed."""

    def __init__(self, app: str | None = None, make: Callable[..., Hook] = Hook) -> None:
        self._app = app
        self._make = make
        self._hooks: dict[str, Hook] = {}

    def hook(self, resource: Mapping[str, Any]) -> Hook:
        """Give the hook of the service that a resource describes."""
        name = self._app or _name(resource.get("service.name"))
        found = self._hooks.get(name)
        if found is None:
            if len(self._hooks) >= MOST_SERVICES:
                name = OTHER
            found = self._hooks.setdefault(name, self._make(**({"app": name} if name else {})))
        return found

    def stats(self) -> list[dict[str, Any]]:
        """Tell what has happened, hook by hook."""
        return [hook.stats() for hook in self._hooks.values()]

    def close(self, timeout: float = 2.0) -> bool:
        """Deliver what can be delivered within *timeout*; True when all was."""
        until_s = time.monotonic() + timeout
        delivered = [
            hook.close(max(0.0, until_s - time.monotonic())) for hook in self._hooks.values()
        ]
        return all(delivered)


def _name(service: object) -> str:
    """Make an app's name; without one it is the environment's."""
    if service == names.DOCTOR_APP:
        return OTHER  # that one counts nowhere, and nobody may choose that
    if not isinstance(service, str):
        return ""
    printable = "".join(character for character in service if character.isprintable())
    return printable[:_LONGEST_NAME]

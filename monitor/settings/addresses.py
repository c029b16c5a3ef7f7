"""Where Redis is, and addresses without their passwords."""

from __future__ import annotations

import re
from pathlib import Path

DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"


def resolve_redis_url(redis_url: str | None, home: Path) -> str:
    """Find Redis: the setting, else the address `groundwatch up` left in *home*, else port 6379."""
    if redis_url:
        return redis_url
    try:
        return redis_url_file(home).read_text(encoding="utf-8").strip() or DEFAULT_REDIS_URL
    except OSError:
        return DEFAULT_REDIS_URL


def redis_url_file(home: Path) -> Path:
    """Name the file in which `groundwatch up` leaves the address of its Redis."""
    return home / "redis.url"


def masked_url(url: str) -> str:
    """Give an address without its password; any other text as it is."""
    url = re.sub(r"^([a-z][a-z0-9+.-]*://[^:/@]*):.*@", r"\1:***@", url, flags=re.IGNORECASE)
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", url, flags=re.IGNORECASE)

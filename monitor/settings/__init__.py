"""Every setting of every process, and how it is read."""

from monitor.settings.addresses import (
    DEFAULT_REDIS_URL,
    masked_url,
    redis_url_file,
    resolve_redis_url,
)
from monitor.settings.environment import FILE_SUFFIX, PREFIX, environment_value, variable
from monitor.settings.reading import Settings

__all__ = [
    "DEFAULT_REDIS_URL",
    "FILE_SUFFIX",
    "PREFIX",
    "Settings",
    "environment_value",
    "masked_url",
    "redis_url_file",
    "resolve_redis_url",
    "variable",
]

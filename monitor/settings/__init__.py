"""Every setting of every process, and how it is read."""

from .kinds import DEFAULT_REDIS_URL, masked_url
from .reading import (
    FILE_SUFFIX,
    PREFIX,
    TABLE_OF,
    TABLES,
    Settings,
    environment_value,
    redis_url_file,
    resolve_redis_url,
    setting_field,
    variable,
)

__all__ = [
    "DEFAULT_REDIS_URL",
    "FILE_SUFFIX",
    "PREFIX",
    "TABLES",
    "TABLE_OF",
    "Settings",
    "environment_value",
    "masked_url",
    "redis_url_file",
    "resolve_redis_url",
    "setting_field",
    "variable",
]

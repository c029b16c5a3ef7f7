"""The settings of a process: read once at the edge, and checked together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import ValidationError, field_serializer, model_validator

from monitor.errors import SettingsError
from monitor.settings.addresses import masked_url, resolve_redis_url
from monitor.settings.environment import mistake, read_values, variable
from monitor.settings.fields import Fields


class Settings(Fields):
    """All settings, which go well together."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        mistakes = list(_inconsistencies(self))
        if mistakes:
            raise ValueError("\n".join(mistakes))
        return self

    @field_serializer("redis_url", "database_url", when_used="json")
    def _masked(self, url: str | None) -> str | None:
        return masked_url(url) if url else None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Name every setting, without the passwords that addresses may hold."""
        for name, value in super().__repr_args__():
            yield name, masked_url(value) if isinstance(value, str) else value

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """
        Read the settings from environment variables.

        A variable whose name ends in ``_FILE`` names a file that holds the value,
        as containers hand over secrets.

        Raises
        ------
        SettingsError
            If a value is wrong or a ``GROUNDWATCH_`` variable is unknown; the
            message has one line for each mistake.
        """
        environ = os.environ if environ is None else environ
        values, mistakes = read_values(environ, known=frozenset(cls.model_fields))
        try:
            settings = cls.model_validate(values)
        except ValidationError as error:
            mistakes += [mistake(item["loc"], item["msg"]) for item in error.errors()]
        if mistakes:
            raise SettingsError("\n".join(mistakes))
        return settings

    @property
    def sql_url(self) -> str:
        """Where the store is."""
        return self.database_url or f"sqlite:///{self.home / 'groundwatch.db'}"

    @property
    def broker_url(self) -> str:
        """Where Redis is: the setting, else what `up` wrote down, else the usual place."""
        return resolve_redis_url(self.redis_url, self.home)


def _inconsistencies(settings: Settings) -> Iterator[str]:
    """Say what is wrong with settings that are well each for itself."""
    if settings.budget_policy == "lower" and settings.scorer == "judge":
        yield (
            f"{variable('budget_policy')}=lower needs {variable('scorer')}=cascade; without local"
            " scores no share can be lowered: set stop or local"
        )
    if settings.critical_rate > settings.warning_rate:
        yield f"{variable('critical_rate')} must not be above {variable('warning_rate')}"
    if settings.smtp_url is not None and not settings.email_to:
        yield f"{variable('smtp_url')} needs {variable('email_to')}: who shall get the mail?"
    if settings.drift_reference.startswith("release:") and "release" not in settings.segments:
        yield f"{variable('drift_reference')} names a release; {variable('segments')} must too"
    windows = (settings.status_window_s, *settings.windows_s)
    odd = [width for width in windows if width < settings.bucket_s or width % settings.bucket_s]
    if odd:
        yield (
            f"a window of {odd[0]} s is no multiple of {variable('bucket_s')},"
            f" {settings.bucket_s} s; correct {variable('windows_s')} or"
            f" {variable('status_window_s')}"
        )

"""Read the settings once, at the edge: environment variables, then ``groundwatch.toml``."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, get_args
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError, field_serializer, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ..errors import SettingsError, own_words
from .fields import Fields
from .kinds import DEFAULT_REDIS_URL, is_loopback, masked_url
from .tables import Table

PREFIX = "GROUNDWATCH_"
FILE_SUFFIX = "_FILE"
CONFIG = "GROUNDWATCH_CONFIG"
CONFIG_FILE = "groundwatch.toml"
#: Settings that keep the name they have everywhere else.
_USUAL_NAMES = {"openai_api_key": "OPENAI_API_KEY", "openai_base_url": "OPENAI_BASE_URL"}

TABLES: dict[str, type[Table]] = {
    name: field.annotation
    for name, field in Fields.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Table)
}
#: The table in which a setting stands; None for one at the top level.
TABLE_OF: dict[str, str | None] = {
    **{name: None for name in Fields.model_fields if name not in TABLES},
    **{key: name for name, table in TABLES.items() for key in table.model_fields},
}


def setting_field(name: str) -> FieldInfo:
    """Return the declaration of the setting *name*, wherever it stands."""
    table = TABLE_OF[name]
    return (TABLES[table] if table else Fields).model_fields[name]


def variable(name: str) -> str:
    """Return the environment variable of the setting *name*."""
    return _USUAL_NAMES.get(name, PREFIX + name.upper())


def environment_value(name: str) -> str | None:
    """Return the variable *name* that a file refers to, such as the secret of a channel."""
    return os.environ.get(name) or None


class Settings(Fields):
    """All settings, checked together; a keyword may name a table's setting directly."""

    @model_validator(mode="before")
    @classmethod
    def _into_tables(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        sorted_in: dict[str, Any] = {k: v for k, v in values.items() if TABLE_OF.get(k) is None}
        for name, value in values.items():
            table = TABLE_OF.get(name)
            if table is not None:
                held = sorted_in.get(table, {})
                given = held.model_dump(exclude_unset=True) if isinstance(held, Table) else held
                sorted_in[table] = {**given, name: value}
        return sorted_in

    @model_validator(mode="after")
    def _chosen_scorer(self) -> Self:
        """Replace ``auto`` by the scorer it stands for, so that every process reads the same."""
        if self.scorer == "auto":
            budget = self.judge_budget
            caps = (budget.budget_usd_per_hour, budget.budget_usd_per_day)
            has_budget = any(cap is not None for cap in (*caps, budget.budget_usd_per_month))
            host = urlsplit(self.openai_base_url or "").hostname or ""
            has_judge = self.openai_api_key is not None or is_loopback(host)
            self.__dict__["scorer"] = "cascade" if has_judge and has_budget else "local"
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        mistakes = []
        if self.judge_budget.budget_policy == "lower" and self.scorer == "judge":
            mistakes.append(
                f"{variable('budget_policy')}=lower needs {variable('scorer')}=cascade; without"
                " local scores no share can be lowered: set stop or local"
            )
        if self.critical_rate > self.warning_rate:
            mistakes.append(
                f"{variable('critical_rate')} must not be above {variable('warning_rate')}"
            )
        if self.smtp_url is not None and not self.email_to:
            mistakes.append(
                f"{variable('smtp_url')} needs {variable('email_to')}: who shall get the mail?"
            )
        if self.drift.drift_reference.startswith("release:") and "release" not in self.segments:
            mistakes.append(
                f"{variable('drift_reference')} names a release; {variable('segments')} must too"
            )
        bucket_s = self.windows.bucket_s
        for width_s in (self.windows.status_window_s, *self.windows.windows_s):
            if width_s < bucket_s or width_s % bucket_s:
                mistakes.append(
                    f"a window of {width_s} s is not a multiple of {variable('bucket_s')},"
                    f" {bucket_s} s; correct {variable('windows_s')} or"
                    f" {variable('status_window_s')}"
                )
                break
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
        Return the settings of this process: variables first, then the file, then defaults.

        ``GROUNDWATCH_CONFIG`` names the file; without it, ``groundwatch.toml`` in the
        current directory is read if it exists. A variable whose name ends in ``_FILE``
        names a file that holds the value, as containers hand over secrets.

        Raises
        ------
        SettingsError
            If a value is wrong or a name is unknown; the message has one line for each mistake.
        """
        environ = os.environ if environ is None else environ
        config = config_file(environ)
        from_file, mistakes = _read_toml(config) if config else ({}, [])
        from_environment, more = _read_environment(environ)
        mistakes += more
        try:
            settings = cls.model_validate(from_file | from_environment)
        except ValidationError as error:
            mistakes += [_mistake(wrong, from_environment) for wrong in error.errors()]
        if mistakes:
            raise SettingsError("\n".join(mistakes))
        return settings

    def value_of(self, name: str) -> Any:
        """Return the value of the setting *name*, wherever it stands."""
        table = TABLE_OF[name]
        return getattr(getattr(self, table) if table else self, name)

    def is_changed(self, name: str) -> bool:
        """Return whether the setting *name* was given another value than its default."""
        table = TABLE_OF[name]
        given = getattr(self, table) if table else self
        is_given = name in given.model_fields_set
        return is_given and getattr(given, name) != setting_field(name).get_default()

    @property
    def sql_url(self) -> str:
        """The address of the store."""
        return self.database_url or f"sqlite:///{self.home / 'groundwatch.db'}"

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions by whose values traffic is counted apart, those of experiments as well."""
        return tuple(dict.fromkeys((*self.segments, *self.experiments)))

    @property
    def asks_judge(self) -> bool:
        """Whether the scorer asks a judge that costs money."""
        return self.scorer in {"judge", "cascade"}

    @property
    def broker_url(self) -> str:
        """The address of Redis: the setting, else what `up` wrote down, else the usual place."""
        return resolve_redis_url(self.redis_url, self.home)


def resolve_redis_url(redis_url: str | None, home: Path) -> str:
    """Find Redis: the setting, else the address `groundwatch up` left in *home*, else port 6379."""
    if redis_url:
        return redis_url
    try:
        return redis_url_file(home).read_text(encoding="utf-8").strip() or DEFAULT_REDIS_URL
    except OSError:
        return DEFAULT_REDIS_URL


def redis_url_file(home: Path) -> Path:
    """Return the file in which `groundwatch up` leaves the address of its Redis."""
    return home / "redis.url"


def config_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the file with settings; None if none is named and none is here."""
    if named := environ.get(CONFIG):
        return Path(named).expanduser()
    here = Path.cwd() / CONFIG_FILE
    return here if environ is os.environ and here.is_file() else None


def _read_environment(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of known variables, and a line for each that is wrong."""
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    names = {variable(name): name for name in TABLE_OF}
    for key, raw in environ.items():
        base = key.removesuffix(FILE_SUFFIX)
        if raw == "" or key == CONFIG or not (key.startswith(PREFIX) or base in names):
            continue
        if key in names:
            values[names[key]] = raw
        elif key.endswith(FILE_SUFFIX) and base in names:
            try:
                text = Path(raw).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                mistakes.append(f"{key}: cannot read {raw}: {why}")
                continue
            values.setdefault(names[base], text)
        else:
            suffix = FILE_SUFFIX if key.endswith(FILE_SUFFIX) else ""
            close = _close(base.removeprefix(PREFIX).lower())
            hint = f"did you mean {variable(close)}{suffix}?" if close else _ALL
            mistakes.append(f"{key}: no such setting; {hint}")
    return values, mistakes


def _read_toml(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a TOML file by name, and a line for each that is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot read the settings: {error}") from None
    values: dict[str, Any] = {}
    mistakes = []
    for name, value in document.items():
        inside = value if name in TABLES and isinstance(value, dict) else {name: value}
        for key, item in inside.items():
            if key not in TABLE_OF:
                close = _close(key)
                hint = f"did you mean {close}?" if close else _ALL
                mistakes.append(f"{path}: {key}: no such setting; {hint}")
            elif SecretStr in (kind := setting_field(key).annotation, *get_args(kind)):
                # The file is meant to be shared and committed.
                mistakes.append(
                    f"{path}: {key} is a secret;"
                    f" set {variable(key)} or {variable(key)}{FILE_SUFFIX}"
                )
            else:
                values[key] = item
    return values, mistakes


def _mistake(wrong: ErrorDetails, from_environment: Mapping[str, Any]) -> str:
    """Return the line for one wrong setting, under the name by which the value was given."""
    text = own_words(wrong["msg"])
    place = [str(part) for part in wrong["loc"]]
    names = [part for part in place if part in TABLE_OF]
    if not names:
        return text
    inside = place[place.index(names[0]) + 1 :]  # of a list, or of a list of tables
    name = variable(names[0]) if names[0] in from_environment else f"{CONFIG_FILE}: {names[0]}"
    if wrong["type"].startswith(_PLAIN_MISTAKES) and all(part.isdigit() for part in inside):
        return f"Invalid {name} {str(wrong['input'])[:80]!r}: expected {_expected(names[0])}"
    if inside:
        return f"Invalid {name}: {'.'.join(inside)}: {text}"
    # An address may hold a password, so that the value is not shown.
    return f"Invalid {name}: {text}" if text.startswith("expected ") else f"{name}: {text}"


#: Beginnings of the names that pydantic has for a number, choice or switch that is another value.
_PLAIN_MISTAKES = ("greater_than", "less_than", "literal_", "bool_", "int_", "float_", "finite_")


def _expected(name: str) -> str:
    """Return which values a number, choice or switch takes: "a number from 0 to 1"."""
    table = TABLE_OF[name]
    shape = (TABLES[table] if table else Fields).model_json_schema()["properties"][name]
    shape = shape.get("anyOf", [shape])[0]
    shape = shape.get("items", shape)
    if "enum" in shape:
        *some, last = shape["enum"]
        return f"{', '.join(some)} or {last}"
    kinds = {"integer": "a whole number", "boolean": "true or false"}
    said = kinds.get(shape.get("type", ""), "a number")
    low, high = shape.get("minimum"), shape.get("maximum")
    if low is not None and high is not None:
        return f"{said} from {low:,g} to {high:,g}"
    bounds = [("of at least", low), ("above", shape.get("exclusiveMinimum")), ("of at most", high)]
    known = [f"{words} {bound:,.12g}" for words, bound in bounds if bound is not None]
    return f"{said} {' and '.join(known)}".rstrip()


_ALL = "`groundwatch config` lists them all"


def _close(name: str) -> str | None:
    return next(iter(difflib.get_close_matches(name, TABLE_OF, n=1, cutoff=0.7)), None)

"""The wire format of a sample: one stream entry with a version, the app and a JSON body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from ..errors import RecordError, RecordTooLargeError, UnknownSchemaError, own_words
from .names import FIELD_APP, FIELD_BODY, FIELD_VERSION

if TYPE_CHECKING:
    from ..models.interaction import Interaction, Sample

SCHEMA_VERSION = 1
#: Far above what hooks send: they cut texts at `GROUNDWATCH_MAX_TEXT_CHARS`.
MOST_BYTES = 5_000_000

#: In the metadata of an interaction whose texts were not recorded, by the app's own wish.
TEXTS_STAYED: Mapping[str, object] = MappingProxyType({"capture": "metadata"})

#: The hook of samples that no hook wrote.
OUTSIDE = "outside"

_VERSION_KEY = FIELD_VERSION.encode()
_APP_KEY = FIELD_APP.encode()
_BODY_KEY = FIELD_BODY.encode()
_VERSION = str(SCHEMA_VERSION).encode()
_MISTAKES_SHOWN = 3


def encode(record: Sample | Mapping[str, object]) -> dict[bytes, bytes]:
    """
    Turn a sample, or a mapping of the same shape, into the fields of its stream entry.

    Lone surrogates, which UTF-8 cannot hold, become U+FFFD.
    """
    if isinstance(record, Mapping):
        interaction = record["interaction"]
        app = str(interaction["app"]) if isinstance(interaction, Mapping) else ""
    else:
        app = record.interaction.app
    return {_VERSION_KEY: _VERSION, _APP_KEY: _utf8(app), _BODY_KEY: _body(record)}


def encode_feedback(body: Mapping[str, object]) -> dict[bytes, bytes]:
    """Turn what a user said into the fields of its stream entry."""
    app = _utf8(str(body["app"]))
    return {_VERSION_KEY: _VERSION, _APP_KEY: app, _BODY_KEY: _body(body)}


def decode(fields: Mapping[bytes, bytes], entry_id: str = "") -> Sample:
    """
    Read a sample from the fields of its stream entry.

    Other programs than the hook may write a record alone, as in a file: its id and its time are
    then those of the stream entry, its sample rate is 1, and its hook `OUTSIDE`.

    Raises
    ------
    UnknownSchemaError
        If a newer version wrote it: upgrade the workers.
    RecordTooLargeError
        If it is larger than `MOST_BYTES`.
    RecordError
        If it cannot be read; the message has one line and no text of the record.
    """
    # Here because only workers decode; the user's app should not pay for the models.
    from ..models.interaction import Sample  # noqa: PLC0415

    raw = fields.get(_VERSION_KEY)
    if raw is None:
        raise RecordError(
            f"stream entry without the field {FIELD_VERSION!r}: another program writes here"
        )
    if raw != _VERSION and raw.isdigit() and len(raw) < 10 and int(raw) > SCHEMA_VERSION:  # noqa: PLR2004
        raise UnknownSchemaError(
            f"sample of schema version {int(raw)}, this program knows {SCHEMA_VERSION}:"
            " upgrade the workers"
        )
    if raw != _VERSION:
        raise RecordError(
            f"stream entry with the version {json.dumps(str(raw[:20]))}: not a number"
        )
    body = fields.get(_BODY_KEY)
    if body is None:
        raise RecordError(
            f"stream entry without the field {FIELD_BODY!r}: another program writes here"
        )
    if len(body) > MOST_BYTES:
        raise RecordTooLargeError(f"sample of {len(body):,} bytes; at most {MOST_BYTES:,} are read")
    try:
        sample = Sample.model_validate_json(body)
    except ValidationError as error:
        whole = _from_outside(body, fields.get(_APP_KEY, b""), entry_id)
        try:
            if whole is None:
                raise RecordError(f"unreadable sample: {_mistakes(error)}") from None
            sample = Sample.model_validate_json(whole)
        except ValidationError as outside:
            raise RecordError(f"unreadable record: {_mistakes(outside)}") from None
    # Here and not in the model, which also reads samples that were stored before this was refused.
    app = sample.interaction.app
    if not app.isprintable() and any("\x7f" <= character <= "\x9f" for character in app):
        raise RecordError("unreadable sample: the app's name must not contain control characters")
    return sample


def _from_outside(body: bytes, app: bytes, entry_id: str) -> bytes | None:
    """Complete a record that lacks the fields a hook adds; None if it is not one."""
    try:
        record = from_json(body)
        at_ms, position = (int(part) for part in entry_id.split("-"))
    except ValueError:
        return None
    if not isinstance(record, dict) or record.keys() & {"interaction", "hook_id"}:
        return None
    key = sample_id(at_ms, position)
    named = {"app": app.decode("utf-8", "replace")} if app else {}
    return to_json(
        {
            "sample_id": key,
            "sampled_at": datetime.fromtimestamp(at_ms / 1000, UTC),
            "sample_rate": 1.0,
            "hook_id": OUTSIDE,
            "sequence": 0,
            "interaction": named | {"id": key} | record,
        }
    )


def text_of(raw: bytes) -> str:
    """Return bytes of unknown origin as text that every database takes."""
    return raw.decode("utf-8", "replace").replace("\0", "\ufffd")


def sample_id(at_ms: int, randomness: int) -> str:
    """Make a UUIDv7 from epoch milliseconds and 74 random bits: ids sort by time (RFC 9562)."""
    high = (at_ms & (1 << 48) - 1) << 16 | 0x7000 | randomness >> 62 & 0x0FFF
    low = 0b10 << 62 | randomness & (1 << 62) - 1
    digits = f"{high << 64 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def unscorable(interaction: Interaction) -> str | None:
    """
    Return why no metric may judge an interaction, None where they may.

    ``not_captured``: its texts stayed in the app. ``incomplete``: the client left the stream, so
    that the output is a piece of the answer; ``metadata["incomplete"]`` is true.
    """
    if not interaction.output and interaction.metadata.get("capture") == TEXTS_STAYED["capture"]:
        return "not_captured"
    return "incomplete" if interaction.metadata.get("incomplete") is True else None


def user_of(body: bytes) -> str | None:
    """Find the user of a sample, even where the rest cannot be read; else None."""
    try:
        found = json.loads(body)["interaction"]["user_id"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def as_json(value: object) -> str:
    """Write a plain value as JSON text, for a field that holds text."""
    return _body(value).decode()


def mended(value: object) -> object:
    """Replace lone surrogates everywhere; pairs become the character they stand for."""
    if isinstance(value, str):
        return _utf8(value).decode()
    if isinstance(value, Mapping):
        return {str(mended(key)): mended(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mended(item) for item in value]
    return value


def schema() -> dict[str, object]:
    """Describe the body as JSON Schema, for programs that write samples without this package."""
    from ..models.interaction import Sample  # noqa: PLC0415  # as in decode

    return {"title": f"groundwatch sample, version {SCHEMA_VERSION}"} | Sample.model_json_schema()


def _body(record: object) -> bytes:
    try:
        return to_json(record, inf_nan_mode="strings")
    except (PydanticSerializationError, UnicodeEncodeError):
        dump = getattr(record, "model_dump", None)
        return to_json(mended(dump() if dump else record), inf_nan_mode="strings")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _mistakes(error: ValidationError) -> str:
    found = error.errors()
    shown = [
        f"{'.'.join(str(part) for part in item['loc']) or 'body'}: {own_words(item['msg'])}"
        for item in found[:_MISTAKES_SHOWN]
    ]
    more = len(found) - len(shown)
    line = "; ".join(shown) + (f"; and {more} more" if more else "")
    return " ".join(line.split())

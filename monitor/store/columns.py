"""
What columns hold: a sample as one compressed value, times, JSON.

A sample is its JSON with the records of its evaluations and its segments. Records repeat what
question, passages and answer say, so they compress to little beside them. The dictionary has the
parts that samples have, `packing.v4.json`, before them 5,000 English words, the most frequent last,
`packing.v4.txt`, and `packing.v4.bin` says how frequent bytes, lengths and distances are in 3,000
samples (zstd's ``ZDICT_finalizeDictionary``). No sentence of any text is in it. A value begins with
the number of its dictionary, of which all must stay, and the ids that it has, which compress badly;
older rows are plain JSON, and read as such.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import zstandard
from pydantic_core import from_json
from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    DateTime,
    Dialect,
    Integer,
    LargeBinary,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine

from monitor.models import Sample

#: By what stands before a value: the dictionary it was compressed with, which must never change.
_DICTIONARIES = {
    mark: zstandard.ZstdCompressionDict(
        b"".join(Path(__file__).with_name(f"packing.{part}").read_bytes() for part in parts),
        dict_type=zstandard.DICT_TYPE_AUTO,  # whether it says how frequent what is
    )
    for mark, parts in {
        b"\x01": ("v1.json",),
        b"\x02": ("v2.txt", "v1.json"),
        b"\x03": ("v3.bin", "v2.txt", "v1.json"),
        b"\x04": ("v4.bin", "v4.txt", "v4.json"),
    }.items()
}
_FORMAT, _WITH_SEGMENTS = b"\x04", {b"\x03", b"\x04"}
#: With this dictionary level 5 takes 3 % more room; 8 spares 1 % and takes a third longer.
_LEVEL = 6
_DICTIONARIES[_FORMAT].precompute_compress(level=_LEVEL)  # once for all threads: it is 0.7 MB
#: An id, which takes 16 bytes beside what is compressed, not 25 in it. In its place stand a
#: character that JSON never has, and one for its number and whether it has dashes.
_ID = re.compile(
    r'id":"(eval_)?([0-9a-f]{8}(-?)[0-9a-f]{4}\3[0-9a-f]{4}\3[0-9a-f]{4}\3[0-9a-f]{12})"'
)
_ID_BYTES, _MOST_IDS, _DASHED, _PLAIN = 16, 32, 48, 96
#: Segments are the last, so that `SegmentsColumn` reads nothing else.
_SEGMENTS = ',"segments":'


class _Coders(threading.local):
    """A compressor and its counterpart; neither may be used by two threads at once."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(
            level=_LEVEL, dict_data=_DICTIONARIES[_FORMAT], write_dict_id=False
        ).compress
        self.decompress = {
            mark: zstandard.ZstdDecompressor(dict_data=dictionary).decompress
            for mark, dictionary in _DICTIONARIES.items()
        }


_coders = _Coders()


def pack(sample: str, evaluations: Sequence[str] = (), segments: Sequence[str] = ()) -> bytes:
    """Return a sample, the records of its evaluations, each as JSON, and its segments as one."""
    records, of = ",".join(evaluations), json.dumps(segments, separators=(",", ":"))
    whole = f'{sample[:-1]},"evaluations":[{records}]{_SEGMENTS}{of}}}'
    if "\\u0000" in whole:  # no text column of PostgreSQL takes it, so nobody is handed any
        whole = json.dumps(_without_nul(json.loads(whole)), separators=(",", ":"))
    ids: dict[str, int] = {}

    def shorter(found: re.Match[str]) -> str:
        number = ids.setdefault(found[2].replace("-", ""), len(ids))
        if number >= _MOST_IDS:
            return found[0]
        return f'id":"{found[1] or ""}\1{chr(number + (_DASHED if found[3] else _PLAIN))}"'

    frame = _coders.compress(_ID.sub(shorter, whole).encode())
    beside = bytes.fromhex("".join(list(ids)[:_MOST_IDS]))
    many = bytes([len(beside) // _ID_BYTES])
    return _FORMAT + many + beside + frame.removeprefix(zstandard.FRAME_HEADER)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return value


def unpack(value: bytes | str) -> Any:
    """Return what `pack` was given, or the JSON of a row of before; None where there is nothing."""
    plain = decompressed(value)
    try:
        return from_json(plain) if plain else None
    except ValueError:  # older rows may have half of a surrogate pair
        return json.loads(plain)


def decompressed(value: bytes | str, *, with_ids: bool = True) -> bytes:
    """Return the JSON of a packed value; without ids it has control characters in their place."""
    if isinstance(value, str):
        return value.encode()
    coder = _coders.decompress.get(value[:1])
    if coder is None:
        return value
    if value[:1] < _FORMAT:
        return coder(value[1:])
    end = 2 + _ID_BYTES * value[1]
    plain = coder(zstandard.FRAME_HEADER + value[end:])
    if not with_ids:
        return plain
    first, *rest = plain.split(b"\1")
    digits, parts = value[2:end].hex(), [first]
    for part in rest:
        has_dashes = part[0] < _PLAIN
        d = digits[32 * (part[0] - (_DASHED if has_dashes else _PLAIN)) :][:32]
        if has_dashes:
            d = f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}"
        parts += (d.encode(), part[1:])
    return b"".join(parts)


def sample_of(payload: Mapping[str, Any]) -> Sample:
    """Return the sample in a row's payload."""
    beside = {"evaluations", "segments"}
    return Sample.model_validate({k: v for k, v in payload.items() if k not in beside})


def segments_of(row: Mapping[str, Any]) -> list[str]:
    """Return the segments that a sample was counted in; before 0024 their column has them."""
    return list(row["segments"] or row["payload"].get("segments", ()))


def record_of(row: Any, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the record of an evaluation's row; *payload* is its sample's, else the row has it."""
    for record in (row.payload if payload is None else payload).get("evaluations", ()):
        said = record.get("evaluator_version") or ""
        version = said or "unversioned"
        # The row's version also says what passes; before revision 0004 it could be empty.
        if record["evaluator_name"] == row.metric and (
            row.evaluator_version in {said, version}
            or row.evaluator_version.startswith(f"{version} pass ")
        ):
            return dict(record)
    return {}


class _NamedJson(LargeBinary):
    """Bytes in the columns of SQLite that were made for JSON; it keeps any value as it is."""

    __visit_name__ = "JSON"


class PackedColumn(TypeDecorator[Any]):
    """A column of packed values: takes bytes, gives plain values back."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the column, which is as old as the table."""
        sqlite = dialect.name == "sqlite"
        return dialect.type_descriptor(_NamedJson() if sqlite else LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """Take bytes."""
        del dialect
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return plain values."""
        del dialect
        return None if value is None else unpack(value)


class SegmentsColumn(PackedColumn):
    """The same column where only the segments are wanted, which takes a quarter of the time."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> list[str]:
        """Return the segments; none for a row of before 0024, which has them in their column."""
        del dialect
        if not isinstance(value, bytes) or value[:1] not in _WITH_SEGMENTS:
            return []
        _, _, segments = decompressed(value, with_ids=False).rpartition(_SEGMENTS.encode())
        return list(json.loads(segments[:-1]))


#: JSON, in PostgreSQL's binary form where there is one.
Json = JSON().with_variant(JSONB(), "postgresql")
#: A 64-bit number; SQLite only counts up an INTEGER by itself.
BigInt = BigInteger().with_variant(Integer(), "sqlite")


def epoch_ms(moment: datetime) -> int:
    """Return a time in epoch milliseconds, as the store keeps it."""
    return round(moment.timestamp() * 1000)


def time_of(ms: float) -> datetime:
    """Return the time of epoch milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC)


class EpochTime(TypeDecorator[datetime]):
    """An aware time, kept in epoch milliseconds; given back in UTC."""

    impl = BigInt
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return what is kept."""
        del dialect
        return None if value is None else epoch_ms(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the aware time."""
        del dialect
        return None if value is None else time_of(value)


@lru_cache(maxsize=4096)
def facet(*parts: str) -> int:
    """Return a name such as ``("user", "ann")`` as a signed 64-bit number."""
    name = "\x1f".join(parts).replace("\0", "\ufffd").encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True)


def matches(column: ColumnElement[Any], value: object) -> ColumnElement[bool]:
    """Return the condition that a column has this value; None stands for any."""
    return true() if value is None else column == value


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept and given back in UTC; SQLite alone would forget the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn an aware time into UTC; refuse one without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored; use datetime.now(UTC)")
        utc = value if value.tzinfo is UTC else value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return an aware time in UTC."""
        del dialect
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

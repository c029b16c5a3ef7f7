"""
How a sample is kept: its JSON with the records of its evaluations, as one compressed value.

Records repeat what question, passages and answer say, so they compress to almost nothing beside
them. The dictionary has the parts that every sample has, `packing.v1.json`, and before them
frequent English words, `packing.v2.txt`, which spare an eighth. A value begins with that of its
dictionary; rows of before are plain JSON, and are read as they are.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator, TypeEngine

from monitor.models import Sample

_PARTS = Path(__file__).with_name("packing.v1.json").read_bytes()
_WORDS = Path(__file__).with_name("packing.v2.txt").read_bytes()
#: By what stands before a value: the dictionary it was compressed with, which must never change.
_DICTIONARIES = {b"\x01": _PARTS, b"\x02": _WORDS + _PARTS}
_FORMAT = b"\x02"
_LEVEL = 4
#: In the column of an evaluation whose record is kept with its sample.
WITH_SAMPLE = b""


class _Coders(threading.local):
    """A compressor and its counterpart; neither may be used by two threads at once."""

    def __init__(self) -> None:
        kinds = {
            mark: zstandard.ZstdCompressionDict(parts, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            for mark, parts in _DICTIONARIES.items()
        }
        usual = zstandard.ZstdCompressor(level=_LEVEL, dict_data=kinds[_FORMAT])
        self.compress = usual.compress
        self.decompress = {
            mark: zstandard.ZstdDecompressor(dict_data=kind).decompress
            for mark, kind in kinds.items()
        }


_coders = _Coders()


def pack(sample: str, evaluations: Sequence[str] = ()) -> bytes:
    """Return a sample and the records of its evaluations, each given as JSON, as one value."""
    whole = f'{sample[:-1]},"evaluations":[{",".join(evaluations)}]}}'
    if "\\u0000" in whole:  # no text column of PostgreSQL takes it, so nobody is handed any
        whole = json.dumps(_without_nul(json.loads(whole)), separators=(",", ":"))
    return _FORMAT + _coders.compress(whole.encode())


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
    if isinstance(value, bytes) and value[:1] in _DICTIONARIES:
        value = _coders.decompress[value[:1]](value[1:])
    return json.loads(value) if value else None


def sample_of(payload: Mapping[str, Any]) -> Sample:
    """Return the sample in a row's payload."""
    return Sample.model_validate({k: v for k, v in payload.items() if k != "evaluations"})


def record_of(row: Any, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the record of an evaluation's row; *payload* is its sample's, else the row has it."""
    if row.record is not None:
        return dict(row.record)
    records = (row.payload if payload is None else payload).get("evaluations", ())
    return next((r for r in records if r["evaluation_id"] == row.evaluation_id), {})


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
        """Give plain values."""
        del dialect
        return None if value is None else unpack(value)

"""Read what an object just has; a property, or any other code of the host's, does not run."""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

_MISSING = object()
_BASES = type.__dict__["__mro__"].__get__
_MEMBERS = type.__dict__["__dict__"].__get__


class _Pair(NamedTuple):
    first: object


#: What slots and the fields of named tuples are kept behind; in C, and without effect.
_HARMLESS = {MemberDescriptorType, type(_Pair.__dict__["first"])}
#: Libraries whose documents and answers show their text by a property that only reads.
_KNOWN = frozenset({"langchain", "langchain_core", "llama_index"})


def attribute(holder: object, name: str, *, named: bool = False) -> Any:
    """
    Read an attribute of an instance, a slot, a named tuple or a class; None if it has none.

    A property may read a stream to its end, ask a database, or wait. It is called only if the
    user has *named* it, or if its class is of a library that is known for harmless ones.
    """
    kind = type(holder)
    if named:
        return object.__getattribute__(holder, name)
    own, _ = _in_class(kind, "__dict__")
    if type(own) in {GetSetDescriptorType, MemberDescriptorType}:
        values = own.__get__(holder)
        if dict.__contains__(values, name):
            return dict.__getitem__(values, name)
    found, base = _in_class(kind, name)
    how = type(found)
    if how in _HARMLESS or (how is property and _is_known(base)):
        return found.__get__(holder, kind)
    plain = found is not _MISSING and _in_class(how, "__get__")[0] is _MISSING
    return found if plain else None


def _in_class(kind: type, name: str) -> tuple[Any, type]:
    for base in _BASES(kind):
        found = _MEMBERS(base).get(name, _MISSING)
        if found is not _MISSING:
            return found, base
    return _MISSING, kind


def _is_known(kind: type) -> bool:
    module = _MEMBERS(kind).get("__module__")
    return type(module) is str and module.partition(".")[0] in _KNOWN

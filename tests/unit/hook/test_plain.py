"""Whatever the host hands over becomes a bounded, plain copy."""

import datetime as dt
import decimal
import enum
import threading
import uuid
from collections import OrderedDict, deque

import numpy as np
import pytest

from monitor.hook.capture import BREADTH, DEPTH, VALUES, SizeLimit, plain


class Hostile:
    def __repr__(self):
        raise RuntimeError

    __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = __repr__


class Colour(enum.StrEnum):
    RED = "red"


def copy(value, chars=1_000):
    return plain(value, SizeLimit(chars))


CASES = [
    (None, None), (True, True), (3, 3), (1.5, 1.5), ("x", "x"), (Colour.RED, "red"),
    ((1, [2]), [1, [2]]), (deque([1]), [1]), (OrderedDict(a=1), {"a": 1}), ({1: 2}, {"1": 2}),
    ({None: 0, 1.5: 1}, {"None": 0, "1.5": 1}), (b"ab\xff", "ab\ufffd"),
    (float("nan"), "nan"), (float("-inf"), "-inf"), (2**63 - 1, 2**63 - 1),
    (10**400, str(10**400)), (10**5_000, "<int of 16610 bits>"),
    (uuid.UUID(int=0), str(uuid.UUID(int=0))), (decimal.Decimal("1.10"), "1.10"),
    (dt.date(2026, 1, 2), "2026-01-02"), (np.float32(0.5), 0.5), (np.int64(3), 3),
    (np.zeros(3), "<ndarray>"), (iter([1]), "<list_iterator>"), (range(3), "<range>"),
    (threading.Lock(), "<lock>"), (Hostile(), "<Hostile>"), ([Hostile()], ["<Hostile>"]),
    ({"k": Hostile()}, {"k": "<Hostile>"}), (Hostile, "<type>"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_copy_contains_only_plain_types(case):
    value, expected = CASES[case]
    assert copy(value) == expected


def test_generator_is_not_consumed():
    generator = (i for i in range(3))
    assert copy({"g": generator}) == {"g": "<generator>"}
    assert list(generator) == [0, 1, 2]


def test_copy_of_a_self_referencing_structure_ends():
    loop: list[object] = []
    loop.append(loop)
    room = SizeLimit(10)
    copied, depth = plain(loop, room), 0
    while isinstance(copied, list):
        copied, depth = copied[0], depth + 1
    assert (copied, depth) == ("<list>", DEPTH)
    assert room.cut


@pytest.mark.parametrize("value", [list(range(10_000)), {i: i for i in range(10_000)}])
def test_copied_collections_are_limited_in_breadth(value):
    room = SizeLimit(100_000)
    assert len(plain(value, room)) == BREADTH
    assert room.cut


def test_number_of_copied_values_is_limited():
    room = SizeLimit(100_000)
    copied = plain([[0] * 150] * 150, room)
    assert VALUES - 1 <= sum(len(row) + 1 for row in copied) <= VALUES
    assert room.cut


def test_total_copied_characters_are_limited():
    room = SizeLimit(10)
    room.field = "metadata"
    assert plain({"a": "x" * 6, "b": "y" * 6, "c": b"z" * 6}, room) == {
        "a": "x" * 6,
        "b": "yy",
    }
    assert room.cut == {"metadata"}


def test_later_change_does_not_affect_the_copy():
    value = {"a": [1]}
    copied = copy(value)
    value["a"].append(2)
    assert copied == {"a": [1]}


def test_overridden_methods_do_not_run():
    class Odd(dict):
        def items(self):
            raise RuntimeError

        __iter__ = items

    assert copy(Odd(a=1)) == {"a": 1}


def test_time_whose_zone_raises_is_named():
    class Zone(dt.tzinfo):
        def utcoffset(self, _):
            raise RuntimeError

    value = dt.datetime(2026, 1, 1, tzinfo=Zone())
    assert plain({"at": value, "k": 1}, SizeLimit(100)) == {"at": "<datetime>", "k": 1}

"""Masks are named, extended and joined; a wrong one is refused, an endless one never sends raw."""

import re

import pytest

from monitor.hook.masks import build
from monitor.hook.options import Options, check, resolve

TEXT = "jo@example.com from 10.0.0.1, TCK-12"


@pytest.mark.parametrize(
    ("spec", "masked"),
    [
        ("builtin", "[EMAIL] from [IP], TCK-12"),
        ("email", "[EMAIL] from 10.0.0.1, TCK-12"),
        ("ip, email", "[EMAIL] from [IP], TCK-12"),
        (["email", ("ticket", r"TCK-\d+")], "[EMAIL] from 10.0.0.1, [TICKET]"),
        ([("t", re.compile("tck-12", re.IGNORECASE))], "jo@example.com from 10.0.0.1, [T]"),
        (["builtin", str.upper], "[EMAIL] FROM [IP], TCK-12"),
        ([str.upper, "builtin"], "[EMAIL] FROM [IP], TCK-12"),
        (str.upper, TEXT.upper()),
    ],
)  # fmt: skip
def test_mask_spec_selects_what_is_masked(spec, masked):
    assert build(spec)(TEXT) == masked


@pytest.mark.parametrize(
    "wrong",
    ["emails", "", "email,", [], [3], [("a", "(")], [("a", 3)], [("", "a")], [("a b", "a")],
     ["builtin", None], 7, {"email"}, [("a", "b", "c")]],
)  # fmt: skip
def test_invalid_mask_spec_is_refused(wrong):
    with pytest.raises(ValueError, match=r"^mask: should be "):
        check({"mask": wrong})


def test_variable_names_the_masks():
    mask = resolve({}, {"GROUNDWATCH_MASK": "email,ip"}).mask
    assert mask is not None
    assert mask(TEXT) == "[EMAIL] from [IP], TCK-12"


def test_argument_wins_over_the_variable():
    given = check({"mask": str.lower})
    assert resolve(given, {"GROUNDWATCH_MASK": "builtin"}).mask is str.lower


def test_wrong_variable_is_named():
    with pytest.raises(ValueError, match=r"^GROUNDWATCH_MASK: should be "):
        resolve({}, {"GROUNDWATCH_MASK": "emial"})


def test_nothing_is_masked_by_default():
    assert Options().mask is None
    assert resolve({}, {}).mask is None


def test_replacement_of_a_custom_pattern_is_literal():
    assert build([("a-1", r"x(\d)")])("x5") == "[A-1]"


def test_capture_is_full_or_metadata():
    assert resolve({}, {"GROUNDWATCH_CAPTURE": "metadata"}).capture == "metadata"
    with pytest.raises(ValueError, match=r"^capture: should be full or metadata"):
        check({"capture": "none"})

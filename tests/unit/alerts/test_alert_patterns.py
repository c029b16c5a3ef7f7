"""Patterns of matchers mean what they mean in `re`, and none of them takes exponential time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.patterns import full_match
from alerts.routing import Matcher
from monitor.errors import SettingsError


def compose(inner):
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map("(?={})".format),
        inner.map("(?!{})".format),
        inner.map("(?i:{})".format),
        inner.map("(?-s:{})".format),
    )


PARTS = ["a", "b", "-", "A", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?<=a)", "(?<!-)", ""]
PATTERNS = st.recursive(st.sampled_from(PARTS), compose, max_leaves=8)


@given(PATTERNS, st.lists(st.text("abA-\n", max_size=7), min_size=1, max_size=8))
def test_pattern_matches_what_re_matches(pattern, texts):
    fits, expected = full_match(pattern), re.compile(pattern, re.DOTALL)
    assert [fits(text) for text in texts] == [bool(expected.fullmatch(text)) for text in texts]


@pytest.mark.parametrize("pattern", [r"(\w+-?)+x", "(a|aa)+x", "(a*)*x", "(a?){20}a{20}"])
def test_time_grows_no_faster_than_the_square_of_the_text(pattern):
    matcher = Matcher.parse(f"app=~{pattern}")

    def cost(n):
        start = time.process_time()
        for _ in range(20):
            matcher.matches({"app": "a" * (n - 1) + "!"})
        return time.process_time() - start

    assert min(cost(24) for _ in range(3)) < 12 * min(cost(12) for _ in range(3))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [(r"(a)\1", "references to groups"), ("(" * 3000, "50 groups"), ("(" * 60 + ")" * 60, "50")],
)
def test_pattern_beyond_the_limits_is_refused(pattern, reason):
    with pytest.raises(SettingsError, match=f"Invalid pattern .* {reason}"):
        Matcher.parse(f"app=~{pattern}")

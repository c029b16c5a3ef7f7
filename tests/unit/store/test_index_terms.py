"""What the index holds of a sample: by what it is found, where it stands, which words."""

import pytest

from monitor.store.sample_index import facet, terms_of, token_of
from monitor.testing import make_interaction, make_sample


def row(metric="m", passed=1, score=None, reason=""):
    return {
        "metric": metric, "evaluator_version": "v", "passed": passed, "score": score,
        "reason": reason,
    }  # fmt: skip


def terms(*ended, reason="", segments=(), **interaction):
    sample = make_sample(make_interaction(app="shop", **interaction))
    return terms_of(7, sample, segments, reason, ended)


def test_facet_is_a_signed_number_of_64_bits_that_each_part_changes():
    names = [("user", "ann"), ("user", "bob"), ("userann",), ("user", "", "ann"), ("tag", "ann")]
    numbers = {facet(*parts) for parts in names}
    assert len(numbers) == len(names)
    assert all(-(2**63) <= number < 2**63 for number in numbers)
    assert any(facet("user", str(n)) < 0 for n in range(20))


def test_sample_is_indexed_by_each_of_its_identifiers():
    found = terms(
        release="r", user_id="u", session_id="s", trace_id="t", tags={"plan": "pro"},
        segments=["release=r"], reason="late",
    )  # fmt: skip
    assert found.facets == {
        facet("app", "shop"), facet("release", "r"), facet("user", "u"), facet("session", "s"),
        facet("trace", "t"), facet("tag", "plan=pro"), facet("segment", "release=r"),
        facet("reason", "", "late"), facet("ended", "", "unscored"),
    }  # fmt: skip
    assert (found.position, found.release) == (7, facet("release", "r"))


def test_postgresql_keeps_once_what_a_tag_and_its_segment_say():
    found = terms(
        row("m"), session_id="s", trace_id="t", tags={"language": "en", "plan": "pro"},
        segments=["language=en", "release=r"],
    )  # fmt: skip
    assert found.spared & found.facets == {
        facet("session", "s"), facet("trace", "t"), facet("metric", "m"),
        facet("tag", "language=en"), facet("segment", "language=en"),
    }  # fmt: skip
    assert found.joined == {facet("both", "language=en")}


def test_sample_without_a_release_has_none_in_the_index():
    found = terms()
    assert (found.release, found.facets) == (
        0,
        {facet("app", "shop"), facet("ended", "", "unscored")},
    )


@pytest.mark.parametrize(
    ("passed", "overall"),
    [((1, 0, None), "failed"), ((1, None), "passed"), ((None,), "unscored"), ((), "unscored")],
)
def test_sample_is_indexed_as_failed_and_passed_by_metric(passed, overall):
    found = terms(*(row(f"m{n}", each) for n, each in enumerate(passed)))
    outcomes = {
        name
        for name in ("failed", "passed", "unscored")
        if facet("ended", "", name) in found.facets
    }
    assert outcomes == {overall}


@pytest.mark.parametrize(("passed", "name"), [(1, "passed"), (0, "failed")])
def test_evaluation_is_found_by_metric_outcome_version_and_score(passed, name):
    found = terms(row("m", passed, score=0.314)).facets
    assert found >= {
        facet("metric", "m"), facet("ended", "m", name), facet("evaluator", "m", "v"),
        facet("bin", "m", name, "31"),
    }  # fmt: skip


def test_reason_of_an_evaluation_is_found_with_and_without_its_metric():
    found = terms(row("m", None, reason="no_query")).facets
    assert {facet("reason", "m", "no_query"), facet("reason", "", "no_query")} <= found
    assert facet("ended", "m", "unscored") in found


def test_score_of_zero_is_found():
    assert facet("bin", "m", "failed", "0") in terms(row("m", 0, score=0.0)).facets


def test_index_words_come_from_question_and_answer_up_to_a_limit():
    found = terms(query="q" * 2_001, output="a" * 6_001).words
    assert found == "q" * 2_000 + "\n" + "a" * 6_000


def test_index_words_contain_no_unstorable_characters():
    assert terms(query=None, output="a\0b").words in {"a b", "a\ufffdb"}


def test_word_of_a_facet_has_sixteen_digits_whatever_its_sign():
    assert token_of(255) == "x00000000000000ff"
    assert token_of(-1) == "xffffffffffffffff"

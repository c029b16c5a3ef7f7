"""Mix and rate, new segments, other dimensions, and the traps."""

import pytest

from monitor.models import Tally
from monitor.rolling.attribution import Group, explain_change, kitagawa


def tally(n, rate):
    passed = round(n * rate)
    return Tally(n=n, passed=passed, sum_w=n, sum_w2=n, sum_wy=passed, sum_w2y=passed)


def explain(before, after, root_before=None, root_after=None):
    before, after = ({k: tally(*v) for k, v in p.items()} for p in (before, after))
    first = next(iter(before)).split("=")[0]

    def root(parts):
        return sum((t for k, t in parts.items() if k.startswith(f"{first}=")), start=Tally())

    return explain_change(
        before,
        after,
        root_before=root_before or root(before),
        root_after=root_after or root(after),
    )


def test_parts_add_up_to_the_change():
    groups = [Group(0.5, 0.2, 0.9, 0.8), Group(0.3, 0.3, 0.7, 0.75), Group(0.2, 0.5, None, 0.4)]
    parts = kitagawa(groups)
    before = 0.5 * 0.9 + 0.3 * 0.7 + 0.2 * 0.4
    after = 0.2 * 0.8 + 0.3 * 0.75 + 0.5 * 0.4
    assert sum(part.rate + part.mix for part in parts) == pytest.approx(after - before)


def test_new_segment_contributes_only_to_the_mix():
    part = kitagawa([Group(1.0, 0.5, 0.9, 0.9), Group(0.0, 0.5, None, 0.4)])[1]
    assert part.rate == 0
    assert part.mix < 0


def test_new_release_that_is_bad_is_named():
    found = explain(
        {"release=v1": (5000, 0.92)}, {"release=v1": (300, 0.92), "release=v2": (300, 0.55)}
    )
    assert [item.segment for item in found.named] == ["release=v2"]


def test_subsegment_is_named_before_the_segment_that_contains_it():
    found = explain(
        {
            "environment=prod": (9000, 0.92),
            "environment=test": (1000, 0.92),
            "model=a": (8000, 0.92),
            "model=b": (2000, 0.92),
        },
        {
            "environment=prod": (900, 0.80),
            "environment=test": (100, 0.92),
            "model=a": (800, 0.92),
            "model=b": (200, 0.38),
        },
    )
    assert found.named[0].segment == "model=b"
    assert found.named[0].explains == pytest.approx(1.0, abs=0.1)


def test_single_segment_explains_nothing():
    found = explain({"release=v1": (5000, 0.92)}, {"release=v1": (500, 0.6)})
    assert (found.named, found.mix_shift) == ([], [])


def test_more_traffic_in_a_weak_language_is_a_mix_shift():
    found = explain(
        {"language=en": (4500, 0.95), "language=de": (500, 0.60)},
        {"language=en": (250, 0.95), "language=de": (250, 0.60)},
    )
    assert found.named == []
    assert found.mix_shift == ["language=de"]
    assert found.mix["language"] == pytest.approx(-0.14, abs=0.01)


def test_simpsons_paradox_is_reported():
    found = explain(
        {"language=en": (9000, 0.90), "language=de": (1000, 0.50)},
        {"language=en": (1000, 0.95), "language=de": (3000, 0.58)},
    )
    assert found.simpson == ["language"]


def test_samples_without_a_value_form_a_segment():
    found = explain(
        {"route=a": (2000, 0.92)},
        {"route=a": (400, 0.92)},
        root_before=tally(4000, 0.92),
        root_after=tally(800, 0.71),
    )
    assert [item.segment for item in found.named] == ["route=(none)"]


def test_improvement_is_explained_too():
    found = explain(
        {"route=a": (2000, 0.5), "route=b": (2000, 0.9)},
        {"route=a": (400, 0.9), "route=b": (400, 0.9)},
    )
    assert [item.segment for item in found.named] == ["route=a"]
    assert found.named[0].rate_effect > 0


def test_too_few_scores_name_no_segment():
    found = explain(
        {"route=a": (2000, 0.92), "route=b": (100, 0.92)},
        {"route=a": (400, 0.92), "route=b": (4, 0.0)},
    )
    assert found.named == []


def test_unscored_windows_explain_nothing():
    assert explain_change({}, {}, root_before=Tally(), root_after=tally(5, 1.0)) is None

"""What of an app changed with a fall: named where it came with it, not where it came beside it."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.models.insight import ScoredExchange
from monitor.rolling.component_changes import component_changes
from monitor.testing import make_evaluation, make_interaction

START, N, FELL = datetime(2026, 11, 1, tzinfo=UTC), 400, 200


def samples(tags_at, *, seed=0, fell_to=0.6, judge_at=N, release_at=N):
    """A stream that falls from 0.93 at its middle; *tags_at*: when each tag turns from v1 to v2."""
    passed = np.random.default_rng(seed).random(N) < np.where(np.arange(N) < FELL, 0.93, fell_to)
    return [
        ScoredExchange(
            str(i), START + timedelta(minutes=i),
            make_interaction(
                tags={name: "v1" if i < at else "v2" for name, at in tags_at.items()},
                release="r1" if i < release_at else "r2",
            ),
            bool(passed[i]),
            make_evaluation(evaluator_version="j1" if i < judge_at else "j2"),
        )
        for i in range(N)
    ]  # fmt: skip


def found(stream, cause=""):
    changes = component_changes(stream[:FELL], stream[FELL:], cause)
    return {change.component: change for change in changes}


@pytest.mark.parametrize("part", ["model", "prompt_version", "retriever", "index"])
def test_part_that_changed_with_the_fall_is_named(part):
    change = found(samples({part: FELL}))[part]
    assert change.is_named
    assert change.low < -0.3 < change.high < 0


def test_change_of_a_part_is_the_difference_of_pass_rates():
    stream = samples({"model": FELL})
    rates = [sum(each.passed for each in side) / FELL for side in (stream[:FELL], stream[FELL:])]
    assert found(stream)["model"].change == pytest.approx(rates[1] - rates[0])


def test_judge_that_changed_with_the_fall_is_named():
    assert found(samples({}, judge_at=FELL))["judge"].is_named


def test_part_that_changed_without_a_fall_at_that_time_is_not_named():
    for seed in range(20):
        changes = found(samples({"model": 270}, seed=seed))
        assert not any(change.is_named for change in changes.values())


def test_part_that_changed_with_the_fall_is_named_over_another():
    changes = found(samples({"model": FELL, "retriever": 250}))
    assert [name for name, change in changes.items() if change.is_named] == ["model"]


def test_without_a_fall_a_part_is_rarely_named():
    runs = [found(samples({"model": FELL}, seed=seed, fell_to=0.93)) for seed in range(60)]
    assert sum(run["model"].is_named for run in runs) <= 3


def test_parts_that_changed_together_share_the_blame():
    changes = found(samples({"model": FELL, "retriever": FELL}))
    assert changes["model"].confidence == pytest.approx(changes["retriever"].confidence)
    assert not changes["model"].is_named


@pytest.mark.parametrize(("cause", "part"), [("retrieval", "retriever"), ("generation", "model")])
def test_text_evidence_decides_among_parts_that_changed_together(cause, part):
    changes = found(samples({"model": FELL, "retriever": FELL}), cause)
    assert [name for name, change in changes.items() if change.is_named] == [part]


def test_known_part_of_a_release_is_named_instead_of_the_release():
    changes = found(samples({"model": FELL}, release_at=FELL))
    assert changes["model"].is_named
    assert changes["release"].confidence == 0
    assert found(samples({}, release_at=FELL))["release"].is_named

"""What the soak calls flat, and the words of its app."""

import json

import numpy as np
import pytest

from support.soak import Trend, read, table
from support.soak_app import Vocabulary, spelled

SECONDS = np.arange(0.0, 2400.0, 5.0)


def trend(sizes):
    return Trend.of(np.column_stack([SECONDS, sizes]))


@pytest.mark.parametrize(
    ("mb_per_hour", "noise_mb", "finding"),
    [
        (0.0, 0.0, "flat"),
        (0.5, 0.01, "flat"),
        (2.0, 0.01, "grows"),
        (-20.0, 0.5, "shrinks"),
        (0.0, 100.0, "unclear"),
    ],
)
def test_finding_depends_on_slope_and_interval(mb_per_hour, noise_mb, finding):
    noise = np.random.default_rng(1).normal(0.0, noise_mb, SECONDS.size)
    assert trend(100.0 + mb_per_hour * SECONDS / 3600 + noise).finding == finding


def test_slope_interval_has_its_stated_coverage():
    rng = np.random.default_rng(2)
    found = [trend(100 + 3 * SECONDS / 3600 + rng.normal(0, 1, SECONDS.size)) for _ in range(400)]
    held = np.mean([abs(each.slope_mb_per_hour - 3) < each.half for each in found])
    assert 0.92 < held < 0.98


def test_truncated_log_is_read(tmp_path):
    log = tmp_path / "soak.jsonl"
    lines = [json.dumps({"s": s, "mb": {"app": {"rss": 50.0}}}) for s in range(0, 200, 5)]
    log.write_text("\n".join(lines) + '\n{"s": 200, "mb": {"ap')
    readings = read(log)
    assert len(readings["app", "rss"]) == len(lines)
    assert "flat" in list(table(readings, "rss"))[1]


def test_vocabulary_grows_by_heaps_law():
    words = Vocabulary()
    sizes = []
    for _ in range(2):
        for _ in range(40_000):
            words.word()
        sizes.append(words.size)
    assert sizes == pytest.approx([40 * 40_000**0.5, 40 * 80_000**0.5], rel=0.05)


def test_each_rank_spells_a_different_word():
    assert len({spelled(rank) for rank in range(1, 20_000)}) == 19_999

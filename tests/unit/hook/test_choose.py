"""Choosing a variant: even without shares, by shares, the same for a key, never an error."""

from collections import Counter

import pytest

from monitor.hook.experiments import pick, read_shares


def split(shares, variants=("A", "B"), experiment="variant"):
    counts = Counter(pick(shares, experiment, f"user-{k}", variants) for k in range(4_000))
    return {variant: counts[variant] / 4_000 for variant in variants}


@pytest.mark.parametrize("shares", [None, {}])
def test_split_is_even_without_shares(shares):
    assert split(shares, ("A", "B", "C")) == pytest.approx(dict.fromkeys("ABC", 1 / 3), abs=0.03)


def test_split_follows_the_shares():
    assert split({"A": 0.9, "B": 0.1}) == pytest.approx({"A": 0.9, "B": 0.1}, abs=0.02)


def test_unknown_variant_gets_an_even_share():
    assert split({"A": 1.0, "B": 0.0}, ("A", "B", "C"))["C"] == pytest.approx(0.25, abs=0.03)


def test_key_keeps_its_variant_and_experiments_are_independent():
    assert len({pick(None, "variant", "user-1", ("A", "B")) for _ in range(50)}) == 1
    keys = [f"user-{k}" for k in range(400)]
    same = [pick(None, "one", key, "AB") == pick(None, "two", key, "AB") for key in keys]
    assert 0.4 < sum(same) / 400 < 0.6


def test_few_keys_change_variant_when_shares_change():
    keys = [f"user-{k}" for k in range(2_000)]
    before = [pick({"A": 0.5, "B": 0.5}, "v", key, "AB") for key in keys]
    after = [pick({"A": 0.6, "B": 0.4}, "v", key, "AB") for key in keys]
    assert sum(x != y for x, y in zip(before, after, strict=True)) / 2_000 < 0.13


@pytest.mark.parametrize(
    "published", [None, b"", b"nonsense", b"[1]", b'{"variant": 3}', b'{"variant": {"A": "x"}}',
                  b'{"variant": {"A": 0}}', b"\xff"],
)  # fmt: skip
def test_invalid_shares_in_redis_are_ignored(published):
    assert read_shares(published) == {}


def test_published_shares_are_read():
    assert read_shares(b'{"variant": {"A": 0.7, "B": 0.3}}') == {"variant": {"A": 0.7, "B": 0.3}}

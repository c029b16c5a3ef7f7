"""A cost is right or it is unknown."""

import pytest

from monitor.scoring.judges.prices import Prices


def test_cost_is_known_when_the_table_has_the_model():
    assert Prices().cost_usd("gpt-4.1-mini", 1_000_000, 500_000) == pytest.approx(0.4 + 0.8)


def test_cost_is_known_when_the_endpoint_adds_a_date():
    assert Prices().cost_usd("gpt-4.1-mini-2025-04-14", 1_000_000, 0) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("model", "tokens"), [("llama-70b", (1, 1)), (None, (1, 1)), ("gpt-4.1", (None, 1))]
)
def test_cost_is_none_when_price_or_tokens_are_unknown(model, tokens):
    assert Prices().cost_usd(model, *tokens) is None


def test_settings_win_when_they_give_a_price():
    prices = Prices(usd_per_million_input=1.0, usd_per_million_output=2.0)
    assert prices.cost_usd("gpt-4.1", 1_000_000, 1_000_000) == pytest.approx(3.0)
    assert prices.cost_usd("my-own", 1_000_000, 0) == pytest.approx(1.0)


def test_cost_is_none_when_only_half_a_price_is_given():
    assert Prices(usd_per_million_input=1.0).cost_usd("my-own", 1, 1) is None

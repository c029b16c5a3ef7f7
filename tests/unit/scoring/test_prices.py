"""A cost is right or it is unknown."""

import pytest

from monitor.errors import SettingsError
from monitor.scoring.judges.prices import Price, Prices
from monitor.settings import Settings


def test_cost_is_known_when_the_table_has_the_model():
    assert Prices().cost_usd("gpt-4.1-mini", 1_000_000, 500_000) == pytest.approx(0.4 + 0.8)


def test_cost_is_known_when_the_endpoint_adds_a_date():
    assert Prices().cost_usd("gpt-4.1-mini-2025-04-14", 1_000_000, 0) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("model", "tokens"), [("llama-70b", (1, 1)), (None, (1, 1)), ("gpt-4.1", (None, 1))]
)
def test_cost_is_none_when_price_or_tokens_are_unknown(model, tokens):
    assert Prices().cost_usd(model, *tokens) is None


def test_price_from_the_settings_wins():
    prices = Prices(usd_per_million_input=1.0, usd_per_million_output=2.0)
    assert prices.cost_usd("gpt-4.1", 1_000_000, 1_000_000) == pytest.approx(3.0)
    assert prices.cost_usd("my-own", 1_000_000, 0) == pytest.approx(1.0)


def test_cost_is_none_when_only_half_a_price_is_given():
    assert Prices(usd_per_million_input=1.0).cost_usd("my-own", 1, 1) is None


def own_prices(tmp_path, text):
    path = tmp_path / "prices.json"
    path.write_text(text, encoding="utf-8")
    return Prices.from_settings(Settings(prices=path))


def test_price_from_the_price_file_is_used(tmp_path):
    prices = own_prices(tmp_path, '{"my-own": {"input": 1, "cached": 0.5, "output": 2}}')
    assert prices.cost_usd("my-own", 1_000_000, 1_000_000, 500_000) == pytest.approx(2.75)
    assert prices.cost_usd("gpt-4.1", 1_000_000, 0) == pytest.approx(2.0)


def test_price_from_the_price_file_wins_over_the_table(tmp_path):
    prices = own_prices(tmp_path, '{"gpt-4.1": {"input": 7, "output": 9}}')
    assert prices.cost_usd("gpt-4.1-2025-04-14", 1_000_000, 0) == pytest.approx(7.0)


def test_cached_tokens_cost_the_full_price_when_no_other_is_known(tmp_path):
    prices = own_prices(tmp_path, '{"my-own": {"input": 1, "output": 2}}')
    assert prices.cost_usd("my-own", 1_000_000, 0, 1_000_000) == pytest.approx(1.0)


def test_price_of_a_dated_model_wins_over_the_plain_models():
    assert Prices().cost_usd("gpt-4o-2024-05-13", 1_000_000, 0) == pytest.approx(5.0)


def test_unknown_price_says_what_to_do():
    assert Prices().unknown("gpt-4.1") is None
    assert "GROUNDWATCH_PRICES" in Prices().unknown("llama-70b")


def test_price_names_the_month_of_its_table(tmp_path):
    text = '{"as_of": "2030-01", "models": {"my-own": {"input": 1, "output": 2}}}'
    dated = own_prices(tmp_path, text)
    assert dated.cost_usd("my-own", 1_000_000, 0) == pytest.approx(1.0)
    assert dated.as_of("my-own") == "2030-01"
    assert dated.as_of("gpt-4.1-2025-04-14") == Prices().as_of("gpt-4.1") != "2030-01"
    assert own_prices(tmp_path, '{"my-own": {"input": 1, "output": 2}}').as_of("my-own") is None
    assert Prices(usd_per_million_input=1.0).as_of("gpt-4.1") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "JSON"),
        ("[]", "the file"),
        ('{"as_of": "2030-01"}', "models"),
        ('{"m": {"input": 1}}', "m.output"),
        ('{"m": {"input": -1, "output": 1}}', "m.input"),
        ('{"m": {"input": "NaN", "output": 1}}', "m.input"),
        ('{"m": {"input": 1, "output": 1, "typo": 1}}', "m.typo"),
    ],
)
def test_invalid_price_file_is_refused(tmp_path, text, told):
    with pytest.raises(SettingsError, match=told) as caught:
        own_prices(tmp_path, text)
    assert "GROUNDWATCH_PRICES" in str(caught.value)


def test_missing_price_file_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="cannot read"):
        Prices.from_settings(Settings(prices=tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("answered", "asked", "name"),
    [
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini", "gpt-4.1-mini-2025-04-14"),
        ("/models/llama.gguf", "my-own", "my-own"),
        ("gpt-4.1-mini", "my-own", "my-own"),
        (None, "gpt-4.1", "gpt-4.1"),
        ("mystery-7b", "gpt-4.1", "mystery-7b"),
        ("nobody", "knows", "nobody"),
    ],
)
def test_call_is_priced_under_whichever_name_has_a_price(answered, asked, name):
    prices = Prices(own={"my-own": Price(input=1.0, output=2.0)})
    assert prices.known_as(answered, asked) == name

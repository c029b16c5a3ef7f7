"""A quote is proof only when it is really there."""

import pytest

from monitor.scoring.judges.quotes import find_quote

CONTEXTS = ["The shop opens at nine.", "Refunds are paid back to the “original” card in 5 days."]


@pytest.mark.parametrize(
    "quote",
    [
        "refunds are PAID back",
        'paid back to the "original" card',
        "Refunds are ... card in 5 days",
        "Refunds are […] in 5 days.",
        "ｒｅｆｕｎｄｓ are paid",
    ],
)
def test_quote_is_found_when_only_its_writing_differs(quote):
    assert find_quote(quote, CONTEXTS) == 1


@pytest.mark.parametrize(
    "quote",
    [
        "", "...", "the", "is to the",
        "efunds are paid",
        "Refunds are paid within 5 days",
        "card in 5 days ... refunds are paid",
        "shop opens ... refunds are paid",
    ],
)  # fmt: skip
def test_quote_is_not_found_when_the_passages_do_not_hold_it(quote):
    assert find_quote(quote, CONTEXTS) is None


def test_quote_is_found_when_the_script_has_no_spaces():
    assert find_quote("五个工作日", ["退款会在五个工作日内退回。"]) == 0

"""A quote is proof only when it is really there."""

import time

import pytest

from monitor.scoring.judges import reply
from monitor.scoring.judges.reply import Quotable

CONTEXTS = [
    "Yes. It rains.",
    '{"city": "Paris", "hours": "9 to 5"}',
    "The shop opens at nine.",
    "Refunds are paid back to the “original” card in 5 days.",
]


@pytest.mark.parametrize(
    "quote",
    [
        "refunds are PAID back",
        'paid back to the "original" card',
        "Refunds are ... card in 5 days",
        "Refunds are […] in 5 days.",
        "ｒｅｆｕｎｄｓ are paid back",
    ],
)
def test_quote_is_found_despite_different_typography(quote):
    assert Quotable(CONTEXTS).find(quote) == 3


@pytest.mark.parametrize(
    "quote",
    [
        "", "...", "the", "is to the",
        "efunds are paid back", "Refunds are", "the shop", "... are ... paid ...",
        "Refunds are paid within 5 days",
        "card in 5 days ... refunds are paid",
        "shop opens ... refunds are paid",
    ],
)  # fmt: skip
def test_quote_absent_from_the_passages_is_not_found(quote):
    assert Quotable(CONTEXTS).find(quote) is None


FAR = (
    "Anna Lindgren moved to Oslo in 1999. " + "The ferries run on time. " * 40
    + "Anna Lindgren, who likes ferries, founded a firm in Bergen."
)  # fmt: skip


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("Anna Lindgren ... founded a firm in Bergen", 0),
        ("Anna ... founded ... Bergen", 0),
        ("moved to Oslo in 1999 ... founded a firm", None),
        ("Lindgren moved ... 1999 ... Bergen", None),
    ],
)
def test_parts_of_a_quote_must_be_close_together(quote, found):
    assert Quotable([FAR]).find(quote) == found


@pytest.mark.parametrize("parts", [4, 200])
def test_quote_of_many_parts_is_looked_up_quickly(parts):
    started = time.process_time()
    long = Quotable(["a b " * 50_000])
    assert long.find("a ... b ... " * (parts // 2) + "one two three") is None
    assert time.process_time() - started < 5


def test_quote_is_found_when_the_script_has_no_spaces():
    assert Quotable(["退款会在五个工作日内退回。"]).find("五个工作日") == 0


@pytest.mark.parametrize(("quote", "index"), [("it rains", 0), ("rains", None), ("It is", None)])
def test_short_quote_counts_if_it_is_a_whole_sentence(quote, index):
    assert Quotable(CONTEXTS).find(quote) == index


def test_passages_are_prepared_once_for_many_quotes(monkeypatch):
    prepared = []
    monkeypatch.setattr(reply, "_plain", lambda text: prepared.append(text) or f" {text} ")
    passages = Quotable(CONTEXTS)
    for _ in range(3):
        passages.find("the shop opens at nine")
    assert prepared[:4] == CONTEXTS
    assert len(prepared) == 4 + 3

"""The index finds the sentences that carry a claim."""

import json

import pytest

from monitor.scoring.language import words
from monitor.scoring.local.passages import Passages, flatten
from monitor.scoring.local.reading import read_claim

SHOP = "The shop opens at 9. It sells bread. The baker is called Anna Weber."


def test_best_sentence_comes_first_when_words_are_spread():
    passages = Passages([SHOP])
    evidence, shares = passages.best({"bread": 1.0, "shop": 2.0})
    assert evidence == (0, 1)
    assert shares == (pytest.approx(2 / 3), pytest.approx(1.0))


def test_nothing_is_found_when_no_word_is_shared():
    assert Passages([SHOP]).best({"zebra": 1.0}) == ((), (0.0, 0.0))


def test_rare_words_weigh_more_than_common_ones():
    weights = Passages([SHOP]).weigh(words("bread zebra"))
    assert weights["zebra"] > weights["bread"]


def test_missing_words_are_named_as_the_claim_writes_them():
    claim = read_claim("The shop opens at 8 and Anna Miller exports.", Passages([SHOP]))
    assert claim.aligned.missing() == ("8", "Miller", "exports")


def test_json_is_read_as_lines_when_a_passage_is_an_object():
    flat = flatten(json.dumps({"openOn": "Monday", "wi_fi": True, "hours": {"Sunday": None}}))
    assert flat == "open On: Monday; wi fi: yes\nhours: Sunday: not known"


def test_passage_that_only_looks_like_json_is_unchanged():
    assert flatten("{not json}") == "{not json}"

"""The index finds the sentences that carry a claim."""

import json

from monitor.scoring.features.passages import Passages, flatten
from monitor.scoring.features.support import CLAIM_FEATURES, claim_features

SHOP = "The shop opens at 9. It sells bread. The baker is called Anna Weber."


def features(claim, *contexts):
    found = claim_features(claim, Passages(contexts), frozenset())
    return found, dict(zip(CLAIM_FEATURES, found.values, strict=True))


def test_best_sentence_comes_first_when_words_are_spread():
    passages = Passages([SHOP])
    evidence, (one, two) = passages.best({"bread": 1.0, "shop": 2.0})
    assert evidence == [0, 1]
    assert (one, two) == (2 / 3, 1.0)


def test_nothing_is_found_when_no_word_is_shared():
    assert Passages([SHOP]).best({"zebra": 1.0}) == ([], [0.0, 0.0])


def test_rare_words_tell_more_when_compared_with_common_ones():
    passages = Passages([SHOP])
    assert passages.information("zebra") > passages.information("bread")


def test_number_is_named_when_no_passage_has_it():
    found, values = features("The shop opens at 8.", SHOP)
    assert found.numbers_absent == ("8",)
    assert values["number_conflict"] > 0


def test_number_counts_as_elsewhere_when_another_sentence_has_it():
    _, values = features("The baker Anna Weber sells bread 9.", SHOP)
    assert values["numbers_absent"] == 0
    assert values["numbers_elsewhere"] == 1


def test_name_is_named_when_no_passage_has_it():
    found, _ = features("The baker is Anna Miller.", SHOP)
    assert found.names_absent == ("miller",)


def test_negation_is_noted_when_one_side_denies():
    assert features("It does not sell bread.", SHOP)[0].negation
    assert not features("It sells bread.", SHOP)[0].negation


def test_opposite_is_noted_when_claim_turns_a_word_round():
    assert features("Prices decrease in May.", "Prices increase in May.")[0].antonym


def test_json_is_read_as_lines_when_a_passage_is_an_object():
    flat = flatten(json.dumps({"openOn": "Monday", "wi_fi": True, "hours": {"Sunday": None}}))
    assert flat == "open On: Monday; wi fi: yes\nhours: Sunday: not known"


def test_passage_is_left_alone_when_it_only_looks_like_json():
    assert flatten("{not json}") == "{not json}"

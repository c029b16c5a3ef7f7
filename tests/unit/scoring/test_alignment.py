"""Coverage, order, numbers and names of a claim are compared with its evidence."""

import pytest

from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import CLAIM_FEATURES, read_claim

SHOP = (
    "The shop of Anna Weber opens at 9 and sells 40 kinds of bread."
    " Paul Stone, a plumber from Graz, does not eat bread. Just under 270 people live there."
)


def values(claim, *contexts):
    found = read_claim(claim, Passages(contexts or (SHOP,)))
    return dict(zip(CLAIM_FEATURES, found.values, strict=True))


@pytest.mark.parametrize(
    ("feature", "right", "wrong"),
    [
        ("number_conflict", "It sells 40 kinds of bread.", "It sells 45 kinds of bread."),
        ("names_absent", "The shop is of Anna Weber.", "The shop is of Anna Miller."),
        ("novel_run", "The shop sells bread.", "The shop exports frozen pastries."),
    ],
)
def test_feature_grows_when_the_slot_is_wrong(feature, right, wrong):
    assert values(right)[feature] < values(wrong)[feature]


@pytest.mark.parametrize("feature", ["runs", "covered_two"])
def test_feature_falls_when_words_come_from_elsewhere(feature):
    right = values("The shop of Anna Weber sells 40 kinds of bread.")
    wrong = values("Anna Weber the plumber said people eat Graz.")
    assert right[feature] > wrong[feature]


def test_one_word_counts_as_found_when_a_passage_has_it():
    assert (values("Graz")["runs"], values("Vienna")["runs"]) == (1, 0)


def test_features_do_not_depend_on_passage_order():
    contexts = ("Anna runs a bakery. She bakes bread.", "Paul repairs pipes.", "Graz is a city.")
    claim = "Anna repairs pipes in Graz and bakes bread."
    assert values(claim, *contexts) == pytest.approx(values(claim, *contexts[::-1]))

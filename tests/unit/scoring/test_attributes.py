"""Claims about a record are compared with its attributes and its hours."""

import json

import pytest

from monitor.scoring.features.attributes import (
    ATTRIBUTE_FEATURES,
    Attributes,
    attribute_features,
)
from monitor.scoring.features.clock import openings
from monitor.scoring.features.passages import Passages
from monitor.scoring.words import words

WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
RECORD = json.dumps(
    {
        "name": "Rosa",
        "hours": dict.fromkeys(WEEK, "16:0-21:0"),
        "attributes": {
            "OutdoorSeating": False,
            "WiFi": "free",
            "RestaurantsReservations": None,
            "Parking": {"garage": False, "street": True},
        },
    }
)


def compared(claim, *contexts):
    contexts = contexts or (RECORD,)
    found = attribute_features(
        claim, words(claim), Attributes.read(contexts), Passages(contexts).where
    )
    return dict(zip(ATTRIBUTE_FEATURES, found.values, strict=True)), found.conflicts


@pytest.mark.parametrize(
    "claim",
    ["It has free Wi-Fi.", "WiFi is available.", "There is no outdoor seating.",
     "Outdoor seating is not available.", "Parking on the street is possible."],
)  # fmt: skip
def test_claim_agrees_when_the_record_says_the_same(claim):
    values, conflicts = compared(claim)
    assert (values["attributes_agree"], conflicts) == (1, ())


@pytest.mark.parametrize(
    ("claim", "conflict"),
    [
        ("Guests enjoy outdoor seating.", "Outdoor Seating: no"),
        ("The place lacks WiFi.", "Wi Fi: yes"),
        ("There is garage parking.", "garage: no"),
    ],
)
def test_claim_conflicts_when_the_record_says_the_opposite(claim, conflict):
    assert compared(claim)[1] == (conflict,)


def test_claim_is_unknown_when_the_record_is_silent():
    values, conflicts = compared("Restaurants here take reservations.")
    assert (values["attributes_unknown"], conflicts) == (1, ())


def test_name_is_no_attribute_when_a_street_is_named():
    assert not any(compared("Rosa is at 5 Mill Street.")[0][n] for n in ATTRIBUTE_FEATURES[:3])


def test_claim_agrees_when_one_of_two_records_does():
    other = RECORD.replace('"OutdoorSeating": false', '"OutdoorSeating": true')
    assert compared("One has outdoor seating.", RECORD, other)[1] == ()


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        ("It is open from 4 PM to 9 PM, Monday to Friday.", 1, 0),
        ("Open Monday through Friday from 4:00 p.m. to 9:00 p.m.", 1, 0),
        ("Open on weekdays from 16:00 to 22:00.", 0, 1),
        ("Open on Saturdays from 4 pm to 9 pm.", 0, 1),
        ("It is closed on Sundays.", 1, 0),
        ("It is closed on Mondays.", 0, 1),
        ("It seats 40 people.", 0, 0),
    ],
)
def test_hours_are_compared_by_day_when_claimed(claim, right, wrong):
    values, _ = compared(claim)
    assert (values["hours_agree"], values["hours_conflict"]) == (right, wrong)


def test_nothing_is_compared_when_no_passage_is_a_record():
    values, conflicts = compared("There is outdoor seating.", "It has no outdoor seating.")
    assert not any(values.values())
    assert conflicts == ()


def test_days_go_round_when_a_range_passes_sunday():
    [opening] = openings("Friday to Monday from 10 am to noon")
    assert opening == (frozenset({4, 5, 6, 0}), (600, 720))

"""Claims about a record are compared with its attributes and its hours."""

import json

import pytest

from monitor.scoring.local.passages import Aligned, Passages
from monitor.scoring.local.reading import read
from monitor.scoring.local.records import RECORD_FEATURES, compare, read_attributes

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
    passages = Passages(contexts)
    values, changes = compare(Aligned(claim, passages), read_attributes(passages))
    return dict(zip(RECORD_FEATURES, values, strict=True)), changes


@pytest.mark.parametrize(
    "claim",
    ["It has free Wi-Fi.", "WiFi is available.", "There is no outdoor seating.",
     "Outdoor seating is not available.", "Parking on the street is possible."],
)  # fmt: skip
def test_claim_agrees_when_the_record_says_the_same(claim):
    values, changes = compared(claim)
    assert (changes, *values.values()) == ((), 0, 0)


@pytest.mark.parametrize(
    "claim",
    [
        "It has street parking that does not need tickets.",
        "It operates without garage parking, offers WiFi.",
        "Although it offers no outdoor seating, guests can park on the street with parking.",
        "Restaurant reservation details are unavailable.",
    ],
)
def test_denial_ends_where_its_clause_does(claim):
    assert compared(claim)[0]["attributes_conflict"] == 0


@pytest.mark.parametrize(
    ("claim", "conflict"),
    [
        ("Guests enjoy outdoor seating.", "Outdoor Seating: no"),
        ("The place lacks WiFi.", "Wi Fi: yes"),
        ("There is garage parking.", "garage: no"),
    ],
)
def test_claim_conflicts_when_the_record_says_the_opposite(claim, conflict):
    values, changes = compared(claim)
    assert values["attributes_conflict"] == 1
    assert [change.told for change in changes] == [conflict]


@pytest.mark.parametrize(
    "claim",
    [
        "Parking: Garage (false), Street (true).",
        "Parking (garage) is not available, and the street has parking.",
        "There is no garage, lot or outdoor seating.",
        "It has WiFi, but outdoor seating and garage parking are not offered.",
        "While WiFi is free, outdoor seating is not available.",
        "Outdoor seating: not available.",
        "It does not have outdoor seating, and there is WiFi.",
        "The street has parking rather than a garage.",
    ],
)
def test_denial_holds_for_its_clause_and_its_list(claim):
    values, changes = compared(claim)
    assert (changes, *values.values()) == ((), 0, 0)


@pytest.mark.parametrize(
    "claim",
    [
        "Restaurant reservations are not specified.",
        "There is no information on restaurant reservations.",
        "Restaurant reservations: none.",
        "No hours or restaurant reservations are listed.",
        "Parking on the street is possible; restaurant reservations (null).",
    ],
)
def test_claim_agrees_when_it_says_that_the_record_is_silent(claim):
    values, _ = compared(claim)
    assert values == {"attributes_conflict": 0, "attributes_unknown": 0}


def test_claim_conflicts_when_it_calls_silent_what_the_record_says():
    assert compared("Outdoor seating is unspecified.")[0]["attributes_conflict"] == 0
    assert compared("WiFi is not specified.")[0]["attributes_conflict"] == 1


def test_claim_is_unknown_when_the_record_lacks_the_attribute():
    values, changes = compared("Restaurants here take reservations.")
    assert (values["attributes_unknown"], changes) == (1, ())


def test_title_of_a_list_states_nothing_of_what_it_names():
    values, changes = compared("Parking and outdoor seating: guests may park on the street.")
    assert (changes, values["attributes_conflict"]) == ((), 0)


def test_street_name_is_not_read_as_an_attribute():
    assert not any(compared("Rosa is at 5 Mill Street.")[0][n] for n in RECORD_FEATURES[:3])


def test_claim_agrees_when_one_of_two_records_does():
    other = RECORD.replace('"OutdoorSeating": false', '"OutdoorSeating": true')
    assert compared("One has outdoor seating.", RECORD, other)[0]["attributes_conflict"] == 0


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("It is open on Monday from 4 PM to 9 PM.", []),
        ("Open on Monday from 4:00 p.m. to 9:00 p.m.", []),
        ("Open on Mondays from 16:00 to 22:00.", [("16:00 to 22:00", "16:00 to 21:00")]),
        ("It is open from 4 PM to 9 PM, Monday to Friday.", []),
        (
            "Open Monday through Wednesday from 4 pm to 10 pm.",
            [("16:00 to 22:00", "16:00 to 21:00")],
        ),
        ("It is open daily from 5 PM to 9 PM.", [("17:00 to 21:00", "16:00 to 21:00")]),
        ("It is open from 4 PM to 10 PM except on Monday.", []),
        ("It seats 40 people on Monday.", []),
        ("Open from 4 pm to 9 pm every day of the week.", [("saturday", "other days")]),
        ("Open Monday to Sunday from 4 pm to 9 pm.", [("saturday", "other days")]),
        ("On weekdays it is open from 4 pm to 9 pm or 10 pm.", []),
        ("Open 4 pm to 9 pm on Monday, with no Sunday hours listed.", []),
    ],
)
def test_hours_are_compared_by_day_when_claimed(claim, changed):
    [found] = read(None, [RECORD], claim).claims
    assert [change[:2] for change in found.changes] == changed


@pytest.mark.parametrize(
    ("passage", "right", "wrong"),
    [
        (
            "The shop is open from 9 am to 6 pm on weekdays and from 10 am to 4 pm on Saturdays.",
            "On Saturdays it is open from 10 am to 4 pm.",
            "On Saturdays it is open from 9 am to 6 pm.",
        ),
    ],
)
def test_hours_of_another_day_are_a_change(passage, right, wrong):
    found = [read(None, [passage], claim).claims[0].changes for claim in (right, wrong)]
    assert [bool(changes) for changes in found] == [False, True]


@pytest.mark.parametrize(
    "claim",
    [
        "Monday through Friday: 7:30-18:30; Saturday: 10:00-15:00.",
        "On Friday it is open from 7:30 to 18:30.",
        "On Sunday it is open from 10:00 to 15:00.",
        "It is open Monday to Friday from 7:30 to 18:30, on Saturdays only until 15:00.",
    ],
)
def test_hours_in_other_words_are_no_change(claim):
    passage = (
        "We are open from 7:30 until 18:30 on weekdays and from 10:00 until 15:00 on weekends."
    )
    assert not read(None, [passage], claim).claims[0].changes


def test_hours_of_one_record_of_several_are_no_change():
    other = RECORD.replace("16:0-21:0", "8:0-12:0")
    [claim] = read(None, [RECORD, other], "One is open on Monday from 8 am to 12 pm.").claims
    assert not claim.changes


@pytest.mark.parametrize(
    "claim",
    [
        "The ambience is calm, in the absence of outdoor seating.",
        "It is noted to have free WiFi.",
    ],
)
def test_reworded_claim_is_not_a_conflict_unless_it_denies(claim):
    assert compared(claim)[0]["attributes_conflict"] == 0


def test_nothing_is_compared_when_no_passage_is_a_record():
    values, changes = compared("There is outdoor seating.", "It has no outdoor seating.")
    assert not any(values.values())
    assert changes == ()

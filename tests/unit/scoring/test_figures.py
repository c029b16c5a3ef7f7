"""A figure belongs to its subject, or follows from those that it is calculated from."""

import pytest

from monitor.metrics import evaluate
from monitor.models.interaction import Turn
from monitor.scoring.local.calculations import computed_figures
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import read

STORAGE = "Plans: Mini 5 GB (free), Plus 200 GB (2.99 USD), Max 2 TB (9.99 USD)."
BAGS = [
    "Metro: fits laptops up to 14 inch, 39 EUR.",
    "Commuter: fits laptops up to 17 inch, 59 EUR.",
]
DRINKS = "Coffee costs 3 euros, tea costs 2 euros, and juice costs 4 euros."
CONTEST = "Concours : dépôt des candidatures avant le 10 mars, envoi des œuvres avant le 2 avril."
FRIDGES = ["Polar 1: 145 kWh/año, 176 cm de alto, 60 cm de ancho.",
           "Polar 2: 110 kWh/año, 186 cm de alto, 60 cm de ancho."]  # fmt: skip
TICKETS = "Adults pay 12 euros, children pay 6 euros. In winter adults pay 9 euros."
KAYAKS = "Kayak simple : 12 € l'heure. Kayak double : 18 € l'heure, 45 € les trois heures, 75 € la journée."  # noqa: E501 - as in a price list


def changes(claim, *contexts, query=""):
    return [each for found in read(query, contexts, claim).claims for each in found.changes]


@pytest.mark.parametrize(
    ("claim", "contexts", "said", "told"),
    [
        ("| Plus | 2 TB |", [STORAGE], "2 TB", "200 GB"),
        ("Tea costs 3 euros.", [DRINKS], "3 euros", "2 euros"),
        ("The Metro fits laptops up to 17 inch.", BAGS, "17 inch", "14 inch"),
        ("The Metro costs 59 EUR.", BAGS, "59 EUR", "39 EUR"),
        ("Le kayak simple coûte 18 € l'heure.", [KAYAKS], "18 euro", "12 euro"),
    ],
)
def test_figure_of_another_subject_is_a_change(claim, contexts, said, told):
    assert [(each.said, each.told) for each in changes(claim, *contexts)] == [(said, told)]


@pytest.mark.parametrize(
    ("claim", "contexts"),
    [
        ("Max has 2 TB of storage.", [STORAGE]),
        ("The Metro costs 39 EUR.", BAGS),
        ("Œuvres : 2 avril", [CONTEST]),
        ("La Polar 1 tiene 176 cm de alto.", FRIDGES),
        ("Le kayak double coûte 75 € par jour.", [KAYAKS]),
        ("Children pay 6 euros, half of what adults pay.", [TICKETS]),
        ("In winter the price for adults is 9 euros.", [TICKETS]),
        ("Tickets for kids cost 6 euros.", ["Tickets cost 12 euros, and children pay 6 euros."]),
        ("The Nova 15 has 16 GB.", ["The Nova 13 has 8 GB, its sibling, the Nova 15, has 16 GB."]),
        ("The film runs 2 hours and 15 minutes.",
         ["The film Northern Pass runs 135 minutes. The short before it runs 15 minutes."]),
        ("Basic costs 50 euros annually.", ["Basic costs 5 euros a month, 50 euros a year."]),
        ("The notice period is three months then.",
         ["During probation the notice period is two weeks, afterwards three months."]),
    ],
)  # fmt: skip
def test_figure_of_its_own_subject_is_no_change(claim, contexts):
    assert changes(claim, *contexts) == []


def test_figure_of_a_sentence_that_goes_on_is_of_the_subject_before():
    plans = "The Premium plan is for teams. It costs 49 euros. The Basic plan costs 19 euros."
    assert not changes("The Premium plan costs 49 euros.", plans)
    [change] = changes("The Basic plan costs 49 euros.", plans)
    assert change.told == "19 euros"


def test_figure_without_a_subject_is_no_change():
    assert not changes("It costs a bit more: 59 EUR.", *BAGS)


def test_row_of_a_table_may_have_its_figures_from_several_sentences():
    trial = ["Drug A: nausea 18, dizziness 4, dropout 6.", "Drug B: nausea 7, dizziness 5."]
    assert not changes("| Dizziness | 4 | 5 |", *trial)


def test_short_answer_has_the_subject_of_its_question():
    assert [each.told for each in changes("59 EUR.", *BAGS, query="How much is the Metro?")]
    assert not changes("39 EUR.", *BAGS, query="How much is the Metro?")
    assert not changes("59 EUR.", *BAGS, query="How much is the Commuter?")
    assert not changes("59 EUR.", *BAGS, query="Is the Metro or the Commuter dearer?")


def test_wrong_figure_says_what_the_passage_has_instead():
    record = {"query": "How much is the Metro?", "contexts": BAGS, "output": "It costs 59 EUR."}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score < 0.2
    [claim] = found.metadata["claims"]
    reason = 'it says "59 EUR", the passage "39 EUR"'
    assert claim["reason"] == reason
    assert claim["evidence"] == BAGS[0]  # and not the one that has 59 EUR
    assert found.explanation.endswith(f'not found: "It costs 59 EUR" ({reason}).')


def computed(query, output, *contexts, history=()):
    turns = [Turn(role=role, content=content) for role, content in history]
    return {*computed_figures(query, turns, Passages(contexts), output)}


@pytest.mark.parametrize(
    ("query", "output", "found"),
    [
        ("What do 7 kayaks cost?", "They cost 126 euros.", {"126"}),
        ("What do 7 kayaks cost?", "They cost 136 euros.", set()),
        ("What is left of 50 euros after a kayak?", "You have 32 euros left.", {"32"}),
        ("I have 50 euros. What does a kayak cost?", "A kayak costs 32 euros.", set()),
        ("In 2024, what does a kayak cost?", "A kayak costs 2042 euros.", set()),
        ("My order 881 is late. What does a kayak cost?", "A kayak costs 899 euros.", set()),
        ("What is it with 20% off?", "It is 14.40 euros then.", {"14.4"}),
        ("What is it with 20% off?", "It is 14,40 euros then.", {"14,40"}),
        ("What is the difference between kayak and tent?", "Kayak 18, tent 45: 27 euros.", {"27"}),
        ("What do kayak and tent cost in total?", "Together 63 euros.", {"63"}),
        ("What does a kayak cost?", "A kayak costs 63 euros.", set()),  # asks for no sum
        ("What do 2 kayaks cost?", "It is 9 euros.", set()),  # too small to tell
    ],
)
def test_figure_is_computed_only_where_the_question_gives_cause(query, output, found):
    assert computed(query, output, "A kayak costs 18 euros.", "A tent costs 45 euros.") == found


def test_figure_of_an_earlier_turn_may_be_spread_over_a_period():
    history = [("user", "What is the Team plan?"), ("assistant", "1,440 dollars a year.")]
    found = computed("How much is that each month?", "120 dollars.", "Team: 1,440 dollars a year.",
                     history=history)  # fmt: skip
    assert found == {"120"}


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Und im Monat?", "Das sind 8 Euro."),
        ("So what is the difference over a year?", "84 dollars."),
        ("And in a week?", "It is 99 dollars."),
    ],
)
def test_period_of_another_length_is_computed_however_small(query, output):
    history = [("user", "Prices?"), ("assistant", "Print 18 dollars, digital 11, Hausrat 96.")]
    passage = "Print 18 dollars a month, digital 11 dollars a month, Hausrat 96 Euro im Jahr."
    found = computed(query, output, passage, history=history)
    assert bool(found) is ("99" not in output)


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("Treu ist 2 € günstiger und bietet 2 GB mehr.", {"2"}),
        ("Treu ist 3 € günstiger und bietet 4 GB mehr.", set()),
        ("Treu kostet 2 €.", set()),
    ],
)
def test_difference_is_computed_wherever_an_answer_states_one(output, found):
    tariffs = ("Tarif Flex: 9,99 € im Monat, 8 GB.", "Tarif Treu: 7,99 € im Monat, 10 GB.")
    assert computed("Vergleiche die Tarife.", output, *tariffs) == found


def test_time_of_day_is_not_computed():
    history = [("user", "Wann?"), ("assistant", "Alle 15 Minuten von 5 bis 23 Uhr.")]
    passage = "Alle 15 Minuten von 5 bis 23 Uhr, sonntags von 7 bis 22 Uhr."
    assert not computed("Und sonntags?", "Zwischen 7 und 22 Uhr.", passage, history=history)


def test_figure_that_only_an_earlier_answer_made_up_is_no_base():
    history = [("user", "What is the Team plan?"), ("assistant", "1,200 dollars a year.")]
    assert not computed("And monthly?", "100 dollars.", "Team: 1,440 dollars.", history=history)


def test_sum_and_mean_of_one_sentence_are_computed():
    ratings = "Ratings: 5, 4, 4, 3, 5, 7 points."
    assert computed("What is the average?", "The average is 4.67 points.", ratings) == {"4.67"}
    assert computed("Add up the points", "They add up to 28 points.", ratings) == {"28"}
    assert computed("Add up the points", "They add up to 29 points.", ratings) == set()


def test_thousands_of_figures_are_read_in_bounded_time():
    many = " ".join(f"{n} apples and {n + 0.5} pears." for n in range(3_000))
    assert computed(many, "They cost 123456789 euros.", many) == set()


def test_figure_of_the_sentence_that_the_question_names_is_no_change():
    leave = ["Staff have 24 days of leave per year. After five years it rises to 29 days."]
    asked = "How many days do I get after five years?"
    assert not changes("29 days per year.", *leave, query=asked)
    assert changes("29 days per year.", *leave, query="How many days of leave do staff have?")

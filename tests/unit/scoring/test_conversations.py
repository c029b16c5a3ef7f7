"""An answer in a conversation is judged by what its question refers to."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from monitor.metrics import evaluate
from monitor.models import EvaluationStatus, Interaction
from monitor.models.evaluation import PassRule
from monitor.scoring.local.requests import kind_of

FILE = Path(__file__).parents[2] / "golden/conversations.jsonl"
FOLLOW_UPS = FILE.with_name("follow_ups.jsonl")
SUPPORT = FILE.with_name("support_follow_ups.jsonl")  # shops, banks, trains, software, staff
CONVERSATIONS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
TURNS = ["Which plans do you have?", "There are three plans: Basic, Pro and Team."]
PASSAGES = ["Basic costs 5 euros a month.", "Pro costs 12 euros a month. It includes 100 GB."]


def turns(*texts):
    roles = ("user", "assistant") * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def verdict(query, output, said=TURNS, contexts=PASSAGES):
    record = {"query": query, "contexts": contexts, "output": output, "history": turns(*said)}
    [found] = evaluate([record])
    if all(each.status is EvaluationStatus.SKIPPED for each in found):
        return found[1].reason
    failed = [e for e in found if e.score is not None and not PassRule.of(e, 0.7).passes(e.score)]
    return "fail" if failed else "pass"


def relevance(query, output, said=TURNS, contexts=PASSAGES):
    record = {"query": query, "contexts": contexts, "output": output, "history": turns(*said)}
    [[found]] = evaluate([record], ["relevance"])
    if found.status is EvaluationStatus.SKIPPED:
        return found.reason
    return "pass" if found.score >= 0.2 else "fail"


def share(side, wanted):
    found = [verdict(c["query"], c[side], c["turns"], c["contexts"]) for c in CONVERSATIONS]
    return found.count(wanted) / len(found)


def test_right_answers_pass_in_95_of_100_conversations_of_four_languages():
    assert len(CONVERSATIONS) == 60
    assert {c["language"] for c in CONVERSATIONS} == {"en", "de", "fr", "es"}
    assert share("right", "pass") >= 0.95


def test_wrong_answers_pass_in_at_most_15_of_100_conversations():
    assert share("wrong", "pass") <= 0.15


def follow_ups(side, file=FOLLOW_UPS):
    for line in file.read_text("utf-8").splitlines():
        about = json.loads(line)
        for case in about["cases"]:
            if side in case:
                yield verdict(case["query"], case[side], about["turns"], about["contexts"])


def test_several_right_follow_ups_about_one_subject_fail_in_at_most_6_of_100():
    found = [*follow_ups("right")]
    assert len(found) > 70
    assert found.count("fail") <= 0.06 * len(found)


def test_off_topic_follow_up_answers_fail_in_at_least_60_of_100():
    found = [*follow_ups("beside")]
    assert len(found) > 50
    assert found.count("fail") >= 0.60 * len(found)


def test_right_follow_ups_to_support_bots_fail_in_at_most_5_of_100():
    found = [*follow_ups("right", SUPPORT)]
    assert len(found) == 60
    assert found.count("fail") <= 0.05 * len(found)


def test_true_but_off_topic_follow_up_answers_fail_in_at_least_45_of_100():
    found = [*follow_ups("beside", SUPPORT), *follow_ups("elsewhere", SUPPORT)]
    assert len(found) == 120
    assert found.count("fail") >= 0.45 * len(found)


@pytest.mark.parametrize(
    ("query", "output", "expected"),
    [
        ("And how much data does Pro have?", "It includes 100 GB.", "pass"),
        ("Is Pro free?", "No, it costs 12 euros a month.", "pass"),
        ("And Pro?", "Basic costs 5 euros a month.", "fail"),  # repeats what was said before
    ],
)
def test_follow_up_needs_facts_about_its_own_item(query, output, expected):
    said = ["How much is Basic?", "Basic costs 5 euros a month."]
    assert verdict(query, output, said) == expected


@pytest.mark.parametrize(
    ("query", "output", "expected"),
    [
        ("Und ein Pass?", "Ein Reisepass kostet 70 Euro.", "pass"),
        ("Und ein Pass?", "Ein Ausweis kostet 37 Euro.", "fail"),
    ],
)
def test_word_of_a_question_may_be_part_of_a_compound(query, output, expected):
    said = ["Was kostet ein Ausweis?", "Ein Ausweis kostet 37 Euro."]
    passages = ["Ein Ausweis kostet 37 Euro.", "Ein Reisepass kostet 70 Euro."]
    assert verdict(query, output, said, passages) == expected


@pytest.mark.parametrize(
    ("query", "output", "expected"),
    [
        ("What about the second one?", "Pro costs 12 euros a month.", "pass"),
        ("What about the second one?", "Basic costs 5 euros a month.", "fail"),
        ("How much is the second plan?", "It costs 12 euros a month.", "pass"),
        ("And Basic?", "Basic costs 5 euros a month.", "pass"),
        ("And Basic?", "It includes 100 GB.", "fail"),
        ("What did Basic cost last year?", "Basic costs 5 euros a month.", "pass"),
    ],
)
def test_answer_about_the_questions_referent_passes(query, output, expected):
    assert verdict(query, output) == expected


WALL = [
    "The wall was finished in 1961 by the city. It was painted red as red keeps bats away.",
    "The tower beside it is 30 metres high and holds 250 people. Visitors may climb it on Sundays.",
]


@pytest.mark.parametrize(
    ("query", "output", "expected"),
    [
        ("By whom?", "By the city.", "pass"),
        ("And the tower, how high is that?", "It was finished in 1961.", "fail"),
        ("How many people fit into the tower?", "It was finished in 1961.", "fail"),
        ("How many people fit into the tower?", "250.", "pass"),
        ("Can I climb the tower?", "It was finished in 1961.", "fail"),
        ("What about the tower?", "The wall was finished in 1961.", "fail"),
        ("Why is it red?", "Red keeps bats away.", "pass"),
    ],
)
def test_answer_passes_when_it_is_from_the_sentence_that_the_question_is_about(
    query, output, expected
):
    said = ["When was the wall finished?", "The wall was finished in 1961."]
    assert verdict(query, output, said, WALL) == expected


FERRIES = [
    "Ferry 2 (Pier - Old Town): every 10 minutes until 20:00, after that every 25 minutes.",
    "Ferry 5 (Station - Airport): every 15 minutes until 22:00, after that every 40 minutes.",
    "The castle in the Old Town is open from 9:00 to 17:00.",
]


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        ("After 20:00 it runs every 25 minutes.", False),
        ("After 22:00 it runs every 40 minutes.", True),
    ],
)
def test_answer_about_what_the_answer_before_named_does_not_pass_from_another_passage(
    output, wrong
):
    said = ["How do I get to the castle?", "Take ferry 2 from the Pier to the Old Town."]
    found = verdict("How often does it run late at night?", output, said, FERRIES)
    assert (found != "pass") is wrong


@pytest.mark.parametrize(
    ("output", "wrong"),
    [("Yes, it includes 100 GB.", False), ("Basic costs 5 euros a month.", True)],
)
def test_friendly_follow_up_question_is_judged_like_any_other(output, wrong):
    said = ["How much is Pro?", "Pro costs 12 euros a month."]
    assert kind_of("Sounds nice, data too?") == "talk"
    assert (verdict("Sounds nice, data too?", output, said) == "fail") is wrong


def test_order_of_the_passages_does_not_change_what_a_conversation_is_about():
    said = ["What does the ferry cost?", "It costs 6 euros."]
    passages = ["It is 10.5 litres of water.", "The run is a 10 km run.", "The cost is low."]
    found = {
        relevance("How much?", "It is 10 litres of water.", said, [*order])
        for order in permutations(passages)
    }
    assert len(found) == 1


def test_answer_from_beside_the_best_clause_is_not_failed():
    rent = "The rent is due on the third of a month. "
    late = "If it comes more than five days late, a fee of 15 euros is charged, and interest runs."
    lease = [rent + late, "Heating is charged as an advance and settled once a year."]
    said = ["When is my rent due?", "On the third of every month."]
    answer = "You are charged a fee of 15 euros, and interest."
    assert verdict("What happens if I am late?", answer, said, lease) != "fail"


ROUTERS = [
    "The Hearth router supports Wi-Fi 6 and has four LAN ports.",
    "The Hearth Mini is a repeater for rooms with a weak signal and has one LAN port.",
    "The Hearth Duo fits into a socket.",
]
PORTS = ["How many LAN ports does the Hearth router have?", "Four."]


@pytest.mark.parametrize(
    ("query", "output", "expected"),
    [
        ("And the Mini?", "The Hearth Mini has four LAN ports.", "fail"),
        ("And the Mini?", "The Hearth Mini has one LAN port.", "pass"),
        ("And the Mini?", "I don't have that information.", "fail"),
        (
            "And the Duo?",
            "The information does not say how many LAN ports it has.",
            "unclear_reference",
        ),
    ],
)
def test_answer_about_another_item_needs_what_the_passages_say_of_that_item(
    query, output, expected
):
    assert verdict(query, output, PORTS, ROUTERS) == expected


def test_it_goes_on_about_the_item_of_the_sentence_before_the_last():
    mini = "The Mini is our smallest model. It has four ports. It weighs 90 grams."
    passages = [f"{mini} The Maxi weighs 250 grams and has eight ports."]
    said = ["How much does the Maxi weigh?", "The Maxi weighs 250 grams."]
    assert verdict("And the Mini?", "It weighs 90 grams.", said, passages) == "pass"


def test_capitals_make_a_name_of_any_word():
    passages = ["Shipping to Canada takes 5 days.", "Shipping to the US takes 4 days."]
    said = ["How long does shipping to Canada take?", "Shipping to Canada takes 5 days."]
    assert verdict("And to the US?", "Shipping to the US takes 4 days.", said, passages) == "pass"


def test_answer_that_repeats_the_one_before_fails():
    said = ["When was the wall finished?", "It was finished in 1961."]
    assert verdict("And what happened next?", "In 1961.", said, WALL) == "fail"


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Where does the rosé come from?", "Also from Rioja."),
        ("Which one is cheaper?", "The red wine costs 9 euros."),
    ],
)
def test_same_answer_to_another_question_may_be_right(query, output):
    wines = ["Both wines come from Rioja. The red wine costs 9 euros, the rosé costs 11 euros."]
    said = ["Tell me about the red wine.", "The red wine comes from Rioja and costs 9 euros."]
    assert verdict(query, output, said, wines) != "fail"


def test_answer_that_says_the_same_of_another_day_is_no_mere_repeat():
    hours = ["The library is open Monday to Friday from 9:00 to 19:00."]
    said = ["When does the library open on Monday?", "From 9:00 to 19:00."]
    assert verdict("What about Thursday?", "Also from 9:00 to 19:00.", said, hours) != "fail"


def test_answer_that_no_passage_has_a_word_of_skips_relevance():
    said = ["When was the wall finished?", "It was finished in 1961."]
    output = "Closed for lunch."
    assert relevance("What are the opening hours?", output, said, WALL) == "unclear_reference"


def test_relevance_is_skipped_when_the_reference_is_ambiguous():
    assert relevance("And the third one?", "Thirty.", contexts=[]) == "unclear_reference"


def test_repeated_question_is_judged_on_its_own():
    assert verdict("Can you repeat the plans?", TURNS[1], contexts=[TURNS[1]]) != "fail"


def test_chat_messages_are_read_as_history_query_and_output():
    messages = [
        {"role": "system", "content": "Be brief."},
        *turns(*TURNS, "And Basic?"),
        {"role": "assistant", "content": [{"type": "text", "text": "5 euros."}]},
    ]
    found = Interaction.model_validate({"id": "1", "messages": messages})
    assert (found.query, found.output) == ("And Basic?", "5 euros.")
    assert [turn.content for turn in found.history] == TURNS
    assert "messages" not in found.metadata


def test_non_chat_messages_stay_in_the_metadata():
    found = Interaction.model_validate({"id": "1", "output": "a", "messages": ["x"]})
    assert found.metadata == {"messages": ["x"]}


def test_reason_is_not_the_answer_before_once_more():
    passages = ["The tram was stopped because of a fallen tree. It runs again from Monday."]
    said = ["Did the tram run?", "No, the tram was stopped."]
    assert relevance("Why?", "The tram was stopped.", said, passages) == "unclear_reference"
    assert relevance("Why?", "Because of a fallen tree.", said, passages) == "pass"


TRIP = ["The kayak costs 18 euros an hour. The tent costs 24 euros a night and sleeps 3 people."]


@pytest.mark.parametrize(
    ("said", "query", "output", "expected"),
    [
        (["What does the tent cost?", "24 euros a night."],
         "So how much for 5 nights?", "That makes 120 euros for five nights.", "calculated"),
        (["What does the tent cost?", "24 euros a night."],
         "So how much for 5 nights?", "That makes 145 euros for five nights.", "fail"),
        (["How many sleep in the tent?", "3 people.", "And the price?", "24 euros a night."],
         "What is that per month of 30 nights?", "It comes to 720 euros.", "calculated"),
    ],
)  # fmt: skip
def test_figure_calculated_from_earlier_turns_gets_no_score(said, query, output, expected):
    assert verdict(query, output, said, TRIP) == expected


def test_answer_in_words_of_its_own_is_not_called_off_topic():
    passages = ["Solvang ran the observatory until her retirement in 1963. Lunde succeeded her.",
                "The dish was built in 1968 under Lunde, who had studied in Uppsala."]  # fmt: skip
    said = ["Who founded the observatory?", "Ingrid Solvang did."]
    [found] = evaluate(
        [{"query": "When did she leave?", "contexts": passages, "history": turns(*said),
          "output": "Solvang gave up her position there in 1963."}], ["relevance"])  # fmt: skip
    assert found[0].score is None or found[0].score > 0.2


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("now less formal please", "Hey! The kayak is 18 euros an hour."),
        ("add the price of the tent", "The kayak costs 18 euros an hour, the tent 24 euros."),
    ],
)
def test_instruction_about_the_answer_before_is_not_failed_for_repeating_it(query, output):
    said = ["Write a note about the kayak.", "The kayak costs 18 euros an hour."]
    assert verdict(query, output, said, TRIP) != "fail"


@pytest.mark.parametrize(
    ("query", "output", "reason"),
    [
        ("And the tower, how high is that?", "It was finished in 1961.", "another sentence"),
        ("And what happened next?", "In 1961.", "the numbers of an earlier answer"),
    ],
)
def test_low_relevance_in_a_conversation_says_why(query, output, reason):
    said = turns("When was the wall finished?", "The wall was finished in 1961.")
    record = {"query": query, "contexts": WALL, "output": output, "history": said}
    [[found]] = evaluate([record], ["relevance"])
    assert reason in found.explanation

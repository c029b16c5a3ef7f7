"""Instructions, small talk, yes or no and bare numbers are judged as what they are, or skipped."""

import json
from pathlib import Path

import pytest

from monitor.metrics import evaluate, relevance

FILE = Path(__file__).parents[2] / "golden/requests.jsonl"
REQUESTS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
ARTICLE = ["The council closes the harbour bridge to cars in spring. Buses may still use it."]


def failed(request):
    record = {key: request[key] for key in ("query", "contexts", "output")}
    [[found]] = evaluate([record], ["relevance"])
    return found.score is not None and found.score < 0.7


def test_at_most_2_of_100_right_answers_fail():
    wrong = [r["query"] for r in REQUESTS if r["right"] and failed(r)]
    assert len(wrong) <= 0.02 * len(REQUESTS), wrong


def test_at_least_70_of_100_wrong_answers_fail():
    wrong = [failed(request) for request in REQUESTS if not request["right"]]
    assert wrong.count(True) >= 0.7 * len(wrong)


def test_no_wrong_answer_passes():
    wrong = [request for request in REQUESTS if not request["right"]]
    scores = [relevance(**{k: r[k] for k in ("query", "contexts", "output")}).score for r in wrong]
    assert all(score is None or score < 0.7 for score in scores)


@pytest.mark.parametrize(
    ("query", "output", "reason"),
    [
        ("thanks, that helped!", "You're welcome!", "small_talk"),
        ("Guten Morgen", "Guten Morgen!", "small_talk"),
        ("Translate the article into French.", "Le conseil ferme le pont.", "instruction"),
        ("Please write a poem about the bridge", "Over the water it bends.", "instruction"),
    ],
)
def test_relevance_is_skipped_when_words_cannot_decide(query, output, reason):
    assert relevance(query=query, contexts=ARTICLE, output=output).reason == reason


@pytest.mark.parametrize(
    ("query", "output", "passes"),
    [
        ("Could you please summarize this article?", "The bridge is closed to cars.", True),
        ("Summarize the article.", "Football is played by two teams.", False),
        ("List all vehicles mentioned in the text.", "Cars and buses.", True),
        ("May buses use the bridge?", "Yes.", True),
        ("Which vehicles may use the bridge?", "Yes.", False),
        ("Who closes the bridge?", "The council.", True),
    ],
)
def test_short_answers_are_judged_by_the_requested_kind(query, output, passes):
    assert (relevance(query=query, contexts=ARTICLE, output=output).score >= 0.7) is passes


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Translate the article into French.", "Le conseil ferme le pont."),
        ("What does this German letter say? Translate please", "Le conseil ferme le pont."),
        ("Translate this into Finnish", "Vanha silta on suljettu autoilta ensi kevääseen asti."),
    ],
)
def test_translation_is_not_judged_by_the_words_of_its_passages(query, output):
    [found] = evaluate([{"query": query, "contexts": ARTICLE, "output": output}])
    assert [each.reason for each in found] == ["unsupported_text", "instruction"]


@pytest.mark.parametrize(
    ("query", "output", "reason"),
    [
        ("Fasse den Artikel zusammen.",
         "Die Stadt hat die Brücke für Autos gesperrt, aber Busse dürfen sie noch nutzen.",
         "unsupported_text"),
        ("Pourquoi le pont est-il fermé ?",
         "Il est fermé aux voitures, mais les bus peuvent encore passer avec les vélos.",
         "unsupported_text"),
        ("Who closes the bridge?",
         "It was closed by a film crew that had been there with their van.", ""),
        ("What is the film?",
         "The film is called Le pont et les voitures, and it was made in a studio by the sea.", ""),
    ],
)  # fmt: skip
def test_groundedness_is_skipped_when_answer_and_passages_are_of_two_languages(
    query, output, reason
):
    [found] = evaluate([{"query": query, "contexts": ARTICLE, "output": output}])
    assert found[0].reason == reason
    assert found[0].score is None if reason else found[0].score < 0.5


FERRY = ["A ticket for the ferry costs 9.80 euros, for children 4.90 euros.",
         "The crossing to the island takes 55 minutes. Dogs travel free."]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("We are 2 adults. What does the ferry cost?", "2 × 9.80 = 18.60 euros for both of you."),
        ("Draft a reply: Ms Lee asks for the price of the ferry.",
         "Dear Ms Lee, many thanks. A ticket costs 9.80 euros. Our crew still sings of you."),
        ("Convert the length of the crossing to hours", "The crossing takes 0.92 hours."),
        ("Reken uit wat 5 kaartjes kosten.", "5 × € 9,80 = € 49,00."),
        ("Explain the ferry like I'm 6",
         "A big boat swims over to an island, and your puppy may come along for nothing."),
    ],
)  # fmt: skip
def test_groundedness_is_skipped_when_an_answer_computes_or_writes_something_new(query, output):
    [[found]] = evaluate([{"query": query, "contexts": FERRY, "output": output}], ["groundedness"])
    assert found.reason == "unsupported_text"


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("We are 2 adults. What does the ferry cost?", "2 × 9.80 = 19.60 euros for both of you."),
        ("We are 3 people, what do we pay for the ferry?", "You pay 29.40 euros for the ferry."),
        ("How much is the ferry for two in total?",
         "The ferry costs 19.60 euros, as each of you pays 9.80 euros."),
        ("How many minutes is the crossing there and back?", "2 × 55 = 110 minutes."),
        ("How many trips are that with 440 minutes?", "440 minutes ÷ 55 = 8 trips."),
    ],
)  # fmt: skip
def test_answer_that_may_be_calculated_from_two_figures_gets_no_score(query, output):
    [found] = evaluate([{"query": query, "contexts": FERRY, "output": output}])
    assert not [e for e in found[:2] if e.score is not None and e.score < 0.5], found
    assert found[1].reason == "calculated"


@pytest.mark.parametrize(("output", "right"), [("12", True), ("13", False)])
def test_figure_that_a_question_asks_for_is_not_calculated_from_a_single_one(output, right):
    seats = {"query": "How many seats are left?", "contexts": ["There are 12 seats left."]}
    [[found]] = evaluate([seats | {"output": output}], ["groundedness"])
    assert (found.score >= 0.7) is right


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Close the garage door", "I've closed the garage door."),
        ("Book table 9", "Table 9 has been booked."),
        ("Lösche die Erinnerung", "Ich habe die Erinnerung gelöscht."),
    ],
)
def test_confirmation_that_something_was_done_is_relevant(query, output):
    [[found]] = evaluate([{"query": query, "output": output}], ["relevance"])
    assert found.score is None or found.score >= 0.5


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Who owns the ferry?", "The ferry."),
        ("Close the garage door", "The garage door."),
        ("ferry price", "Ferry price."),
    ],
)
def test_answer_that_only_repeats_its_request_is_not_relevant(query, output):
    [[found]] = evaluate([{"query": query, "output": output}], ["relevance"])
    assert found.score == 0


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("What does the ferry cost?", "A ticket for the ferry costs 17 euros."),
        ("We are 2 adults. What does the ferry cost?", "A ticket for the ferry costs 17 euros."),
        ("What does the ferry for order 4711 cost?", "A ticket for the ferry costs 17 euros."),
        ("How much luggage may 2 people take?", "You may take 4 suitcases of up to 23 kg each."),
        ("When does the ferry at 8:00 arrive?", "The ferry at 8:00 arrives at 11:30."),
        ("Can my daughter take the ferry alone?", "She needs a guardian until she is 14."),
        ("Draft a reply about the price of the ferry.",
         "Dear customer, a ticket for the ferry costs 23 euros. Best wishes"),
        ("What does the ferry cost?", "A ticket for the ferry costs 17 euros · 55 minutes."),
        ("Did the island convert to euros?", "The crossing to the island takes 75 minutes."),
    ],
)  # fmt: skip
def test_made_up_figure_fails_when_nothing_is_computed(query, output):
    [[found]] = evaluate([{"query": query, "contexts": FERRY, "output": output}], ["groundedness"])
    assert found.score < 0.5


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("Thanks for the tips, have a nice weekend!", "small_talk"),
        ("Vielen Dank für die schnelle Antwort", "small_talk"),
        ("Super, vielen Dank für die schnelle Hilfe!", "small_talk"),
        ("How's your day going?", "small_talk"),
        ("How is the data stored?", "unclear_reference"),
        ("Thanks for the tips, but what does the ferry cost?", "unclear_reference"),
    ],
)
def test_thanks_are_small_talk_unless_a_question_follows(query, reason):
    assert relevance(query=query, contexts=FERRY, output="My pleasure, enjoy.").reason == reason


@pytest.mark.parametrize(
    ("query", "output", "contexts"),
    [
        ("List all ingredients", "Flour, eggs and milk", ["Pancakes: flour, eggs and milk."]),
        ("Could you shorten that?", "Buses may use the bridge, cars may not.", ARTICLE),
        ("Saca todos los nombres del texto.", "El puente y los autobuses llenos",
         ["En el puente hay autobuses llenos."]),
    ],
)  # fmt: skip
def test_answer_from_the_passages_passes_for_an_instruction_without_their_words(
    query, output, contexts
):
    assert relevance(query=query, contexts=contexts, output=output).score >= 0.7


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Do you have the kettle in green?",
         "I can't tell from the articles I have. They cover the ferry and the crossing."),
        ("Kann ich mit Karte zahlen?",
         "Dazu steht in den Unterlagen leider nichts. Genannt werden nur die Preise."),
    ],
)  # fmt: skip
def test_relevance_is_skipped_when_an_answer_declines_and_says_what_there_is(query, output):
    assert relevance(query=query, contexts=FERRY, output=output).reason == "right_refusal"


def test_refusal_that_goes_on_fails_when_the_passages_contain_the_answer():
    found = relevance(query="How long does the crossing to the island take?", contexts=FERRY,
                      output="I don't know that. Please try again next spring.")  # fmt: skip
    assert found.score < 0.2


def test_refusal_fails_when_the_passages_contain_the_figure():
    found = relevance(query="How long is the fair?", contexts=["The fair is 3 days long."],
                      output="I'm sorry, I don't know.")  # fmt: skip
    assert found.score < 0.5


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("I'd like to speak to a human", "I'll connect you to a colleague right away."),
        ("Alles klar, tschüss", "Auf Wiedersehen und einen schönen Tag!"),
        ("Merci beaucoup, bonne journée", "Avec plaisir, bonne journée à vous !"),
        ("¿Quién eres?", "Soy el asistente virtual de la ciudad."),
        ("Who won the cup in 1998?", "I can only answer questions about the harbour."),
    ],
)
def test_small_talk_and_self_descriptions_get_no_score(query, output):
    record = {"query": query, "contexts": ARTICLE, "output": output}
    [found] = evaluate([record])
    assert [each.score for each in found] == [None, None]


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Label the urgency: low, medium or high", "Medium"),
        ("Mega, vielen lieben Dank dir!", "Melde dich gern, wenn noch etwas ist."),
    ],
)
def test_answer_that_needs_no_passage_gets_no_score(query, output):
    [found] = evaluate([{"query": query, "contexts": ARTICLE, "output": output}])
    assert [each.score for each in found] == [None, None]


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("parental leave deadline", "Applications close on 15 April and need two signed forms."),
        ("How long do refunds take?", "Employees get thirty days of paid leave every year."),
        ("Draft an email on refunds", "A refund costs a fee of 90 euros, says the tax office."),
        ("Summarize this article", "An earthquake destroyed forty houses in Lisbon overnight."),
    ],
)
def test_invented_answer_fails_whatever_the_passages_are_about(query, output):
    [found] = evaluate([{"query": query, "contexts": ARTICLE, "output": output}])
    assert found[0].score < 0.2


@pytest.mark.parametrize("output", ["Sí.", "Non.", "Unfortunately not.", "Ja!"])
def test_bare_yes_or_no_states_nothing_to_check(output):
    [[found]] = evaluate(
        [{"query": "May buses use it?", "contexts": ARTICLE, "output": output}], ["groundedness"]
    )
    assert found.score is None


@pytest.mark.parametrize(
    ("output", "passes"),
    [
        ('{"days": "Tuesday-Saturday", "opens": "10:00", "closes": "18:00"}', True),
        ('```json\n[{"days": "Tuesday-Saturday"}, {"opens": "10:00"}]\n```', True),
        ('{"days": "Sunday", "opens": "7:15", "closes": "23:45"}', False),
        ('{"fee": "ninety gold coins", "follow_up": "anything else?"}', False),
        ('{"status": "ok", "city": "Paris"}', False),
        ('{"answer": "It is closed in August.", "confidence": 0.95, "sources": [1]}', True),
        ('{"fee": "gold coins", "note": "I don\'t know"}', False),
    ],
)
def test_values_of_a_json_answer_are_checked_and_its_keys_are_not(output, passes):
    context = "The library is open from Tuesday to Saturday, 10 am to 6 pm, and closed in August."
    record = {"query": "Give me the hours as JSON", "contexts": [context], "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert (found.score >= 0.5) is passes


def test_reason_for_a_label_may_be_in_any_words_and_has_no_figure_of_its_own():
    record = {"query": "Classify this ticket: low, medium or high.", "contexts": ARTICLE}
    [[found]] = evaluate([record | {"output": "Low: nothing urgent."}], ["groundedness"])
    assert found.score is None
    [[found]] = evaluate([record | {"output": "High: 900 euros are lost."}], ["groundedness"])
    assert found.score < 0.2


@pytest.mark.parametrize(
    "question",
    [
        "What is the priority of a refund?",
        "Rate limits of the refund API?",
        "How do refunds work in plain English?",
        "Hold on, how do refunds work?",
        "Let me check how long refunds take",
        "asbestos",
        "visa fees",
    ],
)
def test_question_that_sounds_like_a_request_or_small_talk_is_judged(question):
    output = "Elephants in cages paint wooden ceilings."
    [[found]] = evaluate(
        [{"query": question, "contexts": ARTICLE, "output": output}], ["groundedness"]
    )
    assert found.score < 0.2


def test_greeting_is_not_checked_but_figures_in_place_of_one_are():
    record = {"query": "Good morning!", "contexts": ARTICLE}
    for output, checked in (
        ("Good morning! We are here day and night.", False),
        ("It has 209 rooms.", True),
    ):
        [[found]] = evaluate([record | {"output": output}], ["groundedness"])
        assert (found.score is not None) is checked


@pytest.mark.parametrize("query", ["hi", "Who may use it?"])
def test_statement_after_a_courtesy_phrase_is_checked(query):
    output = "Sure, bicycles may use the harbour bridge at night."
    record = {"query": query, "contexts": ARTICLE, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score is not None


@pytest.mark.parametrize(
    ("query", "output", "reason"),
    [
        ("Do you ever get tired?", "Not at all! I'm here day and night.", "small_talk"),
        ("Wie geht es dir?", "Danke, alles bestens! Ich bin ja nur ein Programm.", "small_talk"),
        ("Tell me a joke", "Why do bees hum? Because they forgot the words.", "small_talk"),
    ],
)
def test_what_is_asked_of_the_assistant_itself_gets_no_score(query, output, reason):
    [found] = evaluate([{"query": query, "contexts": ARTICLE, "output": output}])
    assert [each.score for each in found] == [None, None]
    assert found[1].reason == reason


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Do you offer gift wrapping?", "Yes, we wrap gifts in silk."),
        ("Do you ship to Norway?", "The store ships to Norway free of charge."),
        ("Who wrote the poem on the wall?", "A sailor called Brandt carved those verses."),
        ("When did it start?", "The company was founded in 1987 and moved 3 years later."),
    ],
)
def test_made_up_answer_about_a_firm_is_checked(query, output):
    record = {"query": query, "contexts": ARTICLE, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score < 0.2


def test_summary_in_another_language_than_its_text_is_not_judged():
    german = "Der Stadtrat hat die Brücke im Hafen gesperrt, und die Autos müssen außen herum."
    found = relevance(query="Fasse den Text bitte zusammen.", contexts=ARTICLE, output=german)
    assert found.reason == "instruction"


def test_question_that_begins_with_how_many_needs_a_number():
    query = "What happens when I cancel, and how many days do I have?"
    policy = ["What happens when you cancel: you lose access, and your data is kept."]
    assert relevance(query=query, contexts=policy, output=policy[0]).reason != "unclear_reference"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("What is the phone number of the mayor?", "right_refusal"),
        ("Why is the bridge closed to cars?", "unclear_reference"),  # the passages speak of it
    ],
)
def test_refusal_is_right_only_where_the_passages_hold_little_of_the_question(query, reason):
    output = "The documents do not say that."
    assert relevance(query=query, contexts=ARTICLE, output=output).reason == reason


@pytest.mark.parametrize(
    ("query", "output", "context"),
    [
        ("When may guests come?", "Guests come on weekends.", "Guests may come on weekends."),
        (
            "When is delivery free?",
            "It is free above 40 euros.",
            "Delivery is free above 40 euros.",
        ),
        ("When do I need a note?", "From the third day.", "A note is needed from the third day."),
        ("How much is a plan?", "Contact sales for a plan.", "Contact sales for a plan."),
        (
            "How much leave do I get?",
            "You get 28 days of leave.",
            "Employees get 28 days of leave.",
        ),
    ],
)
def test_figure_may_be_spelled_out_in_words(query, output, context):
    found = relevance(query=query, contexts=[context], output=output)
    assert found.score is None or found.score >= 0.2


SCHEDULE = ["The workshop on bread begins at 18:00 in the old bakery. Bring an apron and a box."]


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("could you make this nicer?", "An apron is all you need to look the part!"),
        ("Jot me a line for the noticeboard", "Come and bake with us; apron and box needed."),
    ],
)
def test_answer_to_a_request_is_not_failed_for_words_of_its_own(query, output):
    found = evaluate([{"query": query, "contexts": SCHEDULE, "output": output}])[0]
    assert not [e for e in found[:2] if e.score is not None and e.score < 0.5], found


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Jot me a line for the noticeboard", "Come to the workshop on bread at 19:30."),
        ("When does the workshop begin?", "Elephants carry heavy logs through the jungle."),
        ("workshop apron box", "Elephants carry heavy logs through the jungle."),
    ],
)
def test_changed_or_foreign_answer_fails_whatever_was_asked(query, output):
    [[found]] = evaluate(
        [{"query": query, "contexts": SCHEDULE, "output": output}], ["groundedness"]
    )
    assert found.score < 0.5


@pytest.mark.parametrize(
    ("query", "output", "scored"),
    [
        ("Explain it like I'm 12",
         "Imagine a bridge of toys. The long ones with many seats can go across.", False),
        ("Who may use the bridge?",
         "Imagine a bridge of toys. The long ones with many seats can go across.", True),
    ],
)  # fmt: skip
def test_simple_words_for_a_child_are_not_judged(query, output, scored):
    record = {"query": query, "contexts": ARTICLE, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert (found.score is not None) is scored


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Route it: Billing, Technical, or Sales?", "Billing"),
        ("Rate each comment: positive, negative or neutral", "1. Positive\n2. Neutral"),
    ],
)
def test_label_that_no_passage_has_is_not_judged(query, output):
    [found] = evaluate([{"query": query, "contexts": SCHEDULE, "output": output}])
    assert [e.score for e in found[:2]] == [None, None]


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("At 17:00 or 18:00 or 19:00?", "At 19:00"),
    ],
)
def test_choice_of_which_the_passages_have_another_fails(query, output):
    [[found]] = evaluate(
        [{"query": query, "contexts": SCHEDULE, "output": output}], ["groundedness"]
    )
    assert found.score < 0.5


LIBRARY = ["Wenlock library lends books for 28 days. Overdue items are 20 pence a day each."]


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("What is the late fee for library books?", "Overdue items are 20 pence a day each."),
        ("Who sails the ferry to Kiel?", "Overdue items are 20 pence a day each."),
        ("How many books are lent?", "Wenlock library lends books."),  # no number
    ],
)
def test_relevance_is_skipped_when_a_grounded_answer_lacks_what_is_asked(query, output):
    assert relevance(query=query, contexts=LIBRARY, output=output).reason == "unclear_reference"


def test_relevance_is_low_when_an_answer_is_neither_grounded_nor_about_the_question():
    found = relevance(query="Who lends the books?", contexts=LIBRARY, output="Penguins swim fast.")
    assert found.score < 0.2


@pytest.mark.parametrize(
    "query",
    [
        "Which of the two should I choose?",
        "Lohnt sich das Abo deiner Meinung nach?",
        "¿Cuál comprarías tú?",
    ],
)
def test_opinion_that_is_asked_for_is_not_failed_for_its_own_words(query):
    output = "Books are lent for 28 days. Slow afternoons on a terrace may take longer."
    record = {"query": query, "contexts": LIBRARY, "output": output}
    [found] = evaluate([record], ["groundedness", "relevance"])
    assert [each.score for each in found] == [None, None]


@pytest.mark.parametrize(
    ("output", "verdicts"),
    [
        ("Dear readers,\n\nbooks are lent for 28 days.", ["no_claim", "supported"]),
        (
            "Books are lent for 28 days.\nHans Maier,\n9 euros,",
            ["supported", "not_found", "undecided"],
        ),
    ],
)
def test_only_the_first_short_line_with_a_comma_is_a_salutation(output, verdicts):
    record = {"query": "How long are books lent?", "contexts": LIBRARY, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert [each["verdict"] for each in found.metadata["claims"]] == verdicts


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("never mind, found it myself", "Great, glad you found it! I'm here for more."),
        ("ok that was quick", "Happy to hear that! I try not to keep anyone waiting. 😊"),
        ("Ho paura del dentista...", "È una paura molto comune, andrà tutto bene!"),
        ("Any plans for the weekend? Finally Friday!", "Woohoo! 🎉 No plans for me."),
    ],
)  # fmt: skip
def test_remark_that_no_passage_is_about_gets_no_score(query, output):
    [found] = evaluate([{"query": query, "contexts": LIBRARY, "output": output}])
    assert [each.score for each in found[:2]] == [None, None]
    assert found[1].reason == "small_talk"


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("Tell me about the fines of the library.", "Elephants in cages paint wooden ceilings."),
        ("opening hours of the pool", "The pool opens in the morning."),
        ("Does the library have a pool?", "There is a heated pool behind the house."),
        ("I want to borrow a book for my holidays.", "I can send parcels to any hotel abroad."),
    ],
)
def test_made_up_answer_to_what_is_no_remark_fails(query, output):
    record = {"query": query, "contexts": LIBRARY, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score < 0.2


@pytest.mark.parametrize(
    "output",
    [
        "Die Bücher gibt es für 28 Tage.",
        "Les livres sont prêtés pour 28 jours.",
        "Los libros se prestan por 28 días.",
    ],
)
def test_short_answer_in_another_language_gets_no_groundedness(output):
    record = {"query": "How long are books lent?", "contexts": LIBRARY, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.reason == "unsupported_text" or found.score >= 0.2


LETTER = (
    "The invoice is wrong again. Fix the VAT number today, or I will stop paying for all of it."
)


def test_text_that_an_instruction_hands_over_is_read_like_a_passage():
    record = {"query": f"Make this more polite:\n\n{LETTER}", "contexts": LIBRARY}
    polite = "Could you please fix the VAT number today? Otherwise I will have to stop paying."
    [found] = evaluate([record | {"output": polite}])
    assert found[1].score > 0.7
    [found] = evaluate([record | {"output": "Elephants in cages paint wooden ceilings."}])
    assert found[1].score < 0.2


@pytest.mark.parametrize(
    ("query", "right", "wrong"),
    [
        ("Fix the grammar: Me and the team has went trough the report on Monday.",
         "The team and I went through the report on Monday.",
         "Elephants carry logs through the jungle."),
        ("Corrige les fautes : « Les livres que j'ai emprunter son en retard de deux jour. »",
         "« Les livres que j'ai empruntés sont en retard de deux jours. »",
         "« Le chien de la voisine aboie chaque nuit. »"),
    ],
)  # fmt: skip
def test_corrected_text_must_be_the_one_that_was_handed_over(query, right, wrong):
    record = {"query": query, "contexts": ["La bibliothèque prête les livres pour un mois."]}
    for output, passes in ((right, True), (wrong, False)):
        [[found]] = evaluate([record | {"output": output}], ["groundedness"])
        assert (found.score > 0.2) is passes


def test_sentence_of_a_text_that_is_handed_over_belongs_to_no_passage():
    record = {"query": f"Summarize this mail: {LETTER}", "contexts": LIBRARY}
    output = "The invoice is wrong again, so the VAT number must be fixed today."
    [[found]] = evaluate([record | {"output": output}], ["groundedness"])
    [claim] = found.metadata["claims"]
    assert (claim["verdict"], claim["context_index"]) == ("supported", None)
    assert "VAT" in claim["evidence"]


@pytest.mark.parametrize(
    ("said", "query", "right", "wrong"),
    [
        ("My name is Jo.", "What is my name?", "Your name is Jo.", "Your name is Kim."),
        ("I am allergic to nuts", "Which allergy did I mention?", "You are allergic to nuts.",
         "You are allergic to milk."),
    ],
)  # fmt: skip
def test_what_the_user_stated_before_is_not_failed(said, query, right, wrong):
    history = [{"role": "user", "content": said}, {"role": "assistant", "content": "I see."}]
    record = {"query": query, "contexts": LIBRARY, "history": history}
    for output, fails in ((right, False), (wrong, True)):
        [[found]] = evaluate([record | {"output": output}], ["groundedness"])
        assert (found.score is not None) is fails


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("What does the card say about fines: are books of 40 pence a day lent for 90 days?",
         "Books of 40 pence a day are lent for 90 days."),
        ("Write an answer to this mail:\nI was promised that books are lent for 90 days always.",
         "Books are lent for 90 days always."),
    ],
)  # fmt: skip
def test_question_and_what_should_be_answered_are_no_evidence(query, output):
    record = {"query": query, "contexts": LIBRARY, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score is None or found.score < 0.7


def test_refusal_to_work_on_a_text_of_the_query_is_not_wrong():
    query = f"Summarize this mail: {LETTER}"
    record = {
        "query": query,
        "contexts": LIBRARY,
        "output": "I'm sorry, but I cannot help with that.",
    }
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score is None


@pytest.mark.parametrize(
    ("said", "output"),
    [
        ("I think books are lent for 90 days.", "Books are lent for 90 days."),
        ("My name is not Jo.", "Your name is Jo."),
        ("Is my name Jo?", "Your name is Jo."),
        ("is there a roof terrace here", "There is a roof terrace."),
        ("where is the roof terrace", "The roof terrace is here."),
    ],
)
def test_what_passages_speak_of_or_the_user_denies_is_not_evidence(said, output):
    history = [{"role": "user", "content": said}, {"role": "assistant", "content": "I see."}]
    record = {"query": "What is it?", "contexts": LIBRARY, "history": history, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score < 0.2


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("I want to end my membership", "Done! You will be charged a fee of 300 euros!"),
        ("Does the library have a cafe?", "Great question! Our cafe serves cake till midnight! 🎉"),
        ("Who wrote it?", "Los Angeles, Las Vegas, El Paso and La Jolla."),
    ],
)
def test_made_up_answer_fails_however_friendly_or_foreign_it_sounds(query, output):
    record = {"query": query, "contexts": LIBRARY, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert found.score < 0.2


@pytest.mark.parametrize(
    ("query", "passages", "output"),
    [
        ("What is the price difference?", ["Basic costs 12.99 euros.", "Top costs 17.99 euros."],
         "Top costs {} euros more."),
        ("Quelle est la différence de prix ?", ["Le Basic coûte 12,99 €.", "Le Top coûte 17,99 €."],
         "Le Top coûte {} € de plus."),
    ],
)  # fmt: skip
def test_difference_that_is_asked_for_is_calculated_and_a_wrong_one_fails(query, passages, output):
    record = {"query": query, "contexts": passages}
    right, wrong = (record | {"output": output.format(n)} for n in (5, 7))
    [[found], [other]] = evaluate([right, wrong], ["groundedness"])
    assert found.reason == "unsupported_text"
    assert other.score < 0.2


SOUP = ["Lentil soup for four people: 250 g lentils, 600 ml stock and 2 onions."]


@pytest.mark.parametrize(
    ("query", "output", "expected"),
    [
        ("Scale it to 8 people", "You need 500 g lentils, 1200 ml stock and 4 onions.", "skipped"),
        ("Double the recipe", "You need 500 g lentils, 1200 ml stock and 4 onions.", "skipped"),
        ("What do I need for it?", "You need 500 g lentils, 1200 ml stock and 4 onions.", "low"),
        ("Scale it to 8 people", "You need 500 g lentils, 900 ml stock and 7 onions.", "low"),
        ("What do I need for 3 people?", "500 g lentils, 1200 ml stock and 4 onions.", "low"),
    ],
)
def test_figures_in_another_proportion_are_wrong_unless_the_question_asks_for_it(
    query, output, expected
):
    [[found]] = evaluate([{"query": query, "contexts": SOUP, "output": output}], ["groundedness"])
    assert ("skipped" if found.score is None else "low" if found.score < 0.2 else "") == expected

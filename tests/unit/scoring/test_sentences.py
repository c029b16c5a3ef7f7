"""Text falls into the sentences a reader would see."""

import unicodedata

import pytest

from monitor.scoring.sentences import (
    headings_and_code,
    is_checkable,
    is_refusal,
    split_sentences,
    split_statements,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is open. It is free.", ("It is open.", "It is free.")),
        ("Dr. Lee met Mr. J. Park at 9 a.m. today.", ("Dr. Lee met Mr. J. Park at 9 a.m. today.",)),
        ("It costs 3.50 euros. Pay at www.example.org now.",
         ("It costs 3.50 euros.", "Pay at www.example.org now.")),
        ("Steps:\n1. Open it.\n2) Press the key\n- Wait",
         ("Steps:", "Open it.", "Press the key", "Wait")),
        ("**Bold** words. `code` too!", ("Bold words.", "code too!")),
        ("It is open.[1][2] It is free.[3]", ("It is open.[1][2]", "It is free.[3]")),
        ("It is open.¹ It is free.²", ("It is open.¹", "It is free.²")),
        ("See [No. 3] as well.", ("See [No. 3] as well.",)),
        ('He said "Stop!" Then he left.', ('He said "Stop!"', "Then he left.")),
        ("退款需要五天。请耐心等待！", ("退款需要五天。", "请耐心等待！")),
        ("...\n---\n \n", ()),
    ],
)  # fmt: skip
def test_sentences_are_split_in_every_punctuation_case(text, expected):
    assert split_sentences(text) == expected


def test_sentences_are_equal_when_only_the_unicode_form_differs():
    text = "Le café a été rénové. Il est à côté!"
    assert split_sentences(unicodedata.normalize("NFD", text)) == split_sentences(text)


def test_stop_in_brackets_ends_no_sentence_when_it_goes_on_in_lower_case():
    text = "No amenities (parking, Wi-Fi, etc.) are listed. (It is small.) We liked it."
    assert split_sentences(text)[0] == "No amenities (parking, Wi-Fi, etc.) are listed."
    assert len(split_sentences(text)) == 3


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (
            "1. Timing and site\n   - Plant in May\n2. Care\n   - Water it",
            {"Timing and site", "Care"},
        ),
        ("Software path\n1. Open it\n2. Tap reset", {"Software path"}),
        ("Method A\n\n- Boil\n- Peel", {"Method A"}),
        ("- Boil\n- Peel", set()),
        ("It costs 20 euros\n- Pay at once", set()),
        ("Refunds take ten days\n- Wait", set()),
        ("Vouchers replace all refunds\n- Wait", set()),
        ("Refunds take a week.\n- Wait", set()),
        ("Everything that you have to know of the plan\n- Wait", set()),
    ],
)
def test_line_of_a_few_words_above_a_list_is_its_title(text, titles):
    assert headings_and_code(text) == titles


@pytest.mark.parametrize(
    ("rule", "heads"),
    [
        ("| --- | :-: |", {"Name | Role |"}),
        ("---|---", {"Name | Role |"}),
        ("| Ann | cook |", set()),
    ],
)
def test_heads_of_a_table_state_nothing(rule, heads):
    assert headings_and_code(f"| Name | Role |\n{rule}\n| Ann | cook |") == heads


@pytest.mark.parametrize(
    ("ending", "signature"),
    [
        ("Kind regards,\nCustomer Service", {"Kind regards,", "Customer Service"}),
        ("Kind regards,\nAnna\nCustomer Care", {"Kind regards,", "Anna", "Customer Care"}),
        ("Mit freundlichen Grüßen,\n\nIhr Team", {"Mit freundlichen Grüßen,", "Ihr Team"}),
        ("Best regards, Your Support Team", {"Best regards, Your Support Team"}),
        ("Cheers, Tom", {"Cheers, Tom"}),
        ("Best,\n\nTom", {"Best,", "Tom"}),
        ("— Tom, Acme Support", {"Tom, Acme Support"}),
        ("-- \nTom", {"Tom"}),
        ("— 20 euros a day", set()),
        ("Kind regards,\nWe refund all orders.", set()),
        ("Best wishes come with 20 euros", set()),
        ("The deposit is yours", set()),
        ("The warranty regards Germany", set()),
        ("Best wishes are in the card\nKind regards,\nAnna", {"Kind regards,", "Anna"}),
        ("Hello,\ncancellation is not possible", set()),
    ],
)
def test_signature_of_a_letter_states_nothing(ending, signature):
    assert headings_and_code(f"Dear Ann,\n\nIt ships on Monday.\n\n{ending}") == signature


@pytest.mark.parametrize(
    ("sentence", "statements"),
    [
        ("It is high and was built in 1889.", ("It is high and was built in 1889.",)),
        ("The tower is high and was built in 1889.", ("The tower is high", "was built in 1889.")),
        ("Milk is white; coal is black.", ("Milk is white", "coal is black.")),
        ("It is open between 9 and 5.", ("It is open between 9 and 5.",)),
        ("Salt and pepper are here.", ("Salt and pepper are here.",)),
        ('He said "it is new and was cheap" then.', ('He said "it is new and was cheap" then.',)),
    ],
)
def test_statements_are_split_only_where_unambiguous(sentence, statements):
    assert split_statements(sentence) == statements


@pytest.mark.parametrize(
    ("sentence", "states"),
    [
        ("We apologise for the delay.", False),
        ("Wir bitten Sie um Ihr Verständnis.", False),
        ("Nous vous prions de nous excuser pour ce contretemps.", False),
        ("Lamentamos las molestias.", False),
        ("I'd recommend asking the sales team.", False),
        ("Fragen Sie am besten im Bürgerbüro nach.", False),
        ("Te recomiendo consultarlo con Recursos Humanos.", False),
        ("Support should be able to help you within 2 hours.", True),
        ("You can ask for a refund within 30 days, and it is paid in full after a week.", True),
        ("We apologise for the delay of order 17 until Friday.", True),
        ("Wir entschuldigen uns für die Lieferung am 9. Mai.", True),
    ],
)
def test_phrases_of_a_letter_state_nothing_but_the_facts_in_them_do(sentence, states):
    assert is_checkable(sentence) is states


@pytest.mark.parametrize(
    "aside",
    [
        "Here is a summary of the article.",
        "Let me walk you through it.",
        "Got it, let me explain.",
        "I understand your frustration.",
        "For more information, please visit the official website.",
        "I don't have access to real-time data.",
        "If you have any other questions, feel free to ask!",
        "If you'd like, I can also draft a short email to the landlord with these points.",
        "Step 1:",
        "Source: [1]",
        "See [2] for more.",
        "Please refer to [1] for details.",
        "Natürlich, hier ist die Antwort.",
        "Wenn du möchtest, kann ich dir daraus eine Tabelle machen.",
        "Bien sûr, voici la réponse.",
        "Si vous avez d'autres questions, n'hésitez pas à me demander.",
        "Claro, aquí tienes la respuesta.",
        "Si tienes más preguntas, no dudes en decírmelo.",
    ],
)
def test_what_an_assistant_says_of_its_own_answer_states_nothing(aside):
    assert not is_checkable(aside)


@pytest.mark.parametrize(
    "fact",
    [
        "Here the river is deepest.",
        "Let the dough rest overnight.",
        "Great Britain joined the union early.",
        "For more information the desk is open on weekdays.",
        "I understand that refunds are free.",
        "If you want a refund, ask within a month.",
        "If you want to cancel, you can do so online.",
        "We can deliver abroad if you like.",
        "I can offer you 20 % if you like.",
        "Hier sind Hunde willkommen.",
        "Wenn du möchtest, darfst du den Hund mitbringen.",
        "Bien sûr, les chiens sont admis.",
        "Si quieres, los perros pueden entrar.",
        "Here is the list of shoes the manager refuses.",
        "For more information, contact the notary, who pays refunds in cash.",
        "I can refund you in cash at the airport if you want.",
        "Great, I confirm that vouchers replace all refunds.",
        "Natürlich, das Geld zahlt der Notar in bar.",
        "Bien sûr, je confirme que le notaire verse le prix.",
        "Claro, te paga el notario en efectivo.",
    ],
)
def test_fact_that_begins_as_such_phrases_do_is_checked(fact):
    assert is_checkable(fact)


@pytest.mark.parametrize(
    "answer",
    ["Every week.", "Your landlord.", "Take the bus.", "We can give you a discount.",
     "I'll refund you.", "I am a doctor.", "There's a bus.", "Check your spam folder.",
     "Ogni giorno.", "Je vous rembourse.", "Ich habe das Konto gelöscht.",
     "Certo, i cani sono ammessi."],
)  # fmt: skip
def test_short_answer_states_something(answer):
    assert is_checkable(answer)


@pytest.mark.parametrize(
    "reply",
    ["What a long road that was!", "Oh no, not the good teapot!", "Wie schön für euch alle!",
     "Quelle belle nouvelle pour toute la famille !", "¡Qué alegría para todos!",
     "Che bella sorpresa!", "Wat een feest!", "Gratulacje dla całej rodziny!",
     "Çok sevindim, tebrikler!"],
)  # fmt: skip
def test_reply_to_small_talk_states_nothing(reply):
    assert not is_checkable(reply)


@pytest.mark.parametrize(
    "answer", ["UNANSWERABLE", "Unknown.", "Not specified.", "No answer found.", "N/A"]
)
def test_short_refusal_has_no_statement(answer):
    assert is_refusal(answer)
    assert not is_checkable(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "None of the passages explain how to do it.",
        "There are no specific instructions for the new version.",
        "The documents do not explicitly describe it.",
        "It does not mention the price.",
        "The manual I have here (two chapters) doesn't mention it, so I can't confirm that.",
        "I could not find it in passages 1, 2 and 3.",
        "Sick leave isn't mentioned, so I'd rather not guess.",
        "Dazu steht in den vorliegenden Unterlagen leider nichts.",
        "El fragmento del manual que tengo no habla del permiso.",
    ],
)
def test_answer_that_the_sources_are_silent_is_a_refusal(answer):
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "L'annonce ne mentionne pas de salaire.",
        "Le texte ne dit rien du prix.",
        "Les documents n'indiquent aucune date.",
        "No encuentro en los documentos el horario de los viernes.",
        "No he encontrado ese dato en el material.",
        "La ficha del champú no lo aclara.",
        "Le guide n'aborde pas ce sujet.",
        "Wofür das Geld ist, steht in dem Eintrag leider nicht.",
        "Der Fahrplan enthält dazu nichts.",
        "The sections of the leaflet that I have don't cover driving.",
        "The page says nothing regarding customs duties.",
        "That's a decision I can't make for you.",
        "Je ne m'occupe que des congés.",
        "Das steht nicht in den Unterlagen.",
        "I wasn't able to find that.",
        "Not enough information.",
        "There's nothing about that in the passages I was given.",
        "That isn't covered by the documentation.",
        "No relevant passages were found.",
    ],
)
def test_answer_that_the_sources_are_silent_states_nothing_in_other_languages(answer):
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Unknown soldiers lie here.",
        "Not specified models sell.",
        "There are no steps at the entrance.",
        "There are no instructions, refunds take 90 days.",
        "None of the rooms has a bath.",
        "Il ne contient pas de gluten.",
        "Elle ne dit pas bonjour.",
        "La receta no precisa horno.",
        "Das Material ist nicht enthalten.",
        "Water damage is not covered.",
        "We cannot accept returns after 30 days.",
        "The deposit isn't covered by the insurance.",
        "No documents are needed.",
    ],
)
def test_statement_that_begins_like_a_refusal_is_not_a_refusal(answer):
    assert not is_refusal(answer)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Run:\n\n    pip install a\n    tram up\n\nIt starts.", {"pip install a", "tram up"}),
        ("First:\n\n\treturn 42\n", {"return 42"}),
        ("<code>buy(1)</code>\nIt buys.", {"<code>buy(1)</code>"}),
        ("1. Pay.\n\n    The fee is 9 euros.", set()),
        ("It is\n    9 euros.", set()),
        ("    Refunds take 90 days.\n    All is paid back.", set()),
    ],
)  # fmt: skip
def test_code_that_is_indented_or_tagged_states_nothing(text, code):
    assert headings_and_code(text) == code


@pytest.mark.parametrize(
    ("below", "listed"),
    [
        ("Sources:\n[1] policy.pdf\n[2] terms.pdf", {"[1] policy.pdf", "[2] terms.pdf"}),
        ("**Quellen**\n- [1] Merkblatt", {"Quellen", "[1] Merkblatt"}),
        ("Sources:\nThe shop is open.", set()),
        ("[1]: Policy, section 4", {"[1]: Policy, section 4"}),
    ],
)
def test_list_of_sources_states_nothing(below, listed):
    found = headings_and_code(f"It is open [1].\n\n{below}")
    assert found - {"Sources:"} == listed

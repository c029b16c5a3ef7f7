"""What kind of request a message is, by the model of its words."""

import json
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.scoring.local.requests import KINDS, REQUESTS, kind_of
from monitor.scoring.sentences import CHAT, CHAT_MODEL
from monitor.scoring.word_model import shipped_model, text_features, tokens_of


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("How long do refunds take?", "question"),
        ("the heating is cold again", "question"),
        ("Und am Sonntag?", "question"),
        ("Iade kaç gün sürer?", "question"),
        ("返金はいつですか。", "question"),
        ("thanks, you saved my day", "talk"),
        ("Bist du ein Roboter?", "talk"),
        ("je suis trop fatiguée ce matin", "talk"),
        ("shorten this to two sentences please", "transform"),
        ("Übersetze die Nachricht ins Englische", "transform"),
        ("hazme una tabla con los precios", "transform"),
        ("write a birthday poem for Ana", "create"),
        ("Schreib eine Mail an den Vermieter", "create"),
        ("Écris un slogan pour une boulangerie", "create"),
        ("positive or negative? one word", "label"),
        ("Welche Sprache ist das?", "label"),
    ],
)
def test_kind_of_a_request(query, kind):
    assert kind_of(query) == kind


def test_request_without_a_letter_is_a_question():
    assert kind_of("???") == kind_of("") == kind_of("2 + 2") == "question"


def test_emoji_alone_are_small_talk():
    assert kind_of("🎉🎉") == kind_of("❤️") == "talk"


def test_chat_without_passages_is_judged_unless_it_is_surely_no_question():
    assert kind_of("Which one would you pick?") == "create"
    assert kind_of("Which one would you pick?", alone=True) == "question"


@pytest.mark.parametrize(
    ("package", "name", "kinds"),
    [("monitor.scoring.local", REQUESTS, KINDS), ("monitor.scoring", CHAT_MODEL, (CHAT,))],
)
def test_every_feature_has_a_weight_for_each_kind(package, name, kinds):
    data = json.loads(resources.files(package).joinpath(name).read_text("utf-8"))
    assert data["kinds"] == list(kinds)
    assert {len(weights) for weights in data["weights"].values()} == {len(kinds)}


def test_request_in_words_that_nobody_wrote_before_is_a_question():
    assert kind_of("Πόσο κοστίζει η αποστολή;") == kind_of("tirzepatide") == "question"


def test_weights_of_other_kinds_are_refused():
    with pytest.raises(ValueError, match="of other kinds"):
        shipped_model("monitor.scoring.local", REQUESTS, (*KINDS, "riddle"))


def features_of(text):
    return text_features(tokens_of(text))


@given(st.text(max_size=300))
def test_padding_does_not_change_what_a_request_is(text):
    assert features_of(f"{' ' * 2000}{text} ") == features_of(text)


@given(st.text(st.characters(codec="ascii"), max_size=300))
def test_capitals_do_not_change_what_a_request_is(text):
    assert features_of(text.upper()) == features_of(text)

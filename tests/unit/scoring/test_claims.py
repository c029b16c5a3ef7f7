"""Refusals and small talk are told from statements."""

import pytest

from monitor.scoring.sentences import is_checkable, is_refusal


@pytest.mark.parametrize(
    "sentence",
    [
        "I'm sorry, I don't have information about that.",
        "The provided passages do not mention the price.",
        "There is no information about opening hours.",
        "I cannot answer this.",
        "The price is not mentioned in the given context.",
        "Unable to answer based on given passages.",
        "The documentation does not mention it, please ask the support.",
        "The handbook does not specify this, so please ask your manager.",
        "The manual says nothing about it.",
        "I'm sorry, but I cannot answer that.",
        "Unfortunately I don't know, but I am sorry.",
        "Das weiß ich leider nicht.",
        "Es tut mir leid, aber dazu habe ich keine Informationen.",
        "Je suis désolé, mais je ne sais pas.",
        "Lo siento, pero no tengo información sobre eso.",
        "Desculpe, não sei.",
        "Mi dispiace, non lo so.",
        "Dat weet ik helaas niet.",
        "Niestety nie wiem.",
        "Üzgünüm, bilmiyorum.",
        "К сожалению, у меня нет информации.",
        "На жаль, я не знаю.",
        "عذرًا، لا أعرف.",
        "मुझे पता नहीं है।",
        "抱歉,我不知道。",
        "申し訳ありませんが、わかりません。",
        "죄송하지만 알 수 없습니다.",
    ],
)
def test_declining_sentence_is_recognised_as_a_refusal(sentence):
    assert is_refusal(sentence)
    assert not is_checkable(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The passage does not mention the price, but the shop is open on Sundays.",
        "The museum does not sell tickets.",
        "The documentation does not mention it, but the price is 5 euros.",
        "The policy does not cover water damage.",
        "Sorry is a song of 2015.",
        "The museum is open, but I do not know the price.",
        "Den Preis weiß ich nicht, aber geöffnet ist bis 18 Uhr.",
        "No sé el precio, pero abre los domingos.",
        "価格はわかりませんが、営業は九時からです。",
        "Das Rathaus steht am Markt.",
        "Le musée est fermé le lundi.",
        "El envío tarda tres días.",
        "北京是中国的首都。",
    ],
)
def test_statement_is_not_taken_for_a_refusal(sentence):
    assert not is_refusal(sentence)
    assert is_checkable(sentence)


@pytest.mark.parametrize(
    "sentence", ["Sure!", "Let me know if you need more.", "Is that so?", "Here it is:", "Yes."]
)
def test_small_talk_has_no_checkable_claim(sentence):
    assert not is_checkable(sentence)

"""The local judge reads more languages than the one its coefficients come from."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from monitor.scoring.language import (
    ENGLISH,
    language,
    language_of,
    stem,
    vocabulary,
    words,
)
from monitor.scoring.local.reading import read
from monitor.scoring.local.scorer import LocalJudge
from monitor.testing import make_interaction


class Case(NamedTuple):
    """A question, what the passage says, an answer that it holds and one that it does not."""

    query: str
    passage: str
    held: str
    foreign: str


CASES = {
    "German": Case(
        "Wie lange kann ich einen Artikel zurückgeben?",
        "Artikel können innerhalb von 30 Tagen nach dem Kauf zurückgegeben werden.",
        "Sie können den Artikel innerhalb von 30 Tagen nach dem Kauf zurückgeben.",
        "Wir haben in Berlin drei neue Filialen mit eigenem Café eröffnet.",
    ),
    "French": Case(
        "Combien de temps ai-je pour retourner un article ?",
        "Les articles peuvent être retournés dans les 30 jours suivant l'achat.",
        "Vous pouvez retourner l'article dans les 30 jours suivant l'achat.",
        "Nous avons ouvert trois nouvelles boutiques à Lyon avec un café.",
    ),
    "Spanish": Case(
        "¿Cuánto tiempo tengo para devolver un artículo?",
        "Los artículos se pueden devolver en un plazo de 30 días desde la compra.",
        "Puede devolver el artículo en un plazo de 30 días desde la compra.",
        "Hemos abierto tres tiendas nuevas en Sevilla con cafetería propia.",
    ),
    "Portuguese": Case(
        "Quanto tempo tenho para devolver um artigo?",
        "Os artigos podem ser devolvidos no prazo de 30 dias após a compra.",
        "O artigo pode ser devolvido no prazo de 30 dias após a compra.",
        "Abrimos três novas lojas em Lisboa com café próprio.",
    ),
    "Italian": Case(
        "Quanto tempo ho per restituire un articolo?",
        "Gli articoli possono essere restituiti entro 30 giorni dall'acquisto.",
        "L'articolo può essere restituito entro 30 giorni dall'acquisto.",
        "Abbiamo aperto tre nuovi negozi a Milano con un bar.",
    ),
    "Dutch": Case(
        "Hoe lang kan ik een artikel terugsturen?",
        "Artikelen kunnen binnen 30 dagen na aankoop worden teruggestuurd.",
        "U kunt het artikel binnen 30 dagen na aankoop terugsturen.",
        "Wij hebben in Utrecht drie nieuwe winkels met een café geopend.",
    ),
    "Polish": Case(
        "Ile mam czasu na zwrot artykułu?",
        "Artykuły można zwrócić w ciągu 30 dni od zakupu.",
        "Artykuł można zwrócić w ciągu 30 dni od zakupu.",
        "Otworzyliśmy trzy nowe sklepy w Krakowie z własną kawiarnią.",
    ),
    "Swedish": Case(
        "Hur länge kan jag returnera en artikel?",
        "Artiklar kan returneras inom 30 dagar efter köpet.",
        "Du kan returnera artikeln inom 30 dagar efter köpet.",
        "Vi har öppnat tre nya butiker i Malmö med ett kafé.",
    ),
    "Turkish": Case(
        "Bir ürünü ne kadar sürede iade edebilirim?",
        "Ürünler satın alma tarihinden itibaren 30 gün içinde iade edilebilir.",
        "Ürünü satın alma tarihinden itibaren 30 gün içinde iade edebilirsiniz.",
        "İzmir'de kafesi olan üç yeni mağaza açtık.",
    ),
    "Russian": Case(
        "Сколько у меня времени, чтобы вернуть товар?",
        "Товар можно вернуть в течение 30 дней после покупки.",
        "Вы можете вернуть товар в течение 30 дней после покупки.",
        "Мы открыли три новых магазина в Казани с кафе.",
    ),
    "Ukrainian": Case(
        "Скільки часу я маю, щоб повернути товар?",
        "Товар можна повернути протягом 30 днів після покупки.",
        "Ви можете повернути товар протягом 30 днів після покупки.",
        "Ми відкрили три нові крамниці у Львові з кав'ярнею.",
    ),
    "Chinese": Case(
        "退货期限是多久?",
        "商品可以在购买后30天内退货。满50欧元免运费。",
        "您可以在购买后30天内退货。",
        "我们在上海新开了三家带咖啡馆的商店。",
    ),
    "Japanese": Case(
        "返品期限はいつまでですか?",
        "商品は購入後30日以内に返品できます。",
        "購入後30日以内に返品できます。",
        "大阪に喫茶店のある新しい店を三軒開きました。",
    ),
    "Korean": Case(
        "반품은 며칠 안에 할 수 있나요?",
        "상품은 구매 후 30일 이내에 반품할 수 있습니다.",
        "구매 후 30일 이내에 반품할 수 있습니다.",
        "부산에 카페가 있는 새 매장을 세 곳 열었습니다.",
    ),
    "Arabic": Case(
        "كم لدي من الوقت لإرجاع منتج؟",
        "يمكن إرجاع المنتجات خلال 30 يومًا من الشراء.",
        "يمكنك إرجاع المنتج خلال 30 يومًا من الشراء.",
        "افتتحنا ثلاثة متاجر جديدة في دبي مع مقهى.",
    ),
    "Hindi": Case(
        "मैं सामान कितने दिनों में लौटा सकता हूँ?",
        "सामान खरीद के 30 दिनों के भीतर लौटाया जा सकता है।",
        "आप सामान खरीद के 30 दिनों के भीतर लौटा सकते हैं।",
        "हमने मुंबई में तीन नई दुकानें खोली हैं।",
    ),
}


@pytest.fixture(scope="module")
def judge():
    return LocalJudge()


def judged(judge, case, output):
    return judge.judge(make_interaction(query=case.query, contexts=[case.passage], output=output))


@pytest.mark.parametrize("language", CASES)
def test_answer_from_the_passage_is_grounded(judge, language):
    case = CASES[language]
    assert judged(judge, case, case.held).groundedness > 0.7


@pytest.mark.parametrize("language", CASES)
def test_invented_answer_is_not_grounded(judge, language):
    case = CASES[language]
    assert judged(judge, case, case.foreign).groundedness < 0.2


@pytest.mark.parametrize("language", CASES)
def test_other_number_is_not_grounded(judge, language):
    case = CASES[language]
    assert judged(judge, case, case.held.replace("30", "90")).groundedness < 0.3


@pytest.mark.parametrize("language", CASES)
def test_answer_to_the_question_is_more_relevant_than_another(judge, language):
    case = CASES[language]
    held, foreign = (judged(judge, case, each).relevance for each in (case.held, case.foreign))
    assert held > foreign + 0.05


def test_foreign_stop_words_are_not_common_english_words():
    shared = {"mer", "queste"}  # their stems are those of "mere" and "question"
    listed = {name: words for name, words in language()["stop_words"].items() if name != "English"}
    other = {word for words in listed.values() for word in words.split()}
    levels = json.loads((Path(__file__).parent / "common_stems.json").read_text())["levels"]
    common = {each for level in levels for each in level["stems"].split()}
    assert {word for word in other if stem(word) in common} == shared


@pytest.mark.parametrize("text", ["l'articolo", "dell'articolo", "L’articolo", "un'articolo"])
def test_noun_with_an_elided_article_is_found(text):
    assert words(text)[0].stem == words("articolo")[0].stem


@pytest.mark.parametrize("text", ["o'clock", "I'll", "it's"])
def test_english_contractions_are_not_split_as_articles(text):
    assert words(text)[0].stem != words(text.split("'")[1])[0].stem


SYLLABLES = [
    "ver",
    "be",
    "auf",
    "mit",
    "an",
    "ein",
    "hand",
    "wort",
    "buch",
    "tag",
    "licht",
    "wasser",
]
ENDINGS = ["en", "er", "es", "ung", "ungen", "lich", "lichkeit", "heit"]
FUNCTION_WORDS = {
    "German": "Dort war man wegen des Regens.",
    "French": "Dans ce cas, il n'est pas de Lyon.",
    "Spanish": "En total son las dos de la tarde.",
}


@pytest.mark.parametrize("name", FUNCTION_WORDS)
def test_word_that_means_something_in_english_only_carries_no_information(name):
    said = {word.surface.lower() for word in words(FUNCTION_WORDS[name], name) if word.content}
    assert said.isdisjoint(
        ["war", "man", "des", "dans", "il", "pas", "de", "en", "son", "las", "la", "est"]
    )
    assert all(word.content for word in words("war son pas man las"))


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("German", "Datenträger", "Datenträgers"),
        ("French", "fermé", "fermées"),
        ("Spanish", "reembolso", "reembolsos"),
        ("Italian", "biglietto", "biglietti"),
        ("Russian", "билет", "билеты"),
    ],
)
def test_forms_of_a_word_have_one_stem_in_its_language(name, one, other):
    assert words(one, name)[0].stem == words(other, name)[0].stem


def test_words_of_several_threads_do_not_mix():
    forms = [f"{one}{other}{end}" for one in SYLLABLES for other in SYLLABLES for end in ENDINGS]

    def stems(_):
        for kept in vocabulary("German"):
            kept.clear()
        return [word.stem for form in forms for word in words(form, "German")]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(tuple, pool.map(stems, range(16))))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("German", "zwei"), ("Spanish", "dos"), ("Dutch", "twee"), ("Italian", "due")],
)
def test_number_in_words_is_a_number_in_its_language(name, text):
    assert [(each.stem, each.number) for each in words(text, name)] == [("2", True)]
    assert not words(text)[0].number


@pytest.mark.parametrize("name", CASES)
def test_language_of_a_question_and_its_passage_is_found_or_left_open(name):
    case = CASES[name]
    assert language_of(f"{case.passage} {case.query} {case.held}") in {name, None}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Pets are not allowed. Orders over 50 EUR ship without a fee.", ENGLISH),
        ("La Super-Rica Taqueria is a place for tacos in Santa Barbara.", ENGLISH),
        ("Refunds take five days.", None),
        ("Cirque du Soleil plays in July. Cirque du Soleil sells 400 tickets.", None),
        ("A Renault van and an Opel van are for rent.", ENGLISH),
        ('Im Handbuch steht "Restart the server", aber das hilft bei uns nicht.', "German"),
        ("Der Server fiel am Montag aus, und die Kunden waren nicht erreichbar.", "German"),
        ("", None),
    ],
)
def test_text_is_english_unless_another_language_shows(text, found):
    assert language_of(text) == found


@pytest.mark.parametrize(
    ("passage", "output"),
    [
        ("Der Server fiel wegen eines vollen Datenträgers aus.", "Der Datenträger war voll."),
        (
            "Die Behandlung mit dem Mittel dauert nicht mehr als zwei Wochen.",
            "Die Behandlung dauert 2 Wochen.",
        ),
        (
            "Die Reise Versicherungen und die Garten Möbel sind nicht mehr im Angebot.",
            "Die Reiseversicherungen und die Gartenmöbel sind nicht mehr im Angebot.",
        ),
        ("Sin pasar de cuatro al día, y con la comida.", "En total son 4 al día."),
    ],
)
def test_right_answer_in_other_forms_of_the_words_is_grounded(judge, passage, output):
    found = judge.judge(make_interaction(query="", contexts=[passage], output=output))
    assert found.groundedness > 0.5


def test_german_noun_in_the_place_of_another_is_no_changed_name():
    passage = "Der Antrag auf einen Wasserspender geht an die Schulleitung."
    [claim] = read(
        "", [passage], "Der Wunsch nach einem Wasserspender geht an die Schulleitung."
    ).claims
    assert claim.changes == ()


def test_german_name_behind_a_preposition_is_compared():
    passage = "Die Firma wurde 1987 in Dresden gegründet."
    [claim] = read("", [passage], "Die Firma wurde 1987 in Hamburg gegründet.").claims
    assert [(each.said, each.told) for each in claim.changes] == [("Hamburg", "Dresden")]

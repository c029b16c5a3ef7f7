"""Words are compared by what they mean, not by how they are written."""

import tracemalloc
import unicodedata

import pytest

from monitor.scoring.language import ENGLISH, stem, vocabulary, words


def stems(text):
    return [word.stem for word in words(text)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("refund", "refunds"), ("cities", "city"), ("stopped", "stopping"), ("paid", "paid"),
        ("created", "creating"), ("quickly", "quick"), ("organisation", "organization"),
        ("tried", "try"), ("fried", "fry"), ("promised", "promise"), ("precisely", "precise"),
        ("colours", "color"), ("theatre", "theater"), ("neighbouring", "neighboring"),
        ("analysed", "analyze"), ("removal", "removing"), ("excited", "excitement"),
        ("responsible", "responsibility"), ("effectively", "effects"),
    ],
)  # fmt: skip
def test_stems_are_equal_when_only_the_ending_differs(one, other):
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("short", "whole"),
    [("2 tbsp", "two tablespoons"), ("45 mins", "45 minutes"), ("Open Tue", "open Tuesday")],
)
def test_shortened_word_is_read_as_the_whole_one(short, whole):
    assert stems(short) == stems(whole)


def test_word_that_looks_like_a_shortened_day_is_none():
    assert stems("he sat in the sun") != stems("he saturday in the sunday")


@pytest.mark.parametrize("word", ["bus", "this", "glass", "straße"])
def test_word_without_a_suffix_is_its_own_stem(word):
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,000", "1000"),
        ("1.000", "1000"),
        ("1 000", "1000"),
        ("12\u202f000\u202f000", "12,000,000"),
        ("5.0", "5"),
        ("4,90", "4.9"),
        ("1.200,5", "1200.5"),
        ("five", "5"),
        ("007", "7"),
        ("twelfth", "12"),
        ("twice", "2"),
        ("about .25 inches", "about 0.25 inches"),
    ],
)
def test_numbers_are_equal_when_only_their_writing_differs(one, other):
    assert stems(one) == stems(other)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("two and a half hours", "2.5 hours"), ("an hour and a half", "1.5 hours"),
        ("1½ tablets", "one and a half tablets"), ("2 ¼ cups", "2.25 cups"),
        ("zweieinhalb Stunden", "2.5 Stunden"), ("dos horas y media", "2.5 horas"),
        ("deux heures et demie", "2.5 heures"),
    ],
)  # fmt: skip
def test_halves_and_quarters_are_part_of_their_figure(written, plain):
    assert stems(written) == stems(plain)


@pytest.mark.parametrize(
    "text",
    [
        "half a truth and a half lie", "Week 1 and a half-day workshop", "7 days and a half board",
        "$14 and a half portion", "tres huevos y media taza", "3 hours and 30 minutes are left",
        "12 hours, 30 minutes before",
    ],
)  # fmt: skip
def test_half_of_something_else_is_no_part_of_a_figure(text):
    assert not [each for each in stems(text) if each.endswith(".5")]


@pytest.mark.parametrize("text", ["2019 300", "30 5", "0.125", "18:00 100", "3.14 200", "20 1000"])
def test_digit_groups_that_are_no_thousands_are_left_as_written(text):
    assert [word.surface for word in words(text)] == text.split()


def test_word_is_the_same_when_its_mark_is_written_as_an_entity():
    assert words("Korea&rsquo;s R&amp;D") == words("Korea’s R&D")


@pytest.mark.parametrize(
    ("one", "other"), [("U.S.", "US"), ("5 p.m.", "5 PM"), ("F.E.A.R.", "FEAR")]
)
def test_abbreviation_is_one_word_with_dots_and_without(one, other):
    assert stems(one) == stems(other)


def test_percent_is_read_alike_as_sign_and_word():
    assert [w.stem for w in words("5%") if w.content] == ["5"]
    assert [w.stem for w in words("5 percent") if w.content] == ["5"]


def test_contracted_negation_is_a_separate_word():
    assert "not" in stems("It doesn't work")
    assert stems("It can’t work") == stems("It can not work")


def test_capitalised_content_word_is_marked():
    assert [word.capital for word in words("The Paris office")] == [False, True, False]


def test_characters_are_words_when_the_script_has_no_spaces():
    assert stems("退款abc") == ["退", "款", "abc"]


@pytest.mark.parametrize(
    "text", ["Le café a été rénové.", "नमस्ते दुनिया, हिन्दी में", "ﬁle ｆｕｌｌ 𝐛𝐨𝐥𝐝"]
)
def test_words_are_equal_when_only_the_unicode_form_differs(text):
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert len({words(form) for form in forms}) == 1


def test_marks_belong_to_the_word_when_vowels_are_marks():
    assert [word.surface for word in words("हिन्दी में")] == ["हिन्दी", "में"]


def test_excess_combining_marks_are_cut():
    [word] = words("a" + "\u0327\u0301" * 1000)
    assert len(word.surface) < 40


def test_long_words_are_not_cached():
    before = [*map(len, vocabulary(ENGLISH))]
    words("q" * 41 + " " + "z" * 10_000)
    assert [*map(len, vocabulary(ENGLISH))] == before


def test_memory_stays_small_when_every_word_is_new():
    for kept in vocabulary(ENGLISH):
        kept.clear()
    letters = str.maketrans("0123456789", "abcdefghij")
    tracemalloc.start()
    for number in range(40_000):
        words(f"new{number:08}".translate(letters))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 8_000_000

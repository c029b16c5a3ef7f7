"""
What a request is, by its words: small talk, an instruction, or a question and what it asks for.

The turns of phrase are those of ``language.toml``, in several languages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from monitor.scoring.language import Word, language, listed, words

_MOST_READ = 1_000  # characters of a request
_BEGINNING = 8  # words that say what a request is
_MOST_TALK = 10  # words of small talk
_MARKED = re.compile(r"[.!\u2026]\s*$|,\s")
_LONGEST_TASK, _SHORTEST_TEXT = 200, 40  # characters
_REPLIES = re.compile(r"(?i)\b(?:repl[iy]|answer|respon|antwort|beantwort|répon|respuest)")
_YES_OR_NO = r"\W*(?:unfortunately |leider )?(?:{}|not)\b"  # how an answer begins


@cache
def pattern(name: str, form: str = r"\b(?:{})\b") -> re.Pattern[str]:
    """Return a turn of phrase of ``language.toml``, by name: as whole words, or within *form*."""
    known = language()["requests"] | language()["conversation"]
    phrases = known[name] if isinstance(known[name], str) else "|".join(known[name])
    return re.compile(form.format(phrases), re.IGNORECASE)


# --- what is no question ---


def is_small_talk(query: str) -> bool:
    """Return whether *query* only greets, thanks, agrees or asks who is there."""
    query = _bare(query)
    said = re.findall(r"[\w']+", query.replace("\u2019", "'"))
    only_talks = 0 < len(said) <= _MOST_TALK and all(map(pattern("talk", "{}").fullmatch, said))
    greets = only_talks and pattern("talk_core").search(query)
    return bool(greets or pattern("talk_phrases", r"(?:{})\W*").fullmatch(query))


def transforms(query: str) -> bool:
    """Return whether *query* wants a summary, a translation or another form of a text."""
    return _begins("transform", query) or asks_translation(query)


def creates(query: str) -> bool:
    """Return whether *query* wants something new, which words cannot judge."""
    return _begins("create", query) or retells(query)


def corrects(query: str) -> bool:
    """Return whether *query* wants the mistakes of a text corrected, and no other text."""
    return _begins("correct", query)


def retells(query: str) -> bool:
    """Return whether *query* wants a text in simple words, in a headline, or a joke."""
    return _begins("audience", query)


def _begins(name: str, query: str) -> bool:
    """Return whether *query* begins with a turn of phrase, behind the words that are polite."""
    return pattern(name, r"(?:{})\b").match(without_courtesy(query)) is not None


def handed_over(query: str) -> tuple[str, str]:
    """
    Return the task and the text of "Make this shorter: ..."; all of *query*, and no text.

    A question and its details are no text that is handed over, nor is what should be answered.
    """
    bare = query.lstrip()
    ends = [at for mark in (": ", "\n") if (at := bare.find(mark, 0, _LONGEST_TASK)) > 0]
    task, text = (bare[: min(ends)], bare[min(ends) + 1 :].strip()) if ends else ("", "")
    is_text = len(text) >= _SHORTEST_TEXT and not _REPLIES.search(task)
    is_task = is_text and (transforms(task) or corrects(task)) and not is_question(task)
    return (task, text) if is_task else (query, "")


def asks_translation(query: str) -> bool:
    """Return whether *query* wants a text in a language that it names."""
    task = without_courtesy(query)
    beginning = " ".join(task.split()[:_BEGINNING])
    is_question = pattern("wh").match(beginning) or task.endswith("?")
    names_one = not is_question and pattern("in_language").search(beginning)
    return bool(pattern("translate").search(beginning) or names_one)


def asks_nothing(query: str) -> bool:
    """Return whether *query* works on a text or makes one: no question, complaint or keywords."""
    query, task = query[:_MOST_READ].strip(), without_courtesy(query)
    task = task.rstrip("? ") if task != query else task  # "Could you shorten that?"
    return not asks(task) and _is_sentence(query)


def asks(query: str) -> bool:
    """Return whether *query* asks for something: a question, "Tell me ...", "I need ..."."""
    return pattern("asks", r"(?:{})").match(_bare(query)) is not None or is_question(query)


def is_question(query: str) -> bool:
    """Return whether *query* has a question mark, or begins as questions do."""
    query = _bare(query)
    begins = pattern("wh", r"\W*(?:\w+\W+){{0,3}}(?:{})\b").match(_without_english_was(query))
    return begins is not None or "?" in query or asks_yes_or_no(query)


def is_remark(query: str) -> bool:
    """Return whether *query* says something: no question, no keywords, and no "I need ..."."""
    wants = pattern("wants", r"(?:{})\b").match(_bare(query)) is not None
    return not (wants or is_question(query)) and _is_sentence(query)


def _is_sentence(query: str) -> bool:
    """Return whether *query* has words or marks of a sentence, unlike keywords."""
    found = pattern("of_sentences").search(query) or _MARKED.search(query)
    return found is not None


def _without_english_was(query: str) -> str:
    """Return *query* without the English "was"; the German one means "what"."""
    # "where was" asks for a place
    return pattern("english_was").sub(lambda m: re.sub(r"(?i)\bwas\b", " ", m[0]), query)


def asks_again(query: str) -> bool:
    """Return whether *query* begins by asking for what was said before: "Again, please"."""
    return pattern("again", r"\b(?:{})").search(without_courtesy(query)) is not None


def leans(query: str) -> bool:
    """Return whether a question only names what is different this time: "And the Mini?"."""
    return pattern("goes_on", r"[\s¿]*(?:{})").match(query) is not None


def _bare(query: str) -> str:
    """Return *query* without the marks around it, the question marks of all scripts as "?"."""
    bare = query[:_MOST_READ].strip().strip("¿¡").strip()
    return bare.replace("\uff1f", "?").replace("\u061f", "?")


def without_courtesy(query: str) -> str:
    """Return *query* without the words that make a request polite."""
    return pattern("polite", r"^(?:(?:{})[,\s]+)+").sub("", _bare(query))


# --- what a question asks for ---


def named(query: str) -> str:
    """Return *query* without the words that ask for a figure: "how long", "cost"."""
    asking = listed("asking")
    return " ".join(w.surface for w in words(query[:_MOST_READ]) if w.stem not in asking)


def asks_yes_or_no(query: str) -> bool:
    """Return whether *query* begins as such a question does in English."""
    return pattern("asks_yes_no", r"\s*(?:{})\b").match(query) is not None


def only_yes_or_no_is_asked(query: str) -> bool:
    """Return whether *query*, of any language, is a question without a word that asks for more."""
    asked = re.sub(r"(?i)(?<!qu')\best-ce qu(?:e|')", " ", query)
    plain = _without_english_was(asked)
    return query.rstrip().endswith("?") and not pattern("wh").search(plain)


def begins_with_yes_or_no(output: str) -> bool:
    """Return whether *output* begins with the very word for yes or no, in one of six languages."""
    return pattern("plain_yes_no", _YES_OR_NO).match(output) is not None


def without_yes_or_no(output: str) -> str:
    """Return *output* without the yes or no that it begins with."""
    return pattern("plain_yes_no", _YES_OR_NO).sub("", output, count=1)


def asks_why(query: str) -> bool:
    """Return whether *query* asks for a reason."""
    return pattern("asks_why").search(query) is not None


def lacks_figure(query: str, said: Sequence[Word]) -> bool:
    """Return whether *query* asks for a number, a time of day or a year, and *said* has none."""
    asks_one = pattern("asks_number", r"\W*(?:and |so )?(?:{})\b").match(query) is not None
    return asks_one and not any(word.number for word in said)

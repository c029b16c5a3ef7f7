"""
Read sentences, in any language, and which of them state something.

`split_sentences` gives sentences, `split_statements` what one of them joins. `is_checkable` finds
those that state something, `without_mentions` leaves out where a sentence says that it was read.
"""

# ruff: noqa: RUF001 - the letters and marks of other languages are meant
from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from monitor.scoring.language import (
    canonical,
    denies,
    has_words,
    is_ordinal,
    language,
    words,
)
from monitor.scoring.word_model import WordModel, shipped_model, tokens_of

_HINTS = language()["hints"]
_ABBREVIATIONS = frozenset(language()["lists"]["abbreviations"].split())
# Possessive, and never in the middle of a run: otherwise long runs take quadratic time. Groups are
# not: before Python 3.11.5 a possessive one keeps half a repeat. It begins with one class of
# characters, for which the engine scans quickly.
_END = re.compile(
    r"""[.!?…。！？．](?:(?<=[.!?…])(?<![.!?…]{2})[.!?…]*+["'”’)\]¹²³⁰⁴-⁹]*+(?:\[\^?\d{1,3}\])*(?=\s|$)"""
    r"""|(?<=[。！？．])(?<![。！？．]{2})[。！？．]*+["'”’」）]*+)"""
)
_BULLET = re.compile(r"^\s*(?:[-*•·–—]+\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+|>\s+|\|)+")
_EMPHASIS = re.compile(r"\*\*|__|`")
_LONGEST_WORD, _LONGEST_NAME = 40, 4


def split_sentences(text: str) -> tuple[str, ...]:
    """
    Return the sentences of *text*, without bullets and emphasis marks.

    A line break ends a sentence, because lists and headings have no full stop. Letters
    are composed (NFC) but not replaced: a full-width stop ends a sentence without a space.
    """
    sentences: list[str] = []
    for line in canonical(text).splitlines():
        bullet = _BULLET.match(line)
        bare = line[bullet.end() :] if bullet else line
        if "*" in bare or "_" in bare or "`" in bare:
            bare = _EMPHASIS.sub("", bare)
        bare = bare.strip()
        start = 0
        for match in _END.finditer(bare):
            at, end = match.span()
            if end == len(bare):
                break
            if bare[at] == "." and (end == at + 1 or bare[at + 1] == ")"):
                before = bare[max(at - _LONGEST_WORD, 0) : at].rsplit(None, 1)
                word = before[-1].lstrip("([\"'“‘").lower() if before else ""
                goes_on = bare[end : end + _LONGEST_WORD].lstrip()[:1].islower()  # "approx. half"
                initial = len(word) == 1 and word.isalpha() and word != "i"
                short = initial or word in _ABBREVIATIONS
                if (short and end == at + 1) or (
                    goes_on and (short or end == at + 1) and len(word) <= _LONGEST_NAME
                ):
                    continue
            sentences.append(bare[start:end].strip())
            start = end
        sentences.append(bare[start:].strip())
    return tuple([s for s in sentences if s[:1].isalnum() or any(map(str.isalnum, s))])


#: Where one statement ends within a sentence: at a semicolon, or before a clause with a verb.
_VERB = (
    r"(?:is|are|was|were|has|have|had|can|cannot|could|will|would|may|must|should|does|did"
    r"|(?:do|does|did|is|are|was|were|has|have|had|ca|wo)n't|[a-z]{3,}(?:ed|es)"
    r"|(?:begin|cost|contain|cover|end|get|last|need|offer|open|own|pay|run|start|weigh|work)s)"
)
_JOINT = re.compile(
    rf";\s+|,?\s(?:and|but|while|whereas)\s(?=(?:[\w'’-]+\s){{0,4}}{_VERB}\s)", re.IGNORECASE
)
_HAS_VERB = re.compile(rf"\b{_VERB}\s", re.IGNORECASE)
_LEAST_STATED = 2  # informative words of a statement


def split_statements(sentence: str) -> tuple[str, ...]:
    """
    Return the statements that *sentence* joins, where it is safe to part them; else the sentence.

    "It costs 20 euros and was built in 1889." makes two. Parted are semicolons, and the English
    "and", "but", "while" and "whereas" between clauses that both have a verb; never brackets or
    quotes.
    """
    parts = _JOINT.split(sentence)
    whole = len(parts) < 2 or any(  # noqa: PLR2004 - one has no parts
        sum(word.content for word in words(part)) < _LEAST_STATED
        or part.count("(") != part.count(")")
        or part.count('"') % 2
        for part in parts
    )
    return (sentence,) if whole or not _HAS_VERB.search(parts[0]) else tuple(parts)


_LABEL = re.compile(r"(?:step|part|option|section|schritt|étape|paso) \d{1,3}\W*", re.IGNORECASE)
CHAT = "chat"  #: a sentence that states nothing, such as a greeting or an offer of more
CHAT_MODEL = "sentences.v1.json"
CHAT_FROM = 5.0  #: odds
_LEAST_KNOWN = 0.6  # share of words that a sentence had
_LONGEST_CHAT = 16  # words; a longer sentence says something besides
#: "## Refunds", and a line that is bold from end to end and ends like no sentence.
_HEADING = re.compile(r"\s*#{1,6}\s+(\S.*)|\s*\*\*([^*]{1,80}[^*.!?])\*\*\s*")
_STATES = re.compile(r"\d|[.!?;,:]\s*$")
_LONGEST_TITLE, _LONGEST_SIGNATURE, _SIGNED_LINES = 3, 5, 4  # words, lines
#: "Kind regards,", and a name behind it.
_CLOSING = re.compile(
    rf"\W*(?:[^\W\d_]+\s){{0,4}}?(?:{language()['linking']['closing']})\s*(?:[,–—-]\s*(.*)|(?=$))",
    re.IGNORECASE,
)
#: A heading such as "Sources:", and the lines below it that begin with a mark.
SOURCES = re.compile(
    r"^[ \t#*_]*(?:sources?|references?|citations|bibliography|works cited|quellen|literatur"
    r"|références|bibliographie|fuentes|referencias)[ \t*_:]*\n"
    r"(?:[ \t]*\n)?(?:[ \t]*(?:(?:[-*•]|\d{1,3}[.)])[ \t]+)?"
    r"(?:\[[^\][\n]{1,100}\]|【[^】\n]{1,40}】).*(?:\n|\Z))+",
    re.MULTILINE | re.IGNORECASE,
)
_DEFINITION = re.compile(r"\s*\[\^?\d{1,3}\]:\s")  #: "[1]: Handbook, section 4"
_DASHED_NAME = re.compile(r"\s*(?:—|--)\s*(\S.*)?")
_ONLY_CODE = re.compile(r"\s*(?:`[^`]+`|<(code|pre)>.*</\1>)\s*")
_INDENTED = ("    ", "\t")
_LIKE_CODE = re.compile(r"\s*(?:[a-z$@].*[^.!?:,\s]|.*[(){};=<>\\].*)\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
#: Sentences of an output that are judged; more than any reader would read one by one.
MOST_SENTENCES = 200
_CHARS_READ, _LONGEST_TERSE = 2_000, 40  # of any sentence; of one that declines in a word or two


def headings_and_code(text: str) -> frozenset[str]:
    """
    Return the sentences of *text* that are headings (the last line is none), code or a signature.

    Headings are those of Markdown, also of its tables; a signature is behind "Kind regards,". Code
    is in fences, or indented in a text without lists. So is the list below "Sources:".
    """
    lines = text.rstrip().splitlines()
    listed = SOURCES.finditer(text) if "[" in text or "【" in text else ()
    found = [line for match in listed for line in match[0].splitlines()]
    found += filter(_DEFINITION.match, lines)
    fenced = indented = False
    may_indent = any(line.startswith(_INDENTED) for line in lines)
    may_indent = may_indent and not any(map(_BULLET.match, lines))
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line) is not None
        title = _HEADING.fullmatch(line) if number < len(lines) else None
        goes_on = indented or number == 1 or not lines[number - 2].strip()
        is_code = may_indent and goes_on and line.startswith(_INDENTED)
        indented = is_code and _LIKE_CODE.fullmatch(line[:_CHARS_READ]) is not None
        if fence or fenced or indented or _ONLY_CODE.fullmatch(line):
            found.append(line)
        elif title or _is_above_list(line, lines[number : number + 3]):
            found.append((title and (title[1] or title[2])) or line)
        elif "|" in line and _is_rule("".join(lines[number : number + 1])):
            found += () if any(map(str.isdigit, line)) else (line,)
        fenced ^= fence
    known = {*found}
    last = [line for line in lines if line.strip() and line not in known][-_SIGNED_LINES:]
    for number, line in enumerate(last):
        read = line[:_CHARS_READ]
        if closing := _CLOSING.fullmatch(read) or _DASHED_NAME.fullmatch(read):
            names = [*filter(None, (closing[1], *last[number + 1 :]))]
            signs = [n[:1].isupper() and len(n.split()) <= _LONGEST_SIGNATURE for n in names]
            ends = signs or line.rstrip().endswith(",")
            found += (
                last[number:] if ends and all(signs) and not any(map(_STATES.search, names)) else ()
            )
    return frozenset(sentence for line in found for sentence in split_sentences(line))


def _is_rule(line: str) -> bool:
    """Return whether *line* is what stands under the heads of a table: "| --- | --- |"."""
    return "-" in line and "|" in line and set(line) <= set(" \t|:-")


def _is_above_list(line: str, below: Sequence[str]) -> bool:
    """Return whether *line* is a title of a few words above a list, such as "1. Timing"."""
    own, under = _BULLET.match(line), _BULLET.match(next(filter(str.strip, below), ""))
    title = line[own.end() :] if own else line
    long = len(title.split()) > _LONGEST_TITLE
    if under is None or long or _STATES.search(title):
        return False
    if any(word.number or denies(word) for word in words(title)):
        return False
    marks = [match[0] if match else "" for match in (own, under)]
    indents = [len(each) - len(each.lstrip()) for each in marks]
    numbered = [any(map(str.isdigit, each)) for each in marks]
    return own is None or indents[0] < indents[1] or (numbered[0] and not numbered[1])


def is_checkable(sentence: str, within: str = "") -> bool:
    """Return whether *sentence* states something that a passage could support, *within* a text."""
    return may_state(sentence, within) and not is_chat(sentence)


def may_state(sentence: str, within: str = "") -> bool:
    """Return whether *sentence* states something, or is chat that only sounds like it."""
    if sentence.endswith(("?", "？", ":")) or _LABEL.fullmatch(sentence):
        return False
    said = without_mentions(sentence[:_CHARS_READ])
    tokens = words(said)
    states = any(word.content for word in tokens) and not said.endswith(":")
    if not states or is_refusal(sentence, within):
        return False
    is_address = sentence[-1] == "," and len(tokens) <= _LONGEST_SIGNATURE  # "Dear Ms Lind,"
    return not (is_address and within.startswith(sentence))


def chat_model() -> tuple[WordModel, str]:
    """Return the model of sentences that state nothing, and a hash of it."""
    return shipped_model("monitor.scoring", CHAT_MODEL, (CHAT,))


def is_chat(sentence: str) -> bool:
    """
    Return whether *sentence* only greets, thanks, offers more or speaks of the answer itself.

    A model of its words says so; what has a figure, or many words, states something.
    """
    sentence = without_mentions(sentence[:_CHARS_READ])
    said = words(sentence)
    if len(said) > _LONGEST_CHAT or any(w.number and not is_ordinal(w) for w in said):
        return False
    model, tokens = chat_model()[0], tokens_of(sentence)
    return sum(model.odds(tokens)) >= CHAT_FROM and model.knows(tokens, _LEAST_KNOWN)


_REFUSALS = {name: "|".join(patterns) for name, patterns in language()["refusals"].items()}
_REFUSAL = re.compile("|".join(_REFUSALS.values()), re.IGNORECASE)
# All of these begin a word; to say so once keeps the engine from trying each at every letter. It
# reads lower case: without regard to case, it would not skip what begins with another letter.
_ENGLISH_REFUSAL = re.compile(rf"\b(?:{_REFUSALS['English']})")
#: Sentences that decline in a word or two.
_TERSE = re.compile(
    r"(?:unanswerable|unknown|n/?a|no (?:answer|information|data)(?: (?:was )?(?:found|available))?"
    r"|not (?:known|specified|stated|given|mentioned|provided|available|found|answerable))\W*",
    re.IGNORECASE,
)
_FOREIGN_LETTER = re.compile(r"[^\W\d_a-zA-Z]")
#: What joins a refusal to something else: each side must decline, or ask to turn elsewhere.
_BUT = re.compile(language()["linking"]["but"], re.IGNORECASE)
_FIGURE_BEHIND = re.compile(r"[,;]\s(?:[^\W\d_][^\s,;]*\s){2,20}\d.*")
#: What leads to a statement within the same sentence.
_BESIDES = re.compile(r"\b(?:although|though|instead|except)\b", re.IGNORECASE)


@lru_cache(maxsize=8)  # one answer has many sentences, and few hints
def _hints_of_refusals(text: str) -> list[list[str]]:
    """Return the hints that *text* has, English ones and others."""
    lower = text.lower()
    return [[h for h in _HINTS[name] if h in lower] for name in ("refusing", "refusing_elsewhere")]


def is_refusal(sentence: str, within: str = "") -> bool:
    """
    Return whether *sentence* only declines to answer or says that the sources are silent.

    "I'm sorry, but I don't know" and "Not specified." decline; "I don't know, but it is open"
    states something. The turns of phrase are those of fifteen languages besides English; in others
    a refusal is read as a statement, which the passages then do not hold. Sentences *within* one
    text are read faster.
    """
    if len(sentence) <= _LONGEST_TERSE and _TERSE.fullmatch(sentence.strip()):
        return True
    if sentence.isascii() or not _FOREIGN_LETTER.search(sentence):
        lower, (english, foreign) = sentence.lower(), _hints_of_refusals(within or sentence)
        hinted = any(map(lower.__contains__, english)) and _ENGLISH_REFUSAL.search(lower)
        if not hinted and not any(map(lower.__contains__, foreign)):
            return False
    if not _REFUSAL.search(sentence) or _BESIDES.search(sentence):
        return False
    if (behind := _FIGURE_BEHIND.search(sentence)) and not _REFUSAL.search(behind[0]):
        return False  # "It is not mentioned, refunds take 90 days."
    parts = [part for part in _BUT.split(sentence) if has_words(part)]
    return all(_REFUSAL.search(part) or is_chat(part) for part in parts)


#: What apps call the texts that they hand to a model; these are also numbered.
_NUMBERED = (
    r"(?:passage|source|context|document|doc|excerpt|snippet|chunk|reference|ref|citation)s?"
)
_TEXTS = rf"(?:{_NUMBERED}|texts?|articles?|paragraphs?|information|data|content|details|facts)"
_NUMBER = r"\.?\s?#?\d{1,3}"
_NUMBERS = (
    rf"{_NUMBER}(?:(?:\s?[,;&–-]\s?|\s(?:and|or|to)\s)(?:{_NUMBERED}\s?)?#?\d{{1,3}}){{0,20}}"
)
_WHICH = (
    r"(?:(?:the|these|this|those|that|your|all|both|given|provided|above|available|retrieved"
    r"|supplied|following|structured|relevant|short|input|context|search)\s)"
)
#: "the given passages", "the information provided in the passages", "passages 1 and 2".
_NAMED = (
    rf"(?:{_NUMBERED}{_NUMBERS}|{_WHICH}{{1,3}}{_TEXTS}(?:{_NUMBERS})?"
    rf"(?:\s(?:provided|given|above|available))?(?:\s(?:in|from|by|of)\s{_WHICH}{{1,3}}{_TEXTS})?)"
)
_BY = (
    r"(?:(?:based|relying|drawing|going)\s(?:(?:solely|only|entirely|purely)\s)?(?:up)?on"
    r"|(?:according|with reference|referring)\sto|judging\s(?:by|from)|as\sper|per|from|in|within"
    r"|(?:as\s)?(?:stated|mentioned|noted|described|explained|given|shown|seen|indicated"
    r"|discussed|outlined|detailed|listed|found)\s(?:in|by))"
)
_SAYS = (
    r"(?:(?:also|further|briefly|then|explicitly|specifically|clearly|only)\s)*(?:"
    r"(?:mention|state|say|suggest|note|describe|discuss|explain|indicate|highlight|report|show"
    r"|specif(?:y|ie)|list|conclude|add|tell)(?:s|es)?(?:\sus)?(?:\sthat)?\b"
    r"|(?:provide|contain|give|offer|include|cover)s?\s(?:\w+\s){0,2}"
    r"(?:information|details?|examples?|guidance|instructions?|facts)\s(?:about|on|of|for|regarding)\b)"
)
_TELL = (
    r"(?:mention|contain|provide|specif|include|state|explain|discuss|describe|detail|outline"
    r"|address|cover|give|say|offer|refer)"
)
#: "The passages describe X, but do not mention Y": of what they do not tell nothing is stated.
_NOT_TOLD = re.compile(
    rf"(?:,?\s(?:but|yet|although|though|and)\s(?:(?:they|it|none\sof\s(?:them|these|the\s\w+))\s)?"
    rf"(?:(?:do|does)(?:\snot|n't)\s(?:\w+\s){{0,2}}{_TELL}|{_TELL}\w*\s(?:no|nothing)\b|(?<=them\s){_TELL})"
    r"|,?\swithout\s(?:any\s)?(?:mention|reference|information|detail|instruction|guidance))[^.;]*",
    re.IGNORECASE,
)
#: The same of any subject, and what then leads to all that it tells.
_SILENT = re.compile(
    r",?\s(?:but|and|yet|although)\s(?:(?:it|they|this)\s)?"
    r"(?:(?:do|does)(?:\snot|n't)\s(?:mention|say|specify|state)|(?:says?|mentions?)\snothing)\b[^.;]*",
    re.IGNORECASE,
)
_ONLY_TELLS = re.compile(
    r"(?:it|they|these|those|this)\s(?:only|just)\s(?:covers?|mentions?|lists?|describes?|contains?)\s",
    re.IGNORECASE,
)
_BEGINS_NAMED = re.compile(rf"\W*{_NAMED}\s", re.IGNORECASE)
_AUTHOR = (
    r"(?-i:[A-Z])[\w'’-]+(?:,|,?\s(?:and|&)\s[\w'’-]+,?|\set\sal\.?,?)\s(?:19|20)\d\d[a-z]?"
    r"(?:,\s(?:pp?|S)\.\s?\d{1,4}(?:[-–]\d{1,4})?)?"
)
_AUTHOR_SAYS = r"(?-i:[A-Z])[\w'’-]+(?:\s(?:and|&)\s[\w'’-]+|\set\sal\.?)?\s\((?:19|20)\d\d[a-z]?\)"
_SEE = r"(?:(?:see|cf\.?|from|per|according\sto|sources?|as\sper)\b:?\s?)?(?:the\s)?"
#: "Source: https://...", "Source: a.pdf", "Sources: [1]", "Source: handbook, page 3".
_SOURCE = (
    r"^[*_\s]*(?:sources?|quellen?|fuentes?)[*_]*:(?=[^\n]*(?:https?:|www\.|\w\.[a-z]{2,4}\b|[\[【§]"
    r"|\b(?:page|section|chapter|seite)\s\d))[^\n]*$"
)
_MENTIONS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # [1], [^2], [1, p. 4], [[1]](https://...), 【4†source】, and (1) at an end; word¹,
        # <sup>1</sup>; [faq-3]; [doc 2], (Passages 1, 3); (source: a.pdf); (Lee, 2020)
        (
            r"\s?\\?\[{1,2}\^?\d{1,3}(?:(?:\s?[,;–-]\s?|\s(?:and|und|et|y)\s)(?:(?:pp?|S)\.?\s?)?\d{1,3})*"
            r"\\?\]{1,2}(?:\(https?:[^()\s]{1,500}\)|\s?[–-](?=\[\d))?|\s?【[^】]{1,40}】"
            r"|\s\(\d{1,2}\)(?=\s*(?:[.,;:!?]|$))"
        ),
        r"(?:(?<=[^\W\d_][^\W\d_][^\W\d_])|(?<=[.,;:!?)\]\"”’»%]))(?:[¹²³⁰⁴-⁹]+|<sup>[^<]{1,20}</sup>)",
        r"(?:\s|(?<!\w))\[[a-z]\w{0,40}(?:\d|[.#/:_-]\w)[\w.#/:-]{0,60}\](?=\s*(?:[.,;:!?\[]|$))",
        rf"\s?[\[(]{_SEE}{_NUMBERED}{_NUMBERS}[\])]",
        r"\s?[\[(]sources?:\s?[^\[\]()]{1,80}[\])]",
        rf"\s?\((?:see\s)?{_AUTHOR}(?:;\s{_AUTHOR}){{0,9}}\)",
        # without brackets: "Source: a.pdf"; at the beginning, at the end, before what they say
        _SOURCE,
        rf"^{_BY}\s(?:{_NAMED}|{_AUTHOR_SAYS})(?:,|\s?$)\s?",
        rf",?\s{_BY}\s{_NAMED}(?=[.,;!?]|\s?$),?",
        rf"(?:^|(?<=[,:;]\s)){_NAMED}\s{_SAYS}\s?",
        # anywhere else
        rf"\b(?:(?:in|from|of|by|per|to)\s)?{_NUMBERED}{_NUMBERS}(?=\W|$)",
    )
)
_IN_BRACKETS = 6  #: the first of them
_MARKED = re.compile("[\\[(【<¹²³⁰⁴-⁹]")
#: What joins a sentence to the others: "Second," counts nothing, and "Step 3:" neither.
_JOINING = re.compile(
    rf"^(?:{language()['linking']['opening']}\s?[,:–]\s|{language()['linking']['noting']}\s)",
    re.IGNORECASE,
)
#: "No, it costs 20 dollars." denies the question, and then states something.
_YES_OR_NO = re.compile(
    rf"^\W*(?:unfortunately |leider )?(?:{language()['conversation']['plain_yes_no']}|not|nee)"
    r"(?:\s?[,:;–—]\s(?=\S)|\W*$)",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)  # a sentence is read to see whether it states something, then as a claim
def without_mentions(sentence: str) -> str:
    """
    Return *sentence* without where it was read and what joins it to others.

    "Second, according to passage 2, refunds take five days [1]." becomes "refunds take five
    days.": the number of a passage is not in the passage, and would count against the claim.
    The turns of phrase are English, the marks of any language. What is left may be empty.
    """
    openings = [_YES_OR_NO, _JOINING]
    if "n't" in sentence or " not" in sentence:  # also "nothing"
        before, sentence = sentence, _SILENT.sub("", sentence)
        openings += [_ONLY_TELLS] if sentence != before else []
    for opening in openings:
        if match := opening.match(sentence):
            sentence = sentence[match.end() :]
    lower = sentence.lower()
    marked = _MARKED.search(sentence) is not None
    named = any(map(lower.__contains__, _HINTS["mentioning"]))
    if not (marked or named):
        return sentence
    if named and _BEGINS_NAMED.match(sentence):
        sentence = _NOT_TOLD.sub("", sentence)
    for pattern in _MENTIONS[0 if marked else _IN_BRACKETS : None if named else _IN_BRACKETS]:
        sentence = pattern.sub("", sentence)
    return sentence.lstrip(" ,;:").rstrip()

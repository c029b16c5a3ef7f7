"""Tell text that speaks to the judge, and take away its force without its words."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from monitor.scoring.words import compatible

#: Stands for every space of a marked text: no word, so that quotes are found all the same.
MARK = "^"
_CHARS_READ = 500_000  # of what is sent; usual settings send a tenth of that
_SPACES = re.compile(r"\s+")
#: Letters that show nothing: they hide words between letters, or a whole text.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_INVISIBLE_TEXT = re.compile("[\U000e0020-\U000e007e]{8}")  # longer than the flag of a country
_TOLD = r"(?:instructions?|rules?|prompts?|directions?|guidelines?|orders?|criteria)"
_VERDICT = r"(?:supported|not_found|no_claim|contradicted|grounded|faithful|answered|correct)"
_JUDGE = r"(?:judge|grader|evaluator|fact[- ]?checker|llm|language model|ai (?:model|assistant))"
_SPEAKS_TO_A_MODEL = re.compile(
    rf"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{{0,40}}\b{_TOLD}\b"
    rf"|\b(?:new|updated|system|developer) {_TOLD}\s*[:=]"
    r"|\b(?:you are|act as|pretend to be) (?:now )?(?:an?|the|no longer)\b"
    rf"[^.!?\n]{{0,20}}{_JUDGE}\b"
    rf"|\b(?:dear|attention|note (?:to|for)|hey|hello)[ ,:]+(?:the |all )?{_JUDGE}\b"
    r"|\b(?:mark|rate|label|score|judge|grade|classify|count|treat|report)\b[^.!?\n]{0,60}\bas\b"
    rf"[^.!?\n]{{0,20}}\b{_VERDICT}\b"
    r"|\b(?:say|state|report|reply|respond|answer|output|return)\b[^.!?\n]{0,20}"
    rf"\b(?:everything|all|every|each)\b[^.!?\n]{{0,40}}\b{_VERDICT}\b"
    r"|[\"']?\b(?:verdicts?|answered|canary)\b[\"']?\s*:\s*[\"\[{]"
    r"|</?(?:data|system|assistant|user|instructions?)\b[^>\n]{0,40}>"
    r"|<\|(?:im_start|im_end|system|user|assistant|end|endoftext)\|>|\[/?INST\]",
    re.IGNORECASE,
)


def suspected(texts: Mapping[str, str]) -> tuple[str, ...]:
    """
    Name the *texts* that seem to speak to the judge rather than to a reader.

    A pattern can neither find every such text nor be right about each it finds. So
    nothing is left out or scored by it: it only decides how the text is sent, and is
    put on record.
    """
    return tuple(name for name, text in texts.items() if _speaks_to_a_model(text))


def _speaks_to_a_model(text: str) -> bool:
    text = text[:_CHARS_READ]
    plain = _INVISIBLE.sub("", compatible(text)[:_CHARS_READ])  # some letters expand to eighteen
    return bool(_SPEAKS_TO_A_MODEL.search(plain) or _INVISIBLE_TEXT.search(text))


def marked(text: str) -> str:
    """
    Put ``MARK`` for every space, so that no sentence reads as one addressed to the reader.

    Source: "datamarking" in Hines et al. (2024), Defending against indirect prompt
    injection attacks with spotlighting, arXiv:2403.14720.
    """
    return _SPACES.sub(MARK, _INVISIBLE_TEXT.sub("", text))


def secret_word(prefix: str, data: str) -> str:
    """Make a word that nobody can have written into *data*."""
    while (word := f"{prefix}-{secrets.token_hex(6)}") in data:  # as likely as a lottery win
        continue
    return word

"""
Say of what kind a short text is, by a logistic regression on its words.

Two of them ship as data: what a request is (`local.requests`), and whether a sentence of an answer
states anything (`sentences`). ``benchmarks/train_local.py`` fits both.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

from monitor.scoring.language import compatible, spaced

STEPS = 100  #: weights are written in hundredths
EMOJI = "#emoji"
MOST_CHARS = 1_000  #: of a text are read
_FIRST, _LAST = 28, 12  # words that tell what a text is
_BEGINNING = 5  # letters by which words begin alike
_EMOJI = re.compile("[\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f1e6-\U0001faff]")
_TOKEN = re.compile(rf"\d+|[^\W\d_]+(?:'[^\W\d_]+)*|[?!.:;,\n]|{_EMOJI.pattern}")


def tokens_of(text: str) -> list[str]:
    """Return the words and marks of *text*, in lower case; a figure is "0", an emoji `EMOJI`."""
    plain = compatible(text.strip()[:MOST_CHARS]).lower().replace("\u2019", "'")
    found = _TOKEN.findall(spaced(plain).replace("\u061f", "?"))
    found = found if len(found) <= _FIRST + _LAST else found[:_FIRST] + found[-_LAST:]
    if plain.isascii():
        return ["0" if token.isdigit() else token for token in found]
    return ["0" if t.isdigit() else EMOJI if _EMOJI.match(t) else t for t in found]


def text_features(tokens: Sequence[str]) -> frozenset[str]:
    """Return words, their beginnings and neighbours, and the form of a text, by name."""
    said = [token for token in tokens if token[0].isalpha()]
    return frozenset(
        [
            *tokens,
            *(f"{token[:_BEGINNING]}*" for token in said if len(token) > _BEGINNING),
            *(f"{one} {two}" for one, two in pairwise(["^", *tokens, "$"])),
            *(f"^{token}" for token in said[:3]),
            f"#length {round(math.log2(len(said) + 1))}",
            "#asks" if "?" in tokens else "#says",
            "#any",
        ]
    )


class WordModel(NamedTuple):
    """
    A multinomial logistic regression, with odds of 1 for what is none of its kinds.

    The sum of the weights of a text's features is divided by the root of their number.
    """

    weights: Mapping[str, Sequence[int]]  #: of each feature for every kind, in hundredths

    def odds(self, tokens: Sequence[str]) -> list[float]:
        """Return the odds of each kind; none for a text without a known feature."""
        features = text_features(tokens)
        known = [found for each in features if (found := self.weights.get(each))]
        scale = math.sqrt(len(features)) * STEPS
        return [math.exp(sum(column) / scale) for column in zip(*known, strict=True)]

    def knows(self, tokens: Sequence[str], least: float) -> bool:
        """Return whether the model was fitted to *least* of the words of a text, a share."""
        said = [token for token in tokens if token[0].isalpha()]
        known = [t for t in said if t in self.weights or f"{t[:_BEGINNING]}*" in self.weights]
        return len(known) >= least * len(said) > 0


@cache
def shipped_model(package: str, name: str, kinds: tuple[str, ...]) -> tuple[WordModel, str]:
    """
    Read a model that ships with *package*, and a hash of its weights.

    Raises
    ------
    ValueError
        If the file was made for other kinds.
    """
    text = resources.files(package).joinpath(name).read_text("utf-8")
    data = json.loads(text)
    if data["kinds"] != [*kinds]:
        raise ValueError(f"{name} is of other kinds: run benchmarks/train_local.py")
    return WordModel(data["weights"]), hashlib.sha256(text.encode()).hexdigest()

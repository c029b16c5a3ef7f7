"""The judge that infers: a cross-encoder says whether a passage entails a claim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import compress
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from monitor.errors import JudgeReplyError, MissingExtraError, SettingsError
from monitor.format import percent
from monitor.models import Interaction
from monitor.scoring.base import Claim, ClaimVerdict, Judgement, storable
from monitor.scoring.local.passages import flatten
from monitor.scoring.local.scorer import PASS_SCORE, LocalJudge
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings_and_code,
    is_checkable,
    split_sentences,
    without_mentions,
)
from monitor.settings import Settings, variable

try:
    import tokenizers

    from monitor.contrib.onnx_model import OnnxModel
except ImportError as missing:
    raise MissingExtraError("the NLI judge", extra="nli") from missing

_CONTRADICTED = 0.5
_LONGEST_EVIDENCE = 300
_LONGEST_NAME = 60
_BATCH = 16
_FEWEST_LABELS = 2
_OVERLAP = 0.25  # of a window, so that no sentence is cut in two by all of them


def make_judge(settings: Settings, entailed: float) -> NliJudge:
    """
    Make the judge that the settings name; its model is loaded, or fetched from its hub.

    From the probability *entailed* on a claim is supported. Raise SettingsError if there is no
    such model.
    """
    if settings.nli_model is None:
        raise SettingsError(
            f"{variable('nli_model')}: {variable('scorer')}=nli needs a model; name a folder or an"
            " id on the hub"
        )
    return NliJudge(NliModel(settings.nli_model), settings.nli_model, entailed=entailed)


class NliJudge:
    """
    Judges each claim against each passage; the best passage counts.

    Groundedness is the mean over claims of the probability that the best passage entails
    the claim (Honovich et al., 2022, TRUE; Laban et al., 2022, SummaC). From *entailed* on, the
    line at which the mean passes, a claim is supported: where all are, the answer passes. A claim
    that only two passages together support is not seen. Relevance is the local scorer's: inference
    has nothing to say about it.
    """

    def __init__(self, model: NliModel, name: str, *, entailed: float = PASS_SCORE) -> None:
        self._model, self._entailed = model, entailed
        self._local = LocalJudge()
        short = storable(PurePath(name).name, _LONGEST_NAME)
        self.version = f"nli-{short}-{model.fingerprint}-{entailed:g}+{self._local.version}"

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge one interaction; makes one pass over the model a claim and passage."""
        started = time.perf_counter()
        beside = self._local.judge(interaction)
        split = split_sentences(interaction.output)
        sentences = split[:MOST_SENTENCES]
        passages = [
            (index, flatten(context.text))
            for index, context in enumerate(interaction.contexts)
            if context.text.strip()
        ]
        unstated = headings_and_code(interaction.output)
        checked = [each not in unstated and is_checkable(each) for each in sentences]
        stated = [without_mentions(each) for each in compress(sentences, checked)]
        pairs = [(text, each) for each in stated for _, text in passages]
        found, claims = iter(self._model.infer(pairs)), list[Claim]()
        for sentence, states in zip(sentences, checked, strict=True) if passages else ():
            if not states:
                why = "states nothing to check"
                claims.append(
                    Claim(text=sentence, verdict=ClaimVerdict.NO_CLAIM, support=0.0, reason=why)
                )
                continue
            entailed, contradicted = zip(*(next(found) for _ in passages), strict=True)
            support, against = max(entailed), max(contradicted)
            verdict, place = ClaimVerdict.NOT_FOUND, entailed.index(support)
            if support >= self._entailed:
                verdict = ClaimVerdict.SUPPORTED
            elif against >= _CONTRADICTED:
                verdict, place = ClaimVerdict.CONTRADICTED, contradicted.index(against)
            index, text = passages[place]
            by_index = dict(zip((n for n, _ in passages), entailed, strict=True))
            claims.append(
                Claim(
                    text=sentence,
                    verdict=verdict,
                    support=support,
                    evidence=text if len(text) <= _LONGEST_EVIDENCE else None,
                    context_index=index,
                    reason=f"entailed with {percent(support, 0)},"
                    f" contradicted with {percent(against, 0)}",
                    by_passage=tuple(by_index.get(n, 0) for n in range(len(interaction.contexts))),
                )
            )
        return Judgement(
            claims=tuple(claims),
            relevance=beside.relevance,
            relevance_reason=beside.relevance_reason,
            readable=bool(split),
            claims_not_judged=len(split) - len(sentences) if passages else 0,
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def contradicted(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """Return the probability that the first contradicts the second; None by two-way models."""
        if not self._model.contradicts:
            return None
        return [found.contradiction for found in self._model.infer(pairs)]

    def close(self) -> None:
        """Do nothing: the model is only memory."""


class Inference(NamedTuple):
    """Probabilities that a premise entails or contradicts a claim, each in [0, 1]."""

    entailment: float
    contradiction: float


class NliModel:
    """
    A cross-encoder in ONNX with its tokenizer; ``name`` is a folder or an id on the hub.

    Raises
    ------
    SettingsError
        If the model is not there, has no ONNX file, or does not give and name two or three
        scores.
    """

    def __init__(self, name: str) -> None:
        self._model = OnnxModel(name, "nli_model")
        self._columns = _columns(name, self._model.config)
        self.contradicts = self._columns[1] is not None  #: has a score for contradiction
        self._tokenizer = self._model.tokenizer
        self._longest = self._model.longest
        self._tokenizer.enable_truncation(
            self._longest, stride=int(self._longest * _OVERLAP), strategy="only_first"
        )
        self.fingerprint = self._model.fingerprint  #: of the weights
        given = self._model.run(self._encode([("a", "a")])).shape
        named = len(self._model.config["id2label"])
        if given != (1, named) or named < _FEWEST_LABELS:
            raise SettingsError(
                f"{variable('nli_model')}: {name} names {named} labels and gives scores of shape"
                f" {given[1:]}; a score for entailment and one for its opposite are needed"
            )

    def infer(self, pairs: Sequence[tuple[str, str]]) -> list[Inference]:
        """
        Judge each pair of premise and claim.

        A premise that is too long is read in windows that overlap: the best window
        entails, and the worst one contradicts.

        Raises
        ------
        JudgeReplyError
            If the model returns a value that is not finite, as one in half precision may.
        """
        windows = [
            (number, window)
            for number, encoding in enumerate(self._encode(pairs))
            for window in (encoding, *encoding.overflowing)
        ]
        windows.sort(key=lambda each: len(each[1].ids))  # so that little is padded
        found = [Inference(0.0, 0.0)] * len(pairs)
        for start in range(0, len(windows), _BATCH):
            batch = windows[start : start + _BATCH]
            logits = np.asarray(self._model.run([window for _, window in batch]), dtype=np.float64)
            if not np.isfinite(logits).all():
                raise JudgeReplyError("the NLI model gave a score that is not a number")
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            entailment, contradiction = self._columns
            for (number, _), row in zip(
                batch, shifted / shifted.sum(axis=1, keepdims=True), strict=True
            ):
                against = 0.0 if contradiction is None else float(row[contradiction])
                found[number] = Inference(
                    *map(max, found[number], (float(row[entailment]), against))
                )
        return found

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> list[tokenizers.Encoding]:
        texts, most = [], self._longest // 2  # the other half of the window is the premise's
        for premise, claim in pairs:
            encoding = self._tokenizer.encode(claim, add_special_tokens=False)
            end = len(claim) if len(encoding.ids) <= most else encoding.offsets[most - 1][1]
            texts.append((premise, claim[:end]))
        return list(self._tokenizer.encode_batch(texts))


def _columns(name: str, config: dict[str, Any]) -> tuple[int, int | None]:
    """Return the columns for entailment and contradiction; two-way models lack the second."""
    found: dict[str, int] = {}
    for column, label in (config.get("id2label") or {}).items():
        plain = str(label).lower()
        negated = plain.startswith(("not", "non"))
        for kind in ("entail", "contradict"):
            if kind in plain and not negated:
                found[kind] = int(column)
    if "entail" not in found:
        raise SettingsError(
            f"{variable('nli_model')}: the config.json of {name} does not say which label means"
            " entailment (id2label); it may be another kind of model"
        )
    return found["entail"], found.get("contradict")

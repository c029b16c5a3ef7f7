"""The judge that infers: a cross-encoder says whether a passage entails a claim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath

from monitor.contrib.nli_model import Inference, NliModel
from monitor.errors import SettingsError
from monitor.models import Interaction
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.local.passages import flatten
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    is_checkable,
    split_sentences,
    without_mentions,
)
from monitor.scoring.words import storable
from monitor.settings import Settings, variable

_ENTAILED = _CONTRADICTED = 0.5
_LONGEST_EVIDENCE = 300
_LONGEST_NAME = 60


def make_judge(settings: Settings) -> NliJudge:
    """
    Make the judge that the settings name; its model is loaded, or fetched from its hub.

    Raises
    ------
    SettingsError
        If there is no such model.
    """
    if settings.nli_model is None:
        raise SettingsError(
            f"{variable('nli_model')}: {variable('scorer')}=nli needs a model; name a folder or an"
            " id on the hub"
        )
    return NliJudge(NliModel(settings.nli_model), settings.nli_model)


class NliJudge:
    """
    Judges each claim against each passage; the best passage counts.

    Groundedness is the mean over claims of the probability that the best passage entails
    the claim (Honovich et al., 2022, TRUE; Laban et al., 2022, SummaC). A claim that only
    two passages together support is not seen. Relevance is the local scorer's: inference
    has nothing to say about it.
    """

    def __init__(self, model: NliModel, name: str) -> None:
        self._model = model
        self._local = LocalJudge()
        short = storable(PurePath(name).name, _LONGEST_NAME)
        self.version = f"nli-{short}-{model.fingerprint}+{self._local.version}"

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
        claims: tuple[Claim, ...] = ()
        if passages:
            pairs = [
                (text, without_mentions(each))
                for each in sentences
                if is_checkable(each)
                for _, text in passages
            ]
            found = self._model.infer(pairs)
            rows = (found[at : at + len(passages)] for at in range(0, len(found), len(passages)))
            claims = tuple(
                _claim(each, next(rows), passages)
                if is_checkable(each)
                else Claim(
                    text=each,
                    verdict=ClaimVerdict.NO_CLAIM,
                    support=0.0,
                    reason="states nothing to check",
                )
                for each in sentences
            )
        return Judgement(
            claims=claims,
            relevance=beside.relevance,
            relevance_reason=beside.relevance_reason,
            readable=bool(split),
            claims_not_judged=len(split) - len(sentences) if passages else 0,
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def close(self) -> None:
        """Do nothing: the model is only memory."""


def _claim(sentence: str, row: Sequence[Inference], passages: Sequence[tuple[int, str]]) -> Claim:
    best = max(range(len(row)), key=lambda number: row[number].entailment)
    against = max(range(len(row)), key=lambda number: row[number].contradiction)
    support = row[best].entailment
    verdict, place = ClaimVerdict.NOT_FOUND, best
    if support >= _ENTAILED:
        verdict = ClaimVerdict.SUPPORTED
    elif row[against].contradiction >= _CONTRADICTED:
        verdict, place = ClaimVerdict.CONTRADICTED, against
    index, text = passages[place]
    return Claim(
        text=sentence,
        verdict=verdict,
        support=support,
        evidence=text if len(text) <= _LONGEST_EVIDENCE else None,
        context_index=index,
        reason=f"entailed with {100 * support:.0f} %,"
        f" contradicted with {100 * row[against].contradiction:.0f} %",
    )

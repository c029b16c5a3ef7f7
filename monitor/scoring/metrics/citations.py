"""Citations in the answer, checked against the passages that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from pydantic import Field

from monitor.format import listed, part_of, plain_text
from monitor.models import Interaction
from monitor.scoring.base import Finding, Judgement
from monitor.scoring.declaration import (
    JudgementMetric,
    NoParameters,
    computed,
    lookup_list,
    read,
)
from monitor.scoring.entailment import STRONG, Entailment, local_version
from monitor.scoring.measures import share, weighted_mean
from monitor.scoring.metrics.marks import AUTHOR, AUTHOR_SAYS, CitedClaim, cited_claims
from monitor.scoring.metrics.retrieval import passage_ids
from monitor.scoring.sentences import MOST_SENTENCES, is_checkable

PARTIAL = 0.5  #: above this entailment a citation is partially correct
_PARTIAL_SCORE = 0.7
_SOURCES = ("source", "title", "url", "file", "file_name", "filename", "name")


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """The claims of an answer with what they cite, and the passages that the marks name."""

    claims: list[CitedClaim]
    ids: list[str]
    #: By id, place, source or mark: of a source all passages; () leads to none.
    passages_of: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, interaction: Interaction) -> CitedAnswer:
        """Read the citations; of a long answer those of the first 200 sentences."""
        ids = passage_ids(interaction)
        extras = [context.model_extra or {} for context in interaction.contexts]
        sources = [_sources(extra) for extra in extras]
        places = [(str(n),) for n in range(1, len(ids) + 1)]
        passages_of: dict[str, tuple[int, ...]] = {}
        for names in (sources, places, [(each,) for each in ids]):  # the later count more
            of_names: dict[str, tuple[int, ...]] = {}
            for n, several in enumerate(names):
                for name in several:
                    of_names[name] = (*of_names.get(name, ()), n)
            passages_of |= of_names
        heads = [
            f"{each} {extra} {context.text[:200]}".casefold()
            for each, extra, context in zip(ids, extras, interaction.contexts, strict=True)
        ]
        # Where no passage is named by author and year, "(Paris, 1889)" is not a citation.
        dated = any(re.search(r"[A-Za-z]\W{0,3}(?:19|20)\d\d", each) for each in ids)
        dated = dated or any({"author", "year"} & extra.keys() for extra in extras)
        claims = []
        named = [name for several in sources for name in several]
        for claim in cited_claims(interaction.output, ids, named)[:MOST_SENTENCES]:
            counted = []
            for mark in claim.cited:
                says = AUTHOR_SAYS.fullmatch(mark)
                author = says or AUTHOR.fullmatch(f"({mark})")
                if author is not None:
                    name, year = author[1].casefold(), author[3]
                    passages_of[mark] = tuple(
                        n for n, head in enumerate(heads) if name in head and year in head
                    )
                    is_guess = says is not None or not (dated or author[2])
                    if not passages_of[mark] and is_guess:
                        continue
                passages_of.setdefault(mark, ())
                counted.append(mark)
            claims.append(CitedClaim(claim.text, tuple(counted)))
        return cls(claims, ids, passages_of)

    @property
    def has_citations(self) -> bool:
        """Whether any claim cites anything."""
        return any(claim.cited for claim in self.claims)

    def where(self, is_judged: Callable[[int], bool]) -> CitedAnswer:
        """
        Return it without the passages cited where nothing was judged, as in "See [1] for more.".

        A mark that leads to no passage stays.
        """
        claims = [
            claim
            if is_judged(n)
            else CitedClaim(claim.text, tuple(m for m in claim.cited if not self.passages_of[m]))
            for n, claim in enumerate(self.claims)
        ]
        return replace(self, claims=claims)

    def cited_by(self, claim: CitedClaim) -> set[int]:
        """Return the passages that a claim cites, by their index."""
        return {n for mark in claim.cited for n in self.passages_of[mark]}

    def supports(self, entailment: Entailment, claim: int) -> list[float | None]:
        """Return the support of a claim by what each citation names; None where nothing is."""
        cited = sorted(self.cited_by(self.claims[claim]))
        by = dict(zip(cited, entailment.support(claim, cited), strict=True))
        return [
            max((by[n] for n in self.passages_of[mark]), default=None)
            for mark in self.claims[claim].cited
        ]

    def name_of(self, mark: str) -> str:
        """Return the id of the passage that a mark names; the mark where it is not one."""
        found = {self.ids[n] for n in self.passages_of[mark]}
        return found.pop() if len(found) == 1 else mark

    def truth(self, interaction: Interaction) -> list[tuple[int, ...]]:
        """
        Return the passages that each claim should cite, by their index; [] where not expected.

        ``expected.citations`` names them by id or place: one a claim, with or without small talk,
        or one a claim that cites something. One that is not there has none.
        """
        expected = lookup_list(interaction, "expected.citations")
        right = [self.passages_of.get(str(each), ()) for each in expected]
        if len(right) == len(self.claims) or not right:
            return right
        meant = [is_checkable(claim.text) for claim in self.claims]
        if sum(meant) != len(right):
            meant = [bool(claim.cited) for claim in self.claims]
        rest = iter(right)
        return [next(rest, ()) if each else () for each in meant]

    def entailment(self, judgement: Judgement, interaction: Interaction) -> Entailment:
        """Return the support for each claim by each passage."""
        texts = [context.text for context in interaction.contexts]
        return Entailment(judgement, texts, [claim.text for claim in self.claims])


def _sources(extra: Mapping[str, Any]) -> set[str]:
    """Return what a passage is called besides its id: its source or title, also a file's name."""
    fields = [extra, extra["metadata"]] if isinstance(extra.get("metadata"), dict) else [extra]
    found = {str(each[key]) for each in fields for key in _SOURCES if each.get(key)}
    return found | {each.rsplit("/", 1)[-1] for each in found}


def _of_citations(
    *, skips: tuple[str, ...] = (), version: str = "4", **declared: Any
) -> Callable[[Callable[[CitedAnswer, Entailment, Interaction, Any], Finding]], JudgementMetric]:
    """Make a metric of what an answer cites, skipped where that is nothing."""

    def made(
        function: Callable[[CitedAnswer, Entailment, Interaction, Any], Finding],
    ) -> JudgementMetric:
        @wraps(function)
        def evaluate(judgement: Judgement, interaction: Interaction, p: Any) -> Finding:
            answer = CitedAnswer.of(interaction)
            if answer.has_citations and not judgement.readable:
                return Finding(skipped="unsupported_text")
            entailment = answer.entailment(judgement, interaction)
            answer = answer.where(entailment.is_judged)
            if not answer.has_citations:
                return Finding(skipped="no_citation")
            return function(answer, entailment, interaction, p)

        skipped = ("no_citation", "unsupported_text", *skips)
        return read(local_version, skips=skipped, version=version, **declared)(evaluate)

    return made


@_of_citations(
    formula="citations with entailment above 0.8 / citations",
    source="Gao et al. 2023, ALCE (arXiv:2305.14627), citation precision",
)
def citation_accuracy(
    answer: CitedAnswer, entailment: Entailment, _: Interaction, __: NoParameters
) -> Finding:
    """Share of the citations whose passage carries what is said."""
    found = [
        each for claim in range(len(answer.claims)) for each in answer.supports(entailment, claim)
    ]
    lost, values = found.count(None), [each or 0.0 for each in found]
    verdicts = [1.0 if v > STRONG else _PARTIAL_SCORE * (v > PARTIAL) for v in values]
    right, partial = verdicts.count(1.0), verdicts.count(_PARTIAL_SCORE)
    others = {
        "not supported by the cited passage": len(found) - right - partial - lost,
        "supported in part": partial,
        "without a passage": lost,
    }
    said = "; ".join(
        [
            f"{part_of(right, len(found), 'citation')} right",
            *(f"{n} {why}" for why, n in others.items() if n),
        ]
    )
    return Finding(
        score=share(right, len(found)),
        explanation=f"{said}.",
        details={"citations": len(found), "not_found": lost, "verdicts": verdicts[:50]},
    )


@computed(
    version="5",
    formula="claims whose citations name the true passage / claims",
    requires=("output", "contexts", "expected.citations"),
    source="GRACE: grounded RAG with citations",
)
def citation_accuracy_grace(interaction: Interaction, _: NoParameters) -> Finding:
    """Share of the claims that cite the passage they should."""
    answer = CitedAnswer.of(interaction)
    total = len(lookup_list(interaction, "expected.citations"))
    truth = answer.truth(interaction)
    right = sum(
        not answer.cited_by(claim).isdisjoint(passages)
        for passages, claim in zip(truth, answer.claims, strict=False)
    )
    return Finding(
        score=share(right, total),
        explanation=f"{part_of(right, total, 'claim', 'cites', 'cite')} the expected passage.",
        details={"claims": total},
    )


@_of_citations(
    formula="0.4 existence + 0.3 accuracy + 0.3 grounding",
    source="ours: existence, accuracy and grounding of each citation",
)
def citation_quality(
    answer: CitedAnswer, entailment: Entailment, interaction: Interaction, _: NoParameters
) -> Finding:
    """
    Whether citations exist, point to the right passage and are grounded.

    Right is the passage in ``expected.citations`` for that claim; without it, the one that
    entails the claim best of all.
    """
    truth = answer.truth(interaction)
    found: list[tuple[bool, bool, float]] = []
    for n, claim in enumerate(answer.claims):
        right = set(truth[n] if n < len(truth) else ())
        if claim.cited and not right:
            right = set(entailment.best(n))
        for mark, support in zip(claim.cited, answer.supports(entailment, n), strict=True):
            passages = answer.passages_of[mark]
            found.append((bool(passages), not right.isdisjoint(passages), support or 0.0))
    exist, accurate, grounded = zip(*found, strict=True)
    return Finding(
        score=weighted_mean([0.4 * e + 0.3 * a + 0.3 * g for e, a, g in found]),
        explanation=f"{part_of(sum(exist), len(found), 'citation', 'leads', 'lead')} to a passage,"
        f" {sum(accurate)} to the right one; mean support {weighted_mean(grounded):.2f}.",
        details={"citations": len(found)},
    )


class Support(NoParameters):
    """From which entailment on a passage supports a claim."""

    threshold: float = Field(0.7, ge=0, le=1)


_GRAPH = "Gao et al. 2023, ALCE (arXiv:2305.14627), over the graph of passages"


@_of_citations(
    formula="cited passages that support a claim citing them / cited passages",
    source=_GRAPH,
    parameters=Support,
)
def citation_precision(
    answer: CitedAnswer, entailment: Entailment, _: Interaction, p: Support
) -> Finding:
    """Share of the cited passages that support a claim that cites them."""
    supports: dict[str, bool] = {}
    for n, claim in enumerate(answer.claims):
        found = zip(claim.cited, answer.supports(entailment, n), strict=True)
        for mark, support in found:
            name = answer.name_of(mark)
            carries = (support or 0.0) >= p.threshold
            supports[name] = supports.get(name, False) or carries
    right = [name for name, carries in supports.items() if carries]
    verbs = "supports a claim that cites it", "support a claim that cites them"
    said = part_of(len(right), len(supports), "cited passage", *verbs)
    return Finding(
        score=share(len(right), len(supports)),
        explanation=f"{said}{_others(supports, right)}.",
        details={"cited": sorted(supports), "supporting": sorted(right)},
    )


@_of_citations(
    formula="cited and supporting / supporting",
    source=_GRAPH,
    skips=("nothing_supports",),
    parameters=Support,
)
def citation_completeness(
    answer: CitedAnswer, entailment: Entailment, _: Interaction, p: Support
) -> Finding:
    """
    Share of the supporting passages that are cited.

    A passage supports if it carries any claim that cites something.
    """
    citing = [n for n, claim in enumerate(answer.claims) if claim.cited]
    cited = {answer.name_of(mark) for claim in answer.claims for mark in claim.cited}
    reached = {answer.ids[n] for claim in answer.claims for n in answer.cited_by(claim)}
    found = {n for claim in citing for n in entailment.supporting(claim, p.threshold)}
    supporting = dict.fromkeys(answer.ids[n] for n in sorted(found))
    details: dict[str, Any] = {"cited": sorted(cited), "supporting": sorted(supporting)}
    if not supporting:
        return Finding(skipped="nothing_supports", details=details)
    right = [each for each in supporting if each in reached]
    return Finding(
        score=share(len(right), len(supporting)),
        explanation=f"{part_of(len(right), len(supporting), 'supporting passage')} cited"
        f"{_others(supporting, right)}.",
        details=details,
    )


def _others(names: Iterable[str], right: Collection[str]) -> str:
    """Return "; not a, b" for those of *names* that are not *right*."""
    others = [plain_text(name, 60) for name in names if name not in right]
    return f"; not {listed(others)}" if others else ""


class Sources(NoParameters):
    """How many sources a claim needs."""

    least: int = Field(2, ge=1)
    threshold: float = Field(0.7, ge=0, le=1)


@read(
    local_version,
    version="4",
    formula="claims with at least N citations / claims needing N sources",
    source="ours: citations over the graph of passages",
    skips=("no_claim_needs_several", "unsupported_text"),
    parameters=Sources,
)
def multi_source_coverage(judgement: Judgement, interaction: Interaction, p: Sources) -> Finding:
    """
    Share of the claims needing several sources that cite as many.

    ``expected.sources_needed`` lists how many each sentence needs; without it a claim needs
    several when several passages support it.
    """
    if not judgement.readable:
        return Finding(skipped="unsupported_text")
    answer = CitedAnswer.of(interaction)
    expected = lookup_list(interaction, "expected.sources_needed")
    entailment = answer.entailment(judgement, interaction)
    covered: list[bool] = []
    short = ""  #: the first claim with too few
    for n, claim in enumerate(answer.claims):
        if n < len(expected):
            needed = int(expected[n])
        else:
            needed = min(p.least, len(entailment.supporting(n, p.threshold)))
        if needed >= p.least:
            covered.append(len(claim.cited) >= needed)
            if not covered[-1] and not short:
                short = f'; "{plain_text(claim.text.rstrip("."), 120)}" cites'
                short += f" {len(claim.cited)} of {needed}"
    if not covered:
        return Finding(skipped="no_claim_needs_several")
    said = part_of(sum(covered), len(covered), "claim", "cites", "cite")
    return Finding(
        score=weighted_mean(covered), explanation=f"{said} as many sources as needed{short}."
    )

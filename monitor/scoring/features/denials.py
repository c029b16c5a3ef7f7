"""Find a denial on one side only, and names that have changed places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.alternatives import Change
from monitor.scoring.features.laid import DENIALS, TELLS, Conflict, copied, laid_beside, share_in
from monitor.scoring.stems import stem
from monitor.scoring.words import Word

_COPIED_DENIAL = 0.75  # least share of a claim that a sentence holds which says the opposite
_SWAPPED = 0.9  # least share of a claim that a sentence with other roles holds
_TURNS = frozenset(
    stem(word) for word in ["but", "while", "whereas", "although", "though", "however"]
)
_HELPING = frozenset(
    stem(word)
    for listed in (
        "do does did is are was were be been has have had can could will would shall should",
        "may might must any a an the to",
    )
    for word in listed.split()
)


def denial_on_one_side(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> list[Conflict]:
    """Find a denial on one side of words that agree."""
    told = _clause(aligned, told)
    sides = [sum(w.stem in DENIALS for w in words) for words in (said, told)]
    if sorted(sides) != [0, 1] or not copied(aligned, set(), _COPIED_DENIAL):
        return []
    codes = laid_beside(said, told)
    for number, (tag, a, b, c, d) in enumerate(codes):
        at_an_end = number == len(codes) - 1 or (number == 0 and c > 0)
        if tag == "equal" or at_an_end or not _only_denies(said, told, (a, b, c, d)):
            continue
        if not _told_so_elsewhere(aligned, denied=bool(sides[0])):
            return [Conflict(Change.NEGATION, _around(said, a, b), _around(told, c, d))]
    return []


def _clause(aligned: Aligned, told: Sequence[Word]) -> Sequence[Word]:
    """Choose the part of a sentence, between words such as but, that holds all of the claim."""
    turns = [n for n, word in enumerate(told) if n and word.stem in _TURNS]
    parts = [told[a:b] for a, b in pairwise((0, *turns, len(told)))]
    stems = [{word.stem for word in part} for part in parts]
    weights = [sum(w for s, w in aligned.weights.items() if s in part) for part in stems]
    weight, best = max(zip(weights, parts, strict=True), key=lambda each: each[0])
    return best if weight >= _SWAPPED * aligned.total else told


def _only_denies(
    said: Sequence[Word], told: Sequence[Word], place: tuple[int, int, int, int]
) -> bool:
    """Say whether what differs is a denial with words such as does or are, and nothing else."""
    a, b, c, d = place
    denial = any(word.stem in DENIALS for word in (*said[a:b], *told[c:d]))
    if not denial or not all(
        w.stem in DENIALS or w.stem in _HELPING for w in (*said[a:b], *told[c:d])
    ):
        return False
    beside = {w.stem for w in (*said[a - 1 : a], *said[b : b + 1], *told[d : d + 1])}
    return (
        not _exclaims(said, a, b)
        and not _exclaims(told, c, d)
        and beside.isdisjoint({"if", "only", "just", "mer"})
    )


def _exclaims(tokens: Sequence[Word], start: int, end: int) -> bool:
    """Say whether a "No" answers a question instead of denying what follows."""
    return any(
        tokens[n].surface == "No"
        and (n > 0 or tokens[n + 1].surface[:1].isupper() or not tokens[n + 1].content)
        for n in range(start, min(end, len(tokens) - 1))
    )


def _told_so_elsewhere(aligned: Aligned, *, denied: bool) -> bool:
    """Say whether another sentence that tells as much denies as the claim does."""
    rarest = max(aligned.weights, key=lambda word: (aligned.weights[word], word))
    least = TELLS * aligned.shares[0]
    return any(
        share_in(aligned, aligned.weights, n) >= least
        and (not DENIALS.isdisjoint(aligned.passages.stems[n])) == denied
        for n in aligned.passages.holders(rarest)
        if n != aligned.evidence[0]
    )


def _around(tokens: Sequence[Word], start: int, end: int) -> str:
    return " ".join(word.surface for word in tokens[max(start - 1, 0) : end + 1])


def swapped_roles(aligned: Aligned, said: Sequence[Word], told: Sequence[Word]) -> list[Conflict]:
    """Find two names that have changed places around the same words."""
    if not copied(aligned, set(), _SWAPPED):
        return []
    between = {
        (one, other): told[b:c]
        for (one, _, b), (other, c, _) in pairwise(_names_of(told))
        if one != other
    }
    for (one, a, b), (other, c, d) in pairwise(_names_of(said)):
        link = between.get((other, one), ())
        same = [word.stem for word in link] == [word.stem for word in said[b:c]]
        if same and any(word.content for word in link) and (one, other) not in between:
            names = [" ".join(w.surface for w in part) for part in (said[a:b], said[c:d])]
            return [Conflict(Change.ROLES, " … ".join(names), " … ".join(names[::-1]))]
    return []


def _names_of(tokens: Sequence[Word]) -> list[tuple[tuple[str, ...], int, int]]:
    """List runs of capitalised words with where they begin and end."""
    runs: list[tuple[int, int]] = []
    for place, word in enumerate(tokens):
        if word.capital:
            joins = bool(runs) and runs[-1][1] == place
            start = runs.pop()[0] if joins else place
            runs.append((start, place + 1))
    return [(tuple(w.stem for w in tokens[a:b]), a, b) for a, b in runs]

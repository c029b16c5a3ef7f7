"""Two ways to the same sum, beside each other: what a reconciliation is made of; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Sums of fractions differ by rounding, in proportion to their size.
_CRUMB = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """
    One sum, and its counterpart that was counted elsewhere.

    ``above`` and ``below`` say by how much the sum may be larger or smaller than its
    counterpart while nothing is wrong, such as by what is on its way.
    """

    check: str
    where: str
    found: float
    expected: float
    below: float = 0
    above: float = 0

    @property
    def difference(self) -> float:
        """By how much the sum is larger than its counterpart."""
        return self.found - self.expected

    @property
    def holds(self) -> bool:
        """Whether the two agree."""
        crumb = _CRUMB * max(1.0, abs(self.found), abs(self.expected))
        whole = isinstance(self.found, int) and isinstance(self.expected, int)
        slack = 0.0 if whole else crumb
        return -self.below - slack <= self.difference <= self.above + slack


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """All sums of one kind, added up, with those that do not agree."""

    name: str
    sums: int
    found: float
    expected: float
    wrong: Sequence[Sum]

    @property
    def difference(self) -> float:
        """The differences of all sums, without their signs: two errors never cancel out."""
        return sum(abs(item.difference) for item in self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Every sum beside its counterpart, and what nobody can know."""

    since_s: int
    sums: Sequence[Sum]
    notes: Sequence[str] = ()
    complete: bool = True  #: False where the queue could not be looked at

    @property
    def holds(self) -> bool:
        """Whether all sums agree, those of the queue among them."""
        return self.complete and all(item.holds for item in self.sums)

    @property
    def checks(self) -> list[Check]:
        """The sums by kind, in the order in which they were taken."""
        by_name: dict[str, list[Sum]] = {}
        for item in self.sums:
            by_name.setdefault(item.check, []).append(item)
        return [
            Check(
                name=name,
                sums=len(items),
                found=sum(item.found for item in items),
                expected=sum(item.expected for item in items),
                wrong=[item for item in items if not item.holds],
            )
            for name, items in by_name.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Write it as plain values; of the sums that agree only how many there are."""
        return {
            "holds": self.holds,
            "complete": self.complete,
            "since_s": self.since_s,
            "checks": [
                {
                    "check": check.name,
                    "sums": check.sums,
                    "found": check.found,
                    "expected": check.expected,
                    "difference": check.difference,
                    "wrong": [
                        {
                            "where": item.where,
                            "found": item.found,
                            "expected": item.expected,
                            "difference": item.difference,
                        }
                        for item in check.wrong
                    ],
                }
                for check in self.checks
            ],
            "notes": list(self.notes),
        }


def compare(check: str, found: Mapping[Any, float], expected: Mapping[Any, float]) -> Iterable[Sum]:
    """Set two families of sums beside each other; one that is missing on a side is 0 there."""
    for key in sorted(found.keys() | expected.keys(), key=str):
        parts = key if isinstance(key, tuple) else (key,)
        where = " ".join(str(part) for part in parts if part != "")
        yield Sum(check=check, where=where, found=found.get(key, 0), expected=expected.get(key, 0))

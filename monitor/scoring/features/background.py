"""How rare words are in general, counted over many texts; ships as data."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

BACKGROUND = "background.v1.json"


def read_background() -> str:
    """Read the list that ships with the package."""
    return resources.files("monitor.scoring.features").joinpath(BACKGROUND).read_text("utf-8")


@cache
def _levels() -> tuple[dict[str, float], float]:
    data = json.loads(read_background())
    known = {word: level["rarity"] for level in data["levels"] for word in level["stems"].split()}
    return known, data["unknown"]


def rarity(stem: str) -> float:
    """Give the rarity of a word: near 0 where every text has it, 1 where it is not listed."""
    known, unknown = _levels()
    return known.get(stem, unknown)

"""
The app of the soak: natural traffic, with words that keep coming.

    python tests/support/soak_app.py RATE SECONDS

Words are as in natural text: a rank is drawn with probability in proportion to 1/rank
(Zipf), and after n words about 40 √n different ones have been seen (Heaps). An hour at
200 samples/s of 34 words has 24 million words, of which 200,000 are different.
"""

from __future__ import annotations

import json
import random
import sys
import time

import monitor

_HEAPS = 40.0
_PARTS = [c + v for c in "bcdfglmnprstv" for v in "aeiou"]
_ENDINGS = ("", "", "s", "ing", "ed", "n", "r")


class Vocabulary:
    """Words in the order in which they first came; the earliest are the most frequent."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._told = 0  #: words in all
        self.size = 0  #: different words

    def word(self) -> str:
        """Give the next word: a new one as often as Heaps' law says, else one of those before."""
        self._told += 1
        if self.size < _HEAPS * self._told**0.5 and self._random.random() < self._news:
            self.size += 1
            return spelled(self.size)
        return spelled(int(max(1, self.size) ** self._random.random()))

    @property
    def _news(self) -> float:
        """The share of new words: the derivative of Heaps' law."""
        return 0.5 * _HEAPS * self._told**-0.5

    def sentence(self, words: int) -> str:
        """Give so many words."""
        return " ".join(self.word() for _ in range(words)).capitalize() + "."


def spelled(rank: int) -> str:
    """Write a rank as a word of its own; frequent ones are short."""
    number, parts = rank, []
    while True:
        number, part = divmod(number, len(_PARTS))
        parts.append(_PARTS[part])
        if not number:
            return "".join(parts) + _ENDINGS[rank % len(_ENDINGS)]


def main() -> None:
    """Sample at a steady rate; print what the hook has counted."""
    rate, seconds = float(sys.argv[1]), float(sys.argv[2])
    words = Vocabulary()
    began_s, n = time.monotonic(), 0
    while (passed_s := time.monotonic() - began_s) < seconds:
        while n < passed_s * rate:
            passage = words.sentence(18)
            monitor.sample(
                query=words.sentence(6),
                contexts=[passage],
                output=f"{' '.join(passage.split()[:5])}. {words.sentence(5)}",
                user_id=f"user-{n % 997}",
                release=f"v{n % 3}",
            )
            n += 1
        time.sleep(0.005)
    for _ in range(30):
        if monitor.flush(timeout=2.0):
            break
    print(json.dumps({**monitor.stats(), "words": words.size}, default=str))


if __name__ == "__main__":
    main()

"""
The app of the demo, in a process of its own: customers ask, a small support bot answers.

The bot retrieves articles and answers from them; its retrieval can break. The app knows groundwatch
only as any app would: by one line. Commands come on stdin: break, repair, and the end of the input
means to close the shop.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from random import Random

import groundwatch

_QUESTIONS_PER_S = 40.0


_PASSAGES = 3
#: Even a healthy bot makes something up now and then.
_INVENTS = 0.03


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """What customers ask, what the model writes from the article, and what it makes up."""

    ask: str
    answer: str
    invented: str


@dataclass(frozen=True, slots=True)
class Article:
    """One page of the knowledge base."""

    text: str
    questions: tuple[DemoQuestion, ...]


def load_articles() -> list[Article]:
    """Return the articles of the knowledge base."""
    text = files("monitor.demo").joinpath("knowledge.toml").read_text(encoding="utf-8")
    return [
        Article(
            text=item["text"],
            questions=tuple(DemoQuestion(**question) for question in item["questions"]),
        )
        for item in tomllib.loads(text)["articles"]
    ]


class Index:
    """Finds the articles whose words match a question best, rare words counting more."""

    def __init__(self, articles: list[Article]) -> None:
        self._articles = articles
        texts = (" ".join([a.text, *(question.ask for question in a.questions)]) for a in articles)
        self._words = [Counter(_words(text)) for text in texts]
        seen = Counter(word for words in self._words for word in words)
        self._weight = {word: math.log(1 + len(articles) / n) for word, n in seen.items()}
        self.broken = False

    def search(self, question: str) -> list[Article]:
        """Return the best articles, best first; a broken index returns the worst instead."""
        asked = set(_words(question))
        scores = [sum(self._weight[word] for word in asked & words.keys()) for words in self._words]
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=not self.broken)
        return [self._articles[position] for position in order[:_PASSAGES]]


class Bot:
    """Answers questions; its model writes from what was retrieved, or from memory without."""

    def __init__(self, articles: list[Article], seed: int) -> None:
        self.index = Index(articles)
        self._known = {q.ask: (a, q) for a in articles for q in a.questions}
        self._random = Random(seed)  # noqa: S311

    def ask(self) -> str:
        """Pick a question as customers do."""
        return self._random.choice(list(self._known))

    def answer(self, question: str) -> tuple[list[str], str]:
        """Answer a question; return the passages that were retrieved, and the answer."""
        found = self.index.search(question)
        article, known = self._known[question]
        reads = article in found and self._random.random() >= _INVENTS
        return [article.text for article in found], known.answer if reads else known.invented


def _words(text: str) -> list[str]:
    return re.findall(r"[a-zåäö0-9]+", text.lower())


def main() -> None:
    """Serve customers until stdin ends; then say what the hook counted."""
    bot = Bot(load_articles(), seed=11)
    closing = threading.Event()

    def obey() -> None:
        for line in sys.stdin:
            bot.index.broken = line.strip() == "break"
        closing.set()

    threading.Thread(target=obey, daemon=True).start()
    due_s = time.monotonic()
    while not closing.is_set():
        question = bot.ask()
        passages, answer = bot.answer(question)
        groundwatch.sample(query=question, contexts=passages, output=answer)  # the one line
        due_s += 1 / _QUESTIONS_PER_S
        time.sleep(max(0.0, due_s - time.monotonic()))
    groundwatch.flush(timeout=5.0)


if __name__ == "__main__":
    main()

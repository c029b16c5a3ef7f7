"""
The app of the demo, in a process of its own: customers ask, the bot answers.

It knows groundwatch only as any app would: by one line. Commands come on stdin: break,
repair, and the end of the input means to close the shop.
"""

from __future__ import annotations

import sys
import threading
import time

import groundwatch
from monitor.demo.bot import Bot, load_articles

_QUESTIONS_PER_S = 40.0


def main() -> None:
    """Serve customers until stdin ends; then say what the hook counted."""
    bot = Bot(load_articles(), seed=11)
    closing = threading.Event()
    threading.Thread(target=_obey, args=(bot, closing), daemon=True).start()
    due_s = time.monotonic()
    while not closing.is_set():
        question = bot.ask()
        passages, answer = bot.answer(question)
        groundwatch.sample(query=question, contexts=passages, output=answer)  # the one line
        due_s += 1 / _QUESTIONS_PER_S
        time.sleep(max(0.0, due_s - time.monotonic()))
    groundwatch.flush(timeout=5.0)


def _obey(bot: Bot, closing: threading.Event) -> None:
    for line in sys.stdin:
        bot.index.broken = line.strip() == "break"
    closing.set()


if __name__ == "__main__":
    main()

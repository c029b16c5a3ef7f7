"""No text, however strange, holds the worker up: reading time grows only with its length."""

import contextlib
import json
import time
from itertools import product

import pytest

from monitor.errors import JudgeReplyError
from monitor.scoring.base import storable
from monitor.scoring.judges.openai_errors import RefusedCall
from monitor.scoring.judges.packing import pack
from monitor.scoring.judges.reply import Quotable, read_envelope, read_verdicts
from monitor.scoring.judges.request import marked, suspected
from monitor.scoring.language import stem, words
from monitor.scoring.local.passages import flatten
from monitor.scoring.local.reading import read, script
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.sentences import (
    headings_and_code,
    is_checkable,
    is_refusal,
    split_sentences,
    without_mentions,
)
from monitor.testing import make_interaction

LENGTH = 50_000
#: So many times the cost of prose of that length: quadratic cost is thousands of times it.
GENEROUS = 100
JUDGE = LocalJudge()


def nested(depth, key):
    text = "1"
    for level in range(depth):
        text = f'{{"{key}{level}": {text}, "v": 1}}'
    return text


def filled(piece):
    return (piece * (LENGTH // len(piece) + 1))[:LENGTH]


TEXTS = {
    "dots": filled(".") + "x",
    "marks": filled("!?") + "x",
    "stops and brackets": filled('."') + "x",
    "full-width stops": filled("。」") + "x",
    "spaces": "a" + filled(" ") + "x",
    "spaces in front": filled(" ") + "x",
    "fence": "```" + filled(" ") + "x",
    "open fence": "```json" + filled("\n") + "x",
    "hours": filled("Monday 10:00 to 17:00. "),
    "times": filled("9:00 to 17:00 "),
    "backticks": filled("`") + "x",
    "open brackets": filled("["),
    "braces": filled('{"a":'),
    "bullets": filled("- ") + "x",
    "dashes": filled("-") + "x",
    "digits": filled("7"),
    "numbers": filled("1,000.5 "),
    "number words": filled("12 zebra 7 ").strip(),
    "newlines": filled("\n"),
    "lines": filled("Ab cd.\n"),
    "one word": filled("a"),
    "passages": filled("passage 1, "),
    "which": filled("according to the given "),
    "marks of passages": filled("[1"),
    "headings_and_code": filled("# a **b** "),
    "entities": filled("&amp;&#39;&"),
    "apostrophes": filled("n't"),
    "words": filled("the data does not mention information in "),
    "sentences": filled("Blue refunds take 5 days. "),
    "cjk": filled("退款需要五天"),
    "marks of letters": "a" + filled("\u0301\u0327"),
    "half-width marks": "a" + filled("\uff9e\u0301"),
    "expanding": filled("\ufdfa"),
    "nested json": nested(900, "k" * 200),
    "long key": json.dumps({"k" * 20_000: [1] * 5_000}),
    "request": "tell " + filled("a-"),
    "instruction": "list " + filled("in the "),
}


def unread(read, *arguments):
    """Call what may refuse its text."""
    with contextlib.suppress(JudgeReplyError):
        read(*arguments)


FUNCTIONS = {
    "split_sentences": split_sentences,
    "words": words,
    "stem": stem,
    "is_checkable": is_checkable,
    "headings_and_code": lambda text: headings_and_code(f"{text}\nend"),
    "without_mentions": without_mentions,
    "is_refusal": is_refusal,
    "script": script,
    "flatten": flatten,
    "storable": lambda text: storable(text, 200),
    "read_verdicts": lambda text: unread(read_verdicts, text, [1], "c"),
    "read_verdicts in words": lambda text: unread(
        read_verdicts, f"Well: {text} {{}} ```", [1], "c"
    ),
    "read_envelope": lambda text: unread(read_envelope, text.encode()),
    "quote": lambda text: Quotable(["It opens."]).find(f"the shop opens {text} at nine"),
    "quoted": lambda text: Quotable([text]).find("the shop opens at nine ... o'clock"),
    "error": lambda text: RefusedCall(
        400, {}, json.dumps({"error": {"message": text}}).encode()
    ).names("temperature"),
    "too long": lambda text: (
        RefusedCall(400, {}, json.dumps({"error": {"message": text}}).encode()).too_long
    ),
    "suspected": lambda text: suspected({"output": text}),
    "marked": marked,
    "pack": lambda text: pack(text, [text], [text[:500]], 2_000),
    "look": lambda text: read("How long is it?", [text], text),
    "yes or no": lambda text: JUDGE.judge(
        make_interaction(query="Is it?", contexts=["It is."], output=f"Yes {text}")
    ),
    "follow-up": lambda text: JUDGE.judge(
        make_interaction(
            query="What about the second one?",
            contexts=[text],
            output="It is.",
            history=[{"role": "assistant", "content": text}] * 3,
        )
    ),
    "judge": lambda text: JUDGE.judge(make_interaction(query=text, contexts=[text], output=text)),
}


@pytest.fixture(scope="module")
def prose_s():
    """CPU seconds that this machine needs to judge prose."""
    taken_s = []
    for _ in range(3):
        started = time.process_time()
        FUNCTIONS["judge"](filled("The refund takes five days. "))
        taken_s.append(time.process_time() - started)
    return max(taken_s)


@pytest.mark.parametrize("kind", TEXTS)
def test_hostile_text_is_read_quickly(kind, prose_s):
    taken = {}
    for name, function in FUNCTIONS.items():
        started = time.process_time()
        function(TEXTS[kind])
        taken[name] = time.process_time() - started
    assert max(taken.values()) < GENEROUS * prose_s, taken


def test_long_question_is_judged_in_near_linear_time():
    asked, told = (
        [first + "".join(rest) for rest in product("abcdefgh", repeat=4)] for first in "qp"
    )
    taken_s = []
    for history in ([], [{"role": "user", "content": "Why?"}]):
        text = ". ".join(" ".join(told[n : n + 30]) for n in range(0, len(told), 30))
        question = make_interaction(
            query=f"And what about {' '.join(asked)}?", contexts=[text], output=text[:100],
            history=history,
        )  # fmt: skip
        started = time.process_time()
        JUDGE.judge(question)
        taken_s.append(time.process_time() - started)
    assert taken_s[1] < 10 * taken_s[0]


@pytest.mark.parametrize("text", ["twenty-f\u0131ve days", "S\u0131xty-one days", "F\u0130FTY-ONE"])
def test_case_folded_letters_are_not_read_as_numbers(text):
    made = JUDGE.judge(make_interaction(contexts=[f"It takes {text}."], output=f"It is {text}."))
    assert made.claims

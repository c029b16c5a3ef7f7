"""
A nightly job that answers a file of questions, and is only released if a test set says so.

Run it:       python job.py questions.txt
Test it:      groundwatch eval golden.jsonl --app job:answer --metrics groundedness -o run.json
Gate it:      groundwatch gate run.json --baseline main.json
Break it:     BROKEN=1 in front of either (one answer no longer comes from its passage)
"""

import os
import sys
from pathlib import Path

import groundwatch

PASSAGES = {
    "refund": "A refund takes five working days after the parcel has reached our warehouse.",
    "delivery": "Delivery within the country is free for orders above 40 euros.",
    "gift": "Gift cards are valid for three years and cannot be exchanged for cash.",
}

groundwatch.init(app=os.environ.get("GROUNDWATCH_APP", "refund-batch"))


def answer(question: str) -> dict[str, object]:
    """Return an answer and the passages it comes from; the test set calls this as well."""
    topic = next((name for name in PASSAGES if name in question.lower()), "refund")
    broken = os.environ.get("BROKEN") and topic == "gift"
    output = "Purple engines are sold on the moon base." if broken else PASSAGES[topic]
    return {"output": output, "contexts": [PASSAGES[topic]]}


def main(path: str) -> None:
    """Answer every line of a file, and sample each answer as live traffic."""
    for question in Path(path).read_text(encoding="utf-8").splitlines():
        reply = answer(question)
        groundwatch.sample(query=question, **reply)
        print(reply["output"])
    groundwatch.flush(30)  # in seconds: a job that ends at once must not leave samples behind


if __name__ == "__main__":
    main(sys.argv[1])

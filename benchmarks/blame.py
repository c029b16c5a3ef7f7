"""
Planted faults in labelled records: is the part named that was planted, and none where none was?

Of each run 300 samples come before and 300 after; four in ten of the later ones are faulty. Each
sample bears its release, model, prompt, retriever and judge. A decoy, another part, changes at a
time that has nothing to do with the fault. The cause that the page shows is counted: the change
that is named, or traffic where the questions tell; else nothing is blamed.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from common import print_head, print_row, script
from labelled import GROUNDEDNESS, by_source, contexts, read_rows

from monitor.models.insight import ScoredExchange
from monitor.rolling.faults import find_faults
from monitor.testing import make_evaluation, make_interaction

_SIDE, _FAULTY, _ALREADY, _OTHERS_PASS = 300, 0.4, 0.06, 0.2
_START = datetime(2026, 11, 1, tzinfo=UTC)
#: The part that each planted fault changes.
FAULTS = {
    "retriever swapped": "retriever", "generator swapped": "model",
    "prompt changed": "prompt_version", "judge changed": "judge", "traffic mixed": "traffic",
    "none": "",
}  # fmt: skip
_PARTS = ("retriever", "model", "prompt_version", "index")


def play(planted: str, good: list[Any], bad: list[Any], others: list[Any], rng: Random) -> str:
    """Play one run; return the part that is blamed, or an empty text."""
    decoy = rng.choice([each for each in _PARTS if each != planted])
    decoy_at = rng.choice([rng.randint(20, 240), rng.randint(360, 580)])
    samples = []
    for i in range(2 * _SIDE):
        late = i >= _SIDE
        record, passed = rng.choice(good), rng.random() >= _ALREADY
        passages = record["contexts"]
        if late and planted and rng.random() < _FAULTY:
            passed = False
            if planted == "retriever":
                passages = rng.choice(good)["contexts"]
            elif planted != "judge":
                record = rng.choice(others if planted == "traffic" else bad)
                passages = record["contexts"]
                passed = planted == "traffic" and rng.random() < _OTHERS_PASS
        values = dict.fromkeys(_PARTS, "v1")
        values |= {part: "v2" for part, is_new in ((planted, late), (decoy, i >= decoy_at))
                   if is_new and part in values}  # fmt: skip
        version = "judge-v2" if late and planted == "judge" else "judge-v1"
        texts = {"query": record["query"], "contexts": passages, "output": record["output"]}
        interaction = make_interaction(**texts, tags=values, release="r1")
        evaluation = make_evaluation(score=0.9 if passed else 0.1, evaluator_version=version)
        at = _START + timedelta(minutes=i)
        samples.append(ScoredExchange(str(i), at, interaction, passed, evaluation))
    found = find_faults(samples[:_SIDE], samples[_SIDE:])
    if found.blame is None or found.blame.cause == "no fall":
        return ""
    named = next((each.component for each in found.components if each.is_named), "")
    return "traffic" if found.blame.cause == "traffic" else named


@script
def main(folder: Path, *, runs: int = 100) -> None:
    """Print how often each planted fault was named, and what else was."""
    rows = [row for row in read_rows(folder, GROUNDEDNESS) if row["query"] and row["contexts"]]
    records = [row | {"contexts": contexts(row)} for row in rows]
    sources = {name: [records[i] for i in members] for name, members in by_source(rows).items()}
    asked = [name for name, members in sources.items() if len(members) >= 200]
    print_head("planted", "right", "nothing named", "wrong")
    for fault, planted in FAULTS.items():
        said = Counter[str]()
        for number in range(runs):
            rng = Random(f"{fault} {number}")
            mine, others = (sources[source] for source in rng.sample(asked, 2))
            good, bad = ([r for r in mine if int(r["label"]) == label] for label in (0, 1))
            said[play(planted, good, bad or good, others, rng)] += 1
        right, nothing = said[planted], said[""] if planted else 0
        wrong = runs - right - nothing
        print_row(fault, right, nothing, f"{wrong} {dict(said) if wrong else ''}")

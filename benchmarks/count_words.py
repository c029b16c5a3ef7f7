"""
Count in how many texts each word occurs: python benchmarks/count_words.py FOLDER [-o FILE].

The list holds the stems of common words in steps of rarity and nothing of the texts.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from labelled import GROUNDEDNESS, contexts, document, read_rows
from train_local import NOT_FOR_TRAINING

from monitor.scoring.local.passages import flatten
from monitor.scoring.words import words

OUTPUT = Path(__file__).parent.parent / "monitor/scoring/local/background.v1.json"
LEAST_DOCUMENTS = 8
STEPS = 12


def count(folder: Path) -> dict[str, Any]:
    """Count documents by stem and sort the stems into steps of rarity."""
    texts: dict[str, set[str]] = {}
    for row in read_rows(folder, GROUNDEDNESS):
        if row["source"] not in NOT_FOR_TRAINING:
            known = texts.setdefault(f"{row['source']} {document(row)}", set())
            for text in contexts(row):
                known.update(w.stem for w in words(flatten(text)) if w.content and not w.number)
    found = Counter(stem for stems in texts.values() for stem in stems)
    rarest = math.log(len(texts) / (LEAST_DOCUMENTS - 1))
    levels: dict[int, list[str]] = {}
    for stem, documents in found.items():
        if documents >= LEAST_DOCUMENTS and stem.isascii():
            step = int(STEPS * math.log(len(texts) / documents) / rarest)
            levels.setdefault(step, []).append(stem)
    return {
        "made_by": "benchmarks/count_words.py",
        "documents": len(texts),
        "unknown": 1.0,
        "levels": [
            {"rarity": round((step + 0.5) / STEPS, 3), "stems": " ".join(sorted(stems))}
            for step, stems in sorted(levels.items())
        ],
    }


def main() -> None:
    """Count and write the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0].strip())
    parser.add_argument("folder", type=Path, help="folder with the labelled records")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    found = count(arguments.folder)
    arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {arguments.output}: {found['documents']} documents")


if __name__ == "__main__":
    main()

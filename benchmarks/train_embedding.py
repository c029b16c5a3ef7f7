"""
Fit the coefficients for a sentence-embedding model.

    python benchmarks/train_embedding.py FOLDER MODEL [--cache FOLDER] [-o FILE]

The same records and the same way as benchmarks/train_local.py, with the figures of the model
besides. MODEL is a folder or an id on the hub. Deterministic up to the arithmetic of the model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from embedding_heads import Heads
from fitting import PRIOR
from labelled import GROUNDEDNESS, read_rows
from train_local import NOT_FOR_TRAINING, groundedness_data, measure

from monitor.scoring.judges.embedding_model import EmbeddingModel

OUTPUT = Path(__file__).parent.parent / "monitor/scoring/judges/local_embedding.v2.json"
PROBE = "The shop opens at nine, and refunds take five working days."
_DIGITS = 4


def train(folder: Path, model: str, name: str, cache: Path | None) -> dict[str, Any]:
    """Fit everything on all records that may be used."""
    rows = [r for r in read_rows(folder, GROUNDEDNESS) if r["source"] not in NOT_FOR_TRAINING]
    measured = measure(rows)
    heads = Heads(measured, model, cache)
    head = heads.fit(measured)
    [probe] = EmbeddingModel(model).embed([PROBE])
    return {
        "made_by": "benchmarks/train_embedding.py",
        "model": name,
        "prior": PRIOR,
        "records": len(rows),
        "probe": {"text": PROBE, "vector": [round(float(v), _DIGITS) for v in probe.vector]},
        "head": {
            "weights": [round(float(w), _DIGITS) for w in head.weights],
            "intercept": round(head.intercept, _DIGITS),
        },
        **groundedness_data(heads.crossed(measured)),
    }


def main() -> None:
    """Fit and write the coefficients."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0].strip())
    parser.add_argument("folder", type=Path, help="folder with the labelled records")
    parser.add_argument("model", help="folder with the model, or its id on the hub")
    parser.add_argument("--name", help="what users are told to set; else MODEL")
    parser.add_argument("--cache", type=Path, help="folder that keeps what the model makes")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    data = train(asked.folder, asked.model, asked.name or asked.model, asked.cache)
    lines = json.dumps(data, indent=1)
    asked.output.write_text(lines + "\n", encoding="utf-8")
    print(f"wrote {asked.output}: {data['records']} records")


if __name__ == "__main__":
    main()

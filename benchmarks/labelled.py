"""Read labelled records, split them by document, and measure a ranking of them."""

import gzip
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

Row = dict[str, Any]
GROUNDEDNESS, RELEVANCE = "groundedness_dev.jsonl.gz", "relevance_dev.jsonl.gz"
MODERN = "modern_dev.jsonl.gz"
FOLDS = 5
#: Sources that share texts, task or makers; a source that is not named is one of its own.
FAMILIES = {
    source: name for name, sources in {
        "dialogue": ("begin_cmu", "begin_tc", "begin_wow", "q2_wow"),
        "lfqa": ("lfqa", "lfqa_sent"),
        "qags": ("qags_cnndm", "qags_xsum"),
        "ragtruth": ("ragtruth_qa", "ragtruth_qa_sent", "ragtruth_summary", "ragtruth_data2txt"),
        "halueval": ("halueval_qa", "halueval_qa_full"),
        "usr": ("usr_persona_chat", "usr_topical_chat"),
    }.items() for source in sources
}  # fmt: skip


def read_rows(folder: Path, name: str) -> list[Row]:
    """Read the records of one file, or leave with a line that says what is missing."""
    path = folder / name
    if not path.exists():
        sys.exit(f"{path} is not there: give the folder that holds {name}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def document(row: Row) -> str:
    """Name the document of a record; records without one go by their query."""
    return str(row.get("doc") or row["query"])


def fold(row: Row) -> int:
    """Give all records of a document the same fold."""
    return int(hashlib.sha256(document(row).encode()).hexdigest(), 16) % FOLDS


def family(row: Row) -> str:
    """Name what a record's source has in common with others: texts, task or makers."""
    return FAMILIES.get(row["source"], row["source"])


def contexts(row: Row) -> list[str]:
    """List the passages of a record as texts."""
    return [c if isinstance(c, str) else str(c["text"]) for c in row["contexts"]]


def auroc(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Area under the ROC curve of *scores* for label 1; NaN when one class is missing."""
    truth, values = np.asarray(labels) == 1, np.asarray(scores)
    if truth.all() or not truth.any():
        return float("nan")
    above = mannwhitneyu(values[truth], values[~truth], method="asymptotic").statistic
    return float(above / (truth.sum() * (~truth).sum()))


def by_source(rows: Iterable[Row]) -> dict[str, list[int]]:
    """Group the positions of records by their source."""
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row["source"], []).append(index)
    return dict(sorted(groups.items()))

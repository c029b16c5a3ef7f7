"""Load a cross-encoder for natural language inference, and ask it about pairs of texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.errors import MissingExtraError, SettingsError
from monitor.settings import variable

try:
    import huggingface_hub
    import onnxruntime  # type: ignore[import-untyped]
    import tokenizers
except ImportError as missing:
    raise MissingExtraError("the NLI judge", extra="nli") from missing

_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
_GRAPHS = ("model.onnx", "onnx/model.onnx")  # as exporters and as hubs lay it out
_BATCH = 16
_LONGEST_INPUT = 512  # tokens; longer ones cost time with the square
_SPECIAL_PLACES = 2  # RoBERTa counts positions from 2
_OVERLAP = 0.25  # of a window, so that no sentence is cut in two by all of them


@dataclass(frozen=True, slots=True)
class Inference:
    """Probabilities that a premise entails or contradicts a claim, each in [0, 1]."""

    entailment: float
    contradiction: float


class NliModel:
    """
    A cross-encoder in ONNX with its tokenizer; ``name`` is a folder or an id on the hub.

    One thread computes: processes are what scales, and one that forks must not inherit
    half a thread pool. Calls from several threads are safe.

    Raises
    ------
    SettingsError
        If the model is not there, has no ONNX file, or does not name its labels.
    """

    def __init__(self, name: str) -> None:
        folder = _folder(name)
        config = _json(folder / "config.json")
        self._columns = _columns(name, config)
        graph = next((folder / each for each in _GRAPHS if (folder / each).exists()), None)
        if graph is None:
            raise SettingsError(
                f"{variable('nli_model')}: {name} has neither {' nor '.join(_GRAPHS)};"
                " export it, for instance with `optimum-cli export onnx`"
            )
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._longest = _longest(folder, config)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(
            self._longest, stride=int(self._longest * _OVERLAP), strategy="only_first"
        )
        self._session = _session(graph)
        self._inputs = [each.name for each in self._session.get_inputs()]
        with graph.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.fingerprint = digest[:8]  #: of the weights

    def infer(self, pairs: Sequence[tuple[str, str]]) -> list[Inference]:
        """
        Judge each pair of premise and claim.

        A premise that is too long is read in windows that overlap: the best window
        entails, and the worst one contradicts.
        """
        windows = [
            (number, window)
            for number, encoding in enumerate(self._encode(pairs))
            for window in (encoding, *encoding.overflowing)
        ]
        windows.sort(key=lambda each: len(each[1].ids))  # so that little is padded
        found = [Inference(0.0, 0.0)] * len(pairs)
        for start in range(0, len(windows), _BATCH):
            batch = windows[start : start + _BATCH]
            for (number, _), row in zip(
                batch, self._run([window for _, window in batch]), strict=True
            ):
                best = found[number]
                found[number] = Inference(
                    max(best.entailment, row.entailment),
                    max(best.contradiction, row.contradiction),
                )
        return found

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> list[tokenizers.Encoding]:
        return list(
            self._tokenizer.encode_batch([(premise, self._cut(claim)) for premise, claim in pairs])
        )

    def _cut(self, claim: str) -> str:
        """Leave half of the window to the premise."""
        encoding = self._tokenizer.encode(claim, add_special_tokens=False)
        most = self._longest // 2
        return claim if len(encoding.ids) <= most else claim[: encoding.offsets[most - 1][1]]

    def _run(self, windows: Sequence[tokenizers.Encoding]) -> Iterator[Inference]:
        width = max(len(window.ids) for window in windows)
        arrays = {
            "input_ids": _padded([window.ids for window in windows], width),
            "attention_mask": _padded([window.attention_mask for window in windows], width),
            "token_type_ids": _padded([window.type_ids for window in windows], width),
        }
        [logits, *_] = self._session.run(None, {name: arrays[name] for name in self._inputs})
        for row in _softmax(np.asarray(logits, dtype=np.float64)):
            entailment, contradiction = self._columns
            yield Inference(
                float(row[entailment]),
                0.0 if contradiction is None else float(row[contradiction]),
            )


def _folder(name: str) -> Path:
    local = Path(name).expanduser()
    if local.is_dir():
        return local
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=[*_FILES, *_GRAPHS]))
    except Exception as error:  # noqa: BLE001 - the hub's own, httpx's, requests': it changes with versions
        raise SettingsError(
            f"{variable('nli_model')}: {name} is no folder here, and no model that the hub gives"
            f" us ({type(error).__name__})"
        ) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{variable('nli_model')}: cannot read {path} ({type(error).__name__})"
        ) from None
    return value if isinstance(value, dict) else {}


def _columns(name: str, config: dict[str, Any]) -> tuple[int, int | None]:
    """Find the columns for entailment and contradiction; two-way models lack the second."""
    found: dict[str, int] = {}
    for column, label in (config.get("id2label") or {}).items():
        plain = str(label).lower()
        negated = plain.startswith(("not", "non"))
        for kind in ("entail", "contradict"):
            if kind in plain and not negated:
                found[kind] = int(column)
    if "entail" not in found:
        raise SettingsError(
            f"{variable('nli_model')}: the config.json of {name} does not say which label means"
            " entailment (id2label); it may be another kind of model"
        )
    return found["entail"], found.get("contradict")


def _longest(folder: Path, config: dict[str, Any]) -> int:
    path = folder / "tokenizer_config.json"
    told = _json(path).get("model_max_length") if path.exists() else None
    places = config.get("max_position_embeddings")
    if isinstance(told, int | float) and told <= _LONGEST_INPUT:  # without one: 10 to the 30th
        return int(told)
    if isinstance(places, int) and places > _SPECIAL_PLACES:
        return min(places - _SPECIAL_PLACES, _LONGEST_INPUT)
    return _LONGEST_INPUT


def _session(graph: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(
        str(graph), sess_options=options, providers=["CPUExecutionProvider"]
    )


def _padded(rows: Sequence[Sequence[int]], width: int) -> NDArray[np.int64]:
    padded = np.zeros((len(rows), width), dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float64)

"""Load an encoder in ONNX with its tokenizer, from a folder or a hub, and run it on one thread."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import tokenizers
from numpy.typing import NDArray

from monitor.errors import SettingsError
from monitor.settings import variable

_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
_GRAPHS = ("model.onnx", "onnx/model.onnx")  # as exporters and as hubs lay it out
_LONGEST_INPUT = 512  # tokens; longer ones cost time with the square
_SPECIAL_PLACES = 2  # RoBERTa counts positions from 2


class OnnxModel:
    """
    A graph and its tokenizer; ``name`` is a folder or an id on the hub.

    One thread computes: processes are what scales, and one that forks must not inherit
    half a thread pool. Calls from several threads are safe.

    Raises
    ------
    SettingsError
        If the model is not there or has no ONNX file; names *setting*.
    """

    def __init__(self, name: str, setting: str) -> None:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            try:
                folder = Path(
                    huggingface_hub.snapshot_download(name, allow_patterns=[*_FILES, *_GRAPHS])
                )
            except Exception as error:  # noqa: BLE001 - the hub's, httpx's, requests': they change
                raise SettingsError(
                    f"{variable(setting)}: {name} is not a folder here, and no model that the hub"
                    f" gives us ({type(error).__name__})"
                ) from None
        self.config = _json(folder / "config.json", setting)
        graph = next((folder / each for each in _GRAPHS if (folder / each).exists()), None)
        if graph is None:
            raise SettingsError(
                f"{variable(setting)}: {name} has neither {' nor '.join(_GRAPHS)};"
                " export it, for instance with `optimum-cli export onnx`"
            )
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.longest = _LONGEST_INPUT  #: tokens of an input
        path = folder / "tokenizer_config.json"
        max_length = _json(path, setting).get("model_max_length") if path.exists() else None
        places = self.config.get("max_position_embeddings")
        if (
            isinstance(max_length, int | float) and max_length <= _LONGEST_INPUT
        ):  # without one: 10 to the 30th
            self.longest = int(max_length)
        elif isinstance(places, int) and places > _SPECIAL_PLACES:
            self.longest = min(places - _SPECIAL_PLACES, _LONGEST_INPUT)
        self._session = _session(graph)
        self._inputs = [each.name for each in self._session.get_inputs()]
        with graph.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.fingerprint = digest[:8]  #: of the weights

    def run(self, batch: Sequence[tokenizers.Encoding]) -> NDArray[np.float32]:
        """Return the first output of the graph for a batch; its first axis is the batch."""
        width = max(len(each.ids) for each in batch)
        arrays = {
            "input_ids": _padded([each.ids for each in batch], width),
            "attention_mask": _padded([each.attention_mask for each in batch], width),
            "token_type_ids": _padded([each.type_ids for each in batch], width),
        }
        [first, *_] = self._session.run(None, {name: arrays[name] for name in self._inputs})
        return np.asarray(first, dtype=np.float32)


def _json(path: Path, setting: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{variable(setting)}: cannot read {path} ({type(error).__name__})"
        ) from None
    return value if isinstance(value, dict) else {}


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

"""From a call to the recorder of this process, which is made at its first use."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from monitor.hook import forks, sender
from monitor.hook.gate import Gate
from monitor.hook.options import Options, check, resolve
from monitor.hook.recorder import Recorder
from monitor.hook.rules import Sampling, resolve_sampling, split

logger = logging.getLogger("groundwatch.hook")

#: Stands in for the gate of a recorder that is still to be made: it has no misses to hand out.
_NO_GATE = Gate(1.0)
_TEXTS = frozenset({"query", "contexts", "output"})


class Intake:
    """What a hook is told, the recorder made of it, and the doors for integrations."""

    gate: Gate  #: of the recorder; for integrations that must be fast
    _recorder: Recorder | None
    _options: Options | None
    _mistake: str | None

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._tell(arguments)
        forks.register(self)

    def chance(self, trace_id: object = None) -> float:
        """
        Count one interaction and say whether to record it; for integrations.

        The fields that `take` gets later should have the same *trace_id*.

        Returns
        -------
        float
            The probability with which it was chosen, for `take`; 0 if it was not.
        """
        try:
            if trace_id is None:
                for _ in self.gate.misses:  # as in sample
                    return 0.0
            return (self._recorder or self._begin()).choose(trace_id)
        except Exception as error:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(error).__name__} in chance()"
            return 0.0

    def chosen(self, trace_id: object = None) -> bool:
        """Count one interaction and say whether to record it now; else see `chance`."""
        return self.chance(trace_id) > 0

    def take(self, given: Mapping[str, object], rate: float | None = None) -> None:
        """Record an interaction that was chosen, with *rate* or the one that is in force."""
        try:
            recorder = self._recorder or self._begin()
            self._record(recorder, given, recorder.gate.rate if rate is None else rate)
        except Exception as error:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(error).__name__} in take()"

    def after_fork(self) -> None:
        """Start empty: in a forked child nothing of the parent's is kept but the options."""
        self._recorder, self.gate = None, _NO_GATE
        # Holds the recorder too: `setdefault` gives all threads the same one without a lock.
        self._only: dict[str, Recorder] = {}

    def _begin(self, *, start: bool = True) -> Recorder:
        only = self._only
        recorder = only.get("recorder") or only.setdefault("recorder", self._made())
        self._recorder, self.gate = recorder, recorder.gate
        if start and recorder.options.enabled:
            sender.start(recorder)
        return recorder

    def _tell(self, arguments: Mapping[str, object]) -> None:
        self._given, self._sampling_given = _checked(arguments)
        self._options, self._sampling = None, Sampling()
        self._mistake = None
        self.after_fork()

    def _made(self) -> Recorder:
        if self._options is None:
            try:
                options = resolve(self._given)
                self._sampling = resolve_sampling(self._sampling_given, options.app)
                self._options = options
            except ValueError as error:
                self._options, self._mistake = Options(enabled=False), str(error)
                logger.warning("switched off: %s", error)
        return Recorder(self._options, self._sampling)

    def _record(self, recorder: Recorder, given: Mapping[str, object], rate: float) -> None:
        if recorder.pid != os.getpid():  # forked by C code, which tells nobody
            self.after_fork()
            recorder = self._begin()
            recorder.gate.count()
        if recorder.thins:
            rate = recorder.thinned(given, rate)
            if not rate:
                return
        if given.keys() == _TEXTS:
            recorder.record_texts(given["query"], given["contexts"], given["output"], rate)
        else:
            recorder.record(given, rate)
        if recorder.unstarted:
            sender.start(recorder)


def _checked(arguments: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    sampling, others = split(arguments)
    return check(others), sampling

"""The sender's loop, one step at a time: take, encode, send, count, and be patient with Redis."""

from __future__ import annotations

import _thread
import contextlib
import encodings.idna  # noqa: F401  # the resolver's; it cannot be loaded any more at exit
import importlib.metadata
import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

from ..errors import QueueError
from ..queue.producer import Producer
from ..queue.wire import as_json
from ..retry import backoff_s
from ..settings import resolve_redis_url
from .capture import Draft
from .encoding import Encoded, MaskFailed, encode, encode_feedback
from .experiments import read_shares
from .recorder import Progress, Recorder

BATCH = 25
ID_BITS = 74
#: A batch ends at this many characters, so that one write stays well within the time-out.
BATCH_CHARS = 1_000_000
#: And at this much work, because masks may be slow and the host's threads wait meanwhile.
BATCH_WORK_S = 0.001
#: The last batch of a process, which goes with the counters, may take more.
_LAST_WORK_S = 0.05
BATCH_KEPT_S = 60.0
HEARTBEAT_S = 10.0
#: A heartbeat follows a change of the counters within this time.
FRESH_S = 1.0
#: An app that has set up no logs reads on stderr that Redis is away, after this time.
SAY_AWAY_AFTER_S = 5.0
POLL_S = 0.2
IDLE_POLL_S = 0.5
IDLE_AFTER_S = 5.0
#: In a backlog, after so many batches, so that the host's threads get the interpreter for longer
#: than while we wait for Redis.
BREATH_S, BREATH_EVERY = 0.001, 8

logger = logging.getLogger("groundwatch.hook")

with contextlib.suppress(importlib.metadata.PackageNotFoundError):
    # As redis-py does when it connects: this way all that it needs is imported by now, and no
    # child can be forked during an import that it could never finish.
    importlib.metadata.version("redis")
# Nor while pydantic sets up what it needs to write JSON, for which such a child waits for ever.
with contextlib.suppress(Exception):  # a sample that cannot be written says why
    as_json({"at": datetime.fromtimestamp(0, UTC), "rate": 0.5, "texts": ["a"], "metadata": {}})


class SenderLoop:
    """The sender's thread alone uses it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._options = recorder.options
        started_at = datetime.fromtimestamp(recorder.started_at_ms / 1000, UTC)
        self._about: dict[str, str | int] = {
            "app": recorder.options.app,
            "host": socket.gethostname(),
            "pid": recorder.pid,
            "started_at": started_at.isoformat(timespec="milliseconds"),
        }
        self._producer: Producer | None = None
        self._batch: list[Encoded] = []
        self._feedback: list[dict[bytes, bytes]] = []
        self._batch_since = 0.0
        self._reported_at = float("-inf")
        self._busy_at = 0.0
        self._batches = 0
        self._asked_rate: float | None = None
        self._published: bytes | None = None
        self._may_not_read_shares = False
        # Seeded by the system once; asking it for each id costs more than the rest of the id.
        self._random = Random()  # noqa: S311
        self._backoff = Backoff(self._random)
        self._complaints = Complaints()
        #: Since when Redis is away, in monotonic seconds; endless once that was said.
        self._away_since: float | None = None
        self._room = QueueRoom(self._options.queue_limit, self._options.queue_limit_megabytes)
        self._unsynced = Unsynced()

    def step(self, now: float) -> float | None:
        """Do what is due at *now* (monotonic); return the seconds to wait, None at the end."""
        recorder = self._recorder
        hurry, recorder.hurry = recorder.hurry or recorder.close_by is not None, False
        if not self._backoff.wait_s(now, hurry=hurry):
            self._fill(now)
            if (
                self._batch
                or self._feedback_waits()
                or self._unsynced.pending
                or self._report_is_due(now, hurry=hurry)
            ):
                self._send(now)
        if self._batch and now - self._batch_since >= BATCH_KEPT_S:
            self._give_up("redis_unavailable")
        line = self._complaints.due(
            now, recorder.dropped, recorder.last_error, recorder.encode_error
        )
        if line:
            logger.warning("delivery_trouble hook_id=%s %s", recorder.hook_id, line)
        if self._away_since is not None and now - self._away_since >= SAY_AWAY_AFTER_S:
            self._away_since = float("inf")
            # Once, where the app has set up no logs.
            if not logging.getLogger().handlers and sys.stderr is not None:
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(
                        f"groundwatch: Redis cannot be reached ({recorder.last_error}); samples"
                        " wait in memory. Set GROUNDWATCH_REDIS_URL, or run: groundwatch doctor"
                        " hook\n"
                    )
        if recorder.close_by is not None and (self._all_done() or now >= recorder.close_by):
            self._end(now)
            return None
        wait_s = self._backoff.wait_s(now, hurry=hurry)
        if wait_s:
            return min(wait_s, POLL_S)
        if (recorder.buffer and not recorder.full) or self._unsynced.pending:
            self._batches += 1
            return 0.0 if self._batches % BREATH_EVERY else BREATH_S
        return IDLE_POLL_S if now - self._busy_at > IDLE_AFTER_S else POLL_S

    def _fill(self, now: float, work_s: float = BATCH_WORK_S) -> None:
        """Take the next batch; a full queue keeps what is buffered waiting here."""
        recorder = self._recorder
        if self._batch or recorder.full:
            return
        chars, until = 0, time.perf_counter() + work_s
        while len(self._batch) < BATCH and chars < BATCH_CHARS and recorder.buffer:
            if self._batch and time.perf_counter() > until:
                break
            draft = Draft._make(recorder.buffer.popleft())
            if draft.mask or self._options.mask:
                recorder.masking = _thread.get_ident()
            try:
                encoded = encode(
                    draft,
                    self._options,
                    hook_id=recorder.hook_id,
                    sample_rate=draft.rate,
                    randomness=self._random.getrandbits(ID_BITS),
                )
            except MaskFailed:
                self._settle(draft.chars, "mask_failed")
            except BaseException as error:  # noqa: BLE001  # one odd sample must not stop the others
                recorder.encode_error = type(error).__name__
                self._settle(draft.chars, "encode_failed")
            else:
                chars += draft.chars
                self._batch.append(encoded)
            finally:
                recorder.masking = None
        self._batch_since = now

    def _settle(self, chars: int, reason: str) -> None:
        """Give one sample up for a reason."""
        recorder = self._recorder
        recorder.drop(reason)
        recorder.chars_out += chars
        recorder.completed += 1

    def _report_is_due(self, now: float, *, hurry: bool) -> bool:
        recorder = self._recorder
        age_s = now - self._reported_at
        if recorder.reported is None or age_s >= HEARTBEAT_S:
            return True
        changed = not recorder.reported.covers(recorder.progress())
        return (changed and hurry) or ((changed or recorder.full) and age_s >= FRESH_S)

    def _feedback_waits(self) -> bool:
        """Take feedback out of the buffer, while none is being sent."""
        waiting = self._recorder.feedback.waiting
        while waiting and len(self._feedback) < BATCH:
            draft = waiting.popleft()
            self._recorder.masking = _thread.get_ident()
            try:
                randomness = self._random.getrandbits(ID_BITS)
                self._feedback.append(encode_feedback(draft, self._options, randomness))
            except BaseException:  # noqa: BLE001  # as in _fill
                self._recorder.feedback.drop("mask_failed")
            finally:
                self._recorder.masking = None
        return bool(self._feedback)

    def _send(self, now: float) -> None:
        recorder, batch, feedback = self._recorder, self._batch, self._feedback
        progress = recorder.progress()
        # Everything so far, this batch included: sent twice, it still says the same.
        dropped = {f"dropped:{reason}": n for reason, n in recorder.dropped.items()}
        sampled = recorder.sampled  # before seen, which is never smaller
        counters = {
            **self._about, "seen": recorder.seen, "sampled": sampled,
            "last_error": recorder.encoding_error, **dropped,
            **{f"errored:{name}": n for name, n in recorder.errored.items()},
            **({"unseen": unseen} if (unseen := recorder.unseen) else {}),
        }  # fmt: skip
        try:
            if self._producer is None:
                # Looked up each time: a restarted server of `groundwatch up` may have moved.
                home = Path(self._options.home).expanduser().absolute()
                url = resolve_redis_url(self._options.redis_url, home)
                self._producer = Producer(url, queue_limit=self._options.queue_limit)
            if self._unsynced.doubtful:
                self._unsynced.compare(self._producer.arrived(recorder.hook_id))
            lost = self._unsynced.lost[0] if self._unsynced.lost else None
            sending = lost or Batch(
                [encoded.entry for encoded in batch],
                feedback,
                recorder.sent + len(batch),
                recorder.feedback.sent + len(feedback),
                sum(encoded.size_bytes for encoded in batch),
            )
            answer = self._producer.send(
                sending.entries,
                app=self._options.app,
                hook_id=recorder.hook_id,
                feedback=sending.feedback,
                experiments=recorder.chooses and not self._may_not_read_shares,
                counters={
                    **counters, "sent": sending.sent,
                    **recorder.feedback.counters(sending.feedback_sent),
                },
                heartbeat_at_ms=time.time_ns() // 1_000_000,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001  # whatever it is: keep the batch, try again
            self._note_trouble(error, now)
            return
        self._backoff.succeeded()
        if self._away_since != float("inf"):
            self._away_since = None
        self._unsynced.confirm(sending, now)
        self._reported_at = now
        if sending.entries or sending.feedback or recorder.reported != progress:
            self._busy_at = now
        if lost is None:
            self._batch, self._feedback = [], []
            recorder.feedback.sent = sending.feedback_sent
            recorder.sent = sending.sent
            recorder.completed += len(batch)
            recorder.chars_out += sum(encoded.chars for encoded in batch)
            settled = progress.feedback + len(feedback)
            recorder.reported = Progress(
                progress.seen, recorder.completed, progress.dropped, settled
            )
        recorder.connected, recorder.last_error = True, None
        self._room.sent(len(sending.entries), sending.size_bytes)
        recorder.full = self._room.look(answer.backlog)
        if answer.experiments != self._published:
            self._published = answer.experiments
            recorder.experiments = read_shares(answer.experiments)
        if answer.sample_rate != self._asked_rate:
            self._asked_rate = asked = answer.sample_rate
            recorder.set_rate(self._options.sample_rate if asked is None else asked)

    def _note_trouble(self, error: Exception, now: float) -> None:
        """Drop the connection, wait longer before the next try, and doubt what was confirmed."""
        recorder = self._recorder
        text = str(error) if isinstance(error, QueueError) else type(error).__name__
        # Samples go before shares: where reading these is forbidden, an even split remains.
        self._may_not_read_shares |= recorder.chooses and "NOPERM" in text
        self._backoff.failed(time.monotonic())
        self._unsynced.doubtful = True
        recorder.connected, recorder.last_error = False, text
        self._away_since = now if self._away_since is None else self._away_since
        if self._producer is not None:
            self._producer.close()
        self._producer = None
        if self._asked_rate is not None:  # nobody can end it while Redis is away
            self._asked_rate = None
            recorder.set_rate(self._options.sample_rate)

    def _give_up(self, reason: str) -> None:
        for encoded in self._batch:
            self._settle(encoded.chars, reason)
        self._batch = []

    def abandon(self, reason: str = "sender_failed") -> None:
        """Count what this sender had taken before it broke or ended: no other one sends it."""
        self._give_up(reason)
        self._recorder.feedback.drop("shutdown", len(self._feedback))
        self._feedback = []

    def _all_done(self) -> bool:
        done = self._recorder.has_reported(self._recorder.goal())
        return done and not self._unsynced.pending

    def _end(self, now: float) -> None:
        """Count what did not make it, and say so, with one last batch, if Redis is there."""
        recorder = self._recorder
        if not self._all_done():
            if recorder.connected:
                self._fill(now, _LAST_WORK_S)
            else:
                self._give_up("shutdown")
            while recorder.buffer:
                self._settle(Draft._make(recorder.buffer.popleft()).chars, "shutdown")
            if recorder.connected:
                self._unsynced.lost.clear()  # the counters are worth more now
                self._feedback_waits()
                self._send(now)
            self.abandon("shutdown")
            recorder.feedback.abandon()
        if self._producer is not None:
            self._producer.close()


# --- while Redis is away: when to try again, and how rarely to complain ---

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 10.0
#: Even a flush does not try more often than this.
HURRIED_WAIT_S = 0.1
COMPLAIN_EVERY_S = 60.0


class Backoff:
    """Doubles the wait after each failure, with jitter so that a fleet does not knock in step."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0
        self._failed_at = 0.0
        self._wait_s = 0.0

    def failed(self, now: float) -> None:
        """Note a failure at *now*, in monotonic seconds."""
        self._failures += 1
        self._failed_at = now
        self._wait_s = backoff_s(
            self._failures,
            first_s=FIRST_WAIT_S, longest_s=LONGEST_WAIT_S, uniform=self._random.uniform,
        )  # fmt: skip

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures = 0

    def wait_s(self, now: float, *, hurry: bool = False) -> float:
        """Return the seconds to wait before the next try; 0 when it may be now."""
        if not self._failures:
            return 0.0
        wait_s = min(self._wait_s, HURRIED_WAIT_S) if hurry else self._wait_s
        return max(0.0, self._failed_at + wait_s - now)


class Complaints:
    """At most one log line a minute, and only when samples were dropped or Redis is away."""

    def __init__(self) -> None:
        self._next_at = 0.0
        self._told: dict[str, int] = {}
        self._told_error: str | None = None

    def due(
        self,
        now: float,
        dropped: Mapping[str, int],
        error: str | None,
        encode_error: str | None = None,
    ) -> str | None:
        """Return the line to log at *now*, in monotonic seconds, if there is one to log."""
        news = {reason: n - self._told.get(reason, 0) for reason, n in sorted(dropped.items())}
        news = {reason: n for reason, n in news.items() if n}
        if now < self._next_at or not (news or (error and error != self._told_error)):
            return None
        self._next_at = now + COMPLAIN_EVERY_S
        self._told, self._told_error = dict(dropped), error
        why = {"encode_failed": f" ({encode_error})"} if encode_error else {}
        counts = ", ".join(f"{reason} {n}{why.get(reason, '')}" for reason, n in news.items())
        parts = [f'dropped="{counts}"' if counts else "", f'redis="{error}"' if error else ""]
        return " ".join(part for part in parts if part)


# --- what a Redis that died may have lost, although it had confirmed it ---

#: A confirmed batch is kept until Redis answers so long after it. With ``appendfsync everysec``
#: Redis confirms first and writes within a second, or three while its disk is busy.
SYNCED_AFTER_S = 3.0
#: At most; the oldest are forgotten first.
_MOST_UNSYNCED_BYTES = 4_000_000


class Batch(NamedTuple):
    """What goes to Redis in one transaction."""

    entries: list[dict[bytes, bytes]]
    feedback: list[dict[bytes, bytes]]
    sent: int  #: samples of this hook with which it has arrived, its own included
    feedback_sent: int  #: the same of feedback
    size_bytes: int

    @property
    def total(self) -> int:
        """What Redis has received of this hook once the batch has arrived."""
        return self.sent + self.feedback_sent


class Unsynced:
    """
    Keeps the batches that Redis confirmed a moment ago, to send again what it loses.

    A Redis that is killed, or replaced by its replica, comes back without its last writes. How
    far it came is what it says of this hook: counters and samples are written together.
    """

    def __init__(self) -> None:
        self.doubtful = False  #: whether there was trouble since Redis last answered
        self.lost: deque[Batch] = deque()  #: to be sent again, oldest first
        self._confirmed: deque[tuple[float, Batch]] = deque()
        self._bytes = 0

    @property
    def pending(self) -> bool:
        """Whether something may have to be sent again."""
        return self.doubtful or bool(self.lost)

    def confirm(self, batch: Batch, now: float) -> None:
        """Note that Redis has answered at *now*, in monotonic seconds, and received a batch."""
        if self.lost:
            self.lost.popleft()
        if batch.entries or batch.feedback:
            self._confirmed.append((now, batch))
            self._bytes += batch.size_bytes
        while self._confirmed and (
            self._bytes > _MOST_UNSYNCED_BYTES or now - self._confirmed[0][0] >= SYNCED_AFTER_S
        ):
            self._bytes -= self._confirmed.popleft()[1].size_bytes

    def compare(self, arrived: int) -> None:
        """Find what is lost in a Redis that has received *arrived* samples and feedback of ours."""
        again = [batch for _, batch in self._confirmed if batch.total > arrived]
        self.lost.extendleft(reversed(again))
        self._confirmed = deque(item for item in self._confirmed if item[1].total <= arrived)
        self._bytes = sum(batch.size_bytes for _, batch in self._confirmed)
        self.doubtful = False


# --- whether there is room in Redis: by the number of samples that wait, and by their size ---

#: A full queue opens again below this share of its limits.
REOPEN = 0.9
_MEGABYTE = 1_000_000
#: Weight of the newest batch in the mean size of a sample.
_FRESH = 0.2


@dataclass(slots=True)
class QueueRoom:
    """
    Watches the two limits of the queue.

    Redis that is full takes nothing any more, not even what would empty it. So the
    size of what waits is estimated, as samples that wait times the mean size of ours,
    and kept well below the memory of the server.
    """

    limit: int
    limit_megabytes: int
    full: bool = False
    mean_bytes: float = 0.0

    def sent(self, samples: int, size_bytes: int) -> None:
        """Learn from a batch how large a sample is."""
        if samples:
            mean = size_bytes / samples
            old = self.mean_bytes or mean
            self.mean_bytes = old + _FRESH * (mean - old)

    def look(self, waiting: int) -> bool:
        """Return whether the queue is full now that so many samples wait."""
        share = max(
            waiting / self.limit, waiting * self.mean_bytes / (self.limit_megabytes * _MEGABYTE)
        )
        self.full = share >= 1 or (self.full and share >= REOPEN)
        return self.full

"""
What a call to the judge passes on its way, for all that asks one endpoint.

`LimitedJudge._answer` reads top-down: the verdict cache, a place among the calls in flight,
the circuit breaker, the endpoint's rate limit, and then the call itself. Each request of
the call is paid for in `monitor.scoring.limits.meter`.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol, Self, TypeVar

import redis
import structlog
from pydantic import TypeAdapter

from monitor.errors import (
    JudgeOutageError,
    JudgeRateLimitedError,
    JudgeUnavailableError,
    QueueUnavailableError,
    SettingsError,
)
from monitor.models import Interaction
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.scoring.base import Claim, Judge, Judgement
from monitor.scoring.declaration import CriteriaJudge, Criterion, Reply
from monitor.scoring.limits.budget import (
    Budget,
    BudgetWatch,
    CallAbandonedError,
    JudgeBusyError,
    caps_from,
)
from monitor.scoring.limits.meter import TokenPrice
from monitor.scoring.limits.rate import FRESH_S, CircuitBreaker, Concurrency, RateLimiter
from monitor.settings import Settings, variable

_LONGEST_RATE_WAIT_S, _NO_HURRY_S = 20.0, 3_600.0
_LONGEST_PAUSE_S = 5.0  # with a longer Retry-After the judge is not called: samples wait queued
_CHARS_PER_TOKEN = 4
_PROMPT_TOKENS = 1_000

T = TypeVar("T", Judgement, Reply)
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {each: TypeAdapter(each) for each in (Judgement, Reply)}
_CLAIM_FIELDS = {each.name for each in fields(Claim)}
#: Redis holds the queue as well, and must not fill with verdicts: about 20 MB.
_MOST_KEPT = 20_000
_MISSING_S = 5.0  # what was missing so lately is not looked up again
#: What answers refer to, whatever was asked: sentences, passages and the reference by number.
_ALWAYS_SENT = frozenset({"output", "contexts", "expected", "history"})

_PUT = """
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[3], KEYS[2])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3] - ARGV[2])
local over = redis.call('ZCARD', KEYS[1]) - ARGV[4]
if over > 0 then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, over - 1)
  redis.call('DEL', unpack(oldest))
  redis.call('ZREM', KEYS[1], unpack(oldest))
end
return 0
"""
log = structlog.get_logger("groundwatch.scoring")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimits:
    """
    What all workers that ask one endpoint share through Redis.

    What the settings leave out, or what needs a Redis that there is not, is None.
    """

    budget: Budget | None = None
    watch: BudgetWatch | None = None
    cache: VerdictCache | None = None
    breaker: CircuitBreaker | None = None
    rate: RateLimiter | None = None

    @classmethod
    def from_settings(
        cls, settings: Settings, client: redis.Redis | None, price: TokenPrice
    ) -> Self:
        """
        Make what is shared through *client*, None for a run of its own; nothing is contacted yet.

        *price* prices input and output tokens of the judge's model.

        Raises
        ------
        SettingsError
            If there is a budget and no Redis to keep it, or no price to keep it by.
        """
        caps = caps_from(settings)
        if caps and price(1, 1) is None:
            raise SettingsError(
                f"A judge budget needs the price of {settings.judge_model}: set"
                f" {variable('judge_usd_per_million_input_tokens')} and"
                f" {variable('judge_usd_per_million_output_tokens')}"
            )
        if client is None:
            if caps:
                raise SettingsError("A judge budget needs Redis")
            return cls()
        endpoint, limits = endpoint_name(settings), settings.judge_limits
        budget = Budget(client, caps, longest_call_s=limits.judge_timeout_s) if caps else None
        kept_s = limits.verdict_cache_s
        return cls(
            budget=budget,
            watch=BudgetWatch(budget) if budget else None,
            cache=VerdictCache(client, kept_s=kept_s) if kept_s else None,
            breaker=CircuitBreaker(client, endpoint),
            rate=RateLimiter(client, endpoint),
        )


def endpoint_name(settings: Settings) -> str:
    """Return a digest that names the judge's endpoint and model without revealing either."""
    text = f"{settings.openai_base_url or ''}\0{settings.judge_model}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _EndpointJudge(Judge, CriteriaJudge, Protocol):
    """A judge that gives verdicts and answers criteria."""


@dataclass(frozen=True, slots=True)
class LimitedJudge:
    """
    Asks *inner* as often as its endpoint allows.

    All that asks one endpoint goes through one of these. Waiting here takes nothing from the
    time that the judge has for its answer. What needs Redis is left out while it cannot be
    reached: the queue finds that out anyway.
    """

    inner: _EndpointJudge
    concurrency: Concurrency
    shared: SharedLimits = field(default_factory=SharedLimits)
    #: The longest wait for a place, or for budget that calls under way hold: after it the sample
    #: had better be elsewhere. None for callers with nowhere else to put it.
    longest_wait_s: float | None = None

    @property
    def version(self) -> str:
        """The version of the verdicts of *inner*."""
        return self.inner.version

    @property
    def criteria_version(self) -> str:
        """The version of the answers of *inner* to criteria."""
        return self.inner.criteria_version

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge one interaction, or raise a ``JudgeError``."""
        return self._answer(
            lambda: self.inner.judge(interaction),
            key=content_key(self.version, interaction),
            kind=Judgement,
            tokens=_estimated_tokens(interaction),
        )

    def kept(self, interactions: Sequence[Interaction]) -> list[Judgement | None]:
        """Return the judgements that are kept, each in the place of its interaction."""
        if interactions and self.shared.cache is not None:
            keys = [content_key(self.version, interaction) for interaction in interactions]
            with suppress(QueueUnavailableError):
                return self.shared.cache.get_all(keys, Judgement)
        return [None] * len(interactions)

    def ask(
        self, interaction: Interaction, criteria: Sequence[Criterion], fields: frozenset[str]
    ) -> Reply:
        """Answer all criteria at once, or raise a ``JudgeError``."""
        questions = sum(len(criterion.question) for criterion in criteria)
        return self._answer(
            lambda: self.inner.ask(interaction, criteria, fields),
            key=question_key(self.criteria_version, interaction, criteria, fields),
            kind=Reply,
            tokens=_estimated_tokens(interaction) + questions // _CHARS_PER_TOKEN,
        )

    def close(self) -> None:
        """Close the connections of *inner*."""
        self.inner.close()

    def _answer(self, ask: Callable[[], T], *, key: str, kind: type[T], tokens: int) -> T:
        """
        Return the cached answer, else make the call and cache what it says.

        *key* is a digest of all that the answer depends on; *tokens* are about those that the
        call takes, for the endpoint's limit on them.

        Raises
        ------
        JudgeOutageError
            If the judge answers no call, also when another process has found that out.
        JudgeError
            Any other error of the call.
        """
        cache, breaker, rate = self.shared.cache, self.shared.breaker, self.shared.rate
        if cache is not None:
            with suppress(QueueUnavailableError):
                cached = cache.get(key, kind)
                if cached is not None:
                    return cached
        if not self.concurrency.take(longest_s=self.longest_wait_s):
            raise JudgeBusyError("Judge concurrency limit reached", retry_after_s=1.0)
        try:
            with suppress(QueueUnavailableError):
                outage = None if breaker is None else breaker.outage(fresh_s=FRESH_S)
                if outage is not None:
                    raise JudgeOutageError(outage.reason, retry_after_s=outage.for_s)
                longest_s = _NO_HURRY_S if self.longest_wait_s is None else _LONGEST_RATE_WAIT_S
                if rate is not None and not rate.wait(tokens, longest_s=longest_s):
                    raise JudgeBusyError("Judge rate limit reached", retry_after_s=1.0)
            made = self._ask_in_time(ask)
            self.concurrency.grow()
        finally:
            self.concurrency.give_back()
        if cache is not None:
            with _optional():
                cache.put(key, made)
        return made

    def _ask_in_time(self, ask: Callable[[], T]) -> T:
        while True:
            try:
                return ask()
            except CallAbandonedError:
                raise
            except JudgeBusyError as error:
                if self.longest_wait_s is not None:
                    raise
                time.sleep(error.retry_after_s or 0.0)
            except JudgeOutageError as error:
                self._open_breaker(error)
                raise
            except JudgeRateLimitedError as error:
                if error.retry_after_s is None or error.retry_after_s <= _LONGEST_PAUSE_S:
                    raise
                outage = JudgeOutageError(str(error), retry_after_s=error.retry_after_s)
                outage.context |= error.context
                self._open_breaker(outage)
                raise outage from None
            except JudgeUnavailableError:
                self.concurrency.shrink()
                raise

    def _open_breaker(self, error: JudgeOutageError) -> None:
        with _optional():
            if self.shared.breaker is None or self.shared.breaker.open(error):
                log.error("judge_outage", message=str(error), retry_after_s=error.retry_after_s)


@contextmanager
def _optional() -> Iterator[None]:
    """Go on without what is shared while Redis cannot be reached."""
    try:
        yield
    except QueueUnavailableError as error:
        log.warning("judge_limits_not_shared", message=str(error))


def _estimated_tokens(interaction: Interaction) -> int:
    """Estimate the tokens of a call: prompt, texts, and an answer as long as the output."""
    contexts = sum(len(context.text) for context in interaction.contexts)
    chars = contexts + len(interaction.query or "") + 2 * len(interaction.output)
    return _PROMPT_TOKENS + chars // _CHARS_PER_TOKEN


@dataclass(eq=False, slots=True)
class _LookUp:
    key: str
    packed: bytes | None = None
    failed: str | None = None
    done: bool = False


class VerdictCache:
    """
    A bounded cache of answers in Redis; the oldest go first.

    Threads that look something up while another one asks Redis share the next request. What
    `get_all` has just found missing, the next `get` takes as missing; the one after asks Redis,
    as the text may be judged by then.

    The key is a digest of all that an answer depends on: the judge's version, which names
    model and prompt, the texts, and the questions where they differ from call to call. The
    answer itself quotes passages, as tables do.
    """

    def __init__(self, client: redis.Redis, *, kept_s: int, most: int = _MOST_KEPT) -> None:
        self._redis: Any = client
        self._put = self._redis.register_script(_PUT)
        self._kept_s = kept_s
        self._most = most
        self._waiting: deque[_LookUp] = deque()
        self._turn = threading.Lock()
        self._missing: dict[str, float] = {}  #: when each key was found missing
        self._noting = threading.Lock()

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return the answer under *key*, which costs nothing now; None without one."""
        with self._noting:
            missing_s = self._missing.pop(key, -_MISSING_S)
        if time.monotonic() - missing_s < _MISSING_S:
            return None
        mine = _LookUp(key)
        self._waiting.append(mine)
        with self._turn:
            if not mine.done:
                # All that wait at once; where that fails all fail, as one by one would wait long.
                asked = [self._waiting.popleft() for _ in range(len(self._waiting))]
                packed: Sequence[bytes | None] = [None] * len(asked)
                failed = None
                try:
                    packed = self._read([each.key for each in asked])
                except QueueUnavailableError as error:
                    failed = str(error)
                for each, found in zip(asked, packed, strict=True):
                    each.packed, each.failed, each.done = found, failed, True
        if mine.failed is not None:
            raise QueueUnavailableError(mine.failed)
        return _unpacked(mine.packed, kind)

    def get_all(self, keys: Sequence[str], kind: type[T]) -> list[T | None]:
        """Return the answer under each key, with one request."""
        found, now_s = self._read(keys), time.monotonic()
        with self._noting:
            lately = {k: at_s for k, at_s in self._missing.items() if now_s - at_s < _MISSING_S}
            new = {k: now_s for k, packed in zip(keys, found, strict=True) if packed is None}
            self._missing = lately | new
        return [_unpacked(packed, kind) for packed in found]

    def _read(self, keys: Sequence[str]) -> list[bytes | None]:
        with translated():
            found: list[bytes | None] = self._redis.mget([names.verdict(key) for key in keys])
        return found

    def put(self, key: str, answer: Judgement | Reply) -> None:
        """Keep an answer, unless a part is wrong: that part may be right the next time."""
        if isinstance(answer, Reply) and answer.answers.wrong:
            return
        packed = zlib.compress(json.dumps(asdict(answer)).encode(), 1)
        arguments: list[Any] = [packed, self._kept_s, int(time.time()), self._most]
        with translated():
            self._put(keys=[names.VERDICTS, names.verdict(key)], args=arguments)
        with self._noting:
            self._missing.pop(key, None)


def _unpacked(packed: bytes | None, kind: type[T]) -> T | None:
    if packed is None:
        return None
    try:
        said = json.loads(zlib.decompress(packed))
        kept: Any = _ADAPTERS[kind].validate_python(said)
    except (zlib.error, ValueError):
        return None  # of another version of this program
    if any(_CLAIM_FIELDS - claim.keys() for claim in said.get("claims", ())):
        return None  # of an earlier version, whose claims say less than metrics read
    more = {"kept": True}
    if kind is Reply:
        more = {"details": kept.details | {"kept_verdict": True}}
    free: T = replace(kept, cost_usd=0.0, duration_ms=0.0, **more)
    return free


def content_key(version: str, interaction: Interaction) -> str:
    """Return a digest of all that a verdict depends on."""
    contexts = [context.text for context in interaction.contexts]
    history = [turn.model_dump() for turn in interaction.history]
    sent = [version, interaction.query or "", contexts, interaction.output]
    return _digest([*sent, history] if history else sent)


def question_key(
    version: str,
    interaction: Interaction,
    criteria: Sequence[Criterion],
    fields: frozenset[str],
) -> str:
    """Return a digest of all that answers to *criteria* depend on, when *fields* are sent."""
    asked = [asdict(criterion) for criterion in criteria]
    roots = {path.partition(".")[0] for path in fields}
    sent = interaction.model_dump(include=roots | _ALWAYS_SENT)
    return _digest([version, asked, sorted(fields), sent])


def _digest(sent: list[Any]) -> str:
    return hashlib.sha256(json.dumps(sent, default=str).encode()).hexdigest()

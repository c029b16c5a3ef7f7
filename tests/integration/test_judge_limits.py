"""Kept verdicts, shared rate limits, slots, and a judge that is away, with a real Redis."""

import json
import socket
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import redis

from monitor.errors import JudgeOutageError, JudgeUnavailableError, QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import Answers, Criterion, CriterionAnswer, Form, Reply
from monitor.scoring.limits.limiter import (
    LimitedJudge,
    SharedLimits,
    VerdictCache,
    content_key,
)
from monitor.scoring.limits.rate import CircuitBreaker, Concurrency, RateLimiter
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction
from support.judge_server import JudgeServer

CLAIM = Claim(
    text="It is so.", verdict=ClaimVerdict.SUPPORTED, support=1.0, evidence="so", context_index=0
)
JUDGEMENT = Judgement(claims=(CLAIM,), relevance=0.5, model="m", cost_usd=0.25, input_tokens=9)


@pytest.fixture
def client(redis_url):
    with connect(redis_url) as client:
        yield client


@pytest.fixture
def kept(client):
    return VerdictCache(client, kept_s=60, most=3)


def keep(kept, interaction):
    kept.put(content_key("v1", interaction), JUDGEMENT)


def find(kept, interaction, version="v1"):
    return kept.get(content_key(version, interaction), Judgement)


class FixedJudge:
    version = criteria_version = "fixed-1"

    def __init__(self, says):
        self.says = says
        self.asked = 0

    def judge(self, interaction):
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def ask(self, interaction, criteria, fields):
        return self.judge(interaction)

    def close(self):
        pass


def test_cached_verdict_is_returned_whole_at_no_cost(kept):
    interaction = make_interaction()
    keep(kept, interaction)
    found = find(kept, make_interaction(id="another"))
    assert found.claims == (CLAIM,)
    assert (found.relevance, found.cost_usd, found.kept) == (0.5, 0.0, True)


@pytest.mark.parametrize(
    "changed", [{"query": "Else?"}, {"contexts": ["Else."]}, {"output": "Else."}]
)
def test_other_texts_miss_the_verdict_cache(kept, changed):
    keep(kept, make_interaction())
    assert find(kept, make_interaction(**changed)) is None


def test_other_judge_or_prompt_misses_the_verdict_cache(kept):
    keep(kept, make_interaction())
    assert find(kept, make_interaction(), "v2") is None


def test_concurrent_lookups_return_the_right_verdicts(client):
    kept = VerdictCache(client, kept_s=60)
    for number in range(40):
        kept.put(f"key-{number}", replace(JUDGEMENT, input_tokens=number))

    def look_up(number):
        found = kept.get(f"key-{number}", Judgement)
        return found and found.input_tokens

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(look_up, [*range(50)] * 5))
    assert found == [*range(40), *[None] * 10] * 5


def test_cache_lookups_share_one_wait_for_an_unresponsive_redis():
    with socket.create_server(("127.0.0.1", 0)) as mute, ThreadPoolExecutor(8) as pool:
        url = f"redis://127.0.0.1:{mute.getsockname()[1]}/0"
        with redis.Redis.from_url(url, socket_timeout=0.3, retry=None) as nobody:
            kept, asked = VerdictCache(nobody, kept_s=60), []
            nobody.mget = lambda keys, ask=nobody.mget: asked.append(len(keys)) or ask(keys)
            looks = [pool.submit(kept.get, str(number), Judgement) for number in range(8)]
            assert all(isinstance(look.exception(), QueueUnavailableError) for look in looks)
    assert sum(asked) == 8
    assert len(asked) < 8


def test_verdict_cache_is_bounded(kept, client):
    for number in range(5):
        keep(kept, make_interaction(query=f"{number}?"))
    assert client.zcard(names.VERDICTS) == 3
    assert len(client.keys(names.verdict("*"))) == 3


def test_verdict_of_a_version_that_said_less_of_claims_is_asked_for_again(kept, client):
    claim = {"text": "It is so.", "verdict": "supported", "support": 1.0}
    packed = zlib.compress(json.dumps({"claims": [claim]}).encode())
    client.set(names.verdict(content_key("v1", make_interaction())), packed)
    assert find(kept, make_interaction()) is None


def test_cache_entry_of_another_program_is_ignored(kept, client):
    keep(kept, make_interaction())
    (key,) = client.keys(names.verdict("*"))
    client.set(key, b"garbage")
    assert find(kept, make_interaction()) is None


def test_judge_is_called_once_for_the_same_texts(kept):
    inner = FixedJudge(JUDGEMENT)
    judge = LimitedJudge(inner, Concurrency(4), SharedLimits(cache=kept))
    for _ in range(3):
        judge.judge(make_interaction())
    assert inner.asked == 1


SCORED = Criterion("score", "How good is it?")
LISTED = Criterion("listed", "Which sentences?", Form.SENTENCES)
REPLY = Reply(
    answers=Answers(
        by_name={
            "score": CriterionAnswer(score=0.5, reasoning="So.", suggestions=("Do.",)),
            "listed": CriterionAnswer(numbers=(1,), texts=("What?",)),
        },
        sentences=("It is so.",),
        passages=1,
        reference=(),
    ),
    duration_ms=5.0,
    cost_usd=0.25,
    details={"model": "m"},
)
QUESTION = {"criteria": (SCORED, LISTED), "fields": frozenset({"output"})}


def test_cache_miss_is_not_looked_up_again_before_the_call(client):
    def looks():
        return client.info("commandstats").get("cmdstat_mget", {"calls": 0})["calls"]

    kept, inner = VerdictCache(client, kept_s=60), FixedJudge(JUDGEMENT)
    judge = LimitedJudge(inner, Concurrency(4), SharedLimits(cache=kept))
    new = [make_interaction(query=f"{number}?") for number in range(4)]
    before = looks()
    assert judge.kept(new) == [None] * 4
    for interaction in new:
        judge.judge(interaction)
    assert (looks() - before, inner.asked) == (1, 4)
    # What has been judged since is found, also where a batch had found it missing.
    other = VerdictCache(client, kept_s=60)
    assert other.get_all([content_key("fixed-1", make_interaction(query="new"))], Judgement) == [
        None
    ]
    judge = LimitedJudge(inner, Concurrency(4), SharedLimits(cache=other))
    for _ in range(3):
        judge.judge(make_interaction(query="new"))
    assert inner.asked == 5


def test_reply_with_an_invalid_answer_is_not_cached(kept):
    kept.put("right", REPLY)
    kept.put("wrong", replace(REPLY, answers=replace(REPLY.answers, wrong={"score": "too high"})))
    assert kept.get("right", Reply).answers == REPLY.answers
    assert kept.get("wrong", Reply) is None


def asked_twice(kept, interaction=None, **question):
    """Ask a question twice, the second time as told; give what came and how many were asked."""
    inner = FixedJudge(REPLY)
    asker = LimitedJudge(inner, Concurrency(4), SharedLimits(cache=kept))
    asker.ask(make_interaction(), **QUESTION)
    made = asker.ask(interaction or make_interaction(id="another"), **(QUESTION | question))
    return made, inner.asked


def test_cached_answers_are_returned_whole_at_no_cost(kept):
    found, asked = asked_twice(kept)
    assert asked == 1
    assert found.answers == REPLY.answers
    assert (found.cost_usd, found.details) == (0.0, {"model": "m", "kept_verdict": True})


@pytest.mark.parametrize(
    "changed",
    [
        {"criteria": (SCORED,)},
        {"criteria": (SCORED, Criterion("listed", "Which of them?", Form.SENTENCES))},
        {"fields": frozenset({"output", "query"})},
        {"interaction": make_interaction(output="Else.")},
        {"interaction": make_interaction(expected={"answer": "Else."})},
    ],
)
def test_other_questions_or_texts_miss_the_answer_cache(kept, changed):
    assert asked_twice(kept, **changed)[1] == 2


def test_judge_and_question_asker_share_their_outage_state(client):
    limits = Concurrency(4), SharedLimits(breaker=CircuitBreaker(client, "e"))
    asker = LimitedJudge(FixedJudge(JudgeOutageError("no key")), *limits)
    with pytest.raises(JudgeOutageError):
        asker.ask(make_interaction(), **QUESTION)
    judge = FixedJudge(JUDGEMENT)
    with pytest.raises(JudgeOutageError, match="no key"):
        LimitedJudge(judge, *limits).judge(make_interaction())
    assert judge.asked == 0


def test_outage_found_by_one_process_stops_calls_from_all(client):
    breaker = CircuitBreaker(client, "e")
    first = FixedJudge(JudgeOutageError("no key", retry_after_s=30.0))
    second = FixedJudge(JUDGEMENT)
    with pytest.raises(JudgeOutageError):
        LimitedJudge(first, Concurrency(4), SharedLimits(breaker=breaker)).judge(make_interaction())
    with pytest.raises(JudgeOutageError, match="no key"):
        LimitedJudge(second, Concurrency(4), SharedLimits(breaker=breaker)).judge(
            make_interaction()
        )
    assert second.asked == 0
    assert 20 < breaker.outage().for_s <= 30


def test_judge_is_called_again_once_the_pause_is_over(client):
    breaker = CircuitBreaker(client, "e")
    breaker.open(JudgeOutageError("no key"))
    client.pexpire(names.judge_away("e"), 1)
    time.sleep(0.01)
    inner = FixedJudge(JUDGEMENT)
    LimitedJudge(inner, Concurrency(4), SharedLimits(breaker=breaker)).judge(make_interaction())
    assert inner.asked == 1


def test_endpoint_that_reports_no_limits_is_not_paced(client):
    pace = RateLimiter(client, "e")
    pace.learn({"content-type": "text/html"})
    assert pace.wait_s(1_000_000) == 0


def test_last_request_of_a_rate_limit_is_taken_once_across_processes(client):
    RateLimiter(client, "e").learn(
        {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "1",
         "x-ratelimit-reset-requests": "59s"}
    )  # fmt: skip
    assert RateLimiter(client, "e").wait_s(10) == 0
    assert 0.5 < RateLimiter(client, "e").wait_s(10) <= 1.1


def test_tokens_are_rate_limited_too(client):
    pace = RateLimiter(client, "e")
    pace.learn(
        {"x-ratelimit-limit-tokens": "60000", "x-ratelimit-remaining-tokens": "0",
         "x-ratelimit-reset-tokens": "1m0s"}
    )  # fmt: skip
    assert 1.5 < pace.wait_s(2_000) <= 2.1


def test_call_larger_than_the_limit_is_granted_when_the_bucket_is_full(client):
    pace = RateLimiter(client, "e")
    pace.learn({"x-ratelimit-limit-tokens": "100", "x-ratelimit-remaining-tokens": "100"})
    assert pace.wait_s(5_000) == 0


def test_pause_requested_of_one_process_applies_to_all(client):
    RateLimiter(client, "e").learn({}, pause_s=5.0)
    assert 4 < RateLimiter(client, "e").wait_s(1) <= 5
    assert RateLimiter(client, "other").wait_s(1) == 0


@pytest.mark.parametrize("reset", ["{s}", "{ms}", "{iso}", "30s", "30", "0m30s"])
def test_rate_limit_reset_is_read_in_every_notation(client, reset):
    now = datetime(2026, 11, 22, 8, tzinfo=UTC)
    end = now + timedelta(seconds=30)
    s = int(end.timestamp())
    RateLimiter(client, "e").learn(
        {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0",
         "x-ratelimit-reset-requests": reset.format(s=s, ms=1000 * s, iso=f"{end:%FT%TZ}"),
         "date": format_datetime(now, usegmt=True)}
    )  # fmt: skip
    assert 0.4 < RateLimiter(client, "e").wait_s(1) <= 0.6


def test_limits_are_read_from_anthropic_headers(client):
    before_s = time.monotonic()
    RateLimiter(client, "e").learn(
        {"anthropic-ratelimit-requests-limit": "60", "anthropic-ratelimit-requests-remaining": "0",
         "anthropic-ratelimit-requests-reset": "2026-11-22T08:01:00Z",
         "date": "Sun, 22 Nov 2026 08:00:00 GMT"}
    )  # fmt: skip
    wait_s = RateLimiter(client, "e").wait_s(1)
    assert wait_s + (time.monotonic() - before_s) > 0.9
    assert wait_s <= 1.1


def test_a_second_of_calls_takes_few_redis_round_trips(client):
    pace, breaker = RateLimiter(client, "e"), CircuitBreaker(client, "e")
    client.config_resetstat()
    assert [pace.wait_s(1_000) for _ in range(50)] == [0.0] * 50
    assert [breaker.outage(fresh_s=60) for _ in range(50)] == [None] * 50
    commands = client.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] < 25  # once a second
    assert commands["cmdstat_pttl"]["calls"] == 1


def test_calls_reserved_in_batches_count_against_the_shared_limit(client):
    limits = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "9"}
    RateLimiter(client, "e").learn(limits)
    first, second = RateLimiter(client, "e"), RateLimiter(client, "e")
    first._calls_before = 6  # as many as it made in the second before
    assert [first.wait_s(1) for _ in range(5)] == [0.0] * 5
    granted = sum(second.wait_s(1) == 0 for _ in range(9))
    assert 3 <= granted <= 5  # what the first one holds is taken


def test_too_long_a_wait_is_never_started(client):
    pace = RateLimiter(client, "e")
    pace.learn({}, pause_s=5.0)
    assert not pace.wait(1, longest_s=0.1)


def test_slots_halve_when_the_judge_is_overloaded():
    concurrency = Concurrency(50)
    judge = LimitedJudge(FixedJudge(JudgeUnavailableError("late")), concurrency)
    for _ in range(5):  # at once, so one piece of news
        with pytest.raises(JudgeUnavailableError):
            judge.judge(make_interaction())
    assert concurrency.limit == 12


def test_slots_never_fall_below_one():
    concurrency = Concurrency(1)
    concurrency.shrink()
    assert concurrency.limit == 1


def test_unused_slots_do_not_grow():
    concurrency = Concurrency(50)
    for _ in range(100):
        concurrency.grow()
    assert concurrency.limit == 25


class SlowJudge(JudgeServer):
    """Counts how many requests are with it at once."""

    def __init__(self, most):
        super().__init__()
        self.at_once = self.most_at_once = 0
        self.patience_s = 0.3
        self._most = most
        self._all_there = threading.Event()
        self._gate = threading.Lock()

    def take(self, request):
        with self._gate:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self.at_once == self._most:
                self._all_there.set()
        self._all_there.wait(self.patience_s)
        with self._gate:
            self.at_once -= 1
        return super().take(request)


def test_one_process_runs_fifty_concurrent_calls(client):
    with SlowJudge(50) as server:
        settings = Settings(scorer="judge", openai_base_url=server.url, judge_concurrency=50)
        scorer = make_scorer(settings, client=client)
        with ThreadPoolExecutor(scorer.concurrency) as pool:
            scores = []
            while len(scores) < 2000 and server.most_at_once < 50:
                asked = [make_interaction(query=f"{len(scores) + n}?") for n in range(100)]
                scores += [e.score for found in pool.map(scorer.score, asked) for e in found]
                server.patience_s = 2.0  # a busy machine needs longer
        scorer.close()
    assert server.most_at_once == 50
    assert None not in scores


def test_metric_questions_start_with_limited_concurrency(client):
    with SlowJudge(16) as server:
        settings = Settings(
            scorer="judge", openai_base_url=server.url, judge_concurrency=16, metrics=("bias",)
        )
        scorer = make_scorer(settings, client=client)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(scorer.score, [make_interaction(query=f"{n}?") for n in range(16)]))
        scorer.close()
    assert server.most_at_once < 16  # 8, and one more for each that went well


def test_sample_that_waits_too_long_for_a_slot_is_returned():
    concurrency = Concurrency(1)
    concurrency.take()
    judge = LimitedJudge(FixedJudge(JUDGEMENT), concurrency, longest_wait_s=0.01)
    with pytest.raises(JudgeOutageError, match="Judge concurrency limit reached"):
        judge.judge(make_interaction())
    concurrency.give_back()
    assert judge.judge(make_interaction()) == JUDGEMENT

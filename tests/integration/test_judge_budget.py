"""The judge's budget: no number of workers exceeds it, whatever fails."""

import asyncio
import json
import multiprocessing
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from monitor.errors import (
    BudgetReachedError,
    JudgeError,
    JudgeOutageError,
    JudgeRateLimitedError,
    JudgeRefusedError,
    JudgeReplyError,
    JudgeUnavailableError,
    SettingsError,
)
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.scoring.judges.openai_client import RetryPolicy
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.judges.prices import Price, Prices
from monitor.scoring.limits.budget import Budget, Cap, JudgeBusyError, microusd_up
from monitor.scoring.limits.limiter import SharedLimits
from monitor.scoring.limits.meter import Meter, most_tokens
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction
from support.judge_replies import completion, judge_by_overlap
from support.judge_server import JudgeServer

PRICES = Prices(100.0, 400.0)
CAP = 60_000_000
#: Errors after which the next call may succeed.
PASSING = (JudgeUnavailableError, JudgeRateLimitedError, JudgeRefusedError, JudgeReplyError)


@pytest.fixture
def client(redis_url):
    with connect(redis_url) as client:
        yield client


@pytest.fixture
def budget(client):
    return Budget(client, [Cap("hour", 1_000), Cap("day", 1_500)])


def charged(budget):
    return [charge.charged_microusd for charge in budget.charges()]


def held(client):
    return sum(key != b"usual" for key in client.hkeys(names.BUDGET_HELD))


def price(*tokens):
    return PRICES.cost_usd("m", *tokens)


def test_reservation_is_charged_to_every_period(budget):
    budget.reserve(400)
    assert charged(budget) == [400, 400]


def test_unspent_reservation_is_released(budget):
    budget.settle(budget.reserve(400), 150)
    assert charged(budget) == [150, 150]


@pytest.mark.parametrize(
    "told",
    [{"prompt_tokens_details": {"cached_tokens": 800}}, {"prompt_cache_hit_tokens": 800}],
)
def test_cached_input_is_charged_at_its_own_price(client, told):
    budget = Budget(client, [Cap("hour", CAP)])
    prices = Prices(own={"m": Price(input=100.0, cached=10.0, output=400.0)})
    meter = Meter(budget=budget, price=partial(prices.cost_usd, "m"))
    usage = {"prompt_tokens": 1_000, "completion_tokens": 50} | told

    async def attempt():
        async with meter.attempt({"messages": []}) as seen:
            seen.body = json.dumps({"usage": usage}).encode()

    asyncio.run(attempt())
    assert charged(budget) == [200 * 100 + 800 * 10 + 50 * 400]


def test_settling_twice_charges_once(budget):
    reservation = budget.reserve(400)
    for _ in range(2):
        budget.settle(reservation, 150)
    assert charged(budget) == [150, 150]


def test_reserved_budget_is_busy_and_not_reached(budget):
    budget.reserve(900)
    with pytest.raises(JudgeBusyError, match=r"\$0\.00 an hour is reserved"):
        budget.reserve(200)
    assert not any(charge.reached for charge in budget.charges())


def test_spent_budget_is_reached_for_every_process(budget, client):
    budget.settle(budget.reserve(900), 900)
    with pytest.raises(BudgetReachedError):
        budget.reserve(200)
    other = Budget(client, [Cap("hour", 1_000), Cap("day", 1_500)])
    assert [charge.reached for charge in other.charges()] == [True, False]
    assert charged(budget) == [900, 900]


@pytest.mark.parametrize(("usd", "is_reached"), [(1_000, True), (900, True), (5_000, False)])
def test_raised_cap_is_no_longer_reached(budget, client, usd, is_reached):
    budget.settle(budget.reserve(100), 950)
    with pytest.raises(BudgetReachedError):
        budget.reserve(100)
    later = Budget(client, [Cap("hour", usd), Cap("day", 9_000)])
    assert later.charges()[0].reached == is_reached


def test_cap_below_the_price_of_any_call_is_reached(budget):
    with pytest.raises(BudgetReachedError):
        budget.reserve(5_000)
    assert [charge.reached for charge in budget.charges()] == [True, False]


def test_one_call_that_is_too_large_does_not_end_the_period(budget):
    budget.reserve(10)
    with pytest.raises(BudgetReachedError):
        budget.reserve(5_000)
    assert not any(charge.reached for charge in budget.charges())


def test_reservation_of_a_dead_worker_stays_charged(budget, client):
    budget.reserve(900)
    (name,) = (key for key in client.hkeys(names.BUDGET_HELD) if key != b"usual")
    client.hset(names.BUDGET_HELD, name, "900:1")  # it should have ended long ago
    with pytest.raises(BudgetReachedError):
        budget.reserve(200)
    assert held(client) == 0


@pytest.mark.parametrize("timeout_s", [30.0, 300.0, 1_800.5])
def test_reservation_lasts_as_long_as_the_settings_let_a_call_take(client, timeout_s):
    settings = Settings(judge_timeout_s=timeout_s, budget_usd_per_hour=1.0)
    budget = SharedLimits.from_settings(settings, client, price).budget
    now_s = client.time()[0]
    slow = budget.reserve(900_000)
    till_s = int(client.hget(names.BUDGET_HELD, slow.reservation_id).split(b":")[1])
    assert till_s - now_s >= timeout_s + 60

    # The worker whose call ends just in time gets back what it did not spend.
    client.hset(names.BUDGET_HELD, slow.reservation_id, f"900000:{till_s - int(timeout_s)}")
    with pytest.raises(JudgeBusyError):
        budget.reserve(200_000)
    budget.settle(slow, 100)
    assert charged(budget) == [100]


def test_new_period_starts_with_nothing_charged(budget, client):
    budget.settle(budget.reserve(900), 900)
    client.hincrby(names.budget("hour"), "period", -1)
    assert charged(budget) == [0, 900]
    budget.reserve(100)
    assert charged(budget) == [100, 1_000]


def test_late_settlement_does_not_affect_the_new_period(budget, client):
    reservation = budget.reserve(900)
    client.hset(names.budget("hour"), mapping={"period": 10**9, "charged": 7})
    budget.settle(reservation, 100)
    assert client.hget(names.budget("hour"), "charged") == b"7"


@pytest.mark.parametrize(("usd", "microusd"), [(0.000001, 1), (0.0000011, 2), (1.25, 1_250_000)])
def test_money_is_rounded_up(usd, microusd):
    assert microusd_up(usd) == microusd


def test_request_tokens_are_bounded_by_its_bytes():
    request = {"messages": [{"content": "né"}, {"content": "abc"}], "max_tokens": 7}
    assert most_tokens(request) == (3 + 3 + 4 + 1_000, 7)


def test_actual_cost_of_a_call_is_charged(client):
    budget = Budget(client, [Cap("hour", CAP)])
    with JudgeServer() as server:
        judge = judge_for(server, budget)
        judgement = judge.judge(make_interaction())
        judge.close()
    assert charged(budget) == [microusd_up(judgement.cost_usd)]


@pytest.mark.parametrize(
    ("fault", "charges"),
    [("503", False), ("504", True), ("error_in_200", True), ("reset", True), ("hang", True)],
)
def test_failure_is_charged_unless_the_endpoint_refused(fault, charges, client):
    budget = Budget(client, [Cap("hour", CAP)])
    with JudgeServer(always=fault) as server:
        judge = judge_for(server, budget, timeout_s=0.4 if fault == "hang" else 30.0)
        with pytest.raises(JudgeError):
            judge.judge(make_interaction())
        judge.close()
    assert (charged(budget)[0] > 0) is charges
    assert held(client) == 0


def test_answer_without_a_token_count_is_charged_by_its_length(client):
    charges = {}
    for behaviour in ("ok", "no_usage", "hang"):
        client.flushdb()
        budget = Budget(client, [Cap("hour", CAP)])
        with JudgeServer(always=behaviour) as server:
            judge = judge_for(server, budget, timeout_s=0.4 if behaviour == "hang" else 30.0)
            with suppress(JudgeError):
                judge.judge(make_interaction())
            judge.close()
            charges[behaviour] = charged(budget)[0] / len(server.requests)
    assert charges["ok"] < charges["no_usage"] < charges["hang"] / 2


def test_judge_is_not_called_when_the_budget_is_reached(client):
    budget = Budget(client, [Cap("hour", 10)])
    with JudgeServer() as server:
        judge = judge_for(server, budget)
        with pytest.raises(BudgetReachedError):
            judge.judge(make_interaction())
        judge.close()
        assert server.requests == []


def test_judge_is_not_called_when_the_budget_cannot_be_read():
    budget = Budget(redis.Redis(port=9, retry=Retry(NoBackoff(), 0)), [Cap("hour", CAP)])

    async def ask():
        async with Meter(budget=budget, price=price).attempt({}):
            raise AssertionError

    with pytest.raises(JudgeOutageError, match="Redis"):
        asyncio.run(ask())


def test_call_abandoned_before_it_starts_costs_nothing(client):
    budget = SlowBudget(client, [Cap("hour", CAP)])

    async def ask():
        async with (
            asyncio.timeout(0.05),
            Meter(budget=budget, price=price).attempt({"max_tokens": 9}),
        ):
            raise AssertionError

    async def ask_and_stay():
        with pytest.raises(TimeoutError):
            await ask()
        budget.given_up.set()
        while not budget.reserved.is_set() or held(client):
            await asyncio.sleep(0.01)

    asyncio.run(ask_and_stay())
    assert (charged(budget), held(client)) == ([0], 0)


class SlowBudget(Budget):
    """Reserves, and answers when the caller has given up."""

    def __init__(self, *of):
        super().__init__(*of)
        self.reserved, self.given_up = threading.Event(), threading.Event()

    def reserve(self, *microusd):
        made = super().reserve(*microusd)
        self.reserved.set()
        assert self.given_up.wait(100)
        return made


def test_budget_needs_a_price(client):
    settings = Settings(
        scorer="judge", openai_base_url="http://localhost:1/v1", judge_model="ours",
        budget_usd_per_day=5,
    )  # fmt: skip
    with pytest.raises(SettingsError, match="JUDGE_USD_PER_MILLION_INPUT_TOKENS"):
        make_scorer(settings, client=client)


def test_budget_needs_a_redis():
    settings = Settings(
        scorer="judge", openai_base_url="http://localhost:1/v1", budget_usd_per_day=5
    )
    with pytest.raises(SettingsError, match="Redis"):
        make_scorer(settings)


def judge_for(server, budget, timeout_s=30.0):
    return OpenAIJudge(
        "gpt-4.1-mini",
        base_url=server.url,
        policy=RetryPolicy(attempts=3, timeout_s=timeout_s, backoff_s=0.001),
        prices=PRICES,
        meter=Meter(budget=budget, price=price),
    )


class Vendor(JudgeServer):
    """Bills every request that it works on, also those whose answer never arrives."""

    def __init__(self, *behaviours):
        super().__init__()
        self.behaviours = behaviours
        self.billed_microusd = 0.0
        self._chance = random.Random(5)
        self._till = threading.Lock()

    def take(self, request):
        super().take(request)
        time.sleep(0.01)
        with self._till:
            behaviour = self._chance.choice(self.behaviours)
            if behaviour not in {"503", "429"}:
                reply = completion(json.dumps(judge_by_overlap(request)), request, "m")
                used = reply["usage"]
                cost_usd = price(used["prompt_tokens"], used["completion_tokens"])
                self.billed_microusd += cost_usd * 1e6
        return behaviour


def spend_all(url, server_url, told):
    """Be one worker: ask from four threads until the budget is reached."""
    with connect(url) as client:
        budget = Budget(client, [Cap("day", CAP)])
        server = type("Server", (), {"url": server_url})
        judge = judge_for(server, budget, timeout_s=0.4)  # some requests hang

        def ask(number):
            for turn in range(60):
                try:
                    judge.judge(make_interaction(query=f"{number} {turn}?"))
                except BudgetReachedError:
                    return 1
                except JudgeError:
                    continue
            return 0

        with ThreadPoolExecutor(4) as pool:
            told.put(sum(pool.map(ask, range(4))))
        judge.close()


def test_eight_racing_workers_never_exceed_the_cap(redis_url, client):
    spawn = multiprocessing.get_context("fork")
    told = spawn.Queue()
    with Vendor("ok", "ok", "malformed", "reset", "hang", "503", "429") as vendor:
        workers = [
            spawn.Process(target=spend_all, args=(redis_url, vendor.url, told)) for _ in range(8)
        ]
        for worker in workers:
            worker.start()
        stopped = sum(told.get(timeout=200) for _ in workers)
        for worker in workers:
            worker.join()
    spent = charged(Budget(client, [Cap("day", CAP)]))[0]
    assert stopped == 32
    assert 0 < vendor.billed_microusd <= spent <= CAP
    assert spent > 0.7 * CAP


@pytest.mark.parametrize("policy", ["stop", "local"])
@pytest.mark.parametrize("metric", ["groundedness", "bias"])
def test_cost_paid_before_the_budget_was_reached_is_recorded(client, policy, metric):
    with JudgeServer() as server:
        settings = Settings(
            scorer="judge", openai_base_url=server.url, budget_policy=policy, metrics=(metric,),
            judge_attempts=2, judge_usd_per_million_input_tokens=0.0,
            judge_usd_per_million_output_tokens=1.0, budget_usd_per_hour=0.00221,
        )  # fmt: skip
        server.script(["malformed"])  # paid for, and the next one is too dear
        with closing(make_scorer(settings, client=client)) as scorer:
            [found] = scorer.score(make_interaction(), key="k")
        assert len(server.requests) == 1
    [charge] = Budget(client, [Cap("hour", 2_210)]).charges()
    assert found.cost_usd == pytest.approx(charge.charged_microusd / 1e6, abs=1e-6)
    assert found.cost_usd > 0


MISHAPS = "ok", "refusal", "null", "empty_choices", "malformed", "content_filter", "503"


@pytest.mark.parametrize(
    ("behaviours", "cap", "in_flight"),
    [
        (("ok",), 10_000_000, 1),
        (MISHAPS, 10_000_000, 1),
        (("ok", "ok", "no_usage", "error_in_200", "html", "503"), 20_000_000, 1),
        (("ok",), 4_000_000, 10),  # three times the worst price of a call
        (MISHAPS, 4_000_000, 1),
        (MISHAPS, 4_000_000, 10),
    ],
)
def test_at_least_nine_tenths_of_a_cap_are_spent_before_it_stops(
    behaviours, cap, in_flight, client
):
    budget = Budget(client, [Cap("day", cap)])
    with Vendor(*behaviours) as vendor:
        judge = judge_for(vendor, budget, timeout_s=30.0)

        def ask(number):
            for turn in range(2_000):
                try:
                    judge.judge(make_interaction(query=f"{number} {turn}?"))
                except BudgetReachedError:
                    return
                except (JudgeBusyError, *PASSING):
                    continue

        with ThreadPoolExecutor(in_flight) as pool:
            list(pool.map(ask, range(in_flight)))
        judge.close()
    assert vendor.billed_microusd <= charged(budget)[0] <= cap
    assert vendor.billed_microusd >= 0.9 * cap


def test_answers_are_limited_by_past_lengths_only_when_money_is_short(client):
    with JudgeServer() as server:
        limits = {}
        for cap in (CAP, 4_000_000):
            client.flushdb()
            judge = judge_for(server, Budget(client, [Cap("day", cap)]))
            server.requests.clear()
            for turn in range(12):
                judge.judge(make_interaction(query=f"{turn}?"))
            judge.close()
            limits[cap] = [request["max_tokens"] for request in server.requests]
        used = completion(json.dumps(judge_by_overlap(server.requests[0])), {}, "m")["usage"]
    assert limits[CAP] == [2_200] * 12
    assert limits[4_000_000][:10] == [2_200] * 10
    assert all(
        used["completion_tokens"] < limit < 3 * used["completion_tokens"]
        for limit in limits[4_000_000][10:]
    )


@pytest.mark.parametrize(("counted", "limit"), [((250, 20), 40), ((0, 20), 100), ((250, 0), 100)])
def test_implausible_token_counts_do_not_limit_answers(counted, limit, client):
    meter = Meter(budget=Budget(client, [Cap("day", CAP)]), price=lambda *tokens: tokens[1] * 0.1)
    request = {"messages": [{"content": "a" * 900}, {"content": "b" * 90}], "max_tokens": 100}
    usage = dict(zip(("prompt_tokens", "completion_tokens"), counted, strict=True))

    async def sent():
        for _ in range(11):
            async with meter.attempt(request) as attempt:
                attempt.body = json.dumps({"usage": usage}).encode()
        return attempt.request["max_tokens"]

    assert asyncio.run(sent()) == limit

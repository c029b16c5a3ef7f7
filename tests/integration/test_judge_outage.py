"""A judge that is away costs no sample: they wait, the monitor says so, and they are scored."""

from datetime import UTC, datetime

import pytest

from alerts.conditions import SELF
from monitor.cli.doctor import check_redis
from monitor.models import Status
from monitor.queue import names
from monitor.queue.wire import encode
from monitor.scoring.limits.budget import Budget, Cap
from monitor.scoring.limits.limiter import endpoint_name
from monitor.scoring.limits.rate import CircuitBreaker
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.verdicts import read_verdicts
from monitor.testing import make_interaction, make_sample
from support.judge_server import JudgeServer
from workers.context import Components
from workers.evaluate import Evaluator
from workers.self_monitoring import JudgeState, JudgeWatch, QueueWatch, VitalsReader

APP = "support-bot"


@pytest.fixture
def server():
    with JudgeServer() as running:
        yield running


@pytest.fixture
def make_context(redis_url, sqlite_url, server):
    made = []

    def make(**settings):
        fields = {
            "redis_url": redis_url, "database_url": sqlite_url, "abandoned_after_s": 0.001,
            "scorer": "judge", "openai_base_url": server.url, "judge_attempts": 1,
        }  # fmt: skip
        made.append(Components(Settings.model_validate(fields | settings)))
        return made[-1]

    yield make
    for context in made:
        context.close()


def put(context, count):
    for number in range(count):
        sample = make_sample(make_interaction(query=f"How long does refund {number} take?"))
        context.redis.xadd(names.SAMPLES, encode(sample))


def run(context):
    drain = context.scoring_run(lambda: True)
    drain.idle_after_s = 0.1
    return drain.run(budget_s=20)


def run_dry(context):
    """Run until the queue is empty: who finds the rest of a budget held gives the sample back."""
    scored = 0
    for _ in range(50):
        scored += run(context)
        if not context.redis.xlen(names.SAMPLES):
            break
    return scored


def totals(context):
    with context.store.read() as connection:
        return read_totals(connection, APP).get(APP, {})


def ill(context):
    """Read what is wrong with the monitor as a whole."""
    reader = VitalsReader(
        store=context.store,
        settings=context.settings,
        queue=QueueWatch(context.redis),
        judge=JudgeWatch.make(context.settings, context.redis).look,
    )
    found = reader(datetime.now(UTC))
    return {v.metric: v.reason for v in found if v.app == SELF and v.status is Status.WARNING}


@pytest.mark.parametrize("fault", ["401", "429_long"])
@pytest.mark.parametrize(
    ("scorer", "metric"),
    [("judge", "groundedness"), ("cascade", "groundedness"), ("judge", "answer_relevancy")],
)
def test_samples_wait_until_the_judge_is_back(make_context, server, fault, scorer, metric):
    context = make_context(scorer=scorer, judge_share=1.0, metrics=(metric,))
    put(context, 30)
    server.always = fault
    assert run(context) == 0
    assert (context.redis.xlen(names.SAMPLES), totals(context)) == (30, {})
    assert context.judge_unavailable()
    asked = len(server.requests)
    assert run(context) == 0
    assert len(server.requests) == asked

    server.always = "ok"
    CircuitBreaker(context.redis, endpoint_name(context.settings)).close()
    assert run(context) == 30
    assert totals(context) == {Booking(Kind.SCORED, ""): 30}


def test_blind_monitor_names_the_reason(make_context, server):
    context = make_context()
    put(context, 3)
    server.always = "401"
    run(context)
    found = JudgeWatch.make(context.settings, context.redis).look()
    assert found.trouble.startswith("judge away: the judge's endpoint answered 401")


def test_judge_outage_raises_a_monitor_alert_until_it_ends(make_context, server):
    context = make_context()
    put(context, 3)
    server.always = "401"
    run(context)
    assert "the judge's endpoint answered 401" in ill(context)["monitor:judge_away"]
    CircuitBreaker(context.redis, endpoint_name(context.settings)).close()
    assert "monitor:judge_away" not in ill(context)


def test_doctor_shows_the_judges_answer(make_context, server):
    context = make_context()
    server.always = "401"
    put(context, 1)
    run(context)

    found = {item.what: item for item in check_redis(context.settings)}["judge"]

    assert not found.ok
    assert found.found.startswith("the judge's endpoint answered 401")
    assert found.advice


def test_doctor_warns_when_one_call_takes_much_of_a_budget(make_context):
    context = make_context(budget_usd_per_day=0.01, budget_usd_per_month=1)
    put(context, 1)
    run(context)
    found = [f for f in check_redis(context.settings) if f.what == "judge budget"]
    assert [item.ok for item in found] == [False]
    call = Budget(context.redis, []).usual_microusd()
    assert found[0].found.startswith(
        f"a usual call reserves ${call / 1e6:.4f}, {call / 100:.0f} % of the judge's budget of"
    )
    assert "GROUNDWATCH_BUDGET_USD_PER_DAY" in found[0].found


def test_local_scorer_is_never_blind_for_want_of_a_judge(make_context):
    context = make_context(scorer="local")
    assert not context.judge_unavailable()
    assert JudgeWatch.make(context.settings, context.redis).look() == JudgeState()


@pytest.mark.parametrize(("policy", "status"), [("stop", Status.BLIND), ("local", Status.HEALTHY)])
def test_reached_budget_is_shown_in_every_status(make_context, policy, status):
    context = make_context(budget_usd_per_day=0.01, budget_policy=policy)
    put(context, 70)
    assert run_dry(context) == 70
    budget = Budget(context.redis, [Cap("day", 10_000)])
    assert budget.charges()[0].charged_microusd <= 10_000
    assert budget.charges()[0].reached

    reached = "the judge's budget of $0.01 a day is reached"
    assert reached in ill(context)["monitor:budget_reached"]
    now = datetime.now(UTC)
    found = JudgeWatch.make(context.settings, context.redis).look()
    evaluator = Evaluator(
        store=context.store,
        settings=context.settings,
        recipients=(),
    )
    lease = acquire(context.store, "scheduler", "me", ttl_s=60)
    evaluator.run(lease, now=now, trouble=found.trouble, note=found.note)
    with context.store.read() as connection:
        verdicts = read_verdicts(connection).values()
    assert all("the judge's budget of $0.01 a day is reached" in v.reason for v in verdicts)
    assert all("GROUNDWATCH_BUDGET_USD_PER_DAY raises it" in v.reason for v in verdicts)
    assert {v.status for v in verdicts if v.n >= 30} <= {status}
    assert (Status.BLIND in {v.status for v in verdicts}) is (policy == "stop")


def test_cascade_counts_its_judge_calls_and_their_cost(make_context):
    context = make_context(scorer="cascade", judge_share=0.5, metrics=("groundedness",))
    put(context, 60)
    assert run(context) == 60
    evaluator = Evaluator(
        store=context.store,
        settings=context.settings,
        recipients=(),
    )
    lease = acquire(context.store, "scheduler", "me", ttl_s=60)
    evaluator.run(lease, now=datetime.now(UTC))
    with context.store.read() as connection:
        verdict = next(iter(read_verdicts(connection).values()))
    assert 10 < verdict.n_judged < 50
    assert verdict.n_judged == verdict.n_agreed < verdict.n == 60
    assert verdict.cost_usd > 0
    assert verdict.low < verdict.pass_rate <= verdict.high

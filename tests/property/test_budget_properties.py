"""The budget's books balance, whatever is reserved, settled or forgotten, in any order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import BudgetReachedError
from monitor.queue.consumer import connect
from monitor.scoring.limits.budget import Budget, Cap, JudgeBusyError

CAP = 1_000
steps = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 600)),
        st.tuples(st.just("settle"), st.floats(0, 1)),
        st.tuples(st.just("settle again"), st.floats(0, 1)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def client(redis_server):
    with connect(redis_server.url) as client:
        yield client


@settings(max_examples=60, deadline=None)
@given(steps)
def test_charged_is_what_was_spent_and_what_is_held(client, taken):
    client.flushall()
    budget = Budget(client, [Cap("day", CAP), Cap("month", 10 * CAP)])
    open_, closed, spent = [], [], 0
    for what, amount in taken:
        if what == "reserve":
            held = sum(reservation.microusd for reservation in open_)
            try:
                open_.append(budget.reserve(amount))
            except JudgeBusyError:
                assert spent + held + amount > CAP >= spent + amount
            except BudgetReachedError:
                assert spent + amount > CAP
        elif what == "settle" and open_:
            closed.append(open_.pop(0))
            cost = int(closed[-1].microusd * amount)
            budget.settle(closed[-1], cost)
            spent += cost
        elif closed:
            budget.settle(closed[-1], int(closed[-1].microusd * amount))
        day, month = budget.charges()
        assert day.charged_microusd == month.charged_microusd <= CAP
        assert day.charged_microusd == spent + sum(each.microusd for each in open_)

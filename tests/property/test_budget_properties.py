"""The budget's books balance, whatever is reserved, settled or forgotten, in any order."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from monitor.errors import BudgetReachedError
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.scoring.limits.budget import Budget, Cap, JudgeBusyError

CAP = 1_000
share = st.floats(0, 1)


@pytest.fixture(scope="module")
def client(redis_server):
    with connect(redis_server.url) as client:
        yield client


class Books(RuleBasedStateMachine):
    """A day's cap within a month's, and callers that end well, twice, late or never."""

    client = None

    def __init__(self):
        super().__init__()
        self.client.flushall()
        self.budget = Budget(self.client, [Cap("day", CAP), Cap("month", 10 * CAP)])
        self.open, self.closed, self.spent = [], [], 0

    @property
    def held(self):
        return sum(each.microusd for each in self.open)

    @rule(least=st.integers(0, 600), more=st.integers(0, 300))
    def reserve(self, least, more):
        left = CAP - self.spent
        try:
            made = self.budget.reserve(least + more, least)
        except JudgeBusyError:
            assert left - self.held < least <= left
        except BudgetReachedError:
            assert left < least
            usual = self.budget.usual_microusd()
            assert left >= usual or self.budget.charges()[0].reached
        else:
            plenty = 10 * (least + more) <= left - self.held
            assert made.microusd == (least + more if plenty else least)
            self.open.append(made)

    @rule(part=share)
    def settle(self, part):
        if self.open:
            made = self.open.pop(0)
            self.budget.settle(made, int(made.microusd * part))
            self.spent += int(made.microusd * part)
            self.closed.append(made)

    @rule(part=share)
    def settle_again(self, part):
        if self.closed:
            self.budget.settle(self.closed[-1], int(self.closed[-1].microusd * part))

    @rule()
    def die(self):
        """Lose a caller: what it reserved is spent in doubt, once its time is over."""
        if self.open:
            made = self.open.pop()
            self.client.hset(names.BUDGET_HELD, made.reservation_id, f"{made.microusd}:1")
            self.spent += made.microusd

    @invariant()
    def charged_is_what_was_spent_and_what_is_held(self):
        day, month = self.budget.charges()
        assert day.charged_microusd == month.charged_microusd == self.spent + self.held <= CAP

    @invariant()
    def day_ends_only_for_want_of_money(self):
        if self.budget.charges()[0].reached:
            # All that is spent never comes back, and calls need more than what is left.
            assert self.spent > CAP - 600


def test_budget_ledger_balances_and_the_cap_is_used_up(client):
    machine = type("Books", (Books,), {"client": client})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=25, deadline=None)
    )

"""A channel without explanations is otherwise the channel that it was."""

import pytest

from alerts.channels.base import WithoutExplanations, takes_digests
from alerts.channels.pagerduty import PagerDutyChannel
from alerts.channels.plain_text import ConsoleChannel


@pytest.mark.parametrize("kind", [PagerDutyChannel, ConsoleChannel])
def test_it_takes_digests_as_the_channel_does(kind):
    inner = object.__new__(kind)
    assert takes_digests(WithoutExplanations(inner)) == takes_digests(inner)

"""Names of apps on the wire: a terminal and a page show them, so none holds a control character."""

import pytest

from monitor.errors import RecordError
from monitor.queue import names
from monitor.queue.wire import decode
from monitor.testing import make_interaction, make_sample


def fields(app):
    body = make_sample(make_interaction(app=app)).model_dump_json().encode()
    return {names.FIELD_VERSION.encode(): b"1", names.FIELD_BODY.encode(): body}


@pytest.mark.parametrize("app", ["shop\x7f", "shop\x85", "\x9b31mshop"])
def test_name_with_a_control_character_is_refused(app):
    with pytest.raises(RecordError, match="app's name must not contain control characters"):
        decode(fields(app))


@pytest.mark.parametrize("app", ["shop", "größe", "店", "a b\u00a0c"])
def test_valid_app_names_are_decoded(app):
    assert decode(fields(app)).interaction.app == app

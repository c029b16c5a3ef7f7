"""The trace's id is read from a W3C header, and only from a valid one."""

import pytest

from monitor.integrations.wsgi import trace_id_in

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header", [f"00-{TRACE}-{SPAN}-01", f" 00-{TRACE}-{SPAN}-00 ", f"cc-{TRACE}-{SPAN}-01-later"]
)
def test_valid_header_has_an_id(header):
    assert trace_id_in(header) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        None, "", "nonsense", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE[:-1]}-{SPAN}-01", f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01x", "0" * 1_000_000,
    ],
)  # fmt: skip
def test_invalid_header_has_none(header):
    assert trace_id_in(header) is None

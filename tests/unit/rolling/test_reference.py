"""The reference is made of the times at which all was well."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.models import Status
from monitor.rolling.reference import Began, Span, well_spans


def spans(*changes):
    began = [Began(at_s, status) for at_s, status in changes]
    return well_spans(began, from_s=100, to_s=200)


def test_without_changes_all_of_it_counts():
    assert spans() == [Span(100, 200)]


def test_incident_is_cut_out():
    found = spans((120, Status.WARNING), (130, Status.CRITICAL), (150, Status.HEALTHY))
    assert found == [Span(100, 120), Span(150, 200)]


def test_incident_that_goes_on_ends_the_reference():
    assert spans((150, Status.CRITICAL)) == [Span(100, 150)]


def test_incident_that_began_before_is_cut_out():
    assert spans((50, Status.CRITICAL), (160, Status.HEALTHY)) == [Span(160, 200)]


def test_too_little_data_is_no_incident():
    assert spans((150, Status.INSUFFICIENT_DATA)) == [Span(100, 200)]


def test_nothing_is_left_when_nothing_was_well():
    assert spans((10, Status.CRITICAL)) == []


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(list(Status)))))
def test_spans_are_in_order_and_inside(changes):
    found = spans(*sorted(changes, key=lambda change: change[0]))
    edges = [edge for span in found for edge in span]
    assert edges == sorted(edges)
    assert all(100 <= edge <= 200 for edge in edges)

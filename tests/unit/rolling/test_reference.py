"""The reference is made of the times at which all was well."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.models import Status
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.verdicts import Began, well_spans


def spans(*changes):
    began = [Began(*change) for change in changes]
    return well_spans(began, from_s=100, to_s=200)


def test_whole_reference_counts_without_status_changes():
    assert spans() == [ReferenceSpan(100, 200)]


def test_incident_is_cut_out():
    found = spans((120, Status.WARNING), (130, Status.CRITICAL), (150, Status.HEALTHY))
    assert found == [ReferenceSpan(100, 120), ReferenceSpan(150, 200)]


def test_ongoing_incident_ends_the_reference():
    assert spans((150, Status.CRITICAL)) == [ReferenceSpan(100, 150)]


def test_incident_that_began_before_the_reference_is_cut_out():
    assert spans((50, Status.CRITICAL), (160, Status.HEALTHY)) == [ReferenceSpan(160, 200)]


def test_insufficient_data_is_not_cut_out_as_an_incident():
    assert spans((150, Status.INSUFFICIENT_DATA)) == [ReferenceSpan(100, 200)]


def test_reference_is_empty_when_nothing_was_healthy():
    assert spans((10, Status.CRITICAL)) == []


def test_incident_is_cut_out_from_its_onset_on():
    began = [Began(150, Status.WARNING, 130), Began(170, Status.HEALTHY)]
    assert well_spans(began, from_s=100, to_s=200) == [
        ReferenceSpan(100, 130),
        ReferenceSpan(170, 200),
    ]


def test_onset_before_the_last_recovery_leaves_no_span_between():
    began = [
        Began(120, Status.WARNING),
        Began(140, Status.HEALTHY),
        Began(160, Status.CRITICAL, 110),
    ]
    assert well_spans(began, from_s=100, to_s=200) == [ReferenceSpan(100, 110)]


def test_incident_found_after_the_end_is_cut_from_its_onset():
    began = [Began(250, Status.CRITICAL, 180)]
    assert well_spans(began, from_s=100, to_s=200) == [ReferenceSpan(100, 180)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 300),
            st.sampled_from(list(Status)),
            st.none() | st.integers(0, 300),
        )
    )
)
def test_reference_spans_are_ordered_and_within_bounds(changes):
    found = spans(*sorted(changes, key=lambda change: change[0]))
    edges = [edge for span in found for edge in span]
    assert edges == sorted(edges)
    assert all(100 <= edge <= 200 for edge in edges)

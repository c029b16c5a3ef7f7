"""Metrics of other libraries: the real ones where they are installed, else what to install."""

from importlib.util import find_spec

import pytest

from monitor.contrib.metric_libraries import (
    case_fields,
    deepeval_metric,
    ragas_metric,
    sample_fields,
)
from monitor.errors import MissingExtraError, SettingsError
from monitor.scoring.declaration import NoParameters
from monitor.testing import make_interaction

MAKERS = {"deepeval": deepeval_metric, "ragas": ragas_metric}
EXACT = {"deepeval": "ExactMatchMetric", "ragas": "ExactMatch"}
EXPECTED = {"answer": "A refund is paid back to your card within five working days."}

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs are not ours to mend


@pytest.mark.parametrize("library", MAKERS)
def test_exact_match_of_the_real_library_is_scored(library):
    pytest.importorskip(library)
    metric = MAKERS[library]("same", EXACT[library], {})
    scores = [
        metric.compute(make_interaction(expected=expected), NoParameters()).score
        for expected in (EXPECTED, {"answer": "Never."})
    ]
    assert scores == [1.0, 0.0]
    assert metric.declaration.version.startswith(library)


@pytest.mark.parametrize("library", MAKERS)
def test_unknown_library_metric_is_reported(library):
    pytest.importorskip(library)
    with pytest.raises(SettingsError, match="NoSuchMetric"):
        MAKERS[library]("own", "NoSuchMetric", {})


@pytest.mark.parametrize("library", MAKERS)
def test_wrong_library_argument_is_reported(library):
    pytest.importorskip(library)
    with pytest.raises(SettingsError, match="thresh"):
        MAKERS[library]("own", EXACT[library], {"thresh": 1})


@pytest.mark.parametrize("library", MAKERS)
def test_missing_library_names_what_to_install(library):
    if find_spec(library):
        pytest.skip(f"{library} is installed")
    with pytest.raises(MissingExtraError, match=rf"groundwatch\[{library}\]"):
        MAKERS[library]("own", EXACT[library], {})


def test_fields_have_the_names_of_each_library():
    interaction = make_interaction(expected=EXPECTED)
    case, sample = case_fields(interaction), sample_fields(interaction)
    passages = [context.text for context in interaction.contexts]
    assert case == {
        "input": interaction.query,
        "actual_output": interaction.output,
        "expected_output": EXPECTED["answer"],
        "context": passages,
        "retrieval_context": passages,
    }
    assert sample == {
        "user_input": interaction.query,
        "response": interaction.output,
        "retrieved_contexts": passages,
        "reference": EXPECTED["answer"],
    }

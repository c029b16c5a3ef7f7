"""What holds of scoring for any text at all."""

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.models import EvaluationStatus
from monitor.scoring.judges.reply import Quotable
from monitor.scoring.language import canonical, words
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.scoring.sentences import split_sentences
from monitor.settings import Settings
from monitor.testing import make_interaction

JUDGE = LocalJudge()
SCORER = JudgementScorer(JUDGE, resolve_metrics(Settings(metrics=("groundedness", "relevance"))))
text = st.text(max_size=200)
vocabulary = ["cat", "dog", "sun", "12", "7.5", "Paris", "not", "open.", "closed!", "week,"]
vocabulary += ["the", "of", "五", "день"]
sentence = st.lists(st.sampled_from(vocabulary), min_size=1, max_size=15).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.none() | text, st.lists(text | sentence, max_size=3), text | sentence)
def test_scorer_never_fails_on_any_text(query, contexts, output):
    interaction = make_interaction(query=query, contexts=contexts, output=output)
    for evaluation in SCORER.score(interaction):
        assert evaluation.status is not EvaluationStatus.FAILED
        if evaluation.status is EvaluationStatus.COMPLETED:
            assert 0 <= evaluation.score <= 1
        else:
            assert evaluation.reason


@settings(max_examples=50, deadline=None)
@given(st.lists(sentence, min_size=2, max_size=4), sentence)
def test_groundedness_does_not_depend_on_passage_order(contexts, output):
    def groundedness(order):
        return JUDGE.judge(make_interaction(contexts=order, output=output)).groundedness

    forth, back = groundedness(contexts), groundedness(contexts[::-1])
    assert (forth is None) == (back is None)
    assert forth is None or abs(forth - back) < 1e-9


@given(text)
def test_splitting_text_loses_no_letter(output):
    def letters(parts):
        return [char for part in parts for char in part if char.isalpha()]

    assert letters(split_sentences(output)) == letters([canonical(output)])


@given(st.lists(st.sampled_from(vocabulary), min_size=6, max_size=20), st.data())
def test_quote_is_found_when_cut_from_a_passage(parts, data):
    start = data.draw(st.integers(0, len(parts) - 1))
    quote = " ".join(parts[start : data.draw(st.integers(start + 1, len(parts)))])
    content = sum(word.content for word in words(quote))
    found = Quotable([" ".join(parts)]).find(quote)
    assert found == 0 if content >= 3 else found in {0, None}
    assert content or found is None

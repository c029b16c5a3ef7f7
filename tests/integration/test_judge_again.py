"""When the judge is asked more than once about one interaction, and never more than needed."""

import json
import re

import pytest

from monitor.errors import JudgeError
from monitor.scoring.judges.openai_client import RetryPolicy
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction
from support.judge_server import JudgeServer

FACTS = [
    f"Parcel number {n} weighs {n * 7} kilograms and leaves from harbour {n}." for n in range(9)
]
WRONG = "Penguins juggle yellow lemons."


@pytest.fixture
def server():
    with JudgeServer() as running:
        yield running


@pytest.fixture
def judge(server):
    judge = OpenAIJudge(
        "gpt-4.1-mini", base_url=server.url, policy=RetryPolicy(timeout_s=5, backoff_s=0.001)
    )
    yield judge
    judge.close()


def data_of(request):
    text = request["messages"][-1]["content"]
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def asked(server):
    return [data_of(request)["asked"] for request in server.requests]


def verdicts(judgement):
    return {claim.text: claim.verdict.value for claim in judgement.claims}


def test_only_sentences_without_a_verdict_are_asked_again(server, judge):
    server.script(["first_missing", "ok"])
    judgement = judge.judge(make_interaction(contexts=FACTS, output=" ".join(FACTS[:3])))
    assert asked(server) == [[1, 2, 3], [1]]
    assert [claim.support for claim in judgement.claims] == [1.0] * 3
    assert (judgement.details["tries"], judgement.details["asked_again"]) == (2, 1)


def test_invented_quote_is_asked_for_once_more(server, judge):
    server.script(["wrong_quote", "ok"])
    [first, second] = judge.judge(
        make_interaction(contexts=FACTS, output=" ".join(FACTS[:2]))
    ).claims
    assert (first.verdict, second.verdict) == ("supported", "supported")
    assert asked(server) == [[1, 2], [1]]
    assert data_of(server.requests[1])["asked_again_because_the_quote_was_in_no_passage"] == [1]


def test_second_call_is_the_last_when_the_quote_stays_invented(server, judge):
    server.always = "wrong_quote"
    assert [c.verdict for c in judge.judge(make_interaction()).claims] == ["unverified"]
    assert len(server.requests) == 2


def test_nothing_is_scored_when_the_second_call_fails(server, judge):
    server.script(["wrong_quote", "content_filter"])
    [evaluation] = JudgementScorer(
        judge, resolve_metrics(Settings(metrics=("groundedness",)))
    ).score(make_interaction())
    assert (evaluation.score, evaluation.error.code) == (None, "judge_refused")
    assert evaluation.cost_usd > 0
    assert evaluation.error.context["tries"] == 2


def test_nothing_is_scored_when_a_verdict_is_missing_twice(server, judge):
    server.script(["first_missing", "unasked_number", "unasked_number", "unasked_number"])
    with pytest.raises(JudgeError):
        judge.judge(make_interaction(contexts=FACTS, output=" ".join(FACTS[:3])))


def test_tokens_of_all_calls_are_counted_when_there_are_two(server, judge):
    server.script(["first_missing", "ok"])
    judgement = judge.judge(make_interaction(contexts=FACTS, output=" ".join(FACTS[:3])))
    sent = [sum(len(m["content"]) for m in r["messages"]) // 4 for r in server.requests]
    assert judgement.input_tokens == sum(sent)


def test_sentences_are_split_in_halves_when_the_answer_is_cut_off(server, judge):
    server.always = "truncated_when_long"
    judgement = judge.judge(make_interaction(contexts=FACTS, output=" ".join(FACTS[:5])))
    assert asked(server) == [[1, 2, 3, 4, 5], [1, 2], [3, 4, 5], [3], [4, 5]]
    assert [claim.text for claim in judgement.claims] == FACTS[:5]
    assert [claim.support for claim in judgement.claims] == [1.0] * 5
    assert judgement.details["answer_split"] == 2


def test_all_sentences_are_sent_when_only_some_are_asked_for(server, judge):
    server.always = "truncated_when_long"
    judge.judge(make_interaction(contexts=FACTS, output=" ".join(FACTS[:4])))
    assert {len(data_of(request)["sentences"]) for request in server.requests} == {4}


def test_calls_are_bounded_when_every_answer_is_cut_off(server, judge):
    server.always = "truncated"
    with pytest.raises(JudgeError) as caught:
        judge.judge(make_interaction(contexts=FACTS, output=" ".join(FACTS)))
    assert caught.value.context["tries"] == len(server.requests) <= 5


def test_passages_are_shortened_further_when_the_model_cannot_fit_them(server, judge):
    server.most_chars = 6_000
    padding = "The weather on the coast is mild and the ferries run on time. " * 400
    judgement = judge.judge(make_interaction(contexts=[padding + FACTS[3]], output=FACTS[3]))
    assert [claim.verdict for claim in judgement.claims] == ["supported"]
    kept = judgement.details["contexts_packed"]
    assert kept["chars"] == len(padding + FACTS[3])
    assert kept["chars_kept"] < 6_000
    assert judgement.details["tries"] == len(server.requests) > 1


def test_explanation_mentions_shortened_passages(server):
    judge = OpenAIJudge("m", base_url=server.url, input_tokens=1_000)
    padding = "The weather on the coast is mild and the ferries run on time. " * 400
    grounded, relevant = JudgementScorer(
        judge, resolve_metrics(Settings(metrics=("groundedness", "relevance")))
    ).score(make_interaction(query=FACTS[3], contexts=[padding, FACTS[3]], output=FACTS[3]))
    judge.close()
    chars = len(padding) + len(FACTS[3])
    assert re.search(rf"contexts_packed: kept \d+ of {chars} characters", grounded.explanation)
    assert relevant.metadata["contexts_packed"] == grounded.metadata["contexts_packed"]
    assert len(server.requests) == 1
    assert len(server.requests[0]["messages"][1]["content"]) < 6_000


def test_evaluation_fails_when_no_passage_fits(server):
    judge = OpenAIJudge("m", base_url=server.url, input_tokens=40)
    asked = make_interaction(query="word " * 100, output="Yes, it does take five days. " * 20)
    found = JudgementScorer(
        judge, resolve_metrics(Settings(metrics=("groundedness", "relevance")))
    ).score(asked)
    judge.close()
    assert [(each.status, each.score) for each in found] == [("failed", None)] * 2
    assert "no room for any passage" in found[0].error.message
    assert server.requests == []


def test_evaluation_fails_when_even_the_shortest_request_is_too_long(server, judge):
    server.always = "too_long"
    with pytest.raises(JudgeError, match="too long for it") as caught:
        judge.judge(make_interaction(contexts=["word " * 10_000]))
    assert caught.value.context["tries"] == len(server.requests) < 10


def test_order_of_passages_changes_no_verdict_when_they_are_shuffled(server, judge):
    output = " ".join([*FACTS[:3], WRONG])
    orders = [FACTS, FACTS[::-1], FACTS[4:] + FACTS[:4]]
    found = [judge.judge(make_interaction(id="same", contexts=o, output=output)) for o in orders]
    assert verdicts(found[0]) == verdicts(found[1]) == verdicts(found[2])
    for order, judgement in zip(orders, found, strict=True):
        for claim in judgement.claims[:3]:
            assert order[claim.context_index] == claim.text


def test_order_of_sentences_changes_no_verdict_when_they_are_shuffled(judge):
    lines = [*FACTS[:3], WRONG]
    found = [
        verdicts(judge.judge(make_interaction(contexts=FACTS, output="\n".join(order))))
        for order in (lines, lines[::-1], lines[2:] + lines[:2])
    ]
    assert found[0] == found[1] == found[2]
    assert found[0][WRONG] == "not_found"


def test_passage_order_is_shuffled_reproducibly_per_sample(server, judge):
    for name in ("a", "a", "b", "c", "d"):
        judge.judge(make_interaction(id=name, contexts=FACTS, output=FACTS[0]))
    sent = [data_of(r)["contexts"] for r in server.requests]
    assert sent[0] == sent[1]
    assert len({tuple(order) for order in sent}) == 4
    assert {tuple(sorted(order)) for order in sent} == {tuple(sorted(FACTS))}


def test_seed_is_recorded_with_the_judgement(server, judge):
    judgement = judge.judge(make_interaction())
    assert judgement.details["seed"] == server.requests[0]["seed"]


def test_cached_tokens_cost_less_when_the_endpoint_says_how_many(server, judge):
    plain = judge.judge(make_interaction(id="same"))
    server.script(["cached"])
    judgement = judge.judge(make_interaction(id="same"))
    cached = judgement.details["cached_input_tokens"]
    assert cached == judgement.input_tokens // 2
    assert plain.cost_usd - judgement.cost_usd == pytest.approx(
        cached * (0.4 - 0.1) / 1e6, rel=0.01
    )


def test_unknown_price_is_reported_when_the_model_is_not_in_the_table(server):
    judge = OpenAIJudge("mystery-7b", base_url=server.url)
    [evaluation] = JudgementScorer(judge, resolve_metrics(Settings(metrics=("relevance",)))).score(
        make_interaction()
    )
    judge.close()
    assert evaluation.cost_usd is None
    assert "no price for mystery-7b" in evaluation.metadata["cost_unknown"]
    assert "GROUNDWATCH_PRICES" in evaluation.metadata["cost_unknown"]


def test_broken_request_that_may_have_been_billed_is_recorded(server, judge):
    server.script(["reset", "ok"])
    assert judge.judge(make_interaction()).details["tries_without_usage"] == 1

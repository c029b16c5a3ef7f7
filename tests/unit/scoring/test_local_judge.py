"""The local judge tells supported from unsupported, and says why."""

import unicodedata

import pytest

from monitor.models.evaluation import OWN_LEAST
from monitor.scoring.base import ClaimVerdict
from monitor.scoring.local import passages
from monitor.scoring.local.logistic import load_coefficients
from monitor.scoring.local.scorer import CONTRADICTED_AT_MOST, UNKNOWN_AT_MOST, LocalJudge
from monitor.scoring.metrics import METRICS
from monitor.testing import make_interaction

REFUND = (
    "Refunds are paid back to the original card within five working days. Opened items can be"
    " returned within 30 days if they are complete. Shipping costs are not refunded."
)
HOURS = "Our shops are open from 9 to 18 on weekdays and from 10 to 16 on Saturdays."
PASSWORD = (
    "To reset a password, open Settings, choose Security and press Reset password. A link is sent"
    " to your email and is valid for one hour."
)


@pytest.fixture(scope="module")
def judge():
    return LocalJudge()


def look(judge, output, *contexts, query="How long does a refund take?"):
    return judge.judge(make_interaction(query=query, contexts=list(contexts), output=output))


@pytest.mark.parametrize(
    ("output", "context"),
    [
        ("A refund is paid back to your card within five working days.", REFUND),
        ("Refunds go back to the original card in 5 working days.", REFUND),
        ("You can return opened items within 30 days if they are complete.", REFUND),
        ("On Saturdays the shops are open from 10 to 16.", HOURS),
        ("Open Settings, then Security, then press Reset password.", PASSWORD),
        ("Press Reset password under Security. The link is valid for one hour.", PASSWORD),
    ],
)
def test_answer_passes_when_a_passage_says_it_in_other_words(judge, output, context):
    assert look(judge, output, context).groundedness >= 0.7


@pytest.mark.parametrize(
    ("output", "context"),
    [
        ("Refunds are paid back to the original card within five working days.", HOURS),
        ("You get the money after ten days by bank transfer, minus 15 euros.", HOURS),
        ("Gift cards never expire and can be used in every country.", REFUND),
        ("Send a fax to our office in Berlin and wait for ninety days.", REFUND),
        ("The printer needs a new cartridge of black ink.", PASSWORD),
    ],
)
def test_answer_is_below_half_when_no_passage_is_about_it(judge, output, context):
    assert look(judge, output, context).groundedness < 0.5


def test_score_falls_when_one_number_is_changed(judge):
    right = look(judge, "Opened items can be returned within 30 days.", REFUND)
    wrong = look(judge, "Opened items can be returned within 45 days.", REFUND)
    assert wrong.groundedness < right.groundedness


def test_claim_names_its_evidence_when_supported(judge):
    [claim] = look(judge, "Shops open from 9 to 18 on weekdays.", REFUND, HOURS).claims
    assert claim.verdict is ClaimVerdict.SUPPORTED
    assert (claim.context_index, claim.evidence) == (1, HOURS)


def test_claim_names_what_is_missing_when_not_found(judge):
    [claim] = look(judge, "Penguins juggle lemons.", REFUND).claims
    assert claim.verdict is ClaimVerdict.NOT_FOUND
    assert "missing: Penguins, juggle, lemons" in claim.reason


def test_claim_names_both_numbers_when_contradicted(judge):
    [claim] = look(judge, "Opened items can be returned within 90 days.", REFUND).claims
    assert claim.verdict is ClaimVerdict.CONTRADICTED
    assert claim.reason == 'it says "90 days", the passage "30 days"'


def test_claim_names_the_attribute_when_a_record_says_otherwise(judge):
    record = '{"name": "Rosa", "OutdoorSeating": false, "WiFi": "free", "city": "Graz"}'
    [claim] = look(judge, "Rosa has outdoor seating.", record, query="").claims
    assert claim.verdict is ClaimVerdict.CONTRADICTED
    assert claim.reason == "the passage says otherwise: Outdoor Seating: no"


def test_score_falls_when_a_record_says_otherwise(judge):
    record = '{"name": "Rosa", "OutdoorSeating": true, "WiFi": "free", "city": "Graz"}'
    other = record.replace("true", "false")
    claim = "Rosa in Graz has outdoor seating."
    right, wrong = (look(judge, claim, each, query="Describe Rosa.") for each in (record, other))
    assert wrong.groundedness < right.groundedness


def test_refusal_is_skipped_when_the_passages_have_no_answer(judge):
    judgement = look(judge, "I'm sorry, I don't have information about that.", HOURS)
    assert [claim.verdict for claim in judgement.claims] == [ClaimVerdict.NO_CLAIM]
    assert METRICS["groundedness"].read(judgement, None, None).skipped == "right_refusal"
    assert METRICS["relevance"].read(judgement, None, None).skipped == "right_refusal"


def test_refusal_is_wrong_when_the_passages_have_the_answer(judge):
    judgement = look(
        judge, "I don't know.", REFUND, query="Within how many days are opened items returned?"
    )
    [claim] = judgement.claims
    assert claim.verdict is ClaimVerdict.WRONG_REFUSAL
    assert "30 days" in claim.evidence
    assert CONTRADICTED_AT_MOST <= judgement.groundedness < OWN_LEAST
    assert judgement.relevance < OWN_LEAST
    assert judgement.relevance_reason == (
        "It declines to answer, but the passages speak of what is asked."
    )


def test_reason_of_a_relevant_answer_in_other_words_names_where_they_are_from(judge):
    passage = "The server stopped on Monday since the disk was full. Tickets cost 9 euros."
    judgement = look(judge, "A full disk.", passage, query="Why did the server stop?")
    assert judgement.relevance > 0.7
    assert judgement.relevance_reason == (
        "100 % of what it adds is from sentences about what is asked."
    )


def test_refusal_without_a_question_has_no_claim(judge):
    judgement = look(judge, "I don't know.", REFUND, query=None)
    assert METRICS["groundedness"].read(judgement, None, None).skipped == "no_claim"


def test_courtesy_phrases_do_not_change_groundedness(judge):
    plain = look(judge, "Shipping costs are not refunded.", REFUND)
    polite = look(judge, "Sure! Shipping costs are not refunded. Is that fine?", REFUND)
    assert polite.groundedness == plain.groundedness


def test_relevance_is_high_when_the_question_is_answered(judge):
    assert look(judge, "A refund takes five working days.", REFUND).relevance >= 0.7


@pytest.mark.parametrize("output", ["Penguins juggle lemons.", "How long does a refund take?"])
def test_relevance_is_low_when_output_is_off_topic_or_an_echo(judge, output):
    assert look(judge, output, REFUND).relevance < 0.5


@pytest.mark.parametrize("query", ["How long?", "And then?", "???"])
def test_relevance_is_skipped_for_a_query_without_content_words(judge, query):
    judgement = look(judge, "You can return it within 30 days.", REFUND, query=query)
    assert METRICS["relevance"].read(judgement, None, None).skipped == "nothing_asked"


def test_relevance_is_scored_without_passages(judge):
    judgement = look(judge, "A refund takes five days, a long time for some.")
    assert judgement.relevance > 0.5
    assert judgement.groundedness is None


@pytest.mark.parametrize("output", ["!!! ???", "🙂🙂", "Возврат занимает пять дней."])
def test_text_is_unreadable_when_it_has_no_words_or_another_script(judge, output):
    assert not look(judge, output, REFUND).readable


def test_text_is_read_when_it_is_chinese(judge):
    judgement = look(
        judge, "退款会在五个工作日内退回到卡。", "退款会在五个工作日内退回原卡。", query="退款多久?"
    )
    assert judgement.groundedness >= 0.7


@pytest.mark.parametrize(
    ("context", "right", "wrong"),
    [
        (
            "يتم رد المبلغ إلى البطاقة الأصلية خلال خمسة أيام عمل.",
            "يتم رد المبلغ إلى البطاقة خلال خمسة أيام عمل.",
            "يقع المتحف في وسط المدينة ويغلق يوم الاثنين.",
        ),
        (
            "धनवापसी पाँच कार्य दिवसों में मूल कार्ड पर की जाती है।",
            "धनवापसी पाँच कार्य दिवसों में कार्ड पर की जाती है।",
            "संग्रहालय शहर के केंद्र में है और सोमवार को बंद रहता है।",
        ),
        (
            "เงินคืนจะถูกจ่ายกลับไปยังบัตรเดิมภายในห้าวันทำการ",
            "เงินคืนจะถูกจ่ายกลับไปยังบัตรเดิมภายในห้าวัน",
            "พิพิธภัณฑ์ตั้งอยู่ใจกลางเมืองและปิดทำการในวันจันทร์",
        ),
        (
            "返金は五営業日以内に元のカードに支払われます。",
            "返金は五営業日以内にカードに支払われます。",
            "美術館は市の中心にあり、月曜日は休館です。",
        ),
    ],
    ids=["Arabic", "Hindi", "Thai", "Japanese"],
)
def test_score_is_fair_when_text_is_of_another_language(judge, context, right, wrong):
    found = [look(judge, output, context, query="?").groundedness for output in (right, wrong)]
    assert found[0] >= 0.7
    assert found[1] < min(0.75, found[0] - 0.2)


def test_text_is_unreadable_when_its_script_is_not_split_into_words(judge):
    assert not look(judge, "ប្រាក់សងនឹងត្រូវបានបង់", "ប្រាក់សងនឹងត្រូវបានបង់ទៅកាតដើមវិញ").readable


@pytest.mark.parametrize("query", [None, "How long does a refund take?", "Where do penguins live?"])
@pytest.mark.parametrize("output", ["Cats can fly.", "Penguins live in Antarctica."])
@pytest.mark.parametrize("context", [REFUND, "It takes five days."])
def test_claim_from_nowhere_caps_its_support_and_the_groundedness(judge, query, output, context):
    judgement = look(judge, output, context, query=query)
    [claim] = judgement.claims
    assert claim.verdict is ClaimVerdict.NOT_FOUND
    assert max(claim.support, judgement.groundedness) <= UNKNOWN_AT_MOST


@pytest.mark.parametrize("query", [None, "How long does a refund take?"])
def test_score_falls_with_every_invented_claim_beside_copied_ones(judge, query):
    fine = "Shipping costs are not refunded. Refunds are paid back to the original card."
    assert look(judge, fine, REFUND, query=query).groundedness >= 0.7
    worse = look(judge, f"{fine} Penguins live in Antarctica.", REFUND, query=query)
    worst = look(judge, f"{fine} Penguins live in Antarctica. Cats can fly.", REFUND, query=query)
    assert [claim.verdict for claim in worse.claims].count(ClaimVerdict.SUPPORTED) == 2
    assert worst.groundedness < worse.groundedness < 0.5


@pytest.mark.parametrize("rule", ["CONTRADICTED_AT_MOST", "UNKNOWN_AT_MOST"])
def test_version_changes_with_the_rules_for_the_highest_scores(judge, monkeypatch, rule):
    monkeypatch.setattr(f"monitor.scoring.local.scorer.{rule}", 0.2)
    assert LocalJudge().version != judge.version


def test_version_changes_with_a_coefficient(judge):
    data = load_coefficients()
    data["response"]["kinds"]["answer"]["intercept"] += 0.001
    assert LocalJudge(data).version != judge.version


def test_coefficients_are_rejected_when_made_for_other_features():
    data = load_coefficients()
    data["claim"]["kinds"]["answer"]["weights"].popitem()
    with pytest.raises(ValueError, match="train_local"):
        LocalJudge(data)


def test_score_is_the_same_when_french_is_decomposed(judge):
    output, context = "Le café a été rénové à côté.", "Le café est fermé. Il a été rénové."
    composed = look(judge, output, context, query="Où est le café ?")
    for form in ("NFD", "NFKD"):
        parts = [unicodedata.normalize(form, text) for text in (output, context)]
        query = unicodedata.normalize(form, "Où est le café ?")
        other = look(judge, *parts, query=query)
        assert (other.groundedness, other.relevance) == (composed.groundedness, composed.relevance)


def test_claims_beyond_the_limit_are_counted_as_not_judged(judge):
    judgement = look(judge, "Shipping costs are not refunded. " * 1_000, REFUND)
    assert (len(judgement.claims), judgement.claims_not_judged) == (200, 800)
    assert METRICS["groundedness"].read(judgement, None, None).details["claims_not_judged"] == 800


def test_many_claims_against_a_one_sentence_passage_are_judged_quickly(judge):
    passage = " ".join(f"word{chr(97 + i % 26)}x{i}" for i in range(15_000))
    output = "\n".join(f"The {word} is here" for word in passage.split()[:10_000])
    assert look(judge, output, passage).duration_ms < 10_000


def test_statement_that_is_added_to_a_supported_one_is_judged_by_itself(judge):
    output = "It opens at nine, and there is a free breakfast in the lobby."
    found = look(judge, output, "The office opens at nine.", query="When does it open?")
    assert [(c.text[:8], c.verdict.value) for c in found.claims] == [
        ("It opens", "supported"),
        ("there is", "undecided"),
    ]


def test_statements_of_one_sentence_are_judged_separately(judge):
    output = "The tower is in Paris and was built of chocolate in 1250 by giants."
    found = look(judge, output, "The Eiffel Tower was completed in 1889 in Paris.", query="Where?")
    assert [(c.text[:12], c.verdict.value) for c in found.claims] == [
        ("The tower is", "supported"),
        ("was built of", "undecided"),
    ]
    assert min(claim.support for claim in found.claims) == pytest.approx(found.groundedness)


def test_sentences_of_passages_that_are_not_read_are_counted_in_the_reason(judge, monkeypatch):
    monkeypatch.setattr(passages, "_MOST_SENTENCES", 2)
    found = look(judge, "It is open.", "It is open. It is closed. It is old. It is new.")
    assert found.notes == ("2 sentences of the passages not read",)

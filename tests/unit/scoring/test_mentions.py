"""What only says where a sentence was read does not count against it."""

import pytest

from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.sentences import without_mentions
from monitor.testing import make_interaction

REFUND = "Refunds are paid back to the original card within five working days."


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("Refunds take five days [1].", "Refunds take five days."),
        ("Refunds take five days.[1][^2]", "Refunds take five days."),
        ("Refunds take five days [1, 3-4].", "Refunds take five days."),
        ("Das dauert fünf Tage【4†source】.", "Das dauert fünf Tage."),
        ("Refunds take five days (Passage 1, Passage 3).", "Refunds take five days."),
        ("Refunds take five days [see doc 12].", "Refunds take five days."),
        ("Refunds take five days (source: prices.pdf, page 3).", "Refunds take five days."),
        ("Refunds take five days (Smith, 2020).", "Refunds take five days."),
        (
            "Refunds take five days (see Smith et al., 2020; Poe & Lee 2021a).",
            "Refunds take five days.",
        ),
        ("According to passage 2, it is open.", "it is open."),
        ("Based on the information provided in the passages, it is open.", "it is open."),
        ("As stated in the given context, it is open.", "it is open."),
        ("It is open, according to the retrieved documents.", "It is open."),
        ("It is open as described in passages 1 and 2", "It is open"),
        ("The passage mentions that it is open.", "it is open."),
        ("Hours: Passage 2 says it is open at nine.", "Hours: it is open at nine."),
        ("Second, it is open.", "it is open."),
        ("It only covers shops in Rome and doesn't mention Pisa.", "shops in Rome."),
        ("It only covers flood damage.", "It only covers flood damage."),
        ("It is open, but it does not say for whom.", "It is open."),
        (
            "Our page gives the price, but says nothing on duties or taxes.",
            "Our page gives the price.",
        ),
        ("Step 3: Press the key.", "Press the key."),
        ("In summary, the given text explains that it is open.", "it is open."),
        ("Refunds take five days¹.", "Refunds take five days."),
        ("Refunds take five days<sup>1</sup>.", "Refunds take five days."),
        ("Refunds take five days [1, p. 4].", "Refunds take five days."),
        ("Refunds take five days [1]-[3].", "Refunds take five days."),
        ("Refunds take five days \\[1\\].", "Refunds take five days."),
        ("Refunds take five days [[1]](https://shop.example/faq).", "Refunds take five days."),
        ("Refunds take five days (1).", "Refunds take five days."),
        ("[1]", ""),
        ("(Passage 2)", ""),
        ("Refunds take five days [doc-12].", "Refunds take five days."),
        ("Refunds take five days. [kb_123]", "Refunds take five days."),
        ("Refunds take five days (Lee, 2020, p. 4).", "Refunds take five days."),
        ("Source: policy.pdf", ""),
        ("According to Smith (2020), refunds take five days.", "refunds take five days."),
        ("According to Lee et al. (2024b), refunds take five days.", "refunds take five days."),
    ],
)
def test_source_mention_and_its_connective_are_removed(sentence, left):
    assert without_mentions(sentence) == left


@pytest.mark.parametrize(
    "sentence",
    [
        "Article 50 was signed in the first year.",
        "The second shop opens at nine.",
        "It works by reading the text of an email, line by line.",
        "The company sells data from its own stores.",
        "According to Anna Weber, it is open.",
        "The passage does not mention the price.",
        "Press the key [F1] for help.",
        "Press the key [escape].",
        "The flat has 60 m² and 2 (two) rooms.",
        "Source: refunds take 90 days.",
        "Next to the shop is a bank.",
        "The document was signed in 1994.",
        "It opened again (July 2020).",
        "It opened later (in May, 2020).",
    ],
)
def test_sentence_without_a_source_mention_is_unchanged(sentence):
    assert without_mentions(sentence) == sentence


@pytest.mark.parametrize(
    ("sentence", "stated"),
    [
        ("The passages discuss cones, but do not mention software.", "cones."),
        ("The text provides details on fees without any reference to dates.", "fees."),
        ("It's important to note that the shop closes early.", "the shop closes early."),
        ("The hotel has a pool but does not provide towels.", None),
    ],
)
def test_what_the_passages_do_not_tell_is_left_out(sentence, stated):
    assert without_mentions(sentence) == (stated or sentence)


@pytest.fixture(scope="module")
def judge():
    return LocalJudge()


def judged(judge, output, query="How long does a refund take?"):
    return judge.judge(make_interaction(query=query, contexts=[REFUND], output=output))


@pytest.mark.parametrize(
    "output",
    [
        "Refunds are paid back to the original card within five working days [1].",
        "Refunds are paid back to the original card within five working days (Passage 1).",
        "Based on the given passages, refunds are paid back to the card within five working days.",
        "Second, passage 1 states that refunds are paid back within five working days.",
    ],
)
def test_right_answer_passes_when_it_names_its_source(judge, output):
    found = judged(judge, output)
    assert found.groundedness >= 0.7
    assert [claim.text for claim in found.claims] == [output]


def test_sentence_that_only_names_a_source_is_no_claim(judge):
    plain = judged(judge, "Refunds take five working days.")
    cited = judged(judge, "Refunds take five working days.\n(Passage 1)")
    assert cited.groundedness == plain.groundedness


def test_number_from_the_question_is_not_an_invention(judge):
    asked = judged(judge, "For order 4711 refunds take five days.", query="When is 4711 refunded?")
    unasked = judged(judge, "For order 4711 refunds take five days.", query="When is it refunded?")
    assert asked.groundedness > unasked.groundedness


def test_headings_are_no_claims_and_a_last_line_is_no_heading(judge):
    plain = judged(judge, "Refunds take five working days.")
    titled = judged(judge, "## Key takeaways\n**Deadlines**\nRefunds take five working days.")
    assert titled.groundedness == plain.groundedness
    assert judged(judge, "**five working days**").groundedness is not None

"""What bears on query and output survives packing; what is sent fits."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.scoring.judges.packing import GAP, pack, tokens_of
from monitor.scoring.judges.reply import Quotable

NOISE = "The weather on the coast is mild and the ferries run on time. " * 200
NEEDLES = [
    "Harbour four closes at nine on Sundays.",
    "Parcels above ninety kilograms need a crane.",
]


def test_texts_that_fit_are_unchanged():
    packed = pack("query", ["one", "", "two"], ["out"], 1_000)
    assert (packed.query, packed.contexts, packed.sentences) == (
        "query",
        ("one", "", "two"),
        ("out",),
    )
    assert not packed.cut


@pytest.mark.parametrize("place", [0, len(NOISE) // 2, len(NOISE)])
@pytest.mark.parametrize("wanted", ["query", "output"])
def test_evidence_is_kept_when_a_long_passage_is_cut(place, wanted):
    context = f"{NOISE[:place]} {NEEDLES[0]} {NOISE[place:]}"
    query, said = (NEEDLES[0], "Hello.") if wanted == "query" else ("Hello?", NEEDLES[0])
    packed = pack(query, [context], [said], 500)
    assert packed.cut
    assert NEEDLES[0] in packed.contexts[0]


def test_every_sentence_keeps_its_evidence_when_they_compete():
    contexts = [NOISE + NEEDLES[0] + NOISE, NOISE + NEEDLES[1] + NOISE]
    packed = pack("?", contexts, NEEDLES, 800)
    for needle, context in zip(NEEDLES, packed.contexts, strict=True):
        assert needle in context


def test_omitted_text_is_marked_by_a_gap_that_no_quote_may_span():
    context = f"{NEEDLES[0]} {NOISE}{NEEDLES[1]}"
    packed = pack("?", [context], NEEDLES, 300)
    assert GAP in packed.contexts[0]
    assert Quotable([context]).find("closes at nine on Sundays Parcels above ninety") is None


def test_output_is_cut_at_the_end_when_it_takes_more_than_its_half():
    said = [f"Sentence number {n} says something." for n in range(100)]
    packed = pack("?", ["context"], said, 400)
    assert 5 < len(packed.sentences) < 50
    assert list(packed.sentences) == said[: len(packed.sentences)]


def test_endless_sentence_is_cut_to_its_beginning():
    packed = pack("?", ["context"], ["word " * 10_000], 400)
    assert packed.sentences_cut == 1
    assert tokens_of(packed.sentences[0]) <= 201


def test_both_ends_are_kept_when_the_query_is_long():
    packed = pack("begin " + "x " * 10_000 + "end", ["context"], ["out"], 400)
    assert packed.query_cut
    assert packed.query.startswith("begin")
    assert packed.query.endswith("end")


def test_some_of_the_best_passage_is_sent_when_no_piece_of_it_fits():
    long = "A mooring of longer than two nights in the outer basin costs thirty dollars, " * 30
    packed = pack("What does it cost?", ["Trams. " + long, NOISE], ["A mooring costs."] * 20, 200)
    assert packed.contexts[0].strip(GAP)
    assert packed.tokens <= 216


def test_passages_are_cut_at_sentences_that_have_no_space_between_them():
    noise = "天气很好，渡轮准时运行，港口的咖啡馆每天都开门，欢迎大家来访。" * 200
    packed = pack(
        "码头几点关门？", [noise + "四号码头星期天九点关门。" + noise], ["九点关门。"], 600
    )
    assert "四号码头星期天九点关门。" in packed.contexts[0]
    assert packed.contexts[0].removeprefix(GAP).startswith(("天气", "四号"))


TEXTS = st.text(st.sampled_from("abc déЖ中.\n!?"), max_size=3_000)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.lists(TEXTS, max_size=5), st.lists(TEXTS, min_size=1, max_size=5))
def test_packed_text_fits_and_comes_from_its_passage(query, contexts, sentences):
    packed = pack(query, contexts, sentences, 300)
    assert packed.tokens <= 300 + 8 * (2 + len(contexts) + len(sentences))
    assert packed.chars_kept <= packed.chars
    for kept, context in zip(packed.contexts, contexts, strict=True):
        start = 0
        for part in filter(None, kept.split(GAP)):
            start = context.index(part, start) + len(part)


def test_packing_long_passages_is_fast():
    started = time.process_time()
    pack("harbour", [NOISE * 16], ["The ferries run on time."] * 200, 2_000)
    assert time.process_time() - started < 10

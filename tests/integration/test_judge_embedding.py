"""The embedding of the local scorer runs real ONNX code, on a model so small that it is known."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from monitor.contrib.embedding import LONGEST, EmbeddingModel, EmbeddingRewriter
from monitor.errors import SettingsError
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction

SENTENCES = "refunds take five days parcels reach the islands twice a week money back ."
WORDS = SENTENCES.split()
#: Words that the model puts in the same place, as a real one does with words of one meaning.
ALIKE = {"money": "refunds", "back": "take"}
SIZE = len(WORDS) + 4
FACT, OTHER = "Refunds take five days.", "Parcels reach the islands twice a week."


def save(folder, *, pooled=False, rounding=0.0):
    """Write a model that gives each word a direction of its own."""
    known = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3}
    vocabulary = known | {word: number for number, word in enumerate(WORDS, start=4)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    table = np.eye(SIZE, dtype=np.float32)
    for word, other in ALIKE.items():
        table[vocabulary[word]] = table[vocabulary[other]]
    table += rounding * np.sin(np.arange(table.size, dtype=np.float32)).reshape(table.shape)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["hidden"])]
    shape = ["batch", "tokens", SIZE]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["hidden", "axis"], ["out"], keepdims=0))
        shape = ["batch", SIZE]
    graph = helper.make_graph(
        nodes,
        "directions",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("out" if pooled else "hidden", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor("table", TensorProto.FLOAT, table.shape, table.ravel()),
            helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    onnx.save(made, str(folder / "model.onnx"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("embedding") / "tiny")


@pytest.fixture(scope="module")
def model(folder):
    return EmbeddingModel(str(folder))


def test_embedding_vectors_are_normalised_and_tokens_have_positions(model):
    [found] = model.embed(["Refunds take"])
    assert np.linalg.norm(found.vector) == pytest.approx(1.0)
    assert np.linalg.norm(found.tokens, axis=1) == pytest.approx([1.0, 1.0])
    assert found.places == ((0, 7), (8, 12))


def test_embedding_of_a_text_does_not_depend_on_its_batch(model):
    texts = [FACT, OTHER, "a", "", FACT * 3] * 9
    for alone, found in zip([model.embed([t])[0] for t in texts], model.embed(texts), strict=True):
        assert found.vector == pytest.approx(alone.vector, abs=1e-6)
        assert found.places == alone.places


def test_long_text_is_embedded_from_its_start(model):
    [found] = model.embed(["refunds " * 1_000])
    assert len(found.tokens) == LONGEST - 2


def written(model, output, *contexts):
    found = EmbeddingRewriter(model)(output, Passages(contexts))
    return " ".join(word.surface.lower() for word in found)


def test_synonym_is_rewritten_to_the_passages_word(model):
    assert written(model, "Money back five days.", FACT) == "refunds take five days"


def test_word_of_another_meaning_is_not_rewritten(model):
    assert written(model, "Islands take five days.", FACT) == "islands take five days"


def test_numbers_and_names_are_not_rewritten(model):
    assert written(model, "Money 7 days, Back.", FACT) == "refunds 7 days back"


def test_judge_scores_paraphrases_with_the_embedding_model(model):
    judge = LocalJudge(rewriter=EmbeddingRewriter(model))
    good, bad = (
        judge.judge(make_interaction(output=output, contexts=[FACT])).groundedness
        for output in ("Money back five days.", "Islands reach five parcels.")
    )
    assert 0 <= bad < good <= 1


def test_copied_answer_names_its_evidence_passage(model):
    found = LocalJudge(rewriter=EmbeddingRewriter(model)).judge(
        make_interaction(output=FACT, contexts=[OTHER, FACT])
    )
    [claim] = found.claims
    assert (claim.evidence, claim.context_index) == (FACT, 1)


def test_version_contains_model_and_weights(model):
    plain, wide = LocalJudge(), LocalJudge(rewriter=EmbeddingRewriter(model))
    assert wide.version.startswith(f"{plain.version}+tiny-{model.version[-8:]}-")


def test_setting_chooses_the_model(folder):
    shared = {"openai_base_url": "http://127.0.0.1:9/v1", "metrics": ("groundedness",)}
    wide = Settings(embedding_model=str(folder), **shared)
    scorer = make_scorer(wide)
    [found] = scorer.score(make_interaction(output=FACT, contexts=[FACT]))
    assert "+tiny-" in found.evaluator_version
    versions = [
        make_scorer(Settings(scorer="cascade", embedding_model=model, **shared)).version
        for model in (str(folder), None)
    ]
    assert versions[0] != versions[1]


def test_nothing_changes_without_the_setting():
    program = (
        "import sys\n"
        "from monitor.scoring.local.scorer import LocalJudge\n"
        "from monitor.scoring.registry import make_scorer\n"
        "from monitor.settings import Settings\n"
        "assert make_scorer(Settings()).version == LocalJudge().version\n"
        "assert 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_missing_extra_names_the_pip_command():
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from monitor.scoring.registry import make_scorer\n"
        "from monitor.settings import Settings\n"
        "make_scorer(Settings(embedding_model='x'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "pip install 'groundwatch[embedding]'" in done.stderr


@pytest.mark.parametrize("contexts", [[], [FACT]])
def test_relevance_is_scored_without_claims(model, contexts):
    judge = LocalJudge(rewriter=EmbeddingRewriter(model))
    asked = make_interaction(query="Refunds?", output="How many days?", contexts=contexts)
    found = judge.judge(asked)
    assert found.groundedness is None
    assert found.relevance == LocalJudge().judge(asked).relevance


def test_model_without_token_vectors_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"GROUNDWATCH_EMBEDDING_MODEL.*one vector a token"):
        EmbeddingModel(str(save(tmp_path / "m", pooled=True)))


def test_missing_model_is_named(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SettingsError, match="GROUNDWATCH_EMBEDDING_MODEL: nobody/nothing"):
        EmbeddingModel("nobody/nothing")


def test_metrics_compare_meanings_by_the_model_that_the_settings_name(tmp_path):
    names = ("semantic_similarity", "answer_uncertainty")
    scorer = make_scorer(Settings(embedding_model=str(save(tmp_path / "m")), metrics=names))
    answers = ["Refunds take five days.", "Money back five days."]
    similar, uncertain = scorer.score(make_interaction(metadata={"answers": answers}))
    assert (similar.score, uncertain.score) == (pytest.approx(1.0), 0.0)
    assert similar.evaluator_version.startswith("computed-2+m-")

"""The embedding of the local scorer runs real ONNX code, on a model so small that it is known."""

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from monitor.contrib.embedding import LONGEST, EmbeddingModel, EmbeddingSimilarity
from monitor.errors import SettingsError
from monitor.scoring.local.relevance import UNRELATED, Meaning
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction

SENTENCES = "refunds take five days parcels reach the islands twice a week money back ."
WORDS = [*dict.fromkeys([*SENTENCES.split(), *re.findall(r"\w+", str(UNRELATED).lower()), "?"])]
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


def wide_judge(model):
    return LocalJudge(similarity=EmbeddingSimilarity(model))


def test_embedding_vectors_are_normalised(model):
    assert np.linalg.norm(model.embed(["Refunds take", FACT * 3]), axis=1) == pytest.approx(1.0)


def test_embedding_of_a_text_does_not_depend_on_its_batch(model):
    texts = [FACT, OTHER, "a", "", FACT * 3]
    for alone, found in zip([model.embed([t])[0] for t in texts], model.embed(texts), strict=True):
        assert found == pytest.approx(alone, abs=1e-6)


def test_long_text_is_embedded_from_its_start(model):
    start, long = model.embed(["refunds " * (LONGEST - 2), "refunds " * LONGEST + OTHER])
    assert long == pytest.approx(start, abs=1e-6)


def test_meaning_is_0_of_unrelated_texts_and_1_of_the_same(model):
    meaning = Meaning(EmbeddingSimilarity(model))
    assert meaning(FACT, FACT) == pytest.approx(1.0)
    assert meaning(FACT, "Money back five days.") == pytest.approx(1.0, abs=0.05)
    assert 0.0 <= meaning("refunds", OTHER) < 0.3


def test_scale_of_the_models_cosines_does_not_matter(model):
    def compressed(one, other):  # as some encoders have it: unrelated texts at 0.7
        return 0.7 + 0.3 * similarity(one, other)

    similarity = EmbeddingSimilarity(model)
    for texts in ((FACT, OTHER), ("refunds take", "money back five days")):
        assert Meaning(compressed)(*texts) == pytest.approx(Meaning(similarity)(*texts), abs=1e-3)


def test_answer_in_words_of_its_own_is_relevant_by_its_meaning(model):
    asked = make_interaction(query="refunds take", output="Money back five days.", contexts=[FACT])
    plain, wide = (judge.judge(asked) for judge in (LocalJudge(), wide_judge(model)))
    assert plain.relevance + 0.2 < wide.relevance
    assert "similar in meaning" in wide.relevance_reason


def test_answer_to_another_question_is_not_relevant(model):
    paid = "Refunds are paid after five days."
    asked = make_interaction(query="How are refunds paid?", output=OTHER, contexts=[paid, OTHER])
    assert wide_judge(model).judge(asked).relevance < 0.2


def test_groundedness_does_not_depend_on_the_embedding_model(model):
    asked = make_interaction(output="Money back five days.", contexts=[FACT])
    assert wide_judge(model).judge(asked).claims == LocalJudge().judge(asked).claims


def test_version_contains_model_and_weights(model):
    assert wide_judge(model).version.endswith(f"+{model.version}")
    assert model.version.startswith("tiny-")


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
    asked = make_interaction(query="Refunds?", output="How many days?", contexts=contexts)
    found = wide_judge(model).judge(asked)
    assert found.groundedness is None
    assert 0 <= found.relevance <= 1


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

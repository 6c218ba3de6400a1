"""ONNX and LiteRT files: what other runtimes give, without our package."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
from processes import run_python

from keras_attn.fields import EncoderInput
from keras_attn.interop import export_model, runtimes
from keras_attn.interop.fast_tokenizers import write_tokenizer
from keras_attn.layers import (
    AttentionPooling,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    TokenEmbedding,
)
from keras_attn.models import (
    BagClassifierConfig,
    BertConfig,
    ModernBertConfig,
    RecurrentClassifierConfig,
    RobertaConfig,
    with_heads,
)
from keras_attn.tasks import (
    Pretrainer,
    SimilarityScorer,
    Tagger,
    TextClassifier,
    TextRegressor,
    Translator,
)
from keras_attn.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)

TEXTS = ["the cat sat on the mat, the dog ran", "it's 2 o'clock", "a hat and a cat"] * 20
SMALL = {"dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 24}
WORD_PIECE = WordPieceTokenizer.train(TEXTS, 80, allow_fewer=True)
BYTES = BytePairTokenizer.train(TEXTS, 280, normalize=False)
# It reads a folder with nothing of ours: what a program of others does.
READER = """
import json, sys
from pathlib import Path
import numpy as np, onnxruntime, tokenizers
folder = Path(sys.argv[1])
about = json.loads((folder / "model.json").read_text())
tokenizer = tokenizers.Tokenizer.from_file(str(folder / about["tokenizer"]))
tokenizer.enable_truncation(about["max_length"])
tokenizer.enable_padding(pad_id=about["pad_id"])
session = onnxruntime.InferenceSession(folder / about["model"])
rows = tokenizer.encode_batch(json.loads(sys.argv[2]))
ids = np.array([row.ids for row in rows], "int32")
made = {"token_ids": ids, "segment_ids": np.array([row.type_ids for row in rows], "int32")}
made["padding_mask"] = ids != about["pad_id"]
inputs = {name: made[name] for name in about["inputs"]}
found = session.run(about["outputs"], inputs)
assert not [name for name in sys.modules if name.split(".")[0] in ("keras", "keras_attn", "torch")]
print(json.dumps([values.tolist() for values in found]))
"""


def read(folder, texts):
    command = [sys.executable, "-c", READER, folder, json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def encoder(config, dtype=None):
    keras.utils.set_random_seed(1)
    # Keras sorts outputs by name, and the model returns them in this order.
    return with_heads(config, ("tags", "classes"), 3, dtype=dtype)


def inputs_of(model, rows=4, length=9, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, length + 1, (rows, 1))
    ids = np.where(np.arange(length) < lengths, rng.integers(5, 50, (rows, length)), 0)
    values = {"token_ids": ids, "segment_ids": np.cumsum(ids == 7, axis=1) > 0,
              "padding_mask": ids != 0}  # fmt: skip
    names = model.input if isinstance(model.input, dict) else [model.input.name]
    return {name: values.get(name, ids) for name in names}


def test_wrong_arguments(tmp_path):
    model = with_heads(BertConfig(50, **SMALL), ("classes",), 3)
    with pytest.raises(ValueError, match=r"one of \['onnx', .*Received: 'tf'"):
        export_model(tmp_path / "m", model, inputs_of(model), "tf")
    given = inputs_of(model)
    with pytest.raises(ValueError, match=r"must be the inputs of the model, \['padding_mask'"):
        export_model(tmp_path / "m", model, {"token_ids": given["token_ids"]})
    short = {name: x[:, :1] for name, x in given.items()}
    with pytest.raises(ValueError, match=r"two rows and two columns.*\(4, 1\)"):
        export_model(tmp_path / "m", model, short)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_tasks_that_write_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"Only encoders of texts .* Received: a Translator"):
        Translator.load("home-assistant-en-de").export(tmp_path / "m", format="onnx")
    with pytest.raises(ValueError, match="'saved_model' or one of"):
        Translator.load("home-assistant-en-de").export(tmp_path / "m", format="onxx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("between", [1, 2])
@pytest.mark.parametrize(
    "tokenizer",
    [WORD_PIECE, BytePairTokenizer.train(TEXTS, 280, normalize=False)],
    ids=["words", "bytes"],
)
def test_a_tokenizer_reads_the_same(tokenizer, between, tmp_path):
    """`write_tokenizer` compares single texts and pairs itself; here they are cut too."""
    import tokenizers

    field = EncoderInput(tokenizer, 12, between=between)
    name = write_tokenizer(tmp_path, field)
    fast = tokenizers.Tokenizer.from_file(str(tmp_path / name))
    fast.enable_truncation(12)
    ids, _ = field.encode(TEXTS[:3])
    assert [row.ids for row in fast.encode_batch(TEXTS[:3])] == [
        [x for x in row if x != tokenizer.pad_id] for row in ids.tolist()
    ]


def test_a_tokenizer_that_is_not_the_same_is_refused(tmp_path):
    class Other(EncoderInput):
        def encode(self, texts, seconds=None, multiple=1):
            ids, segments = super().encode(texts, seconds, multiple)
            return ids + (ids == ids.max()), segments

    with pytest.raises(RuntimeError, match="`tokenizers` encodes a text differently"):
        write_tokenizer(tmp_path, Other(WORD_PIECE, 64))
    assert not list(tmp_path.iterdir())


def test_other_tokenizers_are_files_of_ours(tmp_path):
    pieces = SentencePieceTokenizer.train(TEXTS, 300, allow_fewer=True)
    assert write_tokenizer(tmp_path, EncoderInput(pieces, 9)) == "sentence_piece.json"
    assert (tmp_path / "sentence_piece.model").read_bytes() == pieces.model
    words = WordTokenizer.train(TEXTS, 60, allow_fewer=True)
    assert write_tokenizer(tmp_path, EncoderInput(words, 9)) == "words.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [BertConfig(50, **SMALL), RobertaConfig(50, **SMALL), ModernBertConfig(50, **SMALL)],
    ids=["bert", "roberta", "modern_bert"],
)
@pytest.mark.parametrize("format", ["onnx", "litert"])
def test_any_shape(config, format, tmp_path):
    model = encoder(config)
    path = tmp_path / f"m.{format}"
    export_model(path, model, inputs_of(model), format)
    if format == "litert":
        return
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    for rows, length in ((1, 1), (1, 30), (7, 2)):
        inputs = inputs_of(model, rows, length, seed=rows)
        expected = model({k: keras.ops.convert_to_tensor(x) for k, x in inputs.items()})
        typed = {x.name: inputs[x.name].astype(x.type[7:-1].replace("bool", "?"))
                 for x in session.get_inputs()}  # fmt: skip
        for name, values in zip(model.output, session.run(list(model.output), typed), strict=True):
            theirs = keras.ops.convert_to_numpy(expected[name])
            np.testing.assert_allclose(values, theirs, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.slow
def test_a_list_of_inputs_and_a_function_of_the_user(tmp_path, monkeypatch):
    """The process that exports the model imports the module of the function."""
    (tmp_path / "own_scores.py").write_text(
        "import keras\n"
        "@keras.saving.register_keras_serializable('own')\n"
        "def nearer(scores, head, query, key):\n"
        "    return scores - keras.ops.cast(keras.ops.abs(query - key), scores.dtype)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import own_scores

    def model(score_mod):
        a, b = (keras.Input((None,), dtype="int32", name=name) for name in "ab")
        embed = TokenEmbedding(20, 12)
        x = MultiHeadSelfAttention(3, score_mod=score_mod)(embed(b))
        x = MultiHeadAttention(3)(embed(a), x)
        return keras.Model([a, b], AttentionPooling()(x))

    inputs = {"a": np.array([[3, 4, 0], [5, 6, 7]]), "b": np.array([[3, 4, 5], [1, 2, 0]])}
    path = tmp_path / "m.onnx"
    export_model(path, model(own_scores.nearer), inputs)  # which compares the outputs
    assert path.exists()
    monkeypatch.setattr(own_scores.nearer, "__module__", "__main__")
    with pytest.raises(ValueError, match="own>nearer, defined in the program itself"):
        export_model(path, model(own_scores.nearer), inputs)


@pytest.mark.slow
@pytest.mark.parametrize("config", [BagClassifierConfig, RecurrentClassifierConfig])
def test_models_that_no_exporter_supports(config, tmp_path):
    model = config(50, num_classes=3).build()
    with pytest.raises(RuntimeError, match="cannot be exported as onnx"):
        export_model(tmp_path / "m.onnx", model, inputs_of(model))
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(0)
    model = {"model": "bert", **SMALL}
    return TextClassifier(WORD_PIECE, ("bad", "good", "so"), model=model, data={"max_length": 24})


@pytest.mark.slow
def test_a_classifier_without_our_package(classifier, tmp_path):
    classifier.export(tmp_path / "m", format="onnx")
    about = json.loads((tmp_path / "m/model.json").read_text())
    assert about["labels"] == ["bad", "good", "so"]
    (logits,) = read(tmp_path / "m", TEXTS[:3])
    odds = np.exp(np.array(logits))
    np.testing.assert_allclose(
        odds / odds.sum(1, keepdims=True), classifier.predict_probabilities(TEXTS[:3]), atol=1e-5
    )
    message = r"only available with format='saved_model'\. Received: \{'batch_size': 3\} with"
    with pytest.raises(ValueError, match=message):
        classifier.export(tmp_path / "n", format="onnx", batch_size=3)
    with pytest.raises(FileExistsError, match="not empty"):
        classifier.export(tmp_path / "m", format="onnx")
    before = (tmp_path / "m/model.onnx").stat().st_size
    classifier.export(tmp_path / "m", format="onnx-int8", overwrite=True)
    assert (tmp_path / "m/model.onnx").stat().st_size < before


@pytest.mark.slow
def test_a_classifier_with_an_unknown_class(tmp_path):
    """Its tokenizer adds no special tokens."""
    keras.utils.set_random_seed(0)
    made = TextClassifier(
        WORD_PIECE,
        ("bad", "good"),
        unknown_score="energy",
        unknown_below=1.0,
        model={"model": "transformer", **SMALL},
        data={"max_length": 24, "unknown": "other"},
    )
    (logits,) = read_logits(made, tmp_path / "m")
    about = json.loads((tmp_path / "m/model.json").read_text())
    learned = about["learned"]
    energy = np.log(np.exp(np.array(logits)).sum(1))
    made.relearn(unknown_below=float(np.median(energy)))
    assert (learned["unknown_score"], learned["unknown_below"]) == ("energy", 1.0)
    labels = [about["labels"][i] for i in np.argmax(logits, 1)]
    sure = energy >= np.median(energy)
    expected = [x if s else about["unknown"] for x, s in zip(labels, sure, strict=True)]
    assert [x.label for x in made.predict(TEXTS[:3])] == expected
    assert "other" in expected


def read_logits(task, folder):
    task.export(folder, format="onnx")
    return read(folder, TEXTS[:3])


def test_a_pretrainer_is_refused(tmp_path):
    model = {**SMALL, "sequence_length": 24}
    tokenizer = WordPieceTokenizer.train(TEXTS, 80, allow_fewer=True, mask_in_text=True)
    made = Pretrainer(tokenizer, model=model, data={"max_length": 24})
    with pytest.raises(ValueError, match="reads the positions of masked words"):
        made.export(tmp_path / "m", format="onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_both_files_of_int8_are_compared(tmp_path, monkeypatch):
    """The float32 file exactly; the file that is kept as far as rounding allows."""
    model = with_heads(BertConfig(50, **SMALL), ["classes"], num_classes=3)
    ids = np.array([[2, 9, 3], [2, 3, 0]], "int32")
    inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    run = runtimes._onnx
    for wrong, factor in (("float32.onnx", 1.01), ("written.onnx", -1)):

        def changed(path, wrong=wrong, factor=factor):
            by = factor if path.name == wrong else 1
            return lambda given: {name: x * by for name, x in run(path)(given).items()}

        monkeypatch.setattr(runtimes, "_onnx", changed)
        with pytest.raises(RuntimeError, match="returns a different"):
            export_model(tmp_path / "m.onnx", model, inputs, "onnx-int8")
        assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("task", ["tagger", "vectors", "pairs", "numbers"])
def test_other_tasks_without_our_package(task, tmp_path):
    model, data = {**SMALL, "sequence_length": 24}, {"max_length": 24}
    if task == "tagger":
        made = Tagger(WORD_PIECE, ("O", "B-A"), model=model, data=data)
        made.export(tmp_path / "m", format="onnx")
        (logits,) = read(tmp_path / "m", TEXTS[:2])
        assert np.shape(logits)[-1] == 2
        return
    if task == "numbers":
        learned = {"mean": 40.0, "deviation": 3.0, "margin": 2.0}
        made = TextRegressor(WORD_PIECE, **learned, model={"model": "bert", **SMALL}, data=data)
        made.export(tmp_path / "m", format="onnx")
        (outputs,) = read(tmp_path / "m", TEXTS[:2])
        values = json.loads((tmp_path / "m/model.json").read_text())["learned"]
        numbers = values["mean"] + values["deviation"] * np.array(outputs)[:, 0]
        found = made.predict(TEXTS[:2])
        np.testing.assert_allclose(numbers, [x.number for x in found], atol=1e-4)
        np.testing.assert_allclose(numbers - values["margin"], [x.low for x in found], atol=1e-4)
        return
    kind = {"vectors": "bi", "pairs": "cross"}[task]
    data = {**data, "kind": kind, "prompt": "a hat: " if kind == "bi" else None}
    made = SimilarityScorer(WORD_PIECE, model=model, data=data, lowest=1.0, highest=5.0)
    made.own_use = {"normalize": True} if kind == "bi" else {}
    made.save(tmp_path / "made.task")
    # The command passes all settings, with those that the task has of its own.
    command = ["similarity", "export", "--model", tmp_path / "made.task", "--format", "onnx"]
    script = "import sys; from keras_attn.cli import main; main(sys.argv[1:])"
    run_python("tensorflow", script, *command, "--to", tmp_path / "m")
    about = json.loads((tmp_path / "m/model.json").read_text())
    values = about["learned"]
    if kind == "bi":
        assert about["prompts"] == ["a hat: "] * 2
        (vectors,) = read(tmp_path / "m", [about["prompts"][0] + text for text in TEXTS[:3]])
        np.testing.assert_allclose(vectors, made.embed(TEXTS[:3]), atol=1e-5)
        return
    pairs = [tuple(TEXTS[:2]), tuple(TEXTS[1:3])]
    (classes,) = read(tmp_path / "m", pairs)
    scores = values["lowest"] + (values["highest"] - values["lowest"]) * np.array(classes)[:, 0]
    np.testing.assert_allclose(scores, made.predict(pairs), atol=1e-4)

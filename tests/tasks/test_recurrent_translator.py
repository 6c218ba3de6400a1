"""Translators of recurrent models: with attention and without, their files and SavedModels."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import translation_toys
from processes import answer
from tracing import eagerly
from translation_toys import PAIRS, stacked

from keras_attn.export import check_equal
from keras_attn.models import RecurrentEncoderDecoderConfig, TransformerEncoderDecoderConfig
from keras_attn.tasks import Translator
from keras_attn.text import BytePairTokenizer

SMALL = {"model": "rnn", "dim": 24, "units": 32, "dropout": 0.0}
TEXTS = [source for source, _ in PAIRS[::12]]
HOSTILE = ["", "   ", "x" * 100, "a\x00b", "🙂 ünïcödé", "one\ntwo"]
FIT = {"tokens_per_batch": 128, "learning_rate": 2e-2, "clip_norm": 1.0, "verbose": 0}
BEAMS = 3


@pytest.fixture(scope="module")
def tokenizer():
    return translation_toys.tokenizer()


@pytest.fixture(scope="module")
def translator(tokenizer):
    keras.utils.set_random_seed(0)
    translator = Translator(
        tokenizer, model={**SMALL, "attention": "additive"}, data={"max_length": 24}
    )
    translator.fit(PAIRS, epochs=12, label_smoothing=0.0, **FIT)
    return translator


@pytest.fixture(scope="module")
def blind(tokenizer):
    """Without attention; LSTM, two vocabularies."""
    keras.utils.set_random_seed(0)
    target = BytePairTokenizer.train([target for _, target in PAIRS], 280)
    config = {**SMALL, "attention": "none", "cell": "lstm"}
    translator = Translator(
        tokenizer, target_tokenizer=target, model=config, data={"max_length": 12}
    )
    with eagerly():
        translator.fit(PAIRS[:15], epochs=1, **FIT)
    return translator


@pytest.fixture(params=["additive", "none"])
def either(request, translator, blind):
    return translator if request.param == "additive" else blind


@pytest.mark.slow
def test_it_learns_the_numbers(translator):
    scores = translator.evaluate(PAIRS, beams=BEAMS)
    assert scores.bleu > 90
    assert translator.translate("the three and seven", BEAMS) == "die drei und sieben"


@pytest.mark.slow
def test_the_kind_of_model_is_chosen(tokenizer):
    default = Translator(tokenizer)
    assert isinstance(default.config, TransformerEncoderDecoderConfig)
    sizes = {"dim": 16, "num_layers": 1}
    named = Translator(tokenizer, model={"model": "transformer", **sizes})
    assert named.config == TransformerEncoderDecoderConfig(
        tokenizer.vocabulary_size, right_padding=True, **sizes
    )
    config = RecurrentEncoderDecoderConfig(1, attention="luong-dot", dim=16, units=16)
    for given in (config, {"model": "rnn", "attention": "luong-dot", "dim": 16, "units": 16}):
        made = Translator(tokenizer, model=given).config
        assert made.to_dict() == {
            **config.to_dict(), "source_vocabulary_size": tokenizer.vocabulary_size
        }  # fmt: skip
    named = Translator(tokenizer, model="rnn")
    assert named.config == Translator(tokenizer, model={"model": "rnn"}).config
    for wrong in ({"model": "gru"}, {"model": "rnn", "num_heads": 2}, {"units": 16}, "gru"):
        with pytest.raises(ValueError, match=r"model='transformer': .*model='rnn': .* Received: "):
            Translator(tokenizer, model=wrong)
    with pytest.raises(ValueError, match=r"`attention` must be one of .* Received: 'dot'"):
        Translator(tokenizer, model={"model": "rnn", "attention": "dot"})


@pytest.mark.slow
def test_batches_change_nothing(either):
    texts = [*TEXTS, "", "nine", "one and two and three"]
    together = either.translate(texts, BEAMS, batch_size=23)
    assert either.translate(texts[::-1], BEAMS, batch_size=4) == together[::-1]
    assert [either.translate(text, BEAMS) for text in texts[-3:]] == together[-3:]
    with pytest.warns(UserWarning, match="max_source_length"):
        assert either.translate([*HOSTILE, *texts], BEAMS)[len(HOSTILE) :] == together


@pytest.mark.slow
def test_a_beam_of_one_is_the_plain_model_step_by_step(either):
    """Greedy search written out, with the functional model and nothing else of ours."""
    source, target = either.source_tokenizer, either.target_tokenizer
    for text in ("four and two", "eight"):
        source_ids = source.encode(text, add_end=True)
        ids = [target.start_id]
        while len(ids) <= 2 * len(source_ids) + 16:
            inputs = {"source_ids": np.array([source_ids]), "target_ids": np.array([ids])}
            logits = keras.ops.convert_to_numpy(either.model(inputs))[0, -1].copy()
            logits[[target.pad_id, target.start_id]] = -np.inf
            ids.append(int(logits.argmax()))
            if ids[-1] == target.end_id:
                break
        assert either.translate(text, beams=1) == target.decode(ids)


@pytest.mark.slow
def test_n_best_and_their_alignments(translator):
    found = translator.translate_n_best(TEXTS[:4], 2, BEAMS)
    best = translator.translate(TEXTS[:4], BEAMS)
    assert [n_best.translations[0] for n_best in found] == best
    for text, n_best in zip(TEXTS, found, strict=False):
        assert n_best.scores == sorted(n_best.scores, reverse=True)
        best = n_best.alignments[0]
        np.testing.assert_allclose(best.weights.sum(axis=1), 1, atol=1e-5)
        own = translator.align(text)
        assert own.target_tokens == best.target_tokens
        np.testing.assert_allclose(own.weights, best.weights, atol=1e-5)
    given = translator.align("the three and seven", "die drei und sieben", layer=0)
    assert "".join(given.target_tokens) == "die▁drei▁und▁sieben</s>"
    assert given.weights.shape == (len(given.target_tokens), len(given.source_tokens))
    with pytest.raises(ValueError, match=r"one of the 1 cross-attentions, -1 to 0\. Received: 1"):
        translator.align("one", layer=1)


@pytest.mark.slow
def test_without_attention_nothing_is_aligned(blind):
    with pytest.raises(ValueError, match="Expected a model with attention"):
        blind.align("the one and two")
    n_best = blind.translate_n_best("the one and two", 2, beams=3)
    assert n_best.translations[0] == blind.translate("the one and two", beams=3)
    for alignment in n_best.alignments:
        assert alignment.weights.shape == (
            len(alignment.target_tokens), len(alignment.source_tokens)
        )  # fmt: skip
        assert not alignment.weights.any()
        assert alignment.to_pharaoh() == ""


@pytest.mark.slow
def test_mixed_precision(tokenizer, tmp_path, eager):
    keras.utils.set_random_seed(0)
    translator = Translator(tokenizer, model=SMALL, dtype="mixed_bfloat16")
    loss = translator.fit(PAIRS[:15], epochs=5, **FIT).history["loss"]
    assert loss[-1] < 0.8 * loss[0]
    translator.save(tmp_path / "half.task")
    loaded = Translator.load(tmp_path / "half.task")
    assert loaded.model.get_layer("decoder").compute_dtype == "bfloat16"
    assert loaded.model.get_layer("decoder").cell.compute_dtype == "bfloat16"
    assert loaded.translate("one", 2) == translator.translate("one", 2)
    whole = Translator.load(tmp_path / "half.task", dtype="float32")
    assert whole.model.get_layer("decoder").cell.compute_dtype == "float32"


# Files


FRESH = """
import json, sys
from keras_attn.tasks import Translator
path, texts, folder = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
translator = Translator.load(path)
if folder:  # trained here, and exported by a child process
    pairs = json.loads(sys.argv[4])
    loss = translator.fit(pairs, epochs=4, tokens_per_batch=1024, verbose=0).history["loss"]
    assert loss[-1] < loss[0], loss
    assert "tensorflow" not in sys.modules
    translator.save(folder + "/trained.task")
    translator.export(folder + "/exported", beams=2)
best = translator.translate_n_best(texts[1], 2, beams=3)
print(json.dumps([translator.translate(texts, 3), best[:4], best.alignments[0].weights.tolist()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend, attention",
    [
        ("torch", "additive"),
        ("jax", "none"),
        pytest.param("tensorflow", "additive", marks=pytest.mark.slow),
        pytest.param("jax", "additive", marks=pytest.mark.slow),
    ],
)
def test_a_saved_task_on_every_backend(translator, blind, tmp_path, backend, attention):
    path = tmp_path / "numbers.task"
    saved = translator if attention == "additive" else blind
    saved.save(path)
    texts = [*TEXTS[:4], "", "🦖"]
    translations, best, weights = answer(backend, FRESH, path, json.dumps(texts), "")
    assert translations == saved.translate(texts, 3)
    expected = saved.translate_n_best(texts[1], 2, beams=3)
    assert best[0] == expected.translations
    assert best[1] == pytest.approx(expected.scores, abs=1e-4)
    assert best[2:] == [expected.truncated, expected.source_truncated]
    np.testing.assert_allclose(weights, expected.alignments[0].weights, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_trained_and_exported_on_other_backends(tokenizer, tmp_path, backend):
    attention = "luong-general" if backend == "jax" else "none"
    config = {**SMALL, "attention": attention, "dropout": 0.1}
    Translator(tokenizer, model=config, data={"max_length": 24}).save(tmp_path / "start.task")
    arguments = (tmp_path / "start.task", json.dumps(TEXTS[:3]), tmp_path, json.dumps(PAIRS[:20]))
    translations = answer(backend, FRESH, *arguments)[0]
    trained = Translator.load(tmp_path / "trained.task")
    assert trained.translate(TEXTS[:3], 3) == translations
    serve = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"]
    served = serve(text=tf.constant(TEXTS))["translation"].numpy().tolist()
    assert [text.decode() for text in served] == trained.translate(TEXTS, beams=2)


# SavedModels


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["additive", pytest.param("none", marks=pytest.mark.slow)])
def test_saved_model(attention, request, tmp_path):
    """Both signatures, in a process without the package and against the Python object."""
    either = request.getfixturevalue("translator" if attention == "additive" else "blind")
    path, count = tmp_path / "exported", 2
    either.export(path, beams=3, num_return_sequences=count)
    texts = [*TEXTS, *HOSTILE]
    script = (
        "import json, sys\n"
        "assert sys.modules['keras_attn'] is None  # as if it were not there\n"
        "import tensorflow as tf\n"
        "signatures = tf.saved_model.load(sys.argv[1]).signatures\n"
        "text = tf.constant(json.loads(sys.argv[2]))\n"
        "output = signatures['serving_default'](text=text)['translation']\n"
        "details = signatures['details'](text=text)['alignments'].numpy().sum(axis=-1).tolist()\n"
        "assert signatures['details'](text=text[:0])['translations'].shape == [0, 2]\n"
        "print(json.dumps([[t.decode() for t in output.numpy().tolist()], details]))\n"
    )
    served, totals = answer("alone", script, path, json.dumps(texts))
    results = either.translate_n_best(texts, count, beams=3, batch_size=len(texts))
    assert served == [result.translations[0] for result in results]
    expected = stacked(results)
    seen = expected["target_tokens"] != ""
    if either.config.attention == "none":
        seen = np.zeros_like(seen)
    np.testing.assert_allclose(totals, seen, atol=1e-5)
    details = tf.saved_model.load(str(path)).signatures["details"]
    check_details(details, texts, expected)


def check_details(details, texts, expected):
    outputs = {k: v.numpy() for k, v in details(text=tf.constant(texts)).items()}
    assert outputs.keys() == expected.keys()
    for name, values in expected.items():
        check_equal(name, outputs[name], values, tolerance=1e-5)


@pytest.mark.slow
def test_exported_functions_without_attention(blind, tmp_path, unsaved):
    """What stands in the SavedModel, without one."""
    blind.export(tmp_path / "exported", beams=BEAMS, num_return_sequences=2)
    texts = [*TEXTS, *HOSTILE]
    results = blind.translate_n_best(texts, 2, BEAMS, batch_size=len(texts))
    check_details(unsaved[0]["details"], texts, stacked(results))
    served = unsaved[0]["serving_default"](tf.constant(texts))["translation"].numpy()
    assert [text.decode() for text in served] == [result.translations[0] for result in results]

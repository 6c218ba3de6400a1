"""The translator from strings to strings, its files and its SavedModel."""

import json
import os
import unicodedata
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
import translation_toys
from processes import answer
from translation_toys import CONFIG, PAIRS

from keras_attn.batches import TokenBatches
from keras_attn.tasks import TranslationTest, Translator
from keras_attn.tasks.base.task_file import FORMAT_VERSION
from keras_attn.text import BytePairTokenizer
from keras_attn.training import MaskedCrossEntropy

HOSTILE = ["", " ", "\t\n", "🦖🦕", "ünïcödé \u0000 \u0001", "x" * 300, "שלום עולם", "a " * 90]


@pytest.fixture(scope="module")
def tokenizer():
    return translation_toys.tokenizer()


@pytest.fixture(scope="module")
def translator():
    return translation_toys.fitted()


@pytest.mark.slow
def test_it_learns_the_numbers(translator):
    scores = translator.evaluate(PAIRS)
    assert scores.bleu > 90
    assert scores.chrf > 90
    assert "beam of 4, length penalty gnmt 1\n" in str(scores)
    assert scores.to_dict()["length_penalty_kind"] == "gnmt"
    assert translator.translate("the three and seven") == "die drei und sieben"
    assert "version:" in scores.bleu_signature
    assert "case:mixed" in scores.bleu_signature


@pytest.mark.slow
def test_evaluate_is_sacrebleu_of_translate(translator):
    import sacrebleu

    pairs = [(s, t + " !") for s, t in PAIRS[:12]]
    scores = translator.evaluate(pairs, beams=1)
    translations = translator.translate([s for s, _ in pairs], beams=1)
    assert scores.translations == translations and "penalty" not in str(scores)
    expected = sacrebleu.corpus_bleu(translations, [[t for _, t in pairs]])
    assert scores.bleu == pytest.approx(expected.score)
    assert scores.bleu < 95
    assert scores.bleu_lowercase == pytest.approx(scores.bleu)


def test_references_may_have_marks_apart(translator, monkeypatch):
    texts = ["Cafe\u0301 de\u0301ja\u0300 vu ici", "Manche fu\u0308nf gru\u0308ne A\u0308pfel"]
    written = [unicodedata.normalize("NFC", text) for text in texts]
    monkeypatch.setattr(translator, "results", lambda *_, **__: written)
    scores = translator.evaluate([("eins", text) for text in texts])
    assert (round(scores.bleu), round(scores.chrf)) == (100, 100)


def test_evaluate_gives_both_cases(translator):
    """The same but for capitals: nothing is lost in lower case."""
    lower = translator.evaluate(PAIRS[:12], beams=1)
    upper = translator.evaluate([(s, t.upper()) for s, t in PAIRS[:12]], beams=1)
    assert upper.bleu < 1 < 80 < upper.bleu_lowercase == pytest.approx(lower.bleu_lowercase)
    assert "case:lc" in upper.bleu_lowercase_signature
    assert "case:mixed" in upper.bleu_signature
    assert upper[:5] == (
        upper.bleu,
        upper.chrf,
        upper.bleu_signature,
        upper.chrf_signature,
        upper.translations,
    )


def test_batches_and_their_order_change_nothing(translator):
    texts = [s for s, _ in PAIRS[:20]] + ["", "nine", "one and two and three and four"]
    together = translator.translate(texts, batch_size=23)
    assert translator.translate(texts, batch_size=4) == together
    assert translator.translate(texts[::-1], batch_size=5) == together[::-1]
    assert [translator.translate(text) for text in texts] == together


@pytest.mark.slow
def test_one_trace_for_all(translator, monkeypatch):
    traces = []
    encode = translator.encode

    def counted(ids):
        traces.append(ids.shape)
        return encode(ids)

    monkeypatch.setattr(translator, "encode", counted)
    for texts in (["one"], ["the one and two", "three"] * 3, ["nine " * 20]):
        translator.translate(texts, beams=5)
    assert [tuple(shape) for shape in traces] == [(None, None)]


@pytest.mark.slow
def test_a_beam_of_one_is_the_plain_model_step_by_step(translator):
    """Greedy search written out, with the functional model and nothing else of ours."""
    tokenizer = translator.source_tokenizer
    for source in ("four and two", "eight", "zero and zero and one"):
        source_ids = tokenizer.encode(source, add_end=True)
        ids = [tokenizer.start_id]
        while len(ids) <= 2 * len(source_ids) + 16:
            inputs = {"source_ids": np.array([source_ids]), "target_ids": np.array([ids])}
            logits = keras.ops.convert_to_numpy(translator.model(inputs))[0, -1].copy()
            logits[[tokenizer.pad_id, tokenizer.start_id]] = -np.inf
            ids.append(int(logits.argmax()))
            if ids[-1] == tokenizer.end_id:
                break
        assert translator.translate(source, beams=1) == tokenizer.decode(ids)


@pytest.mark.slow
def test_hostile_strings_give_an_answer(translator):
    with pytest.warns(UserWarning, match="max_source_length"):
        answers = translator.translate(HOSTILE)
    assert len(answers) == len(HOSTILE)
    assert all(isinstance(answer, str) for answer in answers)
    assert translator.translate([]) == []


def test_bad_input_is_refused(translator, tokenizer):
    with pytest.raises(
        TypeError, match=r"Expected strings\. Received: 5 of type int at position 1"
    ):
        translator.translate(["one", 5])
    for texts in (5, None, b"one", {"one": 1}):
        expected = "lists of values" if isinstance(texts, dict) else "a string or a list of strings"
        with pytest.raises(TypeError, match=expected):
            translator.translate(texts)
    for wrong in ({"beams": 0}, {"batch_size": -1}, {"alpha": float("nan")}, {"alpha": "1"}):
        kind = TypeError if wrong == {"alpha": "1"} else ValueError
        with pytest.raises(kind, match=f"`{next(iter(wrong))}` must be"):
            translator.translate("one", **wrong)
    for pairs in (["ab", "cd"], [("a", None)], [{"source": "a"}], [("a", "b", "c")], [7]):
        with pytest.raises(ValueError, match=r"pairs of strings\. Received: .* at position 0"):
            translator.evaluate(pairs)
    with pytest.raises(TypeError, match="must be a BytePairTokenizer"):
        Translator(None)
    with pytest.raises(ValueError, match="a dict of the settings of one of them"):
        Translator(tokenizer, model={"dims": 3})
    with pytest.raises(ValueError, match="at least one"):
        translator.evaluate([])
    with pytest.raises(ValueError, match="at least one"):
        translator.fit([])
    with pytest.raises(ValueError, match="divisible by `num_heads`"):
        Translator(tokenizer, model={**CONFIG, "num_heads": 5})
    with pytest.raises(ValueError, match="`max_length` must be at least 2"):
        Translator(tokenizer, model=CONFIG, data={"max_length": 1})


@pytest.mark.slow
def test_each_fit_is_a_schedule_of_its_own(tokenizer, eager):
    translator = Translator(tokenizer, model=CONFIG)
    for _ in range(2):
        before = [w.numpy().copy() for w in translator.model.trainable_weights]
        translator.fit(PAIRS[:40], epochs=2, verbose=0)
        pairs = zip(before, translator.model.trainable_weights, strict=True)
        assert max(np.abs(a - b.numpy()).max() for a, b in pairs) > 1e-4
    optimizer = keras.optimizers.SGD(0.5)
    translator.model.compile(optimizer, MaskedCrossEntropy())
    translator.fit(PAIRS[:40], epochs=1, verbose=0)
    assert translator.model.optimizer is optimizer  # a choice of the user's own is kept


@pytest.mark.slow
def test_the_schedule_counts_the_batches_of_an_update(tokenizer, eager):
    """Keras asks it at the number of batches, of which three make an update."""
    rates = []

    class Rates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))

    translator = Translator(tokenizer, model=CONFIG)
    settings = {"epochs": 3, "tokens_per_batch": 64, "learning_rate": 1e-3, "verbose": 0}
    translator.fit(PAIRS[:40], gradient_accumulation=3, callbacks=[Rates()], **settings)
    with pytest.raises(ValueError, match=r"gradient_accumulation=1000, \d+ batches"):
        translator.fit(PAIRS[:40], gradient_accumulation=1000, **settings)
    several, rates = rates, []
    Translator(tokenizer, model=CONFIG).fit(PAIRS[:40], callbacks=[Rates()], **settings)
    np.testing.assert_allclose(several, rates, atol=1.5e-4)
    assert several[0] > 5e-4


@pytest.mark.slow
def test_what_is_compiled_by_hand_stays(tokenizer, eager):
    translator = Translator(tokenizer, model=CONFIG)
    translator.compile(total_steps=10, optimizer=keras.optimizers.SGD(0.5), label_smoothing=0.0)
    translator.fit(PAIRS[:40], epochs=1, verbose=0)
    assert isinstance(translator.model.optimizer, keras.optimizers.SGD)
    assert translator.model.loss.label_smoothing == 0.0


def test_pairs_that_are_too_long_are_counted(translator):
    with pytest.warns(UserWarning, match="1 of 3 pairs"):
        batches = translator.dataset([*PAIRS[:2], ("one", "eins " * 100)])
    assert batches.num_examples == 2


def test_dataset_is_what_fit_takes(translator):
    batches = translator.dataset(PAIRS, tokens_per_batch=128)
    assert isinstance(batches, TokenBatches)
    translator.compile(1)  # it may come from a file
    loss = translator.model.evaluate(batches, verbose=0)
    assert np.isfinite(loss)


def test_alignment_has_a_row_for_each_target_token(translator):
    alignment = translator.align("the three and seven", "die drei und sieben")
    assert alignment.weights.shape == (len(alignment.target_tokens), len(alignment.source_tokens))
    np.testing.assert_allclose(alignment.weights.sum(axis=1), 1.0, atol=1e-5)
    assert "".join(alignment.target_tokens) == "die▁drei▁und▁sieben</s>"


@pytest.mark.slow
def test_two_vocabularies(tokenizer, tmp_path):
    target = BytePairTokenizer.train([t for _, t in PAIRS], 280)
    translator = Translator(tokenizer, target_tokenizer=target, model=CONFIG)
    translator.fit(PAIRS[:10], epochs=1, verbose=0)
    expected = translator.translate(["one and two"])
    translator.save(tmp_path / "two.task")
    assert Translator.load(tmp_path / "two.task").translate(["one and two"]) == expected
    translator.export(tmp_path / "exported")


@pytest.mark.slow
def test_a_saved_task_is_one_file_for_every_backend(translator, tmp_path):
    path = tmp_path / "numbers.task"
    translator.save(path)
    assert os.listdir(tmp_path) == ["numbers.task"]
    texts = [s for s, _ in PAIRS[::9]] + ["", "🦖"]
    expected = translator.translate(texts)
    script = (
        "import json, sys\n"
        "from keras_attn.tasks import Translator\n"
        "translator = Translator.load(sys.argv[1])\n"
        "if keras_attn_exports := sys.argv[3:]:\n"
        "    translator.export(keras_attn_exports[0], beams=3, num_return_sequences=2,\n"
        "                      overwrite=True)\n"
        "texts = json.loads(sys.argv[2])\n"
        "best = translator.translate_n_best(texts[:3], 2, beams=3, batch_size=3)[2]\n"
        "print(json.dumps([translator.translate(texts), best[:4],\n"
        "                  [a.weights.tolist() for a in best.alignments]]))\n"
    )
    n_best = translator.translate_n_best(texts[2], 2, beams=3)
    (tmp_path / "by_child").mkdir()
    (tmp_path / "by_child" / "saved_model.pb").write_text("an old one")
    for backend in ("tensorflow", "jax", "torch"):
        places = [tmp_path / "by_child"] * (backend == "jax")
        translations, found, weights = answer(backend, script, path, json.dumps(texts), *places)
        assert translations == expected, backend
        assert found[0] == n_best.translations, backend
        assert found[1] == pytest.approx(n_best.scores, abs=1e-4), backend
        assert found[2:] == [n_best.truncated, n_best.source_truncated], backend
        for array, alignment in zip(weights, n_best.alignments, strict=True):
            np.testing.assert_allclose(array, alignment.weights, atol=1e-5)
    # JAX exported it too, by a child process.
    loaded = tf.saved_model.load(str(tmp_path / "by_child"))
    outputs = loaded.signatures["serving_default"](text=tf.constant(texts))["translation"]
    served = [text.decode() for text in outputs.numpy().tolist()]
    assert served == translator.translate(texts, beams=3)
    details = loaded.signatures["details"](text=tf.constant(texts))
    found = translator.translate_n_best(texts, 2, beams=3)
    np.testing.assert_allclose(details["scores"], [n_best.scores for n_best in found], atol=1e-4)


def test_files_that_are_no_task_are_refused(translator, tmp_path):
    with pytest.raises(FileNotFoundError):
        Translator.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match=r"written by `Translator\.save`"):
        Translator.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="folder"):
        translator.save(tmp_path / "nowhere" / "file")
    header = {"format_version": FORMAT_VERSION + 1, "keras_attn": "9.0", "task": "Translator"}
    with zipfile.ZipFile(tmp_path / "newer", "w") as archive:
        archive.writestr("task.json", json.dumps(header))
    with pytest.raises(ValueError, match="Install a newer keras_attn"):
        Translator.load(tmp_path / "newer")


@pytest.mark.slow
def test_saved_model_needs_tensorflow_alone(translator, tmp_path):
    path = tmp_path / "exported"
    translator.export(path)
    texts = [s for s, _ in PAIRS] + [text for text in HOSTILE if len(text) < 60]
    script = (
        "import json, sys\n"
        "assert sys.modules['keras_attn'] is None  # as if it were not there\n"
        "import tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "output = serve(text=tf.constant(json.loads(sys.argv[2])))['translation']\n"
        "empty = serve(text=tf.constant([], tf.string))['translation']\n"
        "broken = serve(text=tf.constant([b'one \\xff two']))['translation']\n"
        "assert empty.shape == [0] and broken.shape == [1]\n"
        "assert not [name for name, module in sys.modules.items() if module\n"
        "            and name.startswith(('keras_hub', 'tensorflow_text'))]\n"
        "print(json.dumps([text.decode() for text in output.numpy().tolist()]))\n"
    )
    assert answer("alone", script, path, json.dumps(texts)) == translator.translate(texts)
    with pytest.raises(FileExistsError):
        translator.export(path)


@pytest.mark.slow
def test_mixed_precision_trains_and_translates(tokenizer, tmp_path, eager):
    keras.utils.set_random_seed(0)
    translator = Translator(tokenizer, model=CONFIG, dtype="mixed_bfloat16")
    history = translator.fit(PAIRS[:15], epochs=6, learning_rate=1e-2, verbose=0)
    assert history.history["loss"][-1] < 0.8 * history.history["loss"][0]
    translator.save(tmp_path / "half.task")
    loaded = Translator.load(tmp_path / "half.task")
    assert loaded.model.get_layer("encoder").compute_dtype == "bfloat16"
    assert loaded.translate("one", 2) == translator.translate("one", 2)


@pytest.mark.slow
def test_white_space_changes_nothing(translator):
    plain = "the three and seven"
    expected = translator.translate_n_best(plain, 2)
    for text in (
        "the  three   and seven",
        "  the three and seven \n",
        "the\u00a0three\u2009and\u3000seven",
        "the\tthree\r\nand\nseven",
    ):
        assert translator.translate(text) == expected.translations[0]
        assert translator.translate_n_best(text, 2).translations == expected.translations
    apart, whole = (translator.translate_n_best(text, 2) for text in ("thre\u0301e", "thr\u00e9e"))
    assert apart.translations == whole.translations
    assert apart.alignments[0].source_text == "thr\u00e9e"
    batches = [
        translator.dataset([(text, "die drei")], tokens_per_batch=64)[0]
        for text in (plain, "the  three\u00a0and seven ")
    ]
    for one, other in zip(*map(keras.tree.flatten, batches), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_nothing_in_nothing_out(translator):
    assert translator.translate("") == ""
    assert translator.translate(iter(["", " \n\u00a0", "nine"]))[:2] == ["", ""]
    assert translator.translate_n_best(" \t", 2).translations == ["", ""]


@pytest.mark.slow
def test_the_direction_of_test_pairs(tokenizer, tmp_path):
    """The names that the model was trained with are taken, and the other way round is refused."""
    for language, line in (("de", "eins"), ("en", "one")):
        (tmp_path / f"test.{language}").write_text(f"{line}\n")
    settings = TranslationTest(pairs=str(tmp_path), split="test")
    back = Translator(tokenizer, model=CONFIG, data={"source": "en", "target": "de"})
    assert [tuple(pair)[:2] for pair in back.read_test(settings)] == [("one", "eins")]
    two = TranslationTest(pairs=str(tmp_path / "test.en"), pairs_target=str(tmp_path / "test.de"))
    assert [tuple(pair)[:2] for pair in back.read_test(two)] == [("one", "eins")]
    back.save(tmp_path / "back.task")
    loaded = Translator.load(tmp_path / "back.task")
    assert loaded.languages == ("en", "de")
    assert "en to de" in repr(loaded)
    wrong = TranslationTest(pairs=str(tmp_path), split="test", source="de", target="en")
    with pytest.raises(ValueError, match=r"translates en to de\. Received: pairs of de to en"):
        loaded.read_test(wrong)
    other = Translator(tokenizer, model=CONFIG)  # which has no names
    assert [tuple(pair)[:2] for pair in other.read_test(settings)] == [("eins", "one")]

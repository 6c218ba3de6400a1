"""Pretraining: learning, guesses, scores, files, the SavedModel, backends, given weights."""

import json
import textwrap
from pathlib import Path

import keras
import numpy as np
import pretraining_toys
import pytest
import tensorflow as tf
from kept import kept
from pretraining_toys import DATA, SIZES, TEXTS, TOPICS, documents, everything, untrained
from processes import answer, run_python
from tracing import eagerly

from keras_attn import attention_maps
from keras_attn.models import hidden_states
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import Pretrainer, SentenceIds, TextClassifier, read_backbone
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer
from keras_attn.visualize import LECTURE_SENTENCES


@pytest.fixture(scope="module")
def pretrainer():
    return kept(Pretrainer, pretraining_toys.trained)


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "p.task"
    return untrained(path), path


@pytest.mark.slow
def test_it_learns(pretrainer):
    """Words follow from the topic of a row, and sentences of one topic follow each other."""
    report = pretrainer.evaluate(documents(60, seed=1))
    # A word that is left out in one of two sentences cannot be known; a fifth of all others are of
    # the same topic.
    assert report.accuracy > 0.55 and report.perplexity < 4
    assert report.next_sentence_accuracy > 0.75
    for topic in TOPICS:
        words = topic.split()
        asked = f"{topic} {' '.join(words[:2])} [MASK] {words[3]}"
        guess = pretrainer.predict(asked)
        best = [word for word, _ in guess.masks[0][:2]]
        assert words[2] in best and best[0] in words
        assert guess.filled == asked.replace("[MASK]", best[0])
    same = pretrainer.predict((TOPICS[0], TOPICS[0])).follows
    other = pretrainer.predict((TOPICS[0], TOPICS[3])).follows
    assert same > 0.5 > other


def test_what_predict_gives(random_weights, eager):
    pretrainer, _ = random_weights
    guesses = pretrainer.predict(TEXTS, top_k=4)
    assert [len(guess.masks) for guess in guesses] == [1, 1, 0, 0, 3]
    assert [guess.follows is None for guess in guesses] == [True, False, False, True, True]
    for guess in guesses:
        for mask in guess.masks:
            p = [p for _, p in mask]
            assert len(mask) == 4 and p == sorted(p, reverse=True) and 0 < sum(p) <= 1
    for text, guess in zip(TEXTS, guesses, strict=True):
        alone = pretrainer.predict(text, top_k=4)
        assert [[w for w, _ in m] for m in alone.masks] == [[w for w, _ in m] for m in guess.masks]
        ours = [p for m in alone.masks for _, p in m]
        assert ours == pytest.approx([p for m in guess.masks for _, p in m], abs=1e-6)
    whole = pretrainer.predict("[MASK]", top_k=pretrainer.tokenizer.vocabulary_size).masks[0]
    assert sum(p for _, p in whole) == pytest.approx(1, abs=1e-5)
    # A mask of the first text that is cut off stays, and that of the second is filled.
    cut = pretrainer.predict(("dog " * 40 + "[MASK]", "a [MASK]"), top_k=1)
    assert len(cut.masks) == 1
    assert cut.filled == "dog " * 40 + f"[MASK] a {cut.masks[0][0][0]}"
    # Masks that are not read have no guesses.
    assert len(pretrainer.predict("[MASK] " * 50).masks) == 30
    assert pretrainer.predict([]) == []


def test_scores_are_those_of_the_logits(random_weights, eager):
    """Perplexity and accuracies by NumPy, of batches that count only what is real."""
    pretrainer, _ = random_weights
    held_out = documents(21, seed=1)
    batches = pretrainer.dataset(held_out, batch_size=16, shuffle=False)
    nats, right, pairs = [], [], []
    for i in range(len(batches)):
        inputs, labels, weights = batches[i]
        logits = {k: np.asarray(v, "float64") for k, v in pretrainer.model(inputs).items()}
        z = logits["masked_words"]
        z = z - np.log(np.exp(z).sum(-1, keepdims=True))
        some = weights["masked_words"] > 0
        found = np.take_along_axis(z, labels["masked_words"][..., None], -1)[..., 0]
        nats += (-found[some]).tolist()
        right += (z.argmax(-1) == labels["masked_words"])[some].tolist()
        real = weights["next_sentence"] > 0
        pairs += (logits["next_sentence"].argmax(-1) == labels["next_sentence"])[real].tolist()
    report = pretrainer.evaluate(held_out, batch_size=16)
    assert report.perplexity == pytest.approx(np.exp(np.mean(nats)), rel=1e-4)
    assert report.accuracy == pytest.approx(np.mean(right))
    assert report.next_sentence_accuracy == pytest.approx(np.mean(pairs))
    assert (report.masked_words, report.pairs) == (len(nats), len(pairs))
    # `fit` shows the same losses.
    pretrainer.compile(total_steps=1)
    shown = pretrainer.model.test_on_batch(*batches[0], return_dict=True)
    inputs, labels, weights = batches[0]
    first = int(weights["masked_words"].sum())
    assert shown["masked_words_loss"] == pytest.approx(np.mean(nats[:first]), rel=1e-4)
    total = shown["masked_words_loss"] + shown["next_sentence_loss"]
    assert shown["loss"] == pytest.approx(total, rel=1e-5)


def test_masks_show_only_what_stands_around_them(random_weights):
    """The word at a masked place does not reach the model, except where it is kept."""
    pretrainer, _ = random_weights
    inputs, labels, weights = pretrainer.dataset(documents(), batch_size=64)[0]
    read = np.take_along_axis(inputs["token_ids"], inputs["masked_positions"], 1)
    some = weights["masked_words"] > 0
    assert 0.7 < (read == pretrainer.tokenizer.mask_id)[some].mean() < 0.9
    assert (read == labels["masked_words"])[some].mean() < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_another_backend(random_weights, backend, eager):
    pretrainer, path = random_weights
    found = answer(backend, Path(pretraining_toys.__file__), path)
    expected = everything(pretrainer)
    assert found["backend"] == backend and found["words"] == expected["words"]
    for name in ("probabilities", "follows", "report"):
        np.testing.assert_allclose(found[name], expected[name], atol=2e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_training_without_tensorflow(tmp_path, backend):
    """A run from a text file, on another backend, imports no TensorFlow."""
    rows = ["\n".join(document) for document in documents(40)]
    (tmp_path / "text.txt").write_text("\n\n".join(rows))
    script = """
        import sys
        if "tensorflow" in sys.modules:
            sys.exit("TensorFlow was there before")
        from keras_attn.tasks import Pretrainer
        data = {"text": sys.argv[1] + "/text.txt", "dev_share": 0.3, "vocabulary_size": 120,
                "max_length": 32}
        examples = Pretrainer.read(Pretrainer.Data(**data))
        sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
        run = Pretrainer.train(examples.train, examples.dev, run_dir=sys.argv[1] + "/run",
                               data=data, model=sizes, training={"epochs": 1}, verbose=0)
        print(run.complete, "tensorflow" in sys.modules, Pretrainer.load(run.best))
    """
    done = run_python(backend, textwrap.dedent(script), tmp_path)
    assert done.stdout.startswith("True False Pretrainer(bert"), done.stderr


@pytest.mark.slow
def test_files(random_weights, tmp_path, eager):
    pretrainer, path = random_weights
    again = Pretrainer.load(path)
    assert everything(again) == everything(pretrainer)
    half = Pretrainer.load(path, dtype="mixed_bfloat16")
    assert half.policy.name == "mixed_bfloat16"
    found, expected = everything(half), everything(pretrainer)
    np.testing.assert_allclose(found["report"][0], expected["report"][0], rtol=0.05)
    with pytest.raises(ValueError, match="holds a Pretrainer"):
        TextClassifier.load(path)


@pytest.mark.slow
def test_the_saved_model_gives_what_the_task_gives(random_weights, tmp_path):
    pretrainer, _ = random_weights
    pretrainer.export(tmp_path / "saved", top_k=3)
    script = """
        import json, sys
        import tensorflow as tf
        loaded = tf.saved_model.load(sys.argv[1]).signatures
        texts = tf.constant(json.loads(sys.stdin.read()))
        found = loaded["serving_default"](text=texts)
        follows = loaded["next_sentence"](text=texts, second=texts[::-1])
        print(json.dumps([found["words"].numpy().astype(str).tolist(),
                          found["probabilities"].numpy().tolist(),
                          follows["probability"].numpy().tolist()]))
    """
    texts = [text for text in TEXTS if isinstance(text, str)]
    done = run_python("alone", textwrap.dedent(script), tmp_path / "saved", stdin=json.dumps(texts))
    words, probabilities, follows = json.loads(done.stdout)
    for guess, row, p in zip(pretrainer.predict(texts, top_k=3), words, probabilities, strict=True):
        count = len(guess.masks)
        assert row[:count] == [[word for word, _ in mask] for mask in guess.masks]
        assert row[count:] == [["", "", ""]] * (len(row) - count)
        ours = [[q for _, q in mask] for mask in guess.masks]
        np.testing.assert_allclose(p, ours + [[0.0] * 3] * (len(p) - count), atol=1e-4)
    ours = [g.follows for g in pretrainer.predict(list(zip(texts, texts[::-1], strict=True)))]
    np.testing.assert_allclose(follows, ours, atol=1e-4)


@pytest.mark.slow
def test_without_next_sentences(tmp_path):
    with eagerly():
        keras.utils.set_random_seed(0)
        pretrainer = Pretrainer.create(
            [row[:1] for row in documents(30)], data={**DATA, "next_sentence": False}, model=SIZES
        )
        rows = [row[:1] for row in documents(30)]
        run = pretrainer.fit(rows, rows[:5], epochs=1, verbose=0)
    assert "next_sentence_loss" not in run.history and run.score_name == "nats a masked word"
    report = pretrainer.evaluate(rows)
    assert report.next_sentence_accuracy is None and "next" not in str(report)
    with pytest.raises(ValueError, match="has not learned which sentences"):
        pretrainer.predict(("a dog", "a fish"))
    pretrainer.save(tmp_path / "p.task")
    pretrainer.export(tmp_path / "saved")
    assert set(tf.saved_model.load(str(tmp_path / "saved")).signatures) == {"serving_default"}


def test_what_the_heads_look_at(random_weights, tmp_path):
    """The maps of a text are those of the model for this text alone; the page has them all."""
    pretrainer, _ = random_weights
    texts = ["the dog barks", ("a fish swims", "deep")]
    study = pretrainer.explain(texts)
    assert [len(row) for row in study.ids] == [5, 7]
    ids, segments = pretrainer.field.encode(["a fish swims"], ["deep"])
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids != 0}
    maps = attention_maps(pretrainer.model, {**inputs, "masked_positions": ids[:, :1] * 0})
    (expected,) = (numpy for numpy in map(np.asarray, maps.values()))
    (part,) = study.views[1].parts
    np.testing.assert_allclose(np.stack(part.weights), expected, atol=1e-6)
    assert study.roles.values.shape == (1, 2, 5) and study.divergence.shape == (2, 2)
    page = pretrainer.page(study, "Heads of a toy")
    assert "Heads of a toy" in page and "barks" in page
    assert len(pretrainer.explain().views) == len(LECTURE_SENTENCES)
    with pytest.raises(ValueError, match="at least one text"):
        pretrainer.explain([])


@pytest.mark.slow
def test_going_on_from_given_weights(random_weights, tmp_path):
    """All layers are loaded, heads too; the vocabulary and sizes are those of the file."""
    pretrainer, path = random_weights
    again = Pretrainer.create(documents(9, seed=3), data={"backbone": str(path), "max_length": 24})
    assert again.tokenizer.get_config() == pretrainer.tokenizer.get_config()
    assert again.loaded.new == [] and again.loaded.left_over == []
    theirs = model_tensors(pretrainer.model)
    for name, value in model_tensors(again.model).items():
        np.testing.assert_array_equal(value, theirs[name])
    with pytest.raises(ValueError, match="`dim` is 32 in the backbone"):
        Pretrainer.create(documents(9), data={"backbone": str(path)}, model={"dim": 64})
    with pytest.raises(ValueError, match="`max_length` must be at most 32"):
        Pretrainer.create(documents(9), data={"backbone": str(path), "max_length": 64})
    other = SentenceIds.encoded(
        documents(9), WordPieceTokenizer.train(["a b"], 20, mask_in_text=True, allow_fewer=True)
    )
    with pytest.raises(ValueError, match="ids of this task's tokenizer"):
        again.fit(other, epochs=1)


@pytest.mark.slow
def test_a_classifier_starts_from_the_encoder(random_weights, tmp_path, eager):
    pretrainer, path = random_weights
    examples = [(sentence, "ab"[i % 2]) for i, (sentence, *_) in enumerate(documents(8))]
    data = {"backbone": str(path), "max_length": 32}
    classifier = TextClassifier.create(examples, data=data)
    assert {name.split("/")[0] for name in classifier.loaded.new} == {"head"}
    ids, segments = pretrainer.field.encode(["the dog barks"])
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids != 0}
    states = hidden_states(pretrainer.model, inputs)[-1]
    layers = {layer.name: layer for layer in classifier.model.layers}
    pooled = layers["pooler"](states[:, 0])
    np.testing.assert_allclose(
        classifier.predict_logits("the dog barks"), layers["head"](pooled), atol=1e-5
    )
    # The same sizes and vocabulary with other weights.
    fresh = TextClassifier.create(examples, data={**data, "backbone_weights": False})
    assert fresh.loaded is None and fresh.config == classifier.config
    table = fresh.model.get_layer("embedding").token_embedding.embedding.embeddings
    theirs = pretrainer.model.get_layer("embedding").token_embedding.embedding.embeddings
    assert np.abs(np.asarray(table) - np.asarray(theirs)).max() > 0.1
    # By its method, and from a classifier too.
    again = TextClassifier(
        pretrainer.tokenizer, ["a", "b"], model=classifier.config, data={"max_length": 32}
    )
    report = again.load_backbone(path)
    assert report == classifier.loaded
    classifier.save(tmp_path / "c.task")
    second = TextClassifier.create(examples, data={**data, "backbone": str(tmp_path / "c.task")})
    # The same labels: a run that continues has the whole model, head included.
    assert set(second.loaded.loaded) == {*classifier.loaded.loaded, "head/kernel", "head/bias"}
    other = [(text, label.upper()) for text, label in examples]
    third = TextClassifier.create(other, data={**data, "backbone": str(tmp_path / "c.task")})
    assert third.loaded.loaded == classifier.loaded.loaded
    assert second.load_backbone(tmp_path / "c.task").new == ["head/kernel", "head/bias"]
    with pytest.raises(ValueError, match="at least max_length=256"):
        TextClassifier.create(examples, data={"backbone": str(path)})
    with pytest.raises(ValueError, match="has the architecture 'bert'"):
        TextClassifier.create(examples, data=data, model={"model": "rnn", "units": 8})
    with pytest.raises(ValueError, match="a task with an encoder"):
        bag = TextClassifier.create(
            examples, data={"max_length": 32}, model={"dim": 8, "pair_buckets": 0}
        )
        bag.save(tmp_path / "bag.task")
        read_backbone(tmp_path / "bag.task")


def test_wrong_settings(random_weights):
    pretrainer, _ = random_weights
    with pytest.raises(TypeError, match="must be a WordPieceTokenizer"):
        Pretrainer(BytePairTokenizer.train(["a"], 259))
    with pytest.raises(ValueError, match="mask_in_text=True"):
        Pretrainer(WordPieceTokenizer.train(["a b"], 20, allow_fewer=True))
    with pytest.raises(ValueError, match="`max_length` must be at least 5"):
        Pretrainer(pretrainer.tokenizer, model=SIZES, data={"max_length": 4})
    with pytest.raises(TypeError, match="Expected a string or a pair"):
        pretrainer.predict([7])
    with pytest.raises(ValueError, match="`top_k` must be at most"):
        pretrainer.predict("a", top_k=10_000)
    with pytest.raises(ValueError, match="at least two documents"):
        pretrainer.fit([["one sentence"]], epochs=1)
    with pytest.raises(TypeError, match="Expected documents, lists of sentences"):
        pretrainer.fit(["a string"], epochs=1)
    ids = pretrainer.sentence_ids([["a dog", "a cat"]] * 4)
    with pytest.raises(TypeError, match="not encoded ids"):
        pretrainer.fit(ids, validation_split=0.5, epochs=1)

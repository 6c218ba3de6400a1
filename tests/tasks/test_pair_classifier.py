"""The text classifier on pairs of texts: rows, learning, explanations, files, the SavedModel."""

from pathlib import Path

import numpy as np
import pair_toys
import pytest
import tensorflow as tf
from pair_toys import HOSTILE, KINDS, LONG, METHODS, PAIRS, TOKENIZER, everything, make
from processes import answer
from tracing import eagerly

from keras_attn.records import LabelledText
from keras_attn.tasks import TextClassificationData, TextClassifier

EACH = pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k == "rnn")) for k in KINDS]
)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Untrained classifiers of pairs, and the folder of their files."""
    folder = tmp_path_factory.mktemp("pairs")
    made = {kind: make(kind) for kind in KINDS}
    for kind, classifier in made.items():
        classifier.save(folder / kind)
    return made, folder


def words(ids):
    return " ".join(TOKENIZER.tokens([int(i) for i in ids]))


@pytest.mark.slow
def test_rows(tasks):
    """The separator between the texts; the ends as each model reads them; the longer is cut."""
    (rows, *_), *_ = tasks[0]["bert"].dataset(
        [(HOSTILE[0], "same"), ((LONG, "a dog"), "same")], batch_size=2, shuffle=False
    )
    expected = [
        "[CLS] the dog is big [SEP] a cat was red [SEP]",
        "[CLS] the dog is big and the cat [SEP] a dog [SEP]",
    ]
    read = [words(row).replace(" [PAD]", "") for row in rows]
    assert sorted(read) == sorted(expected)
    batches = tasks[0]["bag"].dataset([((LONG, "a dog"), "same"), (HOSTILE[0], "same")])
    read = [words(row).replace(" [PAD]", "") for row in batches[0][0]]
    long = "the dog is big and the cat is small [SEP] a dog"
    assert {*read} == {long, "the dog is big [SEP] a cat was red"}
    # Of the 22 ids of the long one 10 are not read.
    assert len(TOKENIZER.encode([LONG])[0]) == 19
    assert (batches.truncated, batches.lost_share) == (1, pytest.approx(10 / (22 + 9)))


@pytest.mark.slow
def test_segments_and_the_order_of_texts_matter(tasks):
    classifier = tasks[0]["bert"]
    assert classifier.config.separator_id == TOKENIZER.end_id
    pair = HOSTILE[0]
    there, back = classifier.predict_probabilities([pair, pair[::-1]])
    assert np.abs(there - back).max() > 1e-3
    table = classifier.model.get_layer("embedding").segment_embedding.embeddings
    before = np.array(table)
    table.assign(before[[0, 0]])
    same = classifier.predict_probabilities([pair])
    table.assign(before)
    assert np.abs(same[0] - there).max() > 1e-3


@pytest.mark.quick("bag")
@EACH
def test_predictions_by_hand(tasks, kind):
    classifier = tasks[0][kind]
    found = classifier.predict_logits(HOSTILE, batch_size=3)
    start, end = classifier.field.start, classifier.field.end
    room = 12 - 2 * (kind == "bert") - 1
    for (first, second), logits in zip(HOSTILE, found, strict=True):
        one, two = map(list, TOKENIZER.encode([first, second]))
        while len(one) + len(two) > room:  # a token at a time, as BERT's own code does
            (one if len(one) > len(two) else two).pop()
        row = [*one, TOKENIZER.end_id, *two]
        row = [*start, *row, *end]
        plain = np.asarray(classifier.model(np.array([row], "int32")))[0]
        np.testing.assert_allclose(logits, plain, atol=2e-6)
    alone = classifier.predict(HOSTILE[0])
    assert alone.label == classifier.predict([list(HOSTILE[0])])[0].label


@pytest.mark.slow
def test_it_learns():
    """By the second texts alone."""
    examples = [(pair, "dry" if "big" in pair[1] else "wet") for pair, _ in PAIRS]
    settings = {"max_length": 16, "vocabulary_size": 100}
    model = {**KINDS["bag"], "pair_buckets": 0, "pair_dim": 8}
    classifier = TextClassifier.create(examples, data=settings, model=model)
    assert (classifier.pairs, classifier.class_names) == (True, ("dry", "wet"))
    assert {"dog", "was"} <= {*classifier.tokenizer.vocabulary}  # of both texts
    with eagerly():
        classifier.fit(examples[:12], examples[:4], epochs=1, batch_size=12, verbose=0)
    classifier.fit(examples, epochs=12, batch_size=16, learning_rate=0.1, verbose=0)
    assert classifier.evaluate(examples, num_bootstrap=0).accuracy.value == 1.0
    assert classifier.predict(("the", "a small fish")).label == "wet"
    assert "pairs of texts" in repr(classifier)


@pytest.mark.quick(slow=["gradient-bert"])
@EACH
@pytest.mark.parametrize("method", METHODS)
def test_explanations_point_into_the_right_text(tasks, kind, method, eager):
    classifier = tasks[0][kind]
    for pair, found in zip(HOSTILE, classifier.explain(HOSTILE, method=method), strict=True):
        assert (found.text, found.second) == pair
        middle = found.tokens.index("[SEP]")
        assert found.segments == (0,) * (middle + 1) + (1,) * (len(found.tokens) - middle - 1)
        assert found.offsets[middle] == (len(pair[0]), len(pair[0]))
        for token, (start, end), segment in zip(
            found.tokens, found.offsets, found.segments, strict=True
        ):
            if token.isalpha() and len(token) > 2:
                assert pair[segment][start:end] == token
        assert np.isfinite(found.weights).all()
    found = classifier.explain(HOSTILE[0], method=method)
    assert [*found.tokens[:2], *found.tokens[-2:]] == ["the", "dog", "was", "red"]
    if method == "attention" and kind != "bert":  # whose ends have a part of it
        assert found.weights.sum() == pytest.approx(1, abs=1e-5)
    page = found.html()
    assert page.count('<div class="text" dir="auto">') == 2
    assert page.index("dog") < page.index("cat")
    drawn = "".join(text.get_text() for text in found.plot().axes[0].texts)
    assert "the dog is big" in drawn
    assert "a cat was red" in drawn


@pytest.mark.slow
def test_heads_of_both_texts_at_once():
    model = {**KINDS["bert"], "pooling": "first"}
    classifier = TextClassifier(
        TOKENIZER, ["other", "same"], pairs=True, model=model, data={"max_length": 12}
    )
    study = classifier.explain(HOSTILE[:1], method="attention")
    (view,) = study.views
    tokens = ("[CLS]", "the", "dog", "is", "big", "[SEP]", "a", "cat", "was", "red", "[SEP]")
    assert (view.title, view.parts[0].keys) == ("the dog is big / a cat was red", tokens)
    assert study.roles.tokens == 8
    assert "[CLS]" in classifier.page(study, "Look")
    blank = classifier.explain(("", "\t"), method="attention")
    assert (blank.roles, blank.views[0].parts[0].keys) == (None, ("[CLS]", "[SEP]", "[SEP]"))
    assert "no word" in classifier.page(blank, "Look")
    for pair, said in ((("", "\t"), True), (HOSTILE[0], False)):
        page = classifier.page([classifier.explain(pair, method="gradient")], "Why?")
        assert ("no word was read" in page) == said


@pytest.mark.slow
def test_gradients_are_those_of_the_whole_row(tasks, eager):
    """A bag without a hidden layer is linear: what its tokens add is the log-odds."""
    classifier = make("bag")
    head = classifier.model.get_layer("head")
    bias = np.asarray(head.bias)
    for found in classifier.explain(HOSTILE, method="gradient", label="same"):
        p = found.probabilities
        odds = np.log(p["same"] / p["other"])
        assert found.weights.sum() == pytest.approx(odds - (bias[1] - bias[0]), abs=1e-4)


def test_a_mismatch_is_an_error(tasks):
    classifier = tasks[0]["bag"]
    single = TextClassifier(TOKENIZER, ["no", "yes"], model={"dim": 4, "pair_buckets": 0})
    for wrong in ("a dog", ["a dog"], [HOSTILE[0], "a dog"]):
        for call in (classifier.predict, classifier.explain, classifier.predict_logits):
            with pytest.raises(
                ValueError, match=r"pairs of texts\. Received: the single text 'a d"
            ):
                call(wrong)
    for wrong in (("a", "b"), [("a", "b")], ["a", ["a", "b"]]):
        with pytest.raises(ValueError, match=r"single texts. Received: a pair, \('a', 'b'\)"):
            single.predict(wrong)
    for wrong in ([("a", 1)], [7], 7, b"a", [("a", "b", "c")], {"a": "b"}):
        with pytest.raises(TypeError, match="Expected"):
            classifier.predict(wrong)
    with pytest.raises(ValueError, match="Expected pairs of texts"):
        classifier.evaluate([("a dog", "same")])
    with pytest.raises(ValueError, match="Expected single texts"):
        single.evaluate([(("a", "b"), "yes")])
    with pytest.raises(ValueError, match="a single text at position 1 and a pair at position 0"):
        TextClassifier.create([(("a", "b"), "yes"), ("a", "no")])
    with pytest.raises(ValueError, match="loses the end of its longer text"):
        TextClassifier(TOKENIZER, ["no", "yes"], pairs=True, data={"truncation": "tail"})
    with pytest.raises(ValueError, match="room for a token of each text"):
        TextClassifier(
            TOKENIZER,
            ["no", "yes"],
            pairs=True,
            model={"model": "bert", "dim": 8},
            data={"max_length": 4},
        )


@pytest.mark.slow
def test_files(tasks, tmp_path):
    classifier, folder = tasks[0]["bert"], tasks[1]
    again = TextClassifier.load(folder / "bert")
    assert (again.pairs, again.config, again.reads) == (True, classifier.config, "only_pairs")
    np.testing.assert_array_equal(
        again.predict_probabilities(HOSTILE), classifier.predict_probabilities(HOSTILE)
    )


@pytest.mark.slow
def test_int8_and_half_precision(tasks, tmp_path):
    expected = tasks[0]["bert"].predict_probabilities(HOSTILE)
    half = TextClassifier.load(tasks[1] / "bert", dtype="mixed_bfloat16")
    assert np.abs(half.predict_probabilities(HOSTILE) - expected).max() < 0.05
    small = TextClassifier.load(tasks[1] / "bert").quantize()
    small.save(tmp_path / "q")
    again = TextClassifier.load(tmp_path / "q")
    found = again.predict_probabilities(HOSTILE)
    np.testing.assert_array_equal(found, small.predict_probabilities(HOSTILE))
    assert np.abs(found - expected).max() < 0.1


def check_served(serve, classifier, method, pairs):
    firsts, seconds = (tf.constant([p[i].encode() for p in pairs], tf.string) for i in (0, 1))
    outputs = {name: value.numpy() for name, value in serve(text=firsts, second=seconds).items()}
    names = {"label", "probabilities", "classes", "tokens", "weights", "segments"}
    assert set(outputs) == names
    for i, found in enumerate(classifier.explain(pairs, method=method)):
        count = len(found.tokens)
        tokens = [token.decode() for token in outputs["tokens"][i]]
        assert tokens == [*found.tokens, *[""] * (len(tokens) - count)]
        np.testing.assert_allclose(outputs["weights"][i, :count], found.weights, atol=1e-5)
        assert not outputs["weights"][i, count:].any()
        assert outputs["segments"][i].tolist() == [*found.segments, *[0] * (len(tokens) - count)]
        assert outputs["label"][i].decode() == classifier.predict(pairs[i]).label
    np.testing.assert_allclose(
        outputs["probabilities"], classifier.predict_probabilities(pairs), atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "method"),
    [("bag", "attention"), pytest.param("rnn", "gradient", marks=pytest.mark.slow)],
)
def test_the_exported_function_gives_what_python_gives(
    tasks, kind, method, unsaved, eager, tmp_path
):
    tasks[0][kind].export(tmp_path / "m", method=method)
    serve = unsaved[0]["serving_default"]
    for pairs in (HOSTILE, HOSTILE[2:3]):
        check_served(serve, tasks[0][kind], method, pairs)


@pytest.mark.slow
def test_the_saved_model(tasks, tmp_path):
    tasks[0]["bert"].export(tmp_path / "m", method="gradient")
    serve = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    check_served(serve, tasks[0]["bert"], "gradient", HOSTILE)
    assert serve(text=tf.constant([], tf.string), second=tf.constant([], tf.string))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_the_same_on_other_backends(tasks, backend, eager):
    result = answer(backend, Path(pair_toys.__file__), tasks[1], *KINDS)
    assert result["backend"] == backend
    for kind, classifier in tasks[0].items():
        found, expected = result["found"][kind], everything(classifier)
        np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-5)
        for method in METHODS:
            for mine, other in zip(found[method], expected[method], strict=True):
                np.testing.assert_allclose(mine, other, atol=1e-5)


def test_files_of_pairs(tmp_path):
    """Folders as GLUE has them, unquoted; development pairs that are known are counted."""
    head = "\ufeffQuality\t#1 ID\t#1 String\t#2 String\r\n"
    rows = [
        f'{i % 2}\t{i}\tHe said " no {"abcdefghij"[i]}\tShe {"klmnopqrst"[i]} it .'
        for i in range(10)
    ]
    (tmp_path / "train.tsv").write_bytes((head + "\r\n".join(rows)).encode())
    turned = '1\t0\tShe k it .\tHe said " no a\r\n0\t1\tNew\tother\r\n'
    (tmp_path / "dev.tsv").write_bytes((head + turned).encode())
    columns = {"text": "#1 String", "text_pair": "#2 String", "label": "Quality"}
    data = TextClassificationData(train=str(tmp_path), dev=str(tmp_path), **columns)
    with pytest.warns(UserWarning, match="1 of 2 development texts are also training texts"):
        found = TextClassifier.read(data)
    assert found.train[0] == LabelledText('He said " no a', "0", "", "She k it .")
    assert "10 pairs of 11 lines. Labels: 0 5, 1 5." in found.summary
    with pytest.raises(ValueError, match="`text_pair` is only used with files with columns"):
        TextClassifier.read(TextClassificationData(train="", text_pair="b"))
    with pytest.raises(ValueError, match="no such column"):
        TextClassifier.read(TextClassificationData(train=str(tmp_path), text_pair="b"))

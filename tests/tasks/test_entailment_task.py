"""Entailment: learns, explains, is saved and exported; the same on all backends."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from entailment_toys import EXAMPLES, ODD_PAIRS, VECTORS, everything, make, reference
from processes import answer
from tracing import eagerly

from keras_attn.batches import PairBatches
from keras_attn.explain.methods import METHODS
from keras_attn.interop import write_word_vectors
from keras_attn.models.entailment import PAIR_ATTENTIONS
from keras_attn.tasks import EntailmentClassifier, EntailmentData, LabelledPair
from keras_attn.text import BytePairTokenizer, WordTokenizer

HERE = Path(__file__).parent
SMALL = {"dim": 8, "units": 8, "projection_dim": 0, "dropout": 0.0}


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    write_word_vectors(path, VECTORS)
    return str(path)


@pytest.fixture(scope="module")
def trained():
    """It has to compare the nouns; the verbs are always the same."""
    classifier = EntailmentClassifier.create(
        EXAMPLES, data={"train": ""}, model={**SMALL, "attention": "matching"}
    )
    classifier.best_score = classifier.fit(
        EXAMPLES, EXAMPLES[::4], epochs=15, batch_size=12, learning_rate=0.03, verbose=0
    ).best_score
    return classifier


@pytest.mark.slow
def test_it_learns(trained):
    report = trained.evaluate(EXAMPLES, num_bootstrap=0)
    assert report.accuracy.value == 1.0
    assert trained.best_score == 1.0
    assert trained.predict(("The dog runs.", "a dog runs")).label == "yes"
    assert [p.label for p in trained.predict([("the dog runs.", "a cat runs")])] == ["no"]
    noun = trained.explain(("The bird sings.", "A bird sings"))
    assert noun.source_tokens == ["the", "bird", "sings", "."]
    assert noun.target_tokens == ["a", "bird", "sings"]
    assert noun.weights[1].argmax() == 1
    assert noun.title.startswith("yes ")


@pytest.mark.slow
def test_a_run_goes_on(tmp_path, eager):
    """In a folder; the same call again gives the same weights."""
    settings = {"epochs": 2, "batch_size": 8, "learning_rate": 0.01}
    first = EntailmentClassifier.train(
        EXAMPLES, EXAMPLES[:6], tmp_path, {"train": ""}, SMALL, settings, verbose=0
    )
    again = EntailmentClassifier.train(
        EXAMPLES, EXAMPLES[:6], tmp_path, {"train": ""}, SMALL, settings, verbose=0
    )
    assert (first.complete, again.complete, again.log) == (True, True, first.log)
    with pytest.raises(ValueError, match="units is 8 there, 9 here"):
        EntailmentClassifier.train(
            EXAMPLES, EXAMPLES[:6], tmp_path, {"train": ""}, {**SMALL, "units": 9}, settings
        )
    loaded = EntailmentClassifier.load(first.best)
    assert loaded.evaluate(EXAMPLES[:6]).accuracy.value == first.best_score
    loaded.temperature = 3.0  # of weights that are trained further
    loaded.fit(EXAMPLES, verbose=0, epochs=1)
    assert loaded.temperature == 1.0


def each(*quick):
    """All kinds of attention; the others than these are slow."""
    return pytest.mark.parametrize(
        "attention",
        [pytest.param(x, marks=() if x in quick else pytest.mark.slow) for x in PAIR_ATTENTIONS],
    )


@pytest.mark.slow
@each("word_by_word")
def test_files(attention, tmp_path):
    classifier = make(attention)
    classifier.temperature = 1.5
    classifier.save(tmp_path / "a.task")
    loaded = EntailmentClassifier.load(tmp_path / "a.task")
    assert everything(loaded) == everything(classifier)
    assert (loaded.temperature, loaded.max_length) == (1.5, 12)


@pytest.mark.slow
def test_padding_and_batches_change_nothing():
    classifier = make()
    alone = [classifier.predict_probabilities([pair])[0] for pair in ODD_PAIRS]
    np.testing.assert_allclose(classifier.predict_probabilities(ODD_PAIRS), alone, atol=1e-5)
    for pair, together in zip(ODD_PAIRS, classifier.explain(ODD_PAIRS), strict=True):
        one = classifier.explain(pair)
        assert one.target_tokens == together.target_tokens
        np.testing.assert_allclose(one.weights, together.weights, atol=1e-5)
    assert classifier.predict([]) == []
    assert classifier.explain([]) == []


@pytest.mark.slow
def test_explanations_by_hand(eager):
    """The weights of the layer, of the words that are read."""
    classifier = make(max_length=4)
    pair = ("The dog runs and sits.", "It doesn't run, really")
    found = classifier.explain(pair)
    assert found.source_tokens == ["the", "dog", "runs", "and"]
    assert found.target_tokens == ["it", "does", "n't", "run"]
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, atol=1e-5)
    last = make("last").explain(pair)
    assert (last.target_tokens, last.weights.shape) == (["<hypothesis>"], (1, 6))
    with pytest.raises(ValueError, match=r"compares no words\. Pass method='gradient'"):
        make("none").explain(pair, method="attention")
    with pytest.raises(ValueError, match=r"'integrated_gradients'\. Received: 'lime'"):
        classifier.explain(pair, method="lime")
    with pytest.raises(ValueError, match="Received: label='no', method='attention'"):
        classifier.explain(pair, method="attention", label="no")
    with pytest.raises(ValueError, match=r"'naïve'.*Received: 'maybe'"):
        classifier.explain(pair, method="gradient", label="maybe")
    page = EntailmentClassifier.page(classifier.explain([pair, ODD_PAIRS[4]]), "a < b")
    assert "<title>a &lt; b</title>" in page
    assert "<b>" not in page
    assert page.count("<table") == 2
    assert "no word to compare" not in page
    blank = [classifier.explain(("", " \t"), method=method) for method in METHODS]
    assert "A text has no word to compare." in EntailmentClassifier.page(blank[:1], "")
    assert "no word was read" in EntailmentClassifier.page(blank[1:], "")
    figure = found.plot()
    assert figure.get_suptitle() == found.title


@pytest.mark.slow
@each("matching")
def test_gradients_by_hand(attention, eager):
    """The slope of the log-odds where the vector of a word grows, in each place that has it."""
    classifier = make(attention)
    pair = ("The dog runs, the cat sits.", "a bird sings and runs")
    found = classifier.explain(pair, method="gradient", label="yes")
    assert (found.second, found.label, found.segments) == (pair[1], "yes", (0,) * 8 + (1,) * 5)
    for text, side in zip(pair, (0, 1), strict=True):
        own = [i for i, segment in enumerate(found.segments) if segment == side]
        places = [found.offsets[i] for i in own]
        words = [found.tokens[i] for i in own]
        assert [text[a:b].lower() for a, b in places] == words
    table = classifier.model.get_layer("embedding").embedding.embeddings
    for word in ("dog", "runs", "bird"):
        (number,) = classifier.tokenizer.encode(word)
        before, odds = np.array(table), []
        for step in (1.01, 0.99):
            changed = before.copy()
            changed[number] *= step
            table.assign(changed)
            no, yes, other = np.exp(classifier.predict_logits([pair])[0].astype("float64"))
            odds.append(np.log(yes / (no + other)))
        table.assign(before)
        places = [i for i, token in enumerate(found.tokens) if token == word]
        slope = (odds[0] - odds[1]) / 0.02
        assert found.weights[places].sum() == pytest.approx(slope, abs=2e-3)


@pytest.mark.slow
def test_gradients_of_one_pair_or_many(eager):
    classifier = make("none")  # gradients without being asked
    pairs = [ODD_PAIRS[i] for i in (5, 1, 0)]
    for pair, found in zip(pairs, classifier.explain(pairs, batch_size=2), strict=True):
        alone = classifier.explain(pair)
        assert (alone.tokens, alone.offsets) == (found.tokens, found.offsets)
        assert (alone.text, alone.second) == pair
        np.testing.assert_allclose(alone.weights, found.weights, atol=1e-5)
        assert alone.label == classifier.predict(pair).label
    assert classifier.explain([]) == []


@pytest.mark.slow
@each("matching")
def test_the_saved_model_is_the_object(attention, unsaved):
    """With the odd texts of all exports, each against another one."""
    classifier = make(attention, max_length=20)
    classifier.temperature = 1.3
    classifier.export("anywhere")
    (functions,) = unsaved
    serve = functions["serving_default"]
    outputs = serve(premise=tf.constant(["The dog runs."]), hypothesis=tf.constant(["A dog"]))
    assert ("alignment" in outputs) == (attention != "none")
    assert outputs["premise_words"].numpy()[0].tolist() == [b"the", b"dog", b"runs", b"."]
    sides = [tf.constant(list(side)) for side in zip(*ODD_PAIRS, strict=True)]
    outputs = serve(premise=sides[0], hypothesis=sides[1])
    expected = reference(classifier, ODD_PAIRS)
    assert outputs.keys() == expected.keys()
    for name, values in expected.items():
        found = outputs[name].numpy()
        if found.dtype == object:
            assert np.vectorize(bytes.decode, [object])(found).tolist() == values
        else:
            np.testing.assert_allclose(found, values, atol=1e-5)
    empty = serve(premise=tf.constant([], tf.string), hypothesis=tf.constant([], tf.string))
    assert {len(value) for value in empty.values()} == {0}


@pytest.mark.slow
def test_quantized(unsaved):
    classifier = make(units=16, projection_dim=16)
    before = classifier.predict_probabilities(ODD_PAIRS)
    classifier.quantize("int8")
    after = classifier.predict_probabilities(ODD_PAIRS)
    assert 0 < np.abs(after - before).max() < 0.2
    classifier.export("anywhere")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_bfloat16"])
def test_low_precision(dtype, tmp_path, eager):
    classifier = EntailmentClassifier.create(EXAMPLES, data={"train": ""}, model=SMALL, dtype=dtype)
    classifier.fit(EXAMPLES, epochs=1, verbose=0)
    classifier.save(tmp_path / "a.task")
    loaded = EntailmentClassifier.load(tmp_path / "a.task")
    assert loaded.policy.name == dtype
    assert loaded.predict(ODD_PAIRS) == classifier.predict(ODD_PAIRS)


@pytest.mark.slow
def test_word_vectors(vectors, tmp_path, eager):
    data = {"train": "", "word_vectors": vectors, "vector_words": 9}
    classifier = EntailmentClassifier.create(
        EXAMPLES, data=data, model={"units": 4, "projection_dim": 0}
    )
    tokenizer = classifier.tokenizer
    assert tokenizer.vocabulary[-1] == "blue"  # joined; green is the tenth of the file
    assert "green" not in tokenizer.vocabulary
    assert classifier.config.dim == 6
    table = np.asarray(classifier.model.get_layer("embedding").embedding.embeddings)
    for word in ("dog", "blue"):
        np.testing.assert_allclose(table[tokenizer.encode(word)[0]], VECTORS[word], atol=1e-6)
    known = [word for word in tokenizer.vocabulary if word in VECTORS]
    mean = np.mean([VECTORS[word] for word in known], axis=0)
    np.testing.assert_allclose(table[tokenizer.unknown_id], mean, atol=1e-6)
    assert not table[0].any()
    assert str(classifier.word_vectors).startswith(
        f"Word vectors of {vectors}: 9 of 11 words (81.8%)"
    )
    assert set(classifier.word_vectors.missing) == {"the", "."}
    before = table.copy()
    classifier.fit(EXAMPLES, epochs=1, learning_rate=0.1, verbose=0)
    assert np.abs(classifier.model.get_layer("embedding").weights[0].numpy() - before).max() > 0.01
    frozen = EntailmentClassifier.create(
        EXAMPLES,
        data={**data, "freeze_word_vectors": True},
        model={"units": 4, "projection_dim": 0},
    )
    frozen.save(tmp_path / "a.task")
    for one in (frozen, EntailmentClassifier.load(tmp_path / "a.task")):
        start = one.model.get_layer("embedding").weights[0].numpy()
        one.fit(EXAMPLES, epochs=1, learning_rate=0.1, verbose=0)
        np.testing.assert_array_equal(one.model.get_layer("embedding").weights[0].numpy(), start)


def test_wrong_word_vectors(vectors, tmp_path):
    with pytest.raises(ValueError, match="`dim` is the width of the word vectors, 6 in"):
        EntailmentClassifier.create(
            EXAMPLES, data={"train": "", "word_vectors": vectors}, model={"dim": 5}
        )
    (tmp_path / "v.txt").write_text("DOG 1 2\n")
    with pytest.raises(ValueError, match=r"none of their 14 words\. Check that the file has"):
        EntailmentClassifier.create(
            EXAMPLES, data={"train": "", "word_vectors": str(tmp_path / "v.txt")}
        )


@pytest.mark.slow
def test_a_word_that_comes_once_is_unknown_without_vectors():
    pairs = [("a dog", "a cat", "x"), ("a dog", "a bird", "y")]
    tokenizer = EntailmentClassifier.create(pairs, data={"train": ""}, model=SMALL).tokenizer
    assert tokenizer.vocabulary[4:] == ("a", "dog")


def test_batches():
    rows = [[5] * n for n in (3, 20, 1, 9)], [[6] * n for n in (2, 1, 9, 30)]
    batches = PairBatches(*rows, [0, 1, 2, 3], batch_size=2, max_length=16, shuffle=False)
    seen = {}
    for inputs, labels, weights in batches:
        premises, hypotheses = inputs["premise_ids"], inputs["hypothesis_ids"]
        for p, h, label, weight in zip(premises, hypotheses, labels, weights, strict=True):
            if weight:
                seen[int(label)] = ((p == 5).sum(), (h == 6).sum())
                assert (p[(p == 5).sum() :] == 0).all()
    assert seen == {0: (3, 2), 1: (16, 1), 2: (1, 9), 3: (9, 16)}
    assert (batches.truncated, batches.num_examples) == (2, 4)
    assert abs(batches.lost_share - 18 / 75) < 1e-9
    unlabelled = PairBatches(*rows, max_length=16, shuffle=False)
    first = np.concatenate([(x["premise_ids"] == 5).sum(1) for (x,) in unlabelled])
    assert unlabelled.restore(first).tolist() == [3, 16, 1, 9]
    for make_wrong, message in [
        (lambda: PairBatches([[5]], []), "as many premises as hypotheses"),
        (lambda: PairBatches([], []), "at least one"),
        (lambda: PairBatches([[5]], [[0]]), "must not occur"),
        (lambda: PairBatches([[5]], [[6]], [0], batch_size=0), "batch_size"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_wrong()


def test_class_weights():
    classifier = make()
    first, *others = classifier.class_names
    pairs = [LabelledPair("a", "b", name) for name in (first, first, first, others[0])]

    def weights(class_weight):
        ((_, labels, found),) = classifier.dataset(pairs, class_weight, shuffle=False)
        return {
            classifier.class_names[label]: weight
            for label, weight in zip(labels, found, strict=True)
            if weight
        }

    assert weights(None) == {first: 1.0, others[0]: 1.0}
    assert weights({first: 0.5}) == {first: 0.5, others[0]: 1.0}
    balanced = weights("balanced")
    assert balanced[others[0]] == pytest.approx(3 * balanced[first])
    with pytest.raises(ValueError, match=r"must name classes among .* Received: 'perhaps'"):
        weights({"perhaps": 2.0})
    training = classifier.Training
    with pytest.warns(UserWarning, match=r"uneven .*class_weight='balanced'"):
        classifier.batches(pairs, training())
    (_, _, found), *_ = classifier.batches(pairs, training(class_weight=f"{{{first} = 0.5}}"))
    assert sorted(found[found > 0]) == [0.5, 0.5, 0.5, 1.0]  # without a warning


def test_errors():
    tokenizer = WordTokenizer.train(["a dog"])
    with pytest.raises(TypeError, match="must be a WordTokenizer"):
        EntailmentClassifier(BytePairTokenizer.train(["a text"], 259), ["no", "yes"])
    with pytest.raises(ValueError, match="at least two classes"):
        EntailmentClassifier(tokenizer, ["yes"])
    with pytest.raises(ValueError, match="`max_length`"):
        EntailmentClassifier(tokenizer, ["no", "yes"], model=SMALL, data={"max_length": 0})
    classifier = make()
    with pytest.raises(ValueError, match="Is the tab between two texts missing"):
        classifier.predict(["no tab"])
    with pytest.raises(ValueError, match="position 1"):
        classifier.predict([("a", "b"), ("a", 3)])
    with pytest.raises(ValueError, match="among the 3 classes"):
        classifier.evaluate([LabelledPair("a", "b", "perhaps")])
    with pytest.raises(ValueError, match="at least one labelled pair"):
        classifier.evaluate([])
    with pytest.raises(ValueError, match="`dim`"):
        EntailmentClassifier(tokenizer, ["no", "yes"], model={"dim": 0})
    assert EntailmentData(train="x").max_length == 64


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_other_backends(backend, tmp_path):
    expected = {}
    for attention in ("word_by_word", "matching"):
        classifier = make(attention, max_length=8)  # one shape to compile
        classifier.save(tmp_path / f"{attention}.task")
        with eagerly():
            expected[attention] = everything(classifier)
    result = answer(backend, HERE / "entailment_toys.py", tmp_path)
    assert result["backend"] == backend
    for attention, wanted in expected.items():
        found = result["found"][attention]
        np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], atol=1e-5)
        for ours, theirs in zip(
            wanted.get("gradients", ()), found.get("gradients", ()), strict=True
        ):
            assert theirs[::2] == ours[::2]
            np.testing.assert_allclose(theirs[1], ours[1], atol=1e-4)
        for ours, theirs in zip(
            wanted.get("explained", ()), found.get("explained", ()), strict=True
        ):
            assert theirs[:2] == ours[:2]
            np.testing.assert_allclose(
                theirs[2], np.reshape(ours[2], np.shape(theirs[2])), atol=1e-5
            )


@pytest.mark.slow
def test_a_saved_model_on_the_disk(tmp_path):
    make(max_length=20).export(tmp_path / "model")
    make("none", max_length=20).export(tmp_path / "plain")
    loaded = tf.saved_model.load(tmp_path / "model").signatures["serving_default"]
    found = loaded(premise=tf.constant(["A dog"]), hypothesis=tf.constant(["A dog runs"]))
    assert found["alignment"].shape == (1, 3, 2)

"""Word embeddings: training that goes on, neighbours, files in and out, scores, the page."""

import json
import sys

import keras
import numpy as np
import pytest
from processes import run_python

from keras_attn.interop import WordVectors, read_word_vectors, write_word_vectors
from keras_attn.metrics import WordSpace
from keras_attn.settings import WrongUse
from keras_attn.tasks import TextClassifier, WordEmbedder, WordIds, WordTests

DAY, NIGHT = "sun light day noon warm".split(), "moon dark night star cold".split()


def texts(count=300):
    """Words of the day stand beside words of the day."""
    rng = np.random.default_rng(0)
    sides = [(DAY, NIGHT)[i % 2] for i in range(count)]
    return [" ".join(rng.choice(side, 12)) for side in sides]


TEXTS = texts()
SETTINGS = {"row_steps": 16, "subsample": 0, "batch_size": 256, "noise_words": 8, "window": 3}


def learned(model):
    keras.utils.set_random_seed(0)
    embedder = WordEmbedder.create(TEXTS, model={"model": model, "dim": 8})
    run = embedder.fit(TEXTS, epochs=12, learning_rate=0.2, verbose=0, **SETTINGS)
    return embedder, run


@pytest.fixture(scope="module")
def embedder():
    return learned("skip-gram")


def both_sides_part(embedder):
    for side in (DAY, NIGHT):
        for word in side:
            found = {neighbour.word for neighbour in embedder.nearest(word, 4)}
            assert found == set(side) - {word}


def test_words_that_stand_together_are_near(embedder):
    both_sides_part(embedder[0])
    losses = embedder[1].history["loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_losses_of_epochs_of_other_words_are_not_compared():
    """An epoch whose batches have more words has a larger loss; no step was too large."""
    embedder = WordEmbedder.create(TEXTS[:60], model={"dim": 8})
    settings = {**SETTINGS, "subsample": 0.01, "batch_size": 2048, "learning_rate": 1e-9}
    rises = 0
    for seed in range(4):
        run = embedder.fit(TEXTS[:60], epochs=2, verbose=0, seed=seed, **settings)
        rises += run.history["loss"][1] > run.history["loss"][0]
        assert "rose" not in run.note
    assert rises


@pytest.mark.slow
def test_cbow_finds_them_too():
    both_sides_part(learned("cbow")[0])


def test_predictions_are_those_of_the_space(embedder):
    made = embedder[0]
    space = WordSpace(made.vectors.words, made.vectors.vectors)
    every = made.predict("sun - moon", top_k=14)["words"]
    assert sorted(every) == sorted({*DAY, *NIGHT} - {"sun", "moon"})  # no special tokens
    found = made.predict(["Sun", "sun - day  night", "cow + sun", ""], top_k=3)
    for result, expected in (
        (found[0], space.nearest("sun", top_k=3)),
        (found[1], space.nearest(["sun", "night"], "day", 3)),
        (found[1], made.nearest("sun - day night", 3)),
        (found[1], made.analogy("day", "night", "sun", 3)),
    ):
        assert result["words"] == [n.word for n in expected]
        np.testing.assert_allclose(
            result["similarities"], [n.similarity for n in expected], atol=1e-5
        )
    assert found[2:] == [{"words": [], "similarities": []}] * 2
    with pytest.raises(ValueError, match="'cow', which is not in the vocabulary of 10 words"):
        made.nearest("cow")


@pytest.mark.slow
def test_saved_and_exported(embedder, tmp_path):
    made = embedder[0]
    made.save(tmp_path / "a.task")
    again = WordEmbedder.load(tmp_path / "a.task")
    np.testing.assert_array_equal(again.vectors.vectors, made.vectors.vectors)
    again.export(tmp_path / "saved", top_k=2)  # which compares it with `predict`
    code = (
        "import sys, tensorflow as tf; f = tf.saved_model.load(sys.argv[1]).signatures;"
        "r = f['serving_default'](words=tf.constant(['SUN - day + night']));"
        "print([w.decode() for w in r['words'].numpy()[0]])"
    )
    out = run_python("tensorflow", code, str(tmp_path / "saved")).stdout
    expected = [n.word for n in made.nearest("sun - day + night", 2)]
    assert out.splitlines()[-1] == str(expected)


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "v.npz", "v.npy"])
def test_files_of_vectors(embedder, name, tmp_path):
    made = embedder[0]
    made.save_vectors(tmp_path / name)
    again = WordEmbedder.load(tmp_path / name)
    assert again.vectors.words == made.vectors.words
    np.testing.assert_array_equal(again.vectors.vectors, made.vectors.vectors)
    assert again.nearest("moon", 3) == made.nearest("moon", 3)


def test_another_task_starts_from_them(embedder, tmp_path):
    embedder[0].save_vectors(tmp_path / "v.bin")
    examples = [("sun day", "day"), ("moon night", "night")]
    data = {"tokenizer": "words", "word_vectors": str(tmp_path / "v.bin")}
    classifier = TextClassifier.create(examples, data=data, model={"pair_buckets": 0})
    assert (classifier.config.dim, classifier.word_vectors.found) == (8, 4)


def test_a_training_starts_from_vectors(tmp_path):
    vectors = WordVectors(["sun", "cow", "moon"], np.arange(6.0).reshape(3, 2))
    write_word_vectors(tmp_path / "v.txt", vectors)
    made = WordEmbedder.create(TEXTS, data={"word_vectors": str(tmp_path / "v.txt")})
    np.testing.assert_array_equal(made.vectors["sun"], [0, 1])
    np.testing.assert_array_equal(made.vectors["moon"], [4, 5])
    assert abs(made.vectors["day"]).max() <= 0.25
    assert "2 of 10 words" in made.describe(made.dataset(TEXTS))[0]
    with pytest.raises(ValueError, match="`dim` is the width of the word vectors, 2 in"):
        WordEmbedder.create(TEXTS, data={"word_vectors": str(tmp_path / "v.txt")}, model={"dim": 3})


@pytest.mark.slow
@pytest.mark.parametrize("at", [5, pytest.param(11, marks=pytest.mark.slow)])
def test_a_run_that_was_interrupted_goes_on_exactly(at, tmp_path):
    class Kill(keras.callbacks.Callback):
        seen = 0

        def on_train_batch_end(self, batch, logs=None):
            self.seen += 1
            if self.seen == at:
                raise KeyboardInterrupt

    def run(folder, *callbacks):
        keras.utils.set_random_seed(1)
        made = WordEmbedder.create(TEXTS[:40], model={"dim": 4})
        more = {"epochs": 2, "checkpoint_steps": 1, "verbose": 0, **SETTINGS, "batch_size": 64}
        made.fit(TEXTS[:40], run_dir=tmp_path / folder, callbacks=callbacks, **more)
        return made.vectors.vectors

    whole = run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("parts", Kill())
    np.testing.assert_allclose(run("parts"), whole, atol=1e-6)


def test_rare_words_go_before_the_windows():
    ids = WordIds.counted(["a b rare c", "c b a"], {"min_frequency": 2})
    assert ids.tokenizer.vocabulary[4:] == ("a", "b", "c")
    assert (ids.ids.tolist(), ids.lengths.tolist()) == ([4, 5, 6, 6, 5, 4], [3, 3])
    assert ids.counts.tolist() == [0, 0, 0, 0, 2, 2, 2]
    again = WordIds.encoded(["a x B", "", "x"], ids.tokenizer)
    assert (again.ids.tolist(), again.lengths.tolist()) == ([4, 5], [2, 0, 0])


def test_scores_in_files(tmp_path):
    vectors = WordVectors("king queen man woman".split(), [[2, 1], [2, -1], [1, 1], [1, -1]])
    made = WordEmbedder.from_vectors(vectors)
    (tmp_path / "q.txt").write_text(": family\nman woman king queen\nman woman king man\n")
    (tmp_path / "p.tsv").write_text("king\tqueen\t6\nman\twoman\t1\nking\tman\t9\n")
    tests = {"analogies": str(tmp_path / "q.txt"), "pairs": str(tmp_path / "p.tsv")}
    report = made.evaluate(tests)
    assert report.to_dict()["analogies"]["all"] == 0.5
    assert report.pairs["p.tsv"].spearman == pytest.approx(1.0)
    for few in (made.evaluate(tests, first=2), made.evaluate({**tests, "first": 2})):
        assert few.analogies.left_out == 2  # two words have no question
    assert made.evaluate(WordTests({}, {})).to_dict() == {}
    with pytest.raises(WrongUse, match="--analogies, --pairs"):
        made.evaluate({})


def test_the_page(embedder):
    made = embedder[0]
    page = made.word_page(["sun", "moon", "day", "night", "star", "cold"], top_k=4)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["words"][:2] == ["sun", "moon"]
    expected = [n.word for n in made.nearest("sun", 4)]
    named = [data["words"][w] if isinstance(w, int) else w for w, _ in data["near"][0]]
    assert named == expected
    assert len(data["x"]) == 6 and min(data["x"]) >= 40 and max(data["y"]) <= 760
    with pytest.raises(ValueError, match=r"words with vectors. Received: \['cow'\]"):
        made.word_page(["cow"])
    with pytest.raises(ValueError, match=r"five words for a map. Received: 2"):
        made.word_page(2)


def test_no_map_without_scikit_learn(embedder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(ImportError, match=r"keras_attn\[tasks\]"):
        embedder[0].word_page(6)


def test_what_cannot_be(tmp_path):
    with pytest.raises(ValueError, match=r"occur 5 times.*1 texts with 2 words"):
        WordEmbedder.create(["a b"])
    with pytest.raises(TypeError, match="Received: the string"):
        WordIds.counted("a b")
    (tmp_path / "v.txt").write_text("the 1 2\ncow 1\n")
    with pytest.raises(ValueError, match="The file may be cut off"):
        WordEmbedder.load(tmp_path / "v.txt")
    made = WordEmbedder.create(TEXTS, model={"dim": 2})
    with pytest.raises(ValueError, match="another vocabulary, with 5 words"):
        made.dataset(WordIds.counted(["x x"], {"min_frequency": 1}))
    with pytest.raises(ValueError, match="do not use development texts"):
        made.fit(TEXTS, TEXTS[:2], epochs=1, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_learn_the_same(backend, tmp_path):
    """One epoch with the same batches and first vectors, to 1e-4."""
    keras.utils.set_random_seed(3)
    first = WordEmbedder.create(TEXTS[:60], model={"dim": 4})
    first.save(tmp_path / "first.task")
    code = (
        "import sys, json; from keras_attn.tasks import WordEmbedder;"
        "e = WordEmbedder.load(sys.argv[1]);"
        "e.fit(json.loads(sys.argv[2]), epochs=1, verbose=0, **json.loads(sys.argv[3]));"
        "e.save_vectors(sys.argv[1] + '.npz'); assert 'tensorflow' not in sys.modules"
    )
    arguments = [str(tmp_path / "first.task"), json.dumps(TEXTS[:60]), json.dumps(SETTINGS)]
    run_python(backend, code, *arguments)
    first.fit(TEXTS[:60], epochs=1, verbose=0, **SETTINGS)
    found = read_word_vectors(tmp_path / "first.task.npz")
    np.testing.assert_allclose(found.vectors, first.vectors.vectors, atol=1e-4)


# gensim leaves a file without a header open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_gensim_reads_the_files(embedder, tmp_path):
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    made = embedder[0]
    for name, format, binary, header in (
        ("v.bin", "word2vec_binary", True, True),
        ("v.w2v", "word2vec", False, True),
        ("v.txt", "glove", False, False),
    ):
        made.save_vectors(tmp_path / name, format)
        found = keyed.load_word2vec_format(tmp_path / name, binary=binary, no_header=not header)
        assert found.index_to_key == made.vectors.words
        np.testing.assert_array_equal(found.vectors, made.vectors.vectors)
        found.save_word2vec_format(tmp_path / "back", binary=binary)
        back = read_word_vectors(
            tmp_path / "back", format="word2vec_binary" if binary else "word2vec"
        )
        np.testing.assert_allclose(back.vectors, made.vectors.vectors, rtol=1e-6)

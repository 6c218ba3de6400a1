"""Answer selection: scores by hand, ranks, training, rerankers, files, the SavedModel, backends."""

import builtins
import copy
import math
import os
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import selection_toys
import tensorflow as tf
from processes import answer
from selection_toys import ANSWERS, EXAMPLES, QUESTIONS, SIZES, TOKENIZER, everything, make
from similarity_toys import make as make_scorer
from tracing import eagerly

from keras_attn.arrays import greatest
from keras_attn.fields.answer_index import AnswerIndex, scaled
from keras_attn.records import ScoredPair
from keras_attn.tasks import AnswerSelectionData, AnswerSelector, FoundAnswer, SimilarityScorer
from keras_attn.text.word_scores import WordScores, search_words

EAGER = pytest.mark.usefixtures("eager")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An untrained selector, and its file."""
    path = tmp_path_factory.mktemp("selection") / "s.task"
    selector = make()
    selector.save(path)
    return selector, path


def cosines(selector, questions, answers):
    """By NumPy in float64, from vectors that are not scaled."""
    one, two = (selector.embed(x).astype("float64") for x in (questions, answers))
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(two, axis=1)
    return one @ two.T / lengths


def bm25(texts, question, k1=1.5, b=0.75):
    """The formula of the page, in float64."""
    words = [search_words(text) for text in texts]
    mean = np.mean([len(own) for own in words])
    found = np.zeros(len(texts))
    for word in search_words(question):
        having = sum(word in own for own in words)
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for i, own in enumerate(words):
            count = own.count(word)
            found[i] += idf * count / (count + k1 * (1 - b + b * len(own) / mean))
    return found


def test_words():
    assert search_words("The DOG's  naïve_plan: 3.5%, e\u0301te\u0301! STRASSE Straße") == [
        "the", "dog", "s", "naïve", "plan", "3", "5", "été", "strasse", "strasse"
    ]  # fmt: skip
    assert search_words("हिन्दी में שלום 漢字\x00กา \U0001f600") == [
        "हिन्दी", "में", "שלום", "漢", "字", "ก", "า"
    ]  # fmt: skip
    assert search_words("") == search_words(" \x00 ?!") == []


def test_scores_of_words_by_the_formula():
    texts = ["a dog runs, a dog sleeps", "the cat", "?", "a dog", "the cat and the dog and a bird"]
    scores = WordScores(texts)
    for question in ("a dog", "cat cat bird", "The DOG?", "nothing known", "", "?"):
        np.testing.assert_allclose(scores(question), bm25(texts, question), atol=1e-6)
    assert WordScores(["?", "!"])("a dog").tolist() == [0.0, 0.0]


def test_the_best_scores():
    scores = np.array([0.5, 0.9, 0.5, 0.1, 0.9, 0.5])
    assert [greatest(np, scores, k).tolist() for k in (1, 2, 4, 9)] == [
        [1], [1, 4], [1, 4, 0, 2], [1, 4, 0, 2, 5, 3]
    ]  # fmt: skip
    assert scaled(np.array([2.0, 2.0])).tolist() == [0.0, 0.0]
    assert scaled(np.array([2.0, 6.0, 3.0])).tolist() == [0.0, 1.0, 0.25]


def test_both_is_the_weighted_mean_of_scaled_scores():
    """For three answers with vectors of two places; scaled over the candidates of a question."""
    texts = ["a dog", "a cat", "a dog and a cat", "bird"]
    table = dict(zip(texts, [[1, 0], [0.6, 0.8], [0, 1], [-1, 0]], strict=True), bird_=[0, 1])
    index = AnswerIndex(texts, lambda given: np.array([table[text] for text in given], "float64"))
    words = bm25(texts, "bird")
    (found,) = index.scores(["bird"], "both", 0.3)
    by_vectors = np.array([-1, -0.6, 0, 1.0])
    expected = 0.3 * words / words.max() + 0.7 * (by_vectors + 1) / 2
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"`by` must be 'vectors', .* Received: 'word'"):
        next(index.scores(["bird"], "word", 0.3))
    (own,) = index.scores(["bird"], "both", 0.3, [np.array([2, 0])])
    np.testing.assert_allclose(own, [0.7, 0.0], atol=1e-6)  # the words are all 0 there


@EAGER
def test_predictions(saved):
    selector, _ = saved
    expected = cosines(selector, QUESTIONS, ANSWERS)
    found = selector.predict(QUESTIONS, top_k=3)
    for row, scores in zip(found, expected, strict=True):
        order = np.argsort(-scores)[:3]
        assert [x.number for x in row] == order.tolist()
        assert [x.answer for x in row] == [ANSWERS[i] for i in order]
        np.testing.assert_allclose([x.score for x in row], scores[order], atol=1e-5)
    one = selector.predict(QUESTIONS[0], top_k=99)
    assert len(one) == len(ANSWERS)
    assert [x.number for x in one[:3]] == [x.number for x in found[0]]
    assert isinstance(one[0], FoundAnswer)
    by_words = selector.predict("who runs", top_k=2, by="words")
    assert [x.answer for x in by_words] == ["a hound runs", "the big dog runs"]
    assert by_words[0].score == pytest.approx(max(bm25(ANSWERS, "who runs")))
    assert selector.predict([]) == []


@EAGER
def test_candidates_of_their_own(saved):
    """How rare a word is, is counted over the candidates of all questions."""
    selector, _ = saved
    questions = ["a dog", "the cat"]
    candidates = [["a big dog", "a cat", "a big dog"], ["the red bird", "a cat"]]
    found = selector.predict(questions, by="words", candidates=candidates)
    texts = ["a big dog", "a cat", "the red bird"]
    scores = [bm25(texts, question) for question in questions]
    assert [[x.number for x in row] for row in found] == [[0, 2, 1], [1, 0]]
    assert [x.score for x in found[0]] == pytest.approx(scores[0][[0, 0, 1]])
    assert [x.score for x in found[1]] == pytest.approx(scores[1][[1, 2]])
    by_vectors = selector.predict(questions, candidates=candidates)
    expected = cosines(selector, questions, texts)
    assert by_vectors[1][0].score == pytest.approx(expected[1][1:].max(), abs=1e-5)
    assert selector.predict("a dog", candidates=["a bird"])[0].answer == "a bird"


@pytest.mark.slow
@EAGER
def test_explanations(saved):
    """The weights of both texts are those of similarity, for the cosine."""
    selector, path = saved
    scorer = SimilarityScorer.from_backbone(path, max_length=16)
    question = QUESTIONS[0]
    (best_one,) = selector.predict(question, top_k=1)
    found = selector.explain(question)
    assert (found.text, found.second) == (question, best_one.answer)
    assert found.label == f"score {best_one.score:.2f}"
    expected = scorer.explain((question, best_one.answer))
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-5)
    assert np.abs(found.weights).max() > 1e-3
    words = copy.deepcopy(selector)
    words.own_use = {"by": "words"}
    assert words.explain(question).label == found.label
    page = selector.page(selector.explain(QUESTIONS[:3]), "Why <b>")
    assert "Why &lt;b&gt;" in page and selector.explain([]) == []
    study = selector.explain([question], method="attention")
    assert len(study.views) == 2 and "Look" in selector.page(study, "Look")
    with pytest.raises(ValueError, match="`method` must be one of"):
        selector.explain(question, method="lime")


@EAGER
def test_figures(saved):
    selector, _ = saved
    scores = cosines(selector, [x for x, _ in EXAMPLES], ANSWERS)
    right = [[0, 3], [1], [2]]
    places = [np.argsort(np.argsort(-row))[own] + 1 for row, own in zip(scores, right, strict=True)]
    report = selector.evaluate(EXAMPLES, num_bootstrap=10)
    assert report.reciprocal_rank == pytest.approx(np.mean([1 / min(p) for p in places]))
    assert report.recall[1] == pytest.approx(np.mean([(p <= 1).mean() for p in places]))
    assert report.interval[0] <= report.reciprocal_rank <= report.interval[1]
    own = [("who runs", "a hound runs", ["the cat", "a hound runs"]), ("who", "x", ["x"])]
    assert selector.evaluate(own, by="words", num_bootstrap=0).reciprocal_rank == 1.0
    assert selector.evaluate(EXAMPLES, by="both", num_bootstrap=0).questions == 3


@pytest.mark.slow
@EAGER
def test_a_reranker(saved, tmp_path):
    """The first answers of the search in its order, the others behind them in theirs."""
    selector, _ = saved
    scorer = make_scorer("cross")
    asked = QUESTIONS[:2]
    pairs = [(question, text) for question in asked for text in ANSWERS]
    scores = dict(zip(pairs, scorer.predict(pairs), strict=True))
    before = selector.predict(asked)
    found = selector.predict(asked, top_k=3, reranker=scorer, rerank_depth=3)
    for question, first, row in zip(asked, before, found, strict=True):
        own = [scores[question, x.answer] for x in first[:3]]
        order = sorted(range(3), key=lambda i: -own[i])
        assert [x.number for x in row] == [first[i].number for i in order]
        assert [x.score for x in row] == pytest.approx(sorted(own, reverse=True), abs=1e-4)
    scorer.save(tmp_path / "r.task")
    right = [ANSWERS[2:5], ANSWERS[1:2]]
    examples = list(zip(asked, right, strict=True))
    ranks = selector.ranks(examples, reranker=str(tmp_path / "r.task"), rerank_depth=2)
    for question, first, texts, own in zip(asked, before, right, ranks, strict=True):
        order = [x.answer for x in first]
        order[:2] = sorted(order[:2], key=lambda text: -scores[question, text])
        assert own.tolist() == sorted(order.index(text) + 1 for text in texts)
    # The file is read again when it has changed.
    loaded = selector._loaded(str(tmp_path / "r.task"))
    assert selector._loaded(str(tmp_path / "r.task")) is loaded
    os.utime(tmp_path / "r.task", (0, 0))
    assert selector._loaded(str(tmp_path / "r.task")) is not loaded


@EAGER
def test_pairs_for_a_reranker(saved):
    selector, _ = saved
    found = selector.pairs(EXAMPLES, negatives=2, by="words")
    assert found[:2] == [ScoredPair("who runs", text, 1.0) for text in EXAMPLES[0][1]]
    assert [pair.score for pair in found] == [1, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]
    wrong = [x.answer for x in selector.predict("what bird", by="words")]
    wrong.remove("the red bird")
    assert [pair.second for pair in found[-2:]] == wrong[:2]
    parts = selector.pairs([("who runs", text) for text in EXAMPLES[0][1]], negatives=2, by="words")
    assert {(p.second, p.score) for p in parts} <= {(p.second, p.score) for p in found}
    assert len(set(parts)) == len(parts) and [p.score for p in parts].count(1) == 2
    own = [("who", "x", ["x", "y", "z"])]
    assert {(p.second, p.score) for p in selector.pairs(own)} == {("x", 1), ("y", 0), ("z", 0)}


def test_batches(saved):
    """Each question with each right answer; equal answers have equal numbers."""
    examples = [*EXAMPLES, ("who sleeps", "a small cat sleeps"), ("who runs", "the red bird")]
    batches = saved[0].dataset(examples, batch_size=8, shuffle=False)
    assert len(batches) == 1
    inputs, labels, weights = batches[0]
    numbers = labels["similarity"].astype(int)
    text = {i: tuple(TOKENIZER.decode([row.tolist() for row in ids])) for i, ids in
            enumerate(inputs["token_ids"])}  # fmt: skip
    rows = {text[i]: numbers[i].tolist() for i in range(len(text))}
    assert rows["who runs", "the big dog runs"] == [0, 0, 1, 3]
    assert rows["who runs", "a hound runs"] == [1, 0, 1, 3]
    assert rows["who runs", "the red bird"] == [3, 0, 1, 3]
    assert rows["where is the small cat", "a small cat sleeps"] == [2, 2, -1, -1]
    assert rows["who sleeps", "a small cat sleeps"] == [2, 2, -1, -1]
    assert len(rows) == 6 and weights["similarity"].tolist() == [1.0] * 6


@pytest.mark.slow
def test_it_learns(tmp_path):
    """From nothing; answers of the development side are chosen from, too."""
    animals = "dog cat bird hound horse fish".split()
    examples = [(f"where is the {x}", f"it is a {x} in place {i}") for i, x in enumerate(animals)]
    dev = [("is the dog there", "it is a dog in place 0"), ("and the cow", "no cow is known")]
    with eagerly():
        keras.utils.set_random_seed(0)
        data = {"vocabulary_size": 120, "max_length": 16}
        selector = AnswerSelector.create(examples, data=data, model={**SIZES, "dim": 24})
        before = selector.predict("where is the dog")
        losses = selector.fit(
            examples, epochs=8, batch_size=6, learning_rate=0.03, warmup_steps=0, verbose=0
        ).history["loss"]
        assert selector.predict("where is the dog") != before
        assert selector.evaluate(examples, num_bootstrap=0).reciprocal_rank > 0.8
        run = selector.fit(
            examples, dev, epochs=1, batch_size=6, verbose=0, run_dir=tmp_path / "run"
        )
    assert losses[-1] < 0.3 * losses[0]
    assert run.score_name == "MRR"
    assert selector.answers[-1] == "no cow is known" and len(selector.answers) == 7
    loaded = AnswerSelector.load(run.best)
    assert loaded.answers == selector.answers
    assert loaded.evaluate(dev, num_bootstrap=0).reciprocal_rank == pytest.approx(run.best_score)


@pytest.mark.slow
@EAGER
def test_files_and_precisions(saved, tmp_path):
    selector, path = saved
    again = AnswerSelector.load(path)
    assert again.predict(QUESTIONS) == selector.predict(QUESTIONS)
    cosines = np.array([[x.score for x in row] for row in selector.predict(QUESTIONS)])
    half = AnswerSelector.load(path, dtype="mixed_bfloat16")
    found = np.array([[x.score for x in row] for row in half.predict(QUESTIONS)])
    assert 0 < np.abs(found - cosines).max() < 0.05
    again.quantize()  # its vectors are computed anew
    found = np.array([[x.score for x in row] for row in again.predict(QUESTIONS)])
    assert 0 < np.abs(found - cosines).max() < 0.1
    again.save(tmp_path / "small")
    assert AnswerSelector.load(tmp_path / "small").predict(QUESTIONS) == again.predict(QUESTIONS)
    again.answers = ["the cat", "the dog", "the cat"]
    assert again.answers == ("the cat", "the dog") and len(again.predict("a")) == 2


@pytest.mark.slow
@EAGER
@EAGER
def test_lone_surrogates_can_be_saved(tmp_path):
    selector = AnswerSelector(
        TOKENIZER, ["half \ud800", "a dog"], model=SIZES, data={"max_length": 16}
    )
    selector.save(tmp_path / "a.task")
    answers = AnswerSelector.load(tmp_path / "a.task").answers
    assert answers == selector.answers and answers[1] == "a dog"
    "".join(answers).encode("utf-8")
    report = selector.evaluate([("who", "half \ud800")], num_bootstrap=0)
    assert report.questions == 1


@pytest.mark.slow
def test_an_encoder_of_another_task(saved):
    selector, path = saved
    other = AnswerSelector.from_backbone(path, ["a dog", "a cat"], max_length=16)
    np.testing.assert_allclose(other.embed(QUESTIONS), selector.embed(QUESTIONS), atol=1e-6)
    first = AnswerSelector.from_backbone(path, ["a dog"], max_length=16, pooling="first")
    assert np.abs(first.embed(QUESTIONS) - selector.embed(QUESTIONS)).max() > 0.1
    other.predict("a dog")
    other.model.get_layer("embedding").trainable_weights[0].assign_add(
        np.random.default_rng(0).normal(size=(len(TOKENIZER.vocabulary), 12))
    )
    other.load_backbone(path)  # the vectors of the answers are computed anew
    expected = cosines(selector, ["a dog"], ["a dog", "a cat"])[0]
    found = {x.answer: x.score for x in other.predict("a dog")}
    assert [found["a dog"], found["a cat"]] == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.slow
def test_the_exported_functions_give_what_python_gives(saved, unsaved, eager, tmp_path):
    selector, _ = saved
    selector.export(tmp_path / "m", top_k=4)
    (functions,) = unsaved
    texts = tf.constant([text.encode() for text in QUESTIONS], tf.string)
    found = {name: x.numpy() for name, x in functions["serving_default"](text=texts).items()}
    for i, row in enumerate(selector.predict(QUESTIONS, top_k=4)):
        np.testing.assert_allclose(found["scores"][i], [x.score for x in row], atol=1e-5)
        assert found["numbers"][i].tolist() == [x.number for x in row]
        assert [text.decode() for text in found["answers"][i]] == [x.answer for x in row]
    vectors = functions["embed"](text=texts)["vectors"].numpy()
    np.testing.assert_allclose(vectors, selector.embed(QUESTIONS, normalize=True), atol=1e-5)


@pytest.mark.slow
def test_the_saved_model(saved, tmp_path):
    selector, _ = saved
    selector.export(tmp_path / "m")
    serve = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    found = serve(text=tf.constant([text.encode() for text in QUESTIONS]))
    expected = selector.predict(QUESTIONS)
    assert found["numbers"].numpy().tolist() == [[x.number for x in row] for row in expected]
    assert found["answers"].shape == (5, 6)
    assert serve(text=tf.constant([], tf.string))["scores"].shape == (0, 6)


@pytest.mark.slow
@EAGER
@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_the_same_on_other_backends(saved, backend):
    result = answer(backend, Path(selection_toys.__file__), saved[1])
    assert result["backend"] == backend
    for name, values in everything(saved[0]).items():
        np.testing.assert_allclose(result["found"][name], values, atol=1e-4)


def test_without_the_library_of_words(saved, monkeypatch):
    imported = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "bm25s":
            raise ModuleNotFoundError(name=name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    selector = AnswerSelector(TOKENIZER, ANSWERS, model=SIZES, data={"max_length": 16})
    for by in ("words", "both"):
        with pytest.raises(ImportError, match=r"keras_attn\[search\].*--by vectors"):
            selector.predict("a dog", by=by)


def test_wrong_use(saved):
    selector, _ = saved
    for wrong, words in (([], "none"), (["a", " \n"], "which is empty")):
        with pytest.raises(ValueError, match=f"Expected answers to choose from.*{words}"):
            AnswerSelector(TOKENIZER, wrong, model=SIZES, data={"max_length": 16})
    with pytest.raises(TypeError, match="Expected a list of answers"):
        AnswerSelector(TOKENIZER, "a dog", model=SIZES, data={"max_length": 16})
    for use in ({"by": "words"}, {"by": "both"}, {"reranker": "a.task"}):
        with pytest.raises(ValueError, match="SavedModel searches by vectors, without a reranker"):
            selector.export("nowhere", **use)
    with pytest.raises(ValueError, match="`pooling` must be one of"):
        make(pooling="sum")
    with pytest.raises(TypeError, match="Expected strings"):
        selector.predict(["a", 7])
    for wrong in ({"by": "letters"}, {"top_k": 0}, {"lexical_weight": 0.3}, {"rerank_depth": 3},
                  {"by": "both", "lexical_weight": 1.5}):  # fmt: skip
        with pytest.raises(ValueError, match=f"`{list(wrong)[-1]}`"):
            selector.predict("a", **wrong)
    with pytest.raises(ValueError, match="`rerank_depth` must be at least `top_k`"):
        selector.predict("a", reranker=make_scorer("cross"), rerank_depth=3)
    for wrong in ([["a"]], [["a"], []]):
        with pytest.raises(ValueError, match="at least one candidate for each question"):
            selector.predict(["a", "b"], candidates=wrong)
    with pytest.raises(ValueError, match=r"among the possible answers\. Received: 'unknown'"):
        selector.evaluate([("who", "unknown")])
    with pytest.raises(ValueError, match="candidates with every example, or with no example"):
        selector.evaluate([("who", "x", ["x"]), ("who", "the red bird")])


@pytest.mark.slow
@EAGER
def test_vectors_that_are_not_finite_are_named():
    """The loss of the epoch that spoils the weights is a number yet."""
    settings = {"epochs": 1, "learning_rate": 1e38, "warmup_steps": 0, "clip_norm": 0.0}
    with pytest.raises(ValueError, match=r"to 'who runs' are not finite: .* diverged.*other seed"):
        make().fit(EXAMPLES, EXAMPLES, verbose=0, **settings)
    diverged = make()
    diverged.model.weights[0].assign(diverged.model.weights[0] * np.nan)
    with pytest.raises(ValueError, match=r"answers are not finite: .* diverged"):
        diverged.export("nowhere")


def test_reading(tmp_path):
    rows = [f"q{'abcdefghij'[i]} one?,answer {i // 2}" for i in range(10)]
    (tmp_path / "faq.csv").write_text("\n".join(["question,answer", *rows]))
    (tmp_path / "more.txt").write_text("another\n\nanswer 1\n")
    data = AnswerSelectionData(
        train=str(tmp_path / "faq.csv"), answers=str(tmp_path / "more.txt"), dev_share=0.2,
        vocabulary_size=60, max_length=8,
    )  # fmt: skip
    examples = AnswerSelector.read(data)
    assert (len(examples.train), len(examples.dev)) == (8, 2)
    assert "10 questions, 5 different answers" in examples.summary
    selector = AnswerSelector.create(examples.train, data=data, model=SIZES)
    in_order = (*(f"answer {i}" for i in range(5)), "another")  # of the file, whoever is held out
    assert selector.answers == in_order
    lines = selector.describe(selector.dataset(examples.train))
    assert lines[-1] == "6 answers to choose from."
    selector.scorer(examples.dev, selector.Training())
    assert selector.answers == in_order
    (tmp_path / "dev.csv").write_text("question,answer\nq new?,answer 9\nq old?,answer 3\n")
    examples = AnswerSelector.read(replace(data, dev=str(tmp_path / "dev.csv")))
    assert len(examples.train) == 10
    selector = AnswerSelector.create(examples.train, data=data, model=SIZES)
    assert selector.answers == (*in_order[:5], "answer 9", "another")

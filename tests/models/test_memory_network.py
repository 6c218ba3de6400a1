"""Memory networks: the equations of the paper by loops, padding, forgetting, and weights."""

import keras
import numpy as np
import pytest

from keras_attn import attention_maps
from keras_attn.models import MemoryNetworkConfig

STORIES = [[[3, 1, 4], [1, 5], [9]], [[2, 6, 5, 3], [5, 8]]]
QUESTIONS = [[7, 9], [3, 2, 3]]


def table(rows, shape):
    found = np.zeros((len(rows), *shape), "int32")
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            found[i, j] = [*value, *[0] * (shape[1] - len(value))] if shape[1:] else value
    return found


def given(sentences=3, words=4):
    return {"story_ids": table(STORIES, (sentences, words)), "question_ids": table(QUESTIONS, (3,))}


def make(**settings):
    model = MemoryNetworkConfig(11, dim=6, memory_size=5, **settings).build()
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.6, size=weight.shape))
    return model


def call(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs))


def by_loops(model, story, question, attention, memory_size=5, hops=3):
    """Sections 2 and 4.1 of the paper, a word at a time; also the weights of each hop."""
    arrays = {weight.path: np.asarray(weight, "float64") for weight in model.weights}
    words = [arrays[f"embedding_{k}/embedding/embeddings"] for k in range(hops + 1)]
    times = [arrays.get(f"time_{k}/embedding/embeddings") for k in range(hops + 1)]
    dim = words[0].shape[1]

    def sentence(matrix, ids):
        total = np.zeros(dim)
        for j, word in enumerate(ids, 1):
            for k in range(1, dim + 1):
                weight = (1 - j / len(ids)) - (k / dim) * (1 - 2 * j / len(ids))
                total[k - 1] += weight * matrix[word, k - 1]
        return total

    kept = story[-memory_size:]
    u, found = sentence(words[0], question), []
    for hop in range(hops):
        scores, values = [], []
        for place, ids in enumerate(kept):
            age = len(kept) - 1 - place
            if attention != "uniform":
                scores.append(u @ (sentence(words[hop], ids) + times[hop][age]))
            values.append(sentence(words[hop + 1], ids) + times[hop + 1][age])
        weights = np.array(scores)
        if attention == "uniform":
            weights = np.full(len(kept), 1 / len(kept))
        elif attention == "dot":
            weights = np.exp(weights - weights.max()) / np.exp(weights - weights.max()).sum()
        u = u + weights @ np.array(values)
        found.append(weights)
    return words[hops] @ u, found


@pytest.mark.quick("dot")
@pytest.mark.parametrize("attention", ["dot", "linear", "uniform"])
def test_the_equations(attention):
    model = make(attention=attention)
    logits = call(model, given())
    for b in range(2):
        expected, weights = by_loops(model, STORIES[b], QUESTIONS[b], attention)
        np.testing.assert_allclose(logits[b], expected, rtol=1e-5, atol=1e-5)
        if attention == "dot":
            maps = attention_maps(model, given()).select("cross", "hop")
            n = len(STORIES[b])
            np.testing.assert_allclose([m[b, 0, :n] for m in maps], weights, atol=1e-6)
            assert not np.any([m[b, 0, n:] for m in maps])


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["dot", "linear", "uniform"])
def test_padding_and_empty_sentences_change_nothing(attention):
    model = make(attention=attention)
    expected = call(model, given())
    np.testing.assert_allclose(call(model, given(6, 7)), expected, atol=1e-5)
    inputs = given()
    left = np.insert(inputs["story_ids"], [0, 1, 2], 0, axis=1)
    np.testing.assert_allclose(call(model, {**inputs, "story_ids": left}), expected, atol=1e-5)


def test_old_sentences_are_forgotten():
    model = MemoryNetworkConfig(11, dim=6, memory_size=2).build()
    story = np.array([STORIES[0] + STORIES[1]], object)
    ids = table(story, (5, 4))
    inputs = {"story_ids": ids, "question_ids": table(QUESTIONS[:1], (2,))}
    expected, _ = by_loops(model, [*story[0]], QUESTIONS[0], "dot", memory_size=2)
    np.testing.assert_allclose(call(model, inputs)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_story_without_sentences():
    """The logits are those of the question; gradients are finite."""
    model = make()
    inputs = {**given(), "story_ids": np.zeros((2, 3, 4), "int32")}
    tables = [model.get_layer(f"embedding_{k}").get_weights()[0] for k in (0, 3)]
    (maps, *_) = attention_maps(model, inputs).select("cross", "hop")
    assert not maps.any()
    j, k = np.arange(1, 3)[:, None], np.arange(1, 7)
    weights = (1 - j / 2) - k / 6 * (1 - j)
    u = (weights * tables[0][QUESTIONS[0]]).sum(0)
    np.testing.assert_allclose(call(model, inputs)[0], tables[1] @ u, atol=1e-5)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.train_on_batch(inputs, np.array([1, 2]))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.slow
def test_a_linear_start():
    """The weights of the model without softmax fit the one with it, in its order."""
    linear, model = make(attention="linear"), make()
    model.set_weights(linear.get_weights())
    for name in ("embedding_0", "embedding_3", "time_1"):
        np.testing.assert_array_equal(
            model.get_layer(name).get_weights()[0], linear.get_layer(name).get_weights()[0]
        )


def test_wrong_settings():
    for settings in ({"num_hops": 0}, {"attention": "hard"}, {"memory_size": 0}, {"dim": 0}):
        with pytest.raises(ValueError, match=f"`{next(iter(settings))}`"):
            MemoryNetworkConfig(11, **settings)

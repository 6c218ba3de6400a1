"""Skip-gram and CBOW with their loss, against the formulas in float64 NumPy."""

import keras
import numpy as np
import pytest

from keras_attn.batches import WordWindows
from keras_attn.models import CbowConfig, SkipGramConfig
from keras_attn.training import NegativeSamplingLoss

COUNTS = [0, 0, 0, 0, 9, 8, 7, 6, 5]
IDS = np.random.default_rng(1).integers(4, 9, 40)


def batch(config):
    settings = {"window": 2, "noise_words": 3, "subsample": 0, "batch_size": 32}
    return WordWindows(IDS, [25, 15], COUNTS, cbow=config.cbow, **settings)[0]


def with_weights(config):
    model, rng = config.build(), np.random.default_rng(0)
    tables = [rng.normal(size=(9, 5)) for _ in range(2)]
    for name, table in zip(("embedding", "context"), tables, strict=True):
        model.get_layer(name).embeddings.assign(table)
    return model, tables


def log_sigmoid(x):
    return -np.log1p(np.exp(-x))


def reference(config, inputs, labels, E, O, negatives):
    """The loss of each place and the gradients of the mean, pair by pair as in the paper."""
    places = labels.shape[0] * labels.shape[1]
    loss, dE, dO = np.zeros(labels.shape[:2]), np.zeros_like(E), np.zeros_like(O)
    for b in range(labels.shape[0]):
        C = labels.shape[2]
        others = inputs["word_ids" if config.cbow else "context_ids"][b]
        for p in range(labels.shape[1]):
            if config.cbow:
                parts = [(c, w) for c, w in zip(inputs["context_ids"][b],
                         inputs["context_weights"][b, p], strict=True) if w]  # fmt: skip
            else:
                parts = [(inputs["word_ids"][b, p], 1.0)]
            h = sum((w * E[c] for c, w in parts), np.zeros(E.shape[1]))
            right = [others[c] for c in range(C) if labels[b, p, c]]
            noise, share = others[C:], negatives / len(others[C:])
            terms = [(o, 1.0, 1.0) for o in right]
            terms += [(o, -1.0, share * len(right)) for o in noise]
            for o, sign, weight in terms:
                z = h @ O[o]
                loss[b, p] -= weight * log_sigmoid(sign * z)
                d = -weight * sign / (1 + np.exp(sign * z)) / places
                dO[o] += d * h
                for c, w in parts:
                    dE[c] += d * w * O[o]
    return loss, dE, dO


@pytest.mark.parametrize("kind", [SkipGramConfig, CbowConfig])
def test_loss_and_gradient(kind):
    """One step of SGD takes the gradient of the formula from both tables."""
    config = kind(9, dim=5)
    inputs, labels = batch(config)
    model, (E, O) = with_weights(config)
    loss, dE, dO = reference(config, inputs, labels, E, O, negatives=4)
    found = NegativeSamplingLoss(4, reduction=None)(labels, model(inputs))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), loss, rtol=1e-5, atol=1e-6)
    model.compile(keras.optimizers.SGD(2.0), NegativeSamplingLoss(4))
    value = model.train_on_batch(inputs, labels)
    assert float(value) == pytest.approx(loss.mean(), rel=1e-5)
    after = [model.get_layer(n).embeddings for n in ("embedding", "context")]
    for table, before, gradient in zip(after, (E, O), (dE, dO), strict=True):
        moved = keras.ops.convert_to_numpy(table) - before
        np.testing.assert_allclose(moved, -2.0 * gradient, rtol=2e-3, atol=2e-6)


def test_loss_by_hand():
    """log 2 for each pair, and for each of its k noise words in the mean."""
    labels = np.array([[[1, 1], [0, 0]]])
    loss = NegativeSamplingLoss(negatives=5, reduction=None)(labels, np.zeros((1, 2, 5)))
    np.testing.assert_allclose(loss, [[2 * np.log(2) + 2 * 5 * np.log(2), 0]], rtol=1e-6)


@pytest.mark.parametrize("kind", [SkipGramConfig, CbowConfig])
def test_saved_models(kind, tmp_path):
    config = kind(9, dim=5)
    model, _ = with_weights(config)
    model.compile(keras.optimizers.SGD(0.1), NegativeSamplingLoss(3))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    inputs, _ = batch(config)
    np.testing.assert_allclose(again(inputs), model(inputs), atol=1e-6)
    assert again.loss.negatives == 3


def test_what_cannot_be():
    with pytest.raises(ValueError, match="`negatives` must be above 0"):
        NegativeSamplingLoss(0)
    with pytest.raises(
        ValueError,
        match=r"\(B, P, C \+ N\).*labels of shape \(1, 2, 3\) and logits of shape \(1, 2, 3\)",
    ):
        NegativeSamplingLoss()(np.ones((1, 2, 3)), np.zeros((1, 2, 3)))

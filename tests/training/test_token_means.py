"""Figures over tokens do not depend on how the tokens lie in batches."""

import keras
import numpy as np
import pytest

from keras_attn.batches import TokenBatches
from keras_attn.layers import TokenEmbedding
from keras_attn.metrics import MaskedAccuracy
from keras_attn.training import MaskedCrossEntropy
from keras_attn.training.token_means import token_means

TARGETS = [[3], [4, 5, 6, 7, 8, 3, 4], [5], [6, 6], [7], [8, 8, 3]]


def model():
    """The logits of a token are a table's row of the token before."""
    target = keras.Input((None,), dtype="int32", name="target_ids")
    source = keras.Input((None,), dtype="int32", name="source_ids")
    logits = TokenEmbedding(10, 10, scale=False)(target)
    made = keras.Model({"source_ids": source, "target_ids": target}, logits)
    made.compile(
        loss=MaskedCrossEntropy(),
        weighted_metrics=[MaskedAccuracy(name="accuracy")],
        jit_compile=False,
    )
    return made


@pytest.mark.parametrize("settings", [{"tokens_per_batch": 8}, {}, {"rows_multiple_of": 4}])
def test_the_loss_of_any_batches(settings):
    made = model()
    table = np.asarray(made.get_weights()[0], "float64")
    losses, right = [], []
    for row in TARGETS:
        for before, after in zip([1, *row], [*row, 2], strict=True):
            logits = table[before]
            losses.append(np.log(np.exp(logits).sum()) - logits[after])
            right.append(logits.argmax() == after)
    batches = TokenBatches(TARGETS, TARGETS, start_id=1, end_id=2, shuffle=False, **settings)
    found = token_means(made, batches)
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right), rel=1e-5)

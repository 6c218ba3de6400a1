"""The importance of heads, beside finite differences."""

import keras
import numpy as np
import pytest
from processes import run_python

from keras_attn import heads_of
from keras_attn.explain import HeadImportance, head_importance
from keras_attn.layers import (
    MaskedAveragePooling,
    TokenEmbedding,
    TransformerEncoder,
)
from keras_attn.tasks import TextClassifier

IDS = np.array([[1, 2, 3, 4], [4, 3, 0, 0], [5, 5, 2, 0]])
LABELS = np.array([0, 1, 1])
BATCHES = [(IDS[:2], LABELS[:2]), (IDS[2:], LABELS[2:])]


def classifier():
    ids = keras.Input((None,), dtype="int32")
    x = TokenEmbedding(9, 8, name="embed")(ids)
    x = TransformerEncoder(2, 2, intermediate_dim=12, dropout=0.1, name="encoder")(x)
    y = keras.layers.Dense(2)(MaskedAveragePooling()(x))
    model = keras.Model(ids, y)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def loss(model, batches=BATCHES):
    """The mean cross-entropy of examples, in NumPy."""
    found = []
    for ids, labels in batches:
        logits = np.asarray(model(ids), "float64")
        logits -= logits.max(1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        found += [-row[label] for row, label in zip(logs, labels, strict=True)]
    return np.array(found)


def scaled(model, path, head, factor):
    """The losses of a model whose head has another weight."""
    kernel = heads_of(model)[path].output_dense.kernel
    before = np.asarray(kernel)
    changed = before.copy()
    changed[head * 4 : head * 4 + 4] *= factor
    kernel.assign(changed)
    found = loss(model)
    kernel.assign(before)
    return found


@pytest.mark.slow
def test_by_gradients():
    model = classifier()
    found = head_importance(model, BATCHES, method="gradient")
    assert list(found.values) == list(heads_of(model))
    for path, row in found.values.items():
        for head in range(2):
            up, down = (scaled(model, path, head, 1 + e) for e in (1e-2, -1e-2))
            assert row[head] == pytest.approx(np.abs(up - down).mean() / 2e-2, rel=2e-2, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("scored", [False, True])
def test_by_ablation(scored):
    model = classifier()
    score = (lambda model: 10 - loss(model).sum()) if scored else None
    found = head_importance(model, None if scored else BATCHES, score)
    total = {False: np.mean, True: np.sum}[scored]
    whole = total(loss(model))
    assert found.score == pytest.approx(10 - whole if scored else -whole, abs=1e-5)
    for path, row in found.values.items():
        for head in range(2):
            without = total(scaled(model, path, head, 0))
            assert row[head] == pytest.approx(without - whole, abs=1e-5)


@pytest.mark.slow
def test_the_dataset_of_a_task():
    examples = [("good film", "yes"), ("bad film", "no")] * 3
    sizes = {"model": "transformer", "dim": 8, "num_heads": 2, "intermediate_dim": 8}
    task = TextClassifier.create(examples, model=sizes)
    task.compile(total_steps=1)
    found = head_importance(task.model, task.dataset(examples), method="gradient")
    assert all((row > 0).all() for row in found.values.values())


def test_a_table():
    found = HeadImportance({"a": np.array([0.5, -0.25]), "b": np.array([1.0])}, "gradient")
    assert [row[:2] for row in found.strongest()] == [("b", 0), ("a", 0), ("a", 1)]
    assert str(found).splitlines()[1:] == [
        "         1     0  b",
        "       0.5     0  a",
        "     -0.25     1  a",
        "by gradient",
    ]
    table = found.plot().axes[0].images[0].get_array()
    assert np.ma.filled(table, np.nan).tolist()[0] == [0.5, -0.25]
    assert np.ma.getmaskarray(table).tolist() == [[False, False], [False, True]]


def test_what_is_wrong():
    model = classifier()
    with pytest.raises(ValueError, match=r"`method` must be one of .*Received: 'shap'"):
        head_importance(model, BATCHES, method="shap")
    with pytest.raises(ValueError, match=r"data=NoneType, compiled=True"):
        head_importance(model)
    with pytest.raises(ValueError, match=r"at least one batch"):
        head_importance(model, [])
    with pytest.raises(ValueError, match=r"has no such layer. Call it once"):
        head_importance(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), BATCHES)


SCRIPT = """
import keras, numpy as np
from keras_attn.explain import head_importance
from keras_attn.layers import MultiHeadSelfAttention
x = keras.Input((3, 4))
attend = MultiHeadSelfAttention(2, name="attend")
model = keras.Model(x, attend(x))
rng = np.random.default_rng(0)
for weight in model.weights:
    weight.assign(rng.normal(size=weight.shape))
model.compile("sgd", "mse")
x, y = rng.normal(size=(2, 3, 4)).astype("float32"), np.zeros((2, 3, 4), "float32")
for method in ("gradient", "ablation"):
    print(*head_importance(model, [(x, y)], method=method).values["attend"])
"""


@pytest.mark.slow
def test_all_backends_give_the_same():
    found = [
        np.array(run_python(backend, SCRIPT).stdout.split()[-4:], "float64")
        for backend in ("tensorflow", "jax", "torch")
    ]
    assert (np.abs(found[0]) > 1e-3).all()
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-4)

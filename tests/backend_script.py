"""What `test_backends.py` runs in one fresh process a backend: `backend_script.py FOLDER HOW`.

It loads what TensorFlow saved, compares, differentiates and trains, and prints what it found as
JSON in its last line. HOW is "whole", or "quick": the models of `quick_names` once (compiled on
JAX, which would compile each operation of each shape otherwise), and those of `closely` trained
and, on PyTorch, layer by layer.
"""

import json
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import ops, tree

import keras_attn
from keras_attn import layers, models

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
CLOSELY = ("pooled", "translator")
# What is left out: recurrence, and explicit masks layer by layer.
QUICK = (*CLOSELY, "modern", "pictures")
SLOW_ON_JAX = ("modern", "pictures", "translator")
HEAVY = ("tensorflow", "tensorflow_text", "tokenizers", "matplotlib", "sacrebleu", "keras_hub")


def quick_names(backend):
    """The models that a quick test loads: fewer on JAX, which compiles each."""
    return [name for name in QUICK if backend != "jax" or name not in SLOW_ON_JAX]


def closely(backend):
    """The models that a quick test trains: one on JAX."""
    return CLOSELY[:1] if backend == "jax" else CLOSELY


def numpy(nest):
    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in tree.flatten(nest)]


def distance(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


def loaded(folder, name):
    model = keras.models.load_model(folder / f"{name}.keras", safe_mode=True)
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    inputs = {k.removeprefix("input "): v for k, v in arrays.items() if k.startswith("input ")}
    outputs = [arrays[f"output {i}"] for i in range(len(arrays)) if f"output {i}" in arrays]
    trained = [arrays[f"trained {i}"] for i in range(len(arrays)) if f"trained {i}" in arrays]
    return model, inputs, outputs, trained


def predicted(model, inputs):
    """Outputs, compiled where the backend can."""
    size = len(tree.flatten(model.outputs))
    # TensorFlow by XLA would take most of the time; the harness does that.
    jit_compile = False if keras.backend.backend() == "tensorflow" else "auto"
    model.compile(keras.optimizers.SGD(0.1), ["mse"] * size, jit_compile=jit_compile)
    return numpy(model.predict_on_batch(inputs))


def train(model, inputs):
    """Outputs after one step of gradient descent."""
    targets = [np.full(y.shape, 0.3, "float32") for y in predicted(model, inputs)]
    model.train_on_batch(inputs, targets if len(targets) > 1 else targets[0])
    return numpy(model.predict_on_batch(inputs))


def nothing_visible():
    """Contract 2: a row that sees nothing, through all kinds of attention, and one step."""
    x, memory = keras.Input((4, 8), name="x"), keras.Input((5, 8), name="memory")
    mask = keras.Input((4, 4), dtype="bool", name="mask")
    memory_mask = keras.Input((5,), dtype="bool", name="memory_mask")
    scored = {"return_attention_scores": True}
    h, head = layers.SelfAttention(projection="separate", use_bias=True)(
        x, attention_mask=mask, **scored
    )
    c, additive = layers.AdditiveAttention(3)(h, memory, value_mask=memory_mask, **scored)
    y, own, cross = layers.TransformerDecoder(1, 2, intermediate_dim=8, value_rank=3)(
        c, memory, attention_mask=mask, memory_mask=memory_mask, **scored
    )
    scores = [additive, ops.expand_dims(head, 1), *own, *cross]
    model = keras.Model([x, memory, mask, memory_mask], [y, c, h, *scores])
    rng = np.random.default_rng(0)
    visible = np.ones((2, 4, 4), bool)
    visible[0, 0] = False
    inputs = {
        "x": rng.normal(size=(2, 4, 8)).astype("float32"),
        "memory": rng.normal(size=(2, 5, 8)).astype("float32"),
        "mask": visible,
        "memory_mask": np.arange(5) < [[0], [4]],
    }
    y, c, h, *scores = numpy(model.predict_on_batch(inputs))
    model = keras.Model(model.inputs, model.outputs[:1])
    model.compile(keras.optimizers.SGD(0.1), "mse", auto_scale_loss=False)
    model.train_on_batch(inputs, np.zeros((2, 4, 8), "float32"))
    return {
        "finite": all(np.isfinite(a).all() for a in [y, c, h, *scores, *numpy(model.weights)]),
        "zero": bool(
            (c[0] == 0).all()
            and (h[0, 0] == 0).all()
            and all((s[0, :, 0] == 0).all() for s in scores)
        ),
    }


def rematerialized():
    """Training with noise, blocks kept and computed again: do weights and seeds agree."""
    x, memory = np.random.default_rng(0).normal(size=(2, 2, 4, 8)).astype("float32")
    mask = np.arange(4) < [[4], [2]]
    trained, seeds = [], []
    for again in (False, True):
        keras.utils.set_random_seed(1)
        inputs = keras.Input((4, 8)), keras.Input((4, 8)), keras.Input((4,), dtype="bool")
        settings = {"dropout": 0.3, "attention_dropout": 0.2, "seed": 3, "rematerialize": again}
        hidden = layers.TransformerEncoder(
            2, 2, intermediate_dim=8, positions="rotary", **settings
        )(inputs[0], padding_mask=inputs[2])
        stack = layers.TransformerDecoder(
            1, 2, intermediate_dim=8, normalize_first=True, **settings
        )
        model = keras.Model(inputs, stack(inputs[1], hidden, memory_mask=inputs[2]))
        first = numpy(model.trainable_weights)
        jit_compile = False if keras.backend.backend() == "tensorflow" else "auto"
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
        for _ in range(2):
            model.train_on_batch([x, memory, mask], memory)
        trained.append(numpy(model.trainable_weights))
        seeds.append([ops.convert_to_numpy(v).tolist() for v in model.non_trainable_variables])
    return distance(*trained), distance(first, trained[0]), seeds[0] == seeds[1]


@keras.saving.register_keras_serializable(package="backends")
class Subclassed(keras.Model):
    """A model with ids, a mask, positions and lengths, which Keras builds from their shapes."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embed = layers.InputEmbedding(9, 8)
        self.weighting = layers.TokenWeighting(9)
        self.attend = layers.MultiHeadSelfAttention(2, positions="rotary")

    def call(self, inputs):
        ids, lengths = inputs["token_ids"], inputs["lengths"]
        x = self.weighting(self.embed(ids), ids)
        x = self.attend(x, mask=inputs["mask"], positions=inputs["positions"])
        heads = ops.reshape(x, (-1, 4, 2, 4))
        return keras_attn.ops.dot_product_attention(heads, heads, heads, key_lengths=lengths)


def moved():
    """What `torch.nn.Module` does to all that it owns: a stack in float64 and back."""
    import torch

    x = torch.ones((1, 3, 8))
    stack = layers.TransformerEncoder(1, 2, intermediate_dim=8)
    before = numpy(stack(x))
    return distance(numpy(torch.nn.Sequential(stack).double().float()(x)), before)


def subclassed():
    """What the outputs of a saved and loaded model differ by."""
    ids = np.array([[1, 2, 3, 4], [5, 6, 0, 0]], "int32")
    inputs = {
        "token_ids": ids,
        "mask": ids > 0,
        "positions": np.arange(4, dtype="int32"),
        "lengths": np.array([4, 2], "int32"),
    }
    model = Subclassed()
    outputs = numpy(model(inputs))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.keras")
        loaded = keras.models.load_model(Path(folder) / "model.keras", safe_mode=True)
    return distance(numpy(loaded(inputs)), outputs)


def symbolic_policies(backend):
    """The policies of which a quick test asks for symbolic shapes."""
    return POLICIES[:1] if backend == "jax" else (POLICIES[0], POLICIES[2])


def collected(model, inputs):
    maps = keras_attn.attention_maps(model, inputs)
    return [[key.path, key.role, key.call, list(maps[key].shape)] for key in maps]


def symbolic(policy):
    """Unknown lengths, and roles of tensors that Keras casts."""
    x = keras.Input((None, 8))
    y = layers.LearnedPositionalEncoding(6, dtype=policy)(x)
    layer = layers.MultiHeadAttention(2, dtype=policy)
    z, scores = layer(y, y, use_causal_mask=True, return_attention_scores=True)
    with keras_attn.collect_attention() as maps:
        layer(np.ones((1, 3, 8), "float32"), ops.ones((1, 2, 8)))
        same = ops.ones((1, 3, 8))
        layer(same, same)
    return [list(y.shape), list(z.shape), list(scores.shape), [key.role for key in maps]]


def main(folder, how):
    import imported

    result = {
        "backend": keras.backend.backend(),
        "imported": [name for name in HEAVY if name in imported.by["keras_attn"]],
        "outputs": {},
        "predicted": {},
        "trained": {},
        "maps": {},
        "split": {},
    }
    whole = how == "whole"
    for policy in POLICIES:
        keras.config.set_dtype_policy(policy)
        # On TensorFlow the harness has done it.
        if result["backend"] != "tensorflow" and (whole or policy == "mixed_float16"):
            result[f"nothing visible {policy}"] = nothing_visible()
        if whole or policy in symbolic_policies(result["backend"]):
            result[f"symbolic {policy}"] = symbolic(policy)
    keras.config.set_dtype_policy("float32")
    # Keras itself imports it, where it is installed, in `load_model` and `set_random_seed`.
    result["without tensorflow"] = "tensorflow" not in sys.modules
    if whole:
        result["rematerialized"] = rematerialized()
    if whole or result["backend"] != "jax":
        result["subclassed"] = subclassed()
    if result["backend"] == "torch":
        result["moved"] = moved()
    for path in sorted(folder.glob("*.keras")):
        name = path.stem
        if not (whole or name in quick_names(result["backend"])):
            continue
        model, inputs, outputs, trained = loaded(folder, name)
        model.load_weights(folder / f"{name}.weights.h5")
        found = predicted(model, inputs) if result["backend"] == "jax" else numpy(model(inputs))
        result["predicted"][name] = distance(found, outputs)
        if not (whole or name in closely(result["backend"])):
            continue
        if whole or result["backend"] != "jax":
            result["maps"][name] = collected(model, inputs)
            result["outputs"][name] = distance(numpy(model(inputs)), outputs)
        if "token_ids" in inputs:  # a text classifier
            embed, rest = models.embedding_and_rest(model)
            ids = ops.convert_to_tensor(inputs["token_ids"])
            result["split"][name] = distance(numpy(rest([*embed(ids), ids])), outputs)
        result["trained"][name] = distance(train(model, inputs), trained)
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

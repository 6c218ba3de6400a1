"""One helper that runs a layer, a block, a stack or a model through what all have to keep.

A `LayerCase` says how to make it and what it takes; each `check_*` function is one contract, and
`run_layer_test` runs them all. TensorFlow only: gradients, tf.function and XLA are at hand there;
`test_backends.py` compares the other backends with it.
"""

import inspect
import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness_case import (
    POLICIES,
    LayerCase,
    assert_equal,
    explicit,
    mask_of,
    masked,
    numpy,
    set_biases,
    values_and_gradients,
)
from keras import tree

from keras_attn import attention_maps

# --- contract 6, in part, and shapes


def check_config(case: LayerCase) -> None:
    layer = case.layer()
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    loaded = keras.saving.deserialize_keras_object(saved, safe_mode=True)
    # Models are loaded by `from_config`.
    models = isinstance(layer, keras.Model)
    for other in [loaded] if models else [type(layer).from_config(layer.get_config()), loaded]:
        assert type(other) is type(layer)
        # The config of a functional model numbers its nodes: compare those of its layers.
        ours = layer.layers if isinstance(layer, keras.Model) else [layer]
        others = other.layers if isinstance(layer, keras.Model) else [other]
        for a, b in zip(ours, others, strict=True):
            config = json.dumps(a.get_config())
            assert json.dumps(b.get_config()) == config
            assert isinstance(a, keras.layers.InputLayer) or json.loads(config) == a.get_config()


def check_frozen(case: LayerCase) -> None:
    """A layer that is made frozen has no weights to train, those that `build` makes included."""
    if isinstance(case.make(), keras.Model):  # is built before it can be frozen
        return
    layer = case.make(trainable=False)
    symbols = case.symbolic(True)
    model = keras.Model(symbols, case(layer, symbols))
    assert not model.trainable_variables
    layer.trainable = True
    assert bool(layer.trainable_variables) == bool(layer.weights)


def check_symbolic(case: LayerCase) -> None:
    """Symbolic shapes and dtypes are eager ones, lengths known or not, with scores and without."""
    scored = bool(case.scores)
    for policy, wanted in (("float32", {False, scored}), ("mixed_float16", {scored})):
        for with_scores in wanted:
            kwargs = {"return_attention_scores": True} if with_scores else {}
            layer = case.layer(policy)
            eager = case(layer, case.arrays(), **kwargs)
            for known in (True, False) if policy == "float32" and not with_scores else (False,):
                spec = case(layer, case.symbolic(known), **kwargs)
                tree.assert_same_structure(spec, eager)
                for s, e in zip(tree.flatten(spec), tree.flatten(eager), strict=True):
                    assert s.dtype == keras.backend.standardize_dtype(e.dtype)
                    shape = tuple(e.shape)
                    if known:
                        assert s.shape == shape
                    else:
                        assert len(s.shape) == len(shape)
                        assert all(a in (None, b) for a, b in zip(s.shape, shape, strict=True))
                        assert s.shape[0] is None
            if with_scores:
                scores = tree.flatten(eager)[1:]
                assert len(scores) == len(case.scores)
                for weights, names in zip(scores, case.scores, strict=True):
                    assert tuple(weights.shape) == case.shape_of_weights(*names)
            elif not (case.call or case.as_dict):
                shapes = [x.shape for x in case.arrays().values()]
                assert tuple(layer.compute_output_shape(*shapes)) == tuple(eager.shape)


def check_dtypes(case: LayerCase) -> None:
    for policy in POLICIES:
        layer = case.layer(policy)
        training = {"training": True} if _takes(layer, "training") else {}
        outputs, gradients = values_and_gradients(layer, case, case.arrays(), **training)
        compute = keras.dtype_policies.get(policy).compute_dtype
        assert keras.backend.standardize_dtype(outputs.dtype) == (case.output_dtype or compute)
        assert all(v.dtype == "float32" for v in layer.trainable_variables)
        assert np.isfinite(numpy(outputs).astype("float32")).all()
        for gradient in gradients:
            assert gradient is not None
            gradient = tf.convert_to_tensor(gradient)
            assert np.isfinite(numpy(gradient).astype("float32")).all()


def _takes(layer: Any, argument: str) -> bool:
    return argument in inspect.signature(layer.call).parameters


# --- contract 1: masks


def check_accepted_masks(case: LayerCase) -> None:
    """Booleans and 0/1 integers, arrays and tensors, mean the same."""
    layer, inputs = case.layer(), case.arrays()
    plain = case(layer, inputs)
    forms = [np.asarray, lambda m: m.astype("int32"), lambda m: m.astype("uint8"), tf.constant]
    masks = explicit(case, case.some_masks())
    results = [case(layer, inputs, **{k: f(m) for k, m in masks.items()}) for f in forms]
    for result in results[1:]:
        assert_equal(result, results[0], atol=0)
    assert (np.abs(numpy(results[0]) - numpy(plain)).max() > 1e-4) == bool(case.hides)
    if case.attention_mask is None:
        return
    check_attention_mask(case)
    # A mask for each query is combined with those for all.
    query, key, _ = case.attention_mask
    T, S = case.length(query), case.length(key)
    each = np.ones((2, T, S), bool)
    each[1, :, 1:3] = False
    both = case(layer, inputs, attention_mask=each, **masks)
    combined = each & case.some_masks()[key][:, None]
    others = {name: m for name, m in masks.items() if name != case.masks[key]}
    assert_equal(both, case(layer, inputs, attention_mask=combined, **others))


def check_attention_mask(case: LayerCase) -> None:
    """It hides keys from each query, in each of its shapes."""
    if case.attention_mask is None:
        return
    layer, inputs = case.layer(), case.arrays()
    query, key, heads = case.attention_mask
    T, S = case.length(query), case.length(key)
    hidden = np.ones((2, S), bool)
    hidden[1, 1:3] = False
    whole = np.broadcast_to(hidden[:, None, None], (2, heads, T, S))
    expected = numpy(case(layer, inputs, attention_mask=whole[:, 0]))
    assert np.abs(expected - numpy(case(layer, inputs))).max() > 1e-4
    for mask in (whole[:, 0].astype("int64"), whole[:, :1], whole.astype("int32")):
        assert_equal(case(layer, inputs, attention_mask=mask), expected)
    if key in case.masks:
        assert_equal(case(layer, inputs, **{case.masks[key]: hidden}), expected)


def check_refused_masks(case: LayerCase) -> None:
    """At the symbolic call already, with both shapes in the message."""
    for name, argument in case.masks.items():
        length = case.length(name)
        bad = [
            (keras.Input((length,), batch_size=2, dtype="float32"), "float32"),
            (keras.Input((length + 1,), batch_size=2, dtype="bool"), f"(2, {length + 1})"),
            (keras.Input((length, 1), batch_size=2, dtype="bool"), f"(2, {length}, 1)"),
        ]
        for mask, received in bad:
            with pytest.raises(ValueError) as error:
                case(case.layer(), case.symbolic(True), **{argument: mask})
            assert received in str(error.value)
            assert "Received" in str(error.value)
            if mask.dtype == "bool":
                assert f"{length}" in str(error.value).replace(received, "")
    if case.attention_mask is not None:
        query, key, heads = case.attention_mask
        T, S = case.length(query), case.length(key)
        for mask in (np.ones((2, S), bool), keras.Input((S,), batch_size=2, dtype="bool")):
            with pytest.raises(ValueError) as error:  # padding, or a triangle?
                symbolic = keras.backend.is_keras_tensor(mask)
                inputs = case.symbolic(True) if symbolic else case.arrays()
                case(case.layer(), inputs, attention_mask=mask)
            padding = f"padding as `{case.masks.get(key, 'value_mask')}`"
            for part in (f"{(2, S)}", padding, "`attention_mask=mask[None]`"):
                assert part in str(error.value)
        for shape in [(T + 1, S), (T, S + 1), (T, 1), (heads + 1, T, S), (1, 1, T, S)]:
            mask = keras.Input(shape, batch_size=2, dtype="bool")
            with pytest.raises(ValueError) as error:
                case(case.layer(), case.symbolic(True), attention_mask=mask)
            assert f"{(2, *shape)}" in str(error.value)
            assert f"{S}" in str(error.value).replace(f"{(2, *shape)}", "")
        with pytest.raises(ValueError, match="float32"):
            mask = keras.Input((T, S), batch_size=2)
            case(case.layer(), case.symbolic(True), attention_mask=mask)


def check_output_mask(case: LayerCase, output: Any, masks: dict) -> None:
    np.testing.assert_array_equal(mask_of(output), masks[case.first] if case.keeps_mask else None)


def check_implicit_masks(case: LayerCase) -> None:
    """Keras' masks mean what explicit ones do, are handed on, and are left as they are."""
    layer, inputs, masks = case.layer(), case.arrays(), case.some_masks()
    expected = numpy(case(layer, inputs, **explicit(case, masks)))
    tensors = {name: masked(x, masks.get(name)) for name, x in inputs.items()}
    before = {name: getattr(x, "_keras_mask", None) for name, x in tensors.items()}

    class Wrapper(keras.Model):
        def __init__(self, positional):
            super().__init__()
            self.supports_masking = True
            self.layer = layer
            self.positional = positional

        def compute_mask(self, inputs, previous_mask):
            return previous_mask if case.keeps_mask else None

        def call(self, inputs):
            if self.positional:
                return self.layer(*inputs.values(), **case.call)
            return self.layer(**inputs, **case.call)

    for call in (
        lambda: case(layer, tensors),
        lambda: layer(*tensors.values(), **case.call),
        lambda: layer(**tensors, **case.call),
        lambda: Wrapper(True)(tensors),
        lambda: Wrapper(False)(tensors),
    ):
        output = call()
        assert_equal(output, expected)
        check_output_mask(case, output, masks)
        for name, x in tensors.items():
            assert getattr(x, "_keras_mask", None) is before[name]
    # Explicit masks win, and are those of the output.
    other = {name: np.roll(mask, 1, axis=0) for name, mask in masks.items()}
    output = case(layer, tensors, **explicit(case, other))
    assert_equal(output, case(layer, inputs, **explicit(case, other)))
    check_output_mask(case, output, other)
    for name, x in tensors.items():
        assert getattr(x, "_keras_mask", None) is before[name]


def check_models_masks(case: LayerCase) -> None:
    """In functional models and `Sequential`, run eagerly and by `predict`."""
    if len(case.inputs[case.first]) != 2 or case.as_dict:
        return  # ids: there is nothing to mask before an embedding; `Masking` masks vectors alone
    layer, inputs, masks = case.layer(), case.arrays(), case.some_masks()
    inputs = {
        name: np.where(masks[name][..., None], x, 0) if name in masks else x
        for name, x in inputs.items()
    }
    expected = numpy(case(layer, inputs, **explicit(case, masks)))
    symbols = case.symbolic(False)
    hidden = {
        name: keras.layers.Masking()(x) if case.inputs[name][1:] else x
        for name, x in symbols.items()
    }
    model = keras.Model(symbols, case(layer, hidden))
    model.compile(jit_compile=False)
    output = model(inputs)
    assert_equal(output, expected)
    check_output_mask(case, output, masks)
    assert_equal(model.predict(inputs, verbose=0), expected, atol=1e-5)
    if len(inputs) == 1 and not case.call:
        stack = keras.Sequential([keras.layers.Masking(), layer])
        output = stack(inputs[case.first])
        assert_equal(output, expected)
        check_output_mask(case, output, masks)
    # Explicit masks as inputs of a functional model.
    symbols_of_masks = {
        case.masks[name]: keras.Input((None,), dtype="bool", name=case.masks[name])
        for name in masks
    }
    model = keras.Model({**symbols, **symbols_of_masks}, case(layer, symbols, **symbols_of_masks))
    output = model({**inputs, **explicit(case, masks)})
    assert_equal(output, expected)
    check_output_mask(case, output, masks)


# --- contracts 2 and 3


def check_nothing_visible(case: LayerCase) -> None:
    """Zero weights, finite outputs and gradients: eager in three dtypes, compiled in the worst.

    Compiling the gradients of loops and stacks takes seconds: the slow check does it.
    """
    for policy in POLICIES:
        _nothing_visible(case, policy, "eager")
    if not _compiles_slowly(case):
        _nothing_visible(case, "mixed_float16", "compiled")


def check_nothing_visible_compiled(case: LayerCase) -> None:
    """The same, compiled in the other dtypes and by XLA in the worst.

    Stacks, which are blocks one after the other, are compiled in the worst dtype alone, and loops
    by XLA in `test_a_loop_by_xla` alone. `test_ops_attention.py` compiles the function below all of
    them in each dtype, both ways.
    """
    if _compiles_slowly(case):
        _nothing_visible(case, "mixed_float16", "compiled")
        return
    for policy in ("float32", "mixed_bfloat16"):
        _nothing_visible(case, policy, "compiled")
    _nothing_visible(case, "mixed_float16", "xla")


def _compiles_slowly(case: LayerCase) -> bool:
    """Whether it is a loop or a stack."""
    return case.loops or len(case.layer().weights) > 30


def _nothing_visible(case: LayerCase, policy: str, how: str) -> None:
    if not case.hides:
        return
    layer, inputs = case.layer(policy), case.arrays()
    masks = {name: np.ones((2, case.length(name)), bool) for name in case.hides}
    for name in case.hides:
        masks[name][0] = False
    kwargs = explicit(case, masks)
    if case.scores:
        kwargs["return_attention_scores"] = True
    case(layer, inputs)  # builds it

    def run():
        return values_and_gradients(layer, case, inputs, **kwargs)

    if how != "eager":
        run = tf.function(run, autograph=False, jit_compile=how == "xla")
    outputs, gradients = run()
    for tensor in [*tree.flatten(outputs), *gradients]:
        tensor = tf.cast(tf.convert_to_tensor(tensor), tf.float32)
        assert np.isfinite(tensor.numpy()).all()
    if not case.keeps_mask:
        assert (numpy(tree.flatten(outputs)[0])[0] == 0).all()
    for weights in tree.flatten(outputs)[1:]:
        weights = numpy(weights).astype("float32")
        assert (weights[0] == 0).all()
        if case.normalized:
            sums = weights[1].sum(-1)
            assert (sums < 1.02).all()
            assert (sums > (0 if case.partial_weights else 0.98)).all()


def check_padding(case: LayerCase) -> None:
    """More padding never changes the outputs of tokens, at depth 3 too."""
    layer, depth = case.layer(), 3 if case.repeats else 1
    kwargs = case.causal or {}

    def run(extra):
        inputs, masks = case.arrays(), {}
        for name, x in inputs.items():
            ids = case.takes_ids(name)
            pad = [(0, 0), (0, extra)] + [(0, extra if ids else 0)] * (x.ndim - 2)
            inputs[name] = np.pad(x, pad, constant_values=0 if ids else 7)
            masks[name] = None if ids else np.pad(np.ones(x.shape[:2], bool), pad[:2])
        inputs = {name: masked(x, masks[name]) for name, x in inputs.items()}
        for _ in range(depth):
            output = case(layer, inputs, **kwargs)
            inputs = {**inputs, case.first: output}
        output = numpy(output)
        return output if case.pools else output[:, : case.length(case.first)]

    assert_equal(run(3), run(0), atol=1e-5)


def check_dirty_padding(case: LayerCase) -> None:
    """NaN and infinity in padding reach no token, and no gradient."""
    if not case.hides:
        return
    layer, clean, masks = case.layer(), case.arrays(), case.some_masks()
    vectors = [name for name in masks if len(case.inputs[name]) > 1]
    if not vectors:
        return
    dirty = {name: np.array(x) for name, x in clean.items()}
    for name in vectors:
        values = np.resize([np.nan, np.inf, -np.inf], dirty[name].shape[-1])
        dirty[name][~masks[name]] = values

    def run(inputs):
        inputs = {name: tf.constant(x) for name, x in inputs.items()}
        watched = [inputs[name] for name in vectors]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            output = tree.flatten(case(layer, inputs, **explicit(case, masks)))[0]
            counted = tf.ones_like(output)
            if case.keeps_mask and case.first in masks:
                real = masks[case.first]
                counted = real.reshape((*real.shape, *[1] * (len(output.shape) - 2)))
            loss = tf.reduce_sum(tf.where(counted > 0, tf.sin(output), 0.0))
        gradients = tape.gradient(loss, [*watched, *(v.value for v in layer.trainable_variables)])
        of_inputs = [
            numpy(gradient)[masks[name]]
            for name, gradient in zip(vectors, gradients, strict=False)
            if gradient is not None
        ]
        rest = [numpy(g) for g in gradients[len(vectors) :] if g is not None]
        counted = np.broadcast_to(counted > 0, output.shape)
        return [numpy(output)[counted], *of_inputs, *rest]

    for a, b in zip(run(dirty), run(clean), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def check_empty(case: LayerCase) -> None:
    """Empty in, empty out; nothing to attend to is nothing visible."""
    pictures = any(len(shape) > 2 for shape in case.inputs.values())
    if case.as_dict or case.loops or pictures:  # Keras' recurrent layers cannot
        return
    layer, arrays = case.layer(), case.arrays()
    case(layer, arrays)
    letters = dict.fromkeys(shape[0] for shape in case.inputs.values())
    for empty in [*([letter] for letter in letters), list(letters)]:
        inputs = {n: x[:, :0] if case.inputs[n][0] in empty else x for n, x in arrays.items()}
        output = tree.flatten(case(layer, inputs, **(case.causal or {})))[0]
        shape = numpy(case(layer, arrays)).shape
        if case.pools:
            assert output.shape == shape
            assert not numpy(output).any()
        else:
            assert output.shape[1] == inputs[case.first].shape[1]
            assert (output.shape[0], *output.shape[2:]) == (shape[0], *shape[2:])
            assert np.isfinite(numpy(output)).all()


def check_no_rows(case: LayerCase) -> None:
    """A batch without rows gives outputs without rows."""
    if case.loops:  # Keras' recurrent cells cannot, on TensorFlow
        return
    layer, arrays = case.layer(), case.arrays()
    for whole, empty in zip(
        tree.flatten(case(layer, arrays)),
        tree.flatten(case(layer, {name: x[:0] for name, x in arrays.items()})),
        strict=True,
    ):
        assert empty.shape == (0, *whole.shape[1:])


def check_lost_masks(case: LayerCase) -> None:
    """A functional model whose masks were lost before they arrived is not built."""
    if not case.hides:
        return
    layer = case.layer()
    for name in case.hides:
        if len(case.inputs[name]) == 1:
            continue
        symbols = case.symbolic(False)
        others = {n: keras.layers.Masking()(x) if case.inputs[n][1:] else x
                  for n, x in symbols.items()}  # fmt: skip
        same = [n for n, shape in case.inputs.items() if shape[0] == case.inputs[name][0]]
        lost = {**others, **{n: others[n] * 2.0 for n in same if case.inputs[n][1:]}}
        with pytest.raises(ValueError, match=f"`{name}` has lost its mask.*multiply.*Pass"):
            case(layer, lost)
        mask = keras.Input((None,), dtype="bool")
        case(layer, lost, **{case.masks[name]: mask})


# --- contract 4


def check_scores(case: LayerCase) -> None:
    """Rows of weights sum to 1; collected ones are the same, and change nothing."""
    if not case.scores:
        return
    layer, inputs, masks = case.layer(), case.arrays(), case.some_masks()
    masks = explicit(case, masks)
    output = case(layer, inputs, **masks)
    with_scores, *scores = tree.flatten(case(layer, inputs, return_attention_scores=True, **masks))
    assert_equal(with_scores, output)
    for weights, (_, key, _) in zip(scores, case.scores, strict=True):
        weights = numpy(weights)
        sums = weights.sum(-1)
        if case.loops:  # they do not run over padding
            ran = case.some_masks()[case.first]
            assert (sums[~ran] == 0).all()
            sums = sums[ran]
        if case.normalized:
            assert (sums < 1 + 1e-5).all()
            assert (sums > (0 if case.partial_weights else 1 - 1e-5)).all()
        assert weights.min() >= 0
        if key in case.hides:
            assert (weights[0, ..., -1] == 0).all()
            last = weights[1, ..., -1] if weights.ndim == 2 else weights[1, ..., -1, -1]
            assert (last > 0).all()
    collected = []

    def call(inputs):
        collected.append(case(layer, inputs, **masks))

    maps = attention_maps(call, inputs)
    assert_equal(collected[0], output, atol=1e-6)
    assert len(maps) == len(scores)
    assert len({(key.path, key.call) for key in maps}) == len(scores)
    assert all(key.path.startswith("layer") and key.call == 0 for key in maps)
    remaining = [numpy(s) for s in scores]
    for (key, weights), (query, keys, _) in zip(
        maps.items(), _in_call_order(case.scores), strict=True
    ):
        assert key.role == case.role_of(query, keys)
        assert any(r.shape == weights.shape and np.allclose(r, weights) for r in remaining)


def _in_call_order(scores: tuple) -> list:
    """Scores come as [self, self, cross, cross], calls as self, cross, self, cross."""
    own = [s for s in scores if s[0] == s[1]]
    cross = [s for s in scores if s[0] != s[1]]
    if own and cross:
        return [s for pair in zip(own, cross, strict=True) for s in pair]
    return [*own, *cross]


def check_causal(case: LayerCase) -> None:
    """The future can be changed without a change of the past, and the present is seen."""
    if case.causal is None:
        return
    layer, inputs = case.layer(), case.arrays()
    key = case.attention_mask[1] if case.attention_mask else case.first
    before = numpy(case(layer, inputs, **case.causal))
    for position in range(case.length(key)):
        changed = {name: np.array(x) for name, x in inputs.items()}
        noise = np.random.default_rng(2).normal(size=changed[key][:, position:].shape)
        changed[key][:, position:] += noise.astype("float32")
        after = numpy(case(layer, changed, **case.causal))
        # With T != S the last query stands at the last key.
        own = position + case.length(case.first) - case.length(key)
        if own > 0:
            assert_equal(after[:, :own], before[:, :own], atol=1e-6)
        assert np.abs(after[:, max(own, 0)] - before[:, max(own, 0)]).max() > 1e-4


# --- contract 6


def check_saving(case: LayerCase, folder: Any) -> None:
    """Whole models and weights alone; the layer's build config makes its weights again."""
    layer = case.make()
    symbols = case.symbolic(False)
    model = keras.Model(symbols, case(layer, symbols))
    set_biases(model)
    inputs = case.arrays()
    expected = numpy(model(inputs))
    model.save(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")
    loaded = keras.models.load_model(folder / "model.keras", safe_mode=True)
    assert_equal(loaded(inputs), expected)
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights]
    other = keras.models.clone_model(loaded)
    other.load_weights(folder / "model.weights.h5")
    assert_equal(other(inputs), expected)
    if layer.get_build_config() and not isinstance(layer, keras.Model):
        again = type(layer).from_config(layer.get_config())
        again.build_from_config(json.loads(json.dumps(layer.get_build_config())))
        assert again.built
        again.set_weights(layer.get_weights())
        assert_equal(case(again, inputs), expected)


@keras.saving.register_keras_serializable(package="harness")
class Subclassed(keras.Model):
    """A model of one layer; `call` takes one dict, with masks among the inputs."""

    def __init__(self, layer, positional, settings, **kwargs):
        super().__init__(**kwargs)
        self.layer, self.positional, self.settings = layer, positional, settings

    def call(self, inputs):
        if self.positional is None:
            return self.layer(inputs, **self.settings)
        others = {name: x for name, x in inputs.items() if name != self.positional}
        return self.layer(inputs[self.positional], **others, **self.settings)

    def get_config(self):
        config = {"layer": self.layer, "positional": self.positional, "settings": self.settings}
        return {**super().get_config(), **keras.saving.serialize_keras_object(config)}

    @classmethod
    def from_config(cls, config):
        return cls(**keras.saving.deserialize_keras_object(config))


def check_saving_in_a_subclass(case: LayerCase, folder: Any) -> None:
    """Keras builds a loaded model from its shapes, with floats for ids and masks."""
    model = Subclassed(case.make(), None if case.as_dict else case.first, case.call)
    inputs = {**case.arrays(), **({} if case.as_dict else explicit(case, case.some_masks()))}
    expected = numpy(model(inputs))
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras", safe_mode=True)
    assert_equal(loaded(inputs), expected)


CHECKS: dict[str, Callable] = {
    "config": check_config,
    "frozen": check_frozen,
    "symbolic": check_symbolic,
    "dtypes": check_dtypes,
    "accepted_masks": check_accepted_masks,
    "attention_mask": check_attention_mask,
    "refused_masks": check_refused_masks,
    "implicit_masks": check_implicit_masks,
    "models_masks": check_models_masks,
    "nothing_visible": check_nothing_visible,
    "nothing_visible_compiled": check_nothing_visible_compiled,
    "padding": check_padding,
    "dirty_padding": check_dirty_padding,
    "empty": check_empty,
    "no_rows": check_no_rows,
    "lost_masks": check_lost_masks,
    "scores": check_scores,
    "causal": check_causal,
    "saving": check_saving,
    "saving_in_a_subclass": check_saving_in_a_subclass,
}


# What a layer's settings can change; of the others one case a class is quick.
CHECKS_OF_VARIANTS = ("config", "attention_mask", "padding", "scores", "causal")
SLOW_CHECKS = ("nothing_visible_compiled",)


def run_layer_test(
    case: LayerCase, folder: Any, skip: tuple[str, ...] = (), only: tuple[str, ...] = tuple(CHECKS)
) -> None:
    """Runs the checks of `only` but the skipped ones; `folder` is for files."""
    for name in only:
        if name not in skip:
            check = CHECKS[name]
            check(case, folder) if name.startswith("saving") else check(case)

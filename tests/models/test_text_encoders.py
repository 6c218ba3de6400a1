"""Encoders of texts and their heads: padding, segments, places, precision, maps, files."""

import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
from model_toys import compiled, numpy, randomize
from processes import run_python

from keras_attn import attention_maps
from keras_attn.models import (
    ENCODERS,
    BertConfig,
    BiLstmConfig,
    ModernBertConfig,
    hidden_states,
    with_heads,
)

V, D, C = 13, 8, 3
SIZES = {
    "dim": D, "num_layers": 2, "num_heads": 2, "intermediate_dim": 12, "sequence_length": 20,
}  # fmt: skip
BERT = BertConfig(V, **SIZES)
DISTIL = BertConfig(V, **SIZES, num_segments=None, pooler_activation=None)
BILSTM = BiLstmConfig(V, dim=D, num_layers=2, sequence_length=20)
MODERN = ModernBertConfig(V, **SIZES, sliding_window=2, window_blocks=[False, True])
MODELS = {
    "pretraining": (BERT, ("masked_words", "next_sentence"), None, True),
    "encoder": (BERT, (), None, False),
    "masked words everywhere": (BERT, ("masked_words",), None, False),
    "classes": (BERT, ("classes", "next_sentence"), C, False),
    "tags and spans": (DISTIL, ("tags", "spans"), C, False),
    "distil": (DISTIL, ("masked_words", "spans"), None, True),
    "modern": (MODERN, ("masked_words", "tags", "classes"), C, True),
    "bilstm": (BILSTM, ("masked_words", "next_sentence", "tags"), C, False),
}
QUICK = ("pretraining", "tags and spans", "bilstm")


def each(names):
    marked = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in names]
    return pytest.mark.parametrize("name", marked)


EACH = each(MODELS)
LENGTHS = (6, 3, 1)
IDS = np.array([[2, 9, 3, 5, 12, 3], [2, 7, 3, 0, 0, 0], [2, 0, 0, 0, 0, 0]], "int32")
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1], [0] * 6, [0] * 6], "int32")
PLACES = np.array([[4, 1], [1, 0], [0, 0]], "int32")


def build(name, dtype=None):
    config, heads, classes, at_positions = MODELS[name]
    if not heads:
        return config.build(dtype)
    return with_heads(config, heads, classes, at_positions, dtype)


@functools.cache
def toy(name):
    model = randomize(build(name))
    return model, compiled(model)


def inputs_of(model, rows=slice(None), length=6, extra=0, filler=0):
    """Padding has other ids and segments, which must not matter."""
    pad = [[0, 0], [0, extra]]
    every = {
        "token_ids": np.pad(IDS[rows, :length], pad, constant_values=filler),
        "segment_ids": np.pad(SEGMENTS[rows, :length], pad, constant_values=filler % 2),
        "padding_mask": np.pad(np.arange(length) < np.array(LENGTHS)[rows, None], pad),
        "masked_positions": PLACES[rows],
    }
    return {x: every[x] for x in model.input}


def outputs_of(model, inputs):
    return {head: numpy(x) for head, x in model(inputs).items()}


def per_token(name, head):
    return head in ("sequence", "tags", "spans") or (head == "masked_words" and not MODELS[name][3])


@pytest.mark.quick("tags and spans")
@EACH
def test_padding_changes_nothing(name):
    model, forward = toy(name)
    expected = outputs_of(model, inputs_of(model))
    assert all(np.abs(x[0] - x[1]).max() > 1e-3 for x in expected.values())
    padded = inputs_of(model, extra=5, filler=7)
    for call in (model, forward):
        for head, values in outputs_of(call, padded).items():
            for row, length in enumerate(LENGTHS):
                count = length if per_token(name, head) else None
                ours, theirs = values[row][:count], expected[head][row][:count]
                np.testing.assert_allclose(ours, theirs, atol=1e-5)
    for row, length in enumerate(LENGTHS):
        for head, values in outputs_of(
            forward, inputs_of(model, slice(row, row + 1), length)
        ).items():
            count = length if per_token(name, head) else None
            np.testing.assert_allclose(values[0][:count], expected[head][row][:count], atol=1e-5)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)]
)
def test_half_precision(name, policy):
    model = randomize(build(name, policy))
    found, exact = model(inputs_of(model)), outputs_of(toy(name)[0], inputs_of(model))
    for head, values in found.items():
        assert keras.backend.standardize_dtype(values.dtype) == policy.removeprefix("mixed_")
        scale = np.abs(exact[head]).max()
        for row, length in enumerate(LENGTHS):
            count = length if per_token(name, head) else None
            ours, theirs = numpy(values)[row][:count], exact[head][row][:count]
            np.testing.assert_allclose(ours, theirs, atol=0.06 * scale)


@pytest.mark.slow
@each([name for name in MODELS if name != "bilstm"])
def test_maps_of_attention(name):
    model, _ = toy(name)
    maps = attention_maps(model, inputs_of(model))
    assert [key.role for key in maps] == ["self", "self"]
    assert [key.path for key in maps] == [f"encoder/block_{i}/self_attention" for i in (0, 1)]
    for weights in maps.values():
        weights = np.asarray(weights)
        assert weights.shape == (3, 2, 6, 6)
        for row, length in enumerate(LENGTHS):
            assert (weights[row, :, :, length:] == 0).all()
            # A window may hide all tokens from the padding.
            read = weights[row][:, :length] if name == "modern" else weights[row]
            np.testing.assert_allclose(read.sum(-1), 1, atol=1e-5)


FRESH = """
import json, sys
import keras, numpy as np
import keras_attn
for name in json.loads(sys.argv[1]):
    model = keras.models.load_model(f"{name}.keras", safe_mode=True)
    with np.load(f"{name}.npz") as arrays:
        inputs = {x: arrays[x] for x in model.input}
        for head, found in model(inputs).items():
            found = keras.ops.convert_to_numpy(found)
            np.testing.assert_allclose(found, arrays[f"output {head}"], atol=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param(tuple(MODELS), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_files_in_a_fresh_process(names, tmp_path):
    for name in names:
        model, _ = toy(name)
        inputs = inputs_of(model)
        expected = outputs_of(model, inputs)
        model.save(tmp_path / f"{name}.keras")
        model.save_weights(tmp_path / f"{name}.weights.h5")
        other = randomize(build(name), seed=1)
        other.load_weights(tmp_path / f"{name}.weights.h5")
        for head, values in outputs_of(other, inputs).items():
            np.testing.assert_allclose(values, expected[head], atol=1e-6)
        named = {f"output {head}": values for head, values in expected.items()}
        np.savez(tmp_path / f"{name}.npz", **inputs, **named)
    run_python("tensorflow", FRESH, json.dumps(names), cwd=tmp_path)


def test_heads_by_hand():
    """The pooler reads the first token, masked words the given places; the table is tied."""
    model, _ = toy("pretraining")
    inputs = inputs_of(model)
    layers = {layer.name: layer for layer in model.layers}
    states = hidden_states(model, inputs)
    assert len(states) == 3
    x = numpy(states[-1])
    value = {w.path: numpy(w).astype("float64") for w in model.weights}
    pooled = np.tanh(x[:, 0] @ value["pooler/kernel"] + value["pooler/bias"])
    follows = pooled @ value["next_sentence/kernel"] + value["next_sentence/bias"]
    found = outputs_of(model, inputs)
    np.testing.assert_allclose(found["next_sentence"], follows, atol=1e-5)
    places = np.stack([row[at] for row, at in zip(x, PLACES, strict=True)])
    hidden = numpy(layers["masked_words_norm"](layers["masked_words"](places)))
    table = layers["embedding"].token_embedding.embedding.embeddings
    bias = [v for path, v in value.items() if v.shape == (V,)]
    np.testing.assert_allclose(found["masked_words"], hidden @ numpy(table).T + bias[0], atol=1e-4)


def test_segments_matter():
    model, _ = toy("pretraining")
    inputs = inputs_of(model)
    other = outputs_of(model, {**inputs, "segment_ids": 1 - inputs["segment_ids"]})
    for head, values in outputs_of(model, inputs).items():
        assert np.abs(values - other[head]).max() > 1e-2
    assert "segment_ids" not in toy("tags and spans")[0].input


def test_bilstm_equals_pytorch():
    """Padded rows too, whose backward direction begins at their last token."""
    torch = pytest.importorskip("torch", reason="PyTorch is of the extra `test`")
    model, _ = toy("bilstm")
    inputs = inputs_of(model)
    layers = {layer.name: layer for layer in model.layers}
    embedded = layers["embedding"](inputs["token_ids"], inputs["segment_ids"])
    encoder = layers["encoder"]
    theirs = torch.nn.LSTM(D, D // 2, 2, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for i in range(2):
            for end, layer in (
                ("", encoder.forward_layers[i]),
                ("_reverse", encoder.backward_layers[i]),
            ):
                kernel, recurrent, bias = map(numpy, layer.weights[:3])
                getattr(theirs, f"weight_ih_l{i}{end}").copy_(torch.tensor(kernel.T))
                getattr(theirs, f"weight_hh_l{i}{end}").copy_(torch.tensor(recurrent.T))
                getattr(theirs, f"bias_ih_l{i}{end}").copy_(torch.tensor(bias))
                getattr(theirs, f"bias_hh_l{i}{end}").zero_()
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.tensor(numpy(embedded)), torch.tensor(LENGTHS), batch_first=True
        )
        states, (last, _) = theirs(packed)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    value = {w.path: numpy(w) for w in model.weights}
    found = outputs_of(model, inputs)
    tags = states.numpy() @ value["tags/kernel"] + value["tags/bias"]
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(found["tags"][row, :length], tags[row, :length], atol=1e-5)
    ends = np.concatenate([last[-2].numpy(), last[-1].numpy()], axis=1)
    pooled = np.tanh(ends @ value["pooler/kernel"] + value["pooler/bias"])
    follows = pooled @ value["next_sentence/kernel"] + value["next_sentence/bias"]
    np.testing.assert_allclose(found["next_sentence"], follows, atol=1e-5)


def test_settings():
    for config in (BERT, BILSTM):
        assert ENCODERS.make(ENCODERS.describe(config)) == config
        assert type(config)(**config.to_dict()) == config
    full = ModernBertConfig(V, **SIZES, sliding_window=None)
    assert full.block()["window_rotary_base"] is None
    assert dataclasses.replace(full, sliding_window=65) == ModernBertConfig(V, **SIZES)
    for make, message in (
        (lambda: dataclasses.replace(full, window_rotary_base=5.0), "without `sliding_window`"),
        (lambda: dataclasses.replace(full, window_blocks=[True] * 2), "without `sliding_window`"),
        (lambda: BertConfig(V, dim=10, num_heads=4), "divisible by `num_heads`"),
        (lambda: BertConfig(V, num_layers=0), "`num_layers`"),
        (lambda: BiLstmConfig(V, dim=7), "`dim` must be even"),
        (lambda: attention_maps(toy("bilstm")[0], inputs_of(toy("bilstm")[0])), "gradients"),
        (lambda: hidden_states(toy("bilstm")[0], {}), "`embedding` and"),
        (lambda: with_heads(BERT, ()), "`heads` must be names from"),
        (lambda: with_heads(BERT, ("spans", "spans")), "each at most once"),
        (lambda: with_heads(BERT, ("words",)), "`heads` must be names from"),
        (lambda: with_heads(BERT, ("tags",)), "`num_classes` must be given"),
        (lambda: with_heads(BERT, ("spans",), 3), "`num_classes` must be given"),
        (lambda: with_heads(DISTIL, ("next_sentence",)), "require a pooler"),
        (lambda: hidden_states(keras.Sequential([keras.Input((3,))]), {}), "`embedding` and"),
    ):
        with pytest.raises(ValueError, match=message):
            make()

"""The encoder-decoder Transformer: padding, causality, weights, saving, training, decoding."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from model_toys import START, batch, compile_for, compiled, numpy, randomize, search
from processes import run_python

from keras_attn.models import (
    SequenceDecoder,
    TokenDecoder,
    TransformerEncoderDecoderConfig,
)

SMALL = {"num_layers": 1, "dim": 8, "num_heads": 2, "intermediate_dim": 16}


def make(source=11, target=None, seed=0, dtype=None, **settings):
    config = TransformerEncoderDecoderConfig(source, target, **{**SMALL, **settings})
    return randomize(config.build(dtype=dtype), seed)


@functools.cache
def toy(**settings):
    """One model for all tests that leave its weights alone."""
    return make(**settings)


VARIANTS = [
    # The default, which the third and the fourth have, and what the last one has.
    pytest.param({"normalize_first": True}, marks=pytest.mark.slow),
    pytest.param({"normalize_first": False}, marks=pytest.mark.slow),
    pytest.param(
        {"target": 9, "num_decoder_layers": 1, "activation": "gelu"}, marks=pytest.mark.slow
    ),
    {
        "num_layers": 1, "positions": "rotary", "normalization": "rms_norm", "gated": True,
        "use_bias": False,
    },
    pytest.param({"positions": "alibi", "normalize_first": False}, marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_padding_and_the_future_change_nothing(settings):
    model = make(**{"num_layers": 2, **settings})
    forward = compiled(model)
    V = settings.get("target", 11)
    ids = batch(vocabulary=V)
    logits = numpy(model(ids))
    assert logits.shape == (3, 4, V)
    real = ids["target_ids"] != 0

    padded = {name: np.pad(value, [[0, 0], [0, 3]]) for name, value in ids.items()}
    for found in (model(padded), forward(padded)):
        np.testing.assert_allclose(numpy(found)[:, :4][real], logits[real], atol=1e-5)
    for row in range(3):
        alone = {name: value[row : row + 1, value[row] != 0] for name, value in ids.items()}
        np.testing.assert_allclose(numpy(forward(alone))[0], logits[row, real[row]], atol=1e-5)

    for at in range(1, 4):
        future = {**ids, "target_ids": ids["target_ids"].copy()}
        future["target_ids"][:, at:] = future["target_ids"][:, at:] % (V - 1) + 1
        changed = numpy(forward(future))
        before = real & (np.arange(4) < at)
        np.testing.assert_allclose(changed[before], logits[before], atol=1e-5)
        assert not np.allclose(changed[0, at:], logits[0, at:], atol=1e-3)
    other = {**ids, "source_ids": ids["source_ids"] % 10 + (ids["source_ids"] != 0)}
    assert not np.allclose(numpy(forward(other)), logits, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "normalize_first"),
    [
        (None, True),
        (9, False),
        pytest.param(None, False, marks=pytest.mark.slow),
        pytest.param(9, True, marks=pytest.mark.slow),
    ],
)
def test_weights(normalize_first, target):
    """Counted by hand: the output has no weights of its own."""
    model = make(target=target, normalize_first=normalize_first, num_layers=2, num_decoder_layers=1)
    D, F = 8, 16
    attention = 4 * (D * D + D)
    feed_forward = D * F + F + F * D + D
    norm = 2 * D
    encoder = 2 * (attention + feed_forward + 2 * norm)
    decoder = 1 * (2 * attention + feed_forward + 3 * norm)
    ends = 2 * norm if normalize_first else 0
    embeddings = (11 + (target or 0)) * D
    assert model.count_params() == encoder + decoder + ends + embeddings


@pytest.mark.slow
def test_tied_output():
    model = make(target=9)
    ids = batch(vocabulary=9)
    table = model.get_layer("target_embedding").weights[0]
    value = numpy(table).copy()
    value[4] = 0  # a token that is in no input
    ids["target_ids"][ids["target_ids"] == 4] = 5
    logits = numpy(model(ids))
    table.assign(value)
    changed = numpy(model(ids))
    assert np.all(changed[..., 4] == 0)
    others = np.arange(9) != 4
    np.testing.assert_allclose(changed[..., others], logits[..., others], atol=1e-6)


@pytest.mark.slow
def test_one_vocabulary_has_one_embedding():
    names = [layer.name for layer in toy().layers]
    assert names.count("source_embedding") == 1
    assert "target_embedding" not in names


MODERN = {
    "normalization": "rms_norm", "gated": True, "activation": "silu", "use_bias": False,
    "positions": "rotary",
}  # fmt: skip


@pytest.mark.slow
def test_weights_of_a_modern_model():
    """Two thirds of the hidden width with a gate; no biases, no means; nothing for positions."""
    model = make(num_layers=2, num_decoder_layers=1, **{**MODERN, "intermediate_dim": 12})
    D, F = 8, 12
    block = 4 * D * D + 3 * D * F + 2 * D
    cross = 4 * D * D + D
    assert model.count_params() == 2 * block + (block + cross) + 2 * D + 11 * D
    assert "positions" not in [layer.name for layer in model.layers]


@pytest.mark.slow
def test_options_reach_the_layers():
    model = make(**MODERN, rematerialize=True)
    for name in ("encoder", "decoder"):
        stack = model.get_layer(name)
        assert {k: getattr(stack.blocks[0], k) for k in MODERN if k != "activation"} == {
            k: v for k, v in MODERN.items() if k != "activation"
        }
        assert stack.rematerialize
    stack = toy().get_layer("encoder")
    assert (stack.positions, stack.rematerialize, stack.normalization) == (
        None, False, "layer_norm",
    )  # fmt: skip


@pytest.mark.slow
def test_configs_from_before():
    """A dict without the fields that came later is the model that it was."""
    config = TransformerEncoderDecoderConfig(11, **SMALL).to_dict()
    for name in (*MODERN.keys() - {"activation"}, "rematerialize"):
        config.pop(name)
    old = TransformerEncoderDecoderConfig(**config)
    assert old == TransformerEncoderDecoderConfig(11, **SMALL)
    ids = batch()
    np.testing.assert_array_equal(numpy(randomize(old.build(), 0)(ids)), numpy(toy()(ids)))


@pytest.mark.slow
def test_rotary_positions_tell_the_order():
    """Without positions a pre-norm encoder gives each token what it gives it in any order."""
    model = toy(**MODERN)
    sequences = SequenceDecoder(model)
    source = np.array([[5, 6, 7, 8]], "int32")
    there, _ = sequences.encode(source)
    back, _ = sequences.encode(source[:, ::-1])
    assert np.abs(numpy(there) - numpy(back)[:, ::-1]).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, 12])
def test_another_padding_which_also_starts(tmp_path, target):
    """The reference has padding 0, and a start token 11 with the same embedding.

    Ids of the model are those of the reference moved by one: 10 is padding and the start token.
    """
    reference = make(12, target, output_bias=True)
    own = {"pad_id": 10, "starts_with_padding": True, "output_bias": True}
    model = make(11, target and 11, **own)
    for name in ("source_embedding", "target_embedding")[: 1 + bool(target)]:
        theirs, ours = reference.get_layer(name), model.get_layer(name)
        values = numpy(theirs.embedding.embeddings).copy()
        values[11] = values[0]
        theirs.embedding.embeddings.assign(values)
        ours.embedding.embeddings.assign(np.roll(values[:11], -1, axis=0))
        if theirs.bias is not None:
            ours.bias.assign(np.roll(numpy(theirs.bias)[:11], -1))
    for name in ("encoder", "decoder"):
        model.get_layer(name).set_weights(reference.get_layer(name).get_weights())

    ids = batch()
    ids["target_ids"][:, 0] = 11
    moved = {name: np.where(x == 11, 10, (x + 10) % 11) for name, x in ids.items()}
    expected = np.roll(numpy(reference(ids))[..., :11], -1, axis=-1)
    real = ids["target_ids"] != 0
    np.testing.assert_allclose(numpy(model(moved))[real], expected[real], atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded(moved)), numpy(model(moved)))

    sequences = SequenceDecoder(model)
    memory, mask = sequences.encode(moved["source_ids"])
    np.testing.assert_array_equal(numpy(mask), ids["source_ids"] != 0)
    start = moved["target_ids"][:1, :1]
    step, _ = sequences.decoder.prefill(start, None, memory[:1], mask[:1])
    np.testing.assert_allclose(numpy(step)[0], expected[0, 0], atol=1e-5)


def test_config_round_trip():
    config = TransformerEncoderDecoderConfig(
        11, 9, num_decoder_layers=1, activation="gelu", dropout=0.2
    )
    text = json.dumps(config.to_dict())
    assert TransformerEncoderDecoderConfig(**json.loads(text)) == config
    with pytest.raises(AttributeError):
        config.dim = 16


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"dim": 9}, "divisible by `num_heads`.*Received: dim=9, num_heads=2"),
        ({"dim": 0}, "`dim` must be at least 1. Received: 0"),
        ({"num_heads": 0}, "`num_heads` .* Received: 0"),
        ({"num_layers": 0}, "`num_layers` .* Received: 0"),
        ({"num_decoder_layers": 0}, "`num_decoder_layers` .* Received: 0"),
        ({"intermediate_dim": -4}, "`intermediate_dim` .* Received: -4"),
        ({"source": 0}, "`source_vocabulary_size` .* Received: 0"),
        ({"target": 0}, "`target_vocabulary_size` .* Received: 0"),
        ({"attention_dropout": 1.0}, "`attention_dropout` .* Received: 1.0"),
        ({"dropout": 1.5}, "Received: .*1.5"),
        ({"activation": "no such"}, "no such"),
        ({"positions": "learned"}, "'sinusoidal_from_one', 'rotary', 'alibi'. Received: 'learned'"),
        ({"normalization": "batch"}, "'layer_norm', 'rms_norm'. Received: 'batch'"),
        ({"positions": "rotary", "dim": 6}, "even width of heads. Received: width 3"),
    ],
)
def test_wrong_configs(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.slow
def test_training_lowers_the_loss():
    keras.utils.set_random_seed(0)
    config = TransformerEncoderDecoderConfig(11, **SMALL, dropout=0.1)
    model = config.build()
    rng = np.random.default_rng(0)
    source = rng.integers(3, 11, size=(64, 4)).astype("int32")
    target = np.concatenate([np.full((64, 1), START), source], axis=1).astype("int32")
    inputs = {"source_ids": source, "target_ids": target[:, :-1]}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    compile_for(model, keras.optimizers.Adam(1e-2), loss)
    history = model.fit(inputs, target[:, 1:], batch_size=16, epochs=5, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    assert all(np.isfinite(numpy(w)).all() for w in model.weights)


FRESH = """
import keras, numpy as np
import keras_attn
from keras_attn.generation import beam_search, greedy_search
from keras_attn.models import SequenceDecoder

data = np.load("expected.npz")
model = keras.models.load_model("model.keras", safe_mode=True)
ids = {name: data[name] for name in ("source_ids", "target_ids")}
np.testing.assert_allclose(model.predict(ids, verbose=0), data["logits"], atol=1e-5)
sequences = SequenceDecoder(model)
memory, mask = sequences.encode(ids["source_ids"])
prompt = np.full((len(mask), 1), 1, "int32")
common = {"max_length": 5, "end_id": 2}
arguments = (sequences.decoder, prompt, None, memory, mask)
found = {
    "greedy": greedy_search(*arguments, **common),
    "beam": beam_search(*arguments, **common, num_beams=3, num_return_sequences=3),
}
for name, result in found.items():
    for field, value in result._asdict().items():
        value = keras.ops.convert_to_numpy(value).astype("float32")
        np.testing.assert_allclose(value, data[f"{name} {field}"], atol=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, MODERN], ids=["plain", "modern"])
def test_saving_and_a_fresh_process(tmp_path, settings):
    """`.keras` in a process that only imports keras_attn, safely; predictions and decoding."""
    model = make(target=9, **settings)
    ids = batch(vocabulary=9)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    again = make(target=9, seed=1, **settings)
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(numpy(again(ids)), numpy(model(ids)))

    expected = {"logits": model.predict(ids, verbose=0)}
    for name, beams in [("greedy", None), ("beam", 3)]:
        result = search(model, ids["source_ids"], beams)
        expected.update({f"{name} {f}": numpy(v) for f, v in result._asdict().items()})
    np.savez(tmp_path / "expected.npz", **ids, **expected)
    run_python("tensorflow", FRESH, cwd=tmp_path, errors=["UserWarning"])


@pytest.mark.slow
@pytest.mark.parametrize("settings", [MODERN, {"positions": "alibi"}], ids=str)
def test_a_saved_model_of_any_length(tmp_path, settings):
    model = make(**settings)
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "model")
    for ids in (batch(), batch(target=7), {k: v[:1, :2] for k, v in batch().items()}):
        np.testing.assert_allclose(loaded.serve(ids), numpy(model(ids)), atol=1e-5)


# SequenceDecoder and TokenDecoder


HALF = {"mixed_bfloat16": 0.15, "mixed_float16": 0.02}
QUICK_HALF = ("modern mixed_float16",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "tolerance", "settings"),
    [
        pytest.param(
            *half,
            settings,
            id=(name := f"{kind} {half[0]}"),
            marks=() if name in QUICK_HALF else pytest.mark.slow,
        )
        for half in HALF.items()
        for kind, settings in {
            "plain": {},
            "modern": MODERN,
            "alibi": {"positions": "alibi"},
        }.items()
    ],
)
def test_half_precision(dtype, tolerance, settings):
    """Step by step == teacher forcing as far as the dtype goes, and both near float32."""
    model, exact = make(dtype=dtype, **settings), toy(**settings)
    ids = batch(target=6)
    ids["target_ids"] = ids["target_ids"] % 10 + 1  # no padding
    logits = model(ids)
    assert keras.backend.standardize_dtype(logits.dtype) == dtype[6:]
    np.testing.assert_allclose(numpy(logits), numpy(exact(ids)), atol=2 * tolerance)
    sequences = SequenceDecoder(model)
    memory, mask = sequences.encode(ids["source_ids"])
    decoder = sequences.decoder
    step, state = decoder.prefill(ids["target_ids"][:, :2], None, memory, mask, 6)
    for at in range(1, 6):
        np.testing.assert_allclose(numpy(step), numpy(logits)[:, at], atol=tolerance)
        if at < 5:
            position = np.full(3, at + 1, "int32")
            step, state = decoder.step(ids["target_ids"][:, at + 1], position, state)
    for beams in (None, 3):
        result = search(model, ids["source_ids"], beams)
        assert keras.backend.standardize_dtype(result.scores.dtype) == "float32"
        assert np.isfinite(numpy(result.scores)).all()


@pytest.mark.slow
@pytest.mark.parametrize("target", [pytest.param(None, marks=pytest.mark.slow), 9])
def test_decoder_follows_the_model(target):
    """It has no weights of its own, and decodes what the model does."""
    model = make(target=target)
    sequences = SequenceDecoder(model)
    ids = batch(vocabulary=9)
    for seed in (0, 1):
        randomize(model, seed)
        memory, mask = sequences.encode(ids["source_ids"])
        np.testing.assert_array_equal(numpy(mask), ids["source_ids"] != 0)
        prompt = ids["target_ids"]
        logits, _ = sequences.decoder.prefill(prompt, prompt != 0, memory, mask)
        last = (prompt != 0).sum(1) - 1
        full = numpy(model(ids))[np.arange(3), last]
        np.testing.assert_allclose(numpy(logits), full, atol=1e-5)


def test_wrong_models():
    with pytest.raises(ValueError, match=r"'mine' without its layers \['source_embedding', 'enc"):
        SequenceDecoder(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="mine"))
    with pytest.raises(ValueError, match="Received: dict"):
        SequenceDecoder({})
    model = toy()
    parts = [model.get_layer("source_embedding"), model.get_layer("encoder")]
    ids = keras.Input((None,), dtype="int32")
    memory = parts[1](parts[0](ids))
    no_positions = keras.Model(ids, model.get_layer("decoder")(parts[0](ids), memory))
    with pytest.raises(ValueError, match=r"without its layers \['positions'\]"):
        SequenceDecoder(no_positions)
    inputs = keras.Input((3,))
    x = inputs
    for name in ("source_embedding", "positions", "encoder", "decoder"):
        x = keras.layers.Dense(3, name=name)(x)
    with pytest.raises(ValueError, match="RecomputeDecoder"):
        SequenceDecoder(keras.Model(inputs, x))


def test_token_decoder_checks():
    """Wrong masks, and a cache that is too short, are refused."""
    decoder = SequenceDecoder(toy()).decoder
    assert isinstance(decoder, TokenDecoder)
    prompt, memory = np.ones((2, 3), "int32"), np.zeros((2, 4, 8), "float32")
    with pytest.raises(ValueError, match=r"`prompt_mask` .* Received: shape \(2, 2\)"):
        decoder.prefill(prompt, np.ones((2, 2), bool), memory)
    with pytest.raises(ValueError, match=r"`prompt_mask` must be boolean .* float32"):
        decoder.prefill(prompt, np.ones((2, 3), "float32"), memory)
    with pytest.raises(ValueError, match=r"`memory_mask` .* Received: shape \(2, 3\)"):
        decoder.prefill(prompt, None, memory, np.ones((2, 3), bool))
    with pytest.raises(ValueError, match="max_length=2 with a prompt of shape"):
        decoder.prefill(prompt, None, memory, max_length=2)
    with pytest.raises(ValueError, match="was built with a memory"):
        decoder.prefill(prompt)

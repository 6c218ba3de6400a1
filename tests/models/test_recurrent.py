"""The recurrent encoder-decoder: settings, weights, padding, saving, training, decoding."""

import functools
import json

import keras
import numpy as np
import pytest
from keras import ops
from model_toys import END, PAD, START, batch, compiled, numpy, randomize, search
from processes import run_python

import keras_attn
from keras_attn.generation import RecomputeDecoder, beam_search, greedy_search
from keras_attn.models import (
    ENCODER_DECODERS,
    RecurrentEncoderDecoderConfig,
    SequenceDecoder,
)
from keras_attn.models.recurrent import ATTENTIONS
from keras_attn.training import MaskedCrossEntropy

SMALL = {"dim": 6, "units": 8, "dropout": 0.1}
VARIANTS = {
    "none": {"attention": "none"},
    "none, lstm, two layers": {"attention": "none", "cell": "lstm", "num_layers": 2},
    "additive": {"attention": "additive"},
    "normalized, lstm, two layers": {
        "attention": "additive-normalized",
        "cell": "lstm",
        "num_layers": 2,
    },
    "dot": {"attention": "luong-dot"},
    "general, lstm": {"attention": "luong-general", "cell": "lstm", "recurrent_dropout": 0.2},
    "concat, two layers": {"attention": "luong-concat", "num_layers": 2},
    "scaled, two vocabularies": {"attention": "luong-scaled", "target": 9},
    "monotonic": {"attention": "luong-general", "window": "monotonic", "window_size": 1},
    "predictive": {"attention": "additive", "window": "predictive", "window_size": 2},
    "additive in Luong's order": {
        "attention": "additive",
        "order": "luong",
        "input_feeding": False,
    },
    "dot in Bahdanau's order, fed": {
        "attention": "luong-dot",
        "order": "bahdanau",
        "input_feeding": True,
    },
}
# No attention; either order, cell and number of layers. The other kinds of attention, and windows,
# are tried in a decoder by the harness, and here by the slow tests.
QUICK = ("none", "general, lstm")


def some_slow(variants, quick=QUICK):
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in variants]


EACH = pytest.mark.parametrize("variant", some_slow(VARIANTS))


def make(variant="additive", source=11, target=None, seed=0, dtype=None, **settings):
    settings = {**SMALL, **VARIANTS[variant], **settings}
    config = RecurrentEncoderDecoderConfig(source, settings.pop("target", target), **settings)
    return randomize(config.build(dtype=dtype), seed)


@functools.cache
def toy(variant):
    """One model for all tests that leave its weights alone, and what calls it compiled."""
    model = make(variant)
    return model, compiled(model)


def vocabulary(variant):
    return VARIANTS[variant].get("target", 11)


def test_each_attention_is_tried():
    assert {settings["attention"] for settings in VARIANTS.values()} == set(ATTENTIONS)


# Settings


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"attention": "luong"}, r"`attention` must be one of .*'luong-dot'.* Received: 'luong'"),
        ({"cell": "rnn"}, r"`cell` must be one of 'gru', 'lstm'\. Received: 'rnn'"),
        ({"units": 7}, "`units` must be even.* Received: 7"),
        ({"attention": "none", "window": "monotonic"}, "`window` can only be used"),
        ({"attention": "none", "order": "luong"}, "`order` can only be used"),
        (
            {"attention": "none", "input_feeding": True},
            "`input_feeding` can only be used",
        ),
        (
            {"attention": "none", "order": "bahdanau", "window_size": 3},
            "`order` and `window_size` can only be used with attention. Received: attention='none'",
        ),
        ({"units": 0}, "`units` .* Received: 0"),
        (
            {"dim": 0},
            "`dim` must be at least 1. Received: 0",
        ),
        ({"num_layers": 0}, "`num_layers` .* Received: 0"),
        ({"source": 0}, "`source_vocabulary_size` .* Received: 0"),
        ({"target": 0}, "`target_vocabulary_size` .* Received: 0"),
        ({"dropout": 1.5}, "Received: .*1.5"),
        ({"recurrent_dropout": -0.1}, "`recurrent_dropout` .* Received: -0.1"),
        ({"order": "keras"}, r"`order` must be one of 'bahdanau', 'luong'\. Received: 'keras'"),
        ({"window": "local"}, "`window` must be one of .* Received: 'local'"),
        ({"window_size": 3}, "`window_size` requires a `window`"),
        ({"window": "monotonic", "window_size": 0}, "`window_size` .* Received: 0"),
    ],
)
def test_wrong_configs(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_config_round_trip():
    config = RecurrentEncoderDecoderConfig(
        11, 9, attention="luong-dot", window="predictive", window_size=3
    )
    assert RecurrentEncoderDecoderConfig(**json.loads(json.dumps(config.to_dict()))) == config
    with pytest.raises(AttributeError):
        config.dim = 16


@pytest.mark.slow
def test_models_by_name():
    config = RecurrentEncoderDecoderConfig(11, **SMALL)
    half = config.build(dtype="mixed_bfloat16")
    assert (ENCODER_DECODERS.name_of(config), half.name) == ("rnn", "rnn")
    assert half.get_layer("decoder").compute_dtype == "bfloat16"
    with pytest.raises(
        TypeError,
        match=r"'RecurrentEncoderDecoderConfig', 'T5Config'\]\. .* dict",
    ):
        ENCODER_DECODERS.name_of({})


# Weights, counted by hand; D = 6, U = 8, the memory is 8 wide, E = 11 * 6 the tied embedding.


def gru(width, units):
    return 3 * (width * units + units * units + 2 * units)


def lstm(width, units):
    return 4 * (width * units + units * units + units)


BRIDGE = 8 * 8 + 8
VECTOR = (8 + 8) * 6  # from [h; c] to the width of the embedding


COUNTS = {
    # Bahdanau's order: the cell reads [x; c].
    "none": 11 * 6 + 2 * gru(6, 4) + BRIDGE + gru(6 + 8, 8) + VECTOR,
    "additive": 11 * 6 + 2 * gru(6, 4) + BRIDGE + gru(6 + 8, 8) + (2 * 8 * 8 + 8 + 8) + VECTOR,
    # Luong's order: it reads [x; a]. Two layers of LSTM have four states to bridge.
    "dot": 11 * 6 + 2 * gru(6, 4) + BRIDGE + gru(6 + 6, 8) + VECTOR,
    "general, lstm": 11 * 6 + 2 * lstm(6, 4) + 2 * BRIDGE + lstm(6 + 6, 8) + 8 * 8 + VECTOR,
    "normalized, lstm, two layers": 11 * 6
    + 2 * lstm(6, 4)
    + 2 * lstm(8, 4)
    + 4 * BRIDGE
    + lstm(6 + 8, 8)
    + lstm(8, 8)
    + (2 * 8 * 8 + 8 + 8 + 1)
    + VECTOR,
    "scaled, two vocabularies": (11 + 9) * 6 + 2 * gru(6, 4) + BRIDGE + gru(6 + 6, 8) + 1 + VECTOR,
    # The window adds Dq Dq + Dq.
    "predictive": 11 * 6 + 2 * gru(6, 4) + BRIDGE + gru(14, 8) + (128 + 16) + (64 + 8) + VECTOR,
    "additive in Luong's order": 66 + 2 * gru(6, 4) + BRIDGE + gru(6, 8) + 144 + VECTOR,
    "dot in Bahdanau's order, fed": 66 + 2 * gru(6, 4) + BRIDGE + gru(6 + 8 + 6, 8) + VECTOR,
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", some_slow(COUNTS, (*QUICK, "dot in Bahdanau's order, fed")))
def test_weights(variant):
    assert toy(variant)[0].count_params() == COUNTS[variant]


# Padding and the future


@pytest.mark.slow
@EACH
def test_padding_and_the_future_change_nothing(variant):
    (model, forward), V = toy(variant), vocabulary(variant)
    ids = batch(vocabulary=V)
    logits = numpy(model(ids))
    assert logits.shape == (3, 4, V)
    real = ids["target_ids"] != 0

    padded = {name: np.pad(value, [[0, 0], [0, 3]]) for name, value in ids.items()}
    outputs = [model(padded), forward(padded)]
    if variant == "none":  # what is traced has been tried by the line above
        outputs.append(model.predict(padded, verbose=0))
    for found in outputs:
        np.testing.assert_allclose(numpy(found)[:, :4][real], logits[real], atol=1e-5)
    for row in range(3):
        alone = {name: value[row : row + 1, value[row] != 0] for name, value in ids.items()}
        np.testing.assert_allclose(numpy(forward(alone))[0], logits[row, real[row]], atol=1e-5)

    future = {**ids, "target_ids": ids["target_ids"].copy()}
    future["target_ids"][:, 2:] = future["target_ids"][:, 2:] % (V - 1) + 1
    changed = numpy(forward(future))
    np.testing.assert_allclose(changed[:, :2][real[:, :2]], logits[:, :2][real[:, :2]], atol=1e-5)
    assert not np.allclose(changed[0, 2:], logits[0, 2:], atol=1e-3)
    other = {**ids, "source_ids": ids["source_ids"] % 10 + (ids["source_ids"] != 0)}
    assert not np.allclose(numpy(forward(other)), logits, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("variant", some_slow(["none", "additive", "general, lstm", "predictive"]))
def test_a_source_without_tokens(variant):
    """Nothing is attended to: finite, and the same beside any other row."""
    (_, forward), ids = toy(variant), batch()
    ids["source_ids"][1] = 0
    together = numpy(forward(ids))
    assert np.isfinite(together).all()
    ids = {name: value[1:2] for name, value in ids.items()}
    real = ids["target_ids"][0] != 0
    np.testing.assert_allclose(numpy(forward(ids))[0, real], together[1, real], atol=1e-5)


@pytest.mark.slow
def test_tied_output():
    model = make("scaled, two vocabularies")
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
    names = [layer.name for layer in toy("none")[0].layers]
    assert names.count("source_embedding") == 1
    assert "target_embedding" not in names


# Attention maps


@pytest.mark.quick("general, lstm")
@EACH
def test_attention_is_collected(variant):
    (model, forward), ids = toy(variant), batch(vocabulary=vocabulary(variant))
    expected = numpy(forward(ids))
    with keras_attn.collect_attention() as maps:
        logits = model(ids)
    np.testing.assert_allclose(numpy(logits), expected, atol=1e-6)
    sequences = SequenceDecoder(model)
    memory, mask = sequences.encode(ids["source_ids"])
    aligned = numpy(sequences.align(memory, mask, ids["target_ids"]))
    assert aligned.shape == (3, 4, 5)
    real = ids["target_ids"] != 0
    if VARIANTS[variant]["attention"] == "none":
        assert sequences.num_attentions == len(maps) == 0
        assert not aligned.any()
        return
    assert sequences.num_attentions == len(maps) == 1
    [key] = maps
    assert key.role == "cross"
    weights = numpy(maps[key])
    assert weights.shape == (3, 4, 5)
    assert np.all(weights[np.broadcast_to((ids["source_ids"] == 0)[:, None], (3, 4, 5))] == 0)
    np.testing.assert_allclose(aligned[real], weights[real], atol=1e-6)
    total = weights.sum(axis=-1)[real]
    if VARIANTS[variant].get("window") is None:
        np.testing.assert_allclose(total, 1, atol=1e-5)
    else:
        assert np.all(total < 1 + 1e-5)
    if variant == "monotonic":  # of half-width 1, on the first row, which is full
        near = np.abs(np.arange(4)[:, None] - np.arange(5)) <= 1
        assert np.array_equal(weights[0] > 0, near)


# Saving


FRESH = """
import sys
import keras, numpy as np
import keras_attn
from keras_attn.generation import beam_search
from keras_attn.models import SequenceDecoder

data = np.load("expected.npz")
ids = {name: data[name] for name in ("source_ids", "target_ids")}
for name in sys.argv[1:]:
    model = keras.models.load_model(f"{name}.keras", safe_mode=True)
    logits = keras.ops.convert_to_numpy(model(ids))
    np.testing.assert_allclose(logits, data[f"{name} logits"], atol=1e-5)
    sequences = SequenceDecoder(model)
    memory, mask = sequences.encode(ids["source_ids"])
    prompt = np.full((len(mask), 1), 1, "int32")
    found = beam_search(
        sequences.decoder, prompt, None, memory, mask,
        max_length=5, end_id=2, num_beams=3, num_return_sequences=3,
    )
    for field, value in found._asdict().items():
        value = keras.ops.convert_to_numpy(value).astype("float32")
        np.testing.assert_allclose(value, data[f"{name} {field}"], atol=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "variants",
    [
        ("normalized, lstm, two layers",),
        pytest.param(tuple(VARIANTS), marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_saving_and_a_fresh_process(tmp_path, variants):
    """`.keras` in a process that only imports keras_attn, safely; predictions and decoding."""
    ids, expected = batch(vocabulary=9), {}
    names = {f"model {i}": variant for i, variant in enumerate(variants)}
    for name, variant in names.items():
        model, forward = toy(variant)
        model.save(tmp_path / f"{name}.keras")
        model.save_weights(tmp_path / f"{name}.weights.h5")
        logits, weights = numpy(forward(ids)), model.get_weights()
        randomize(model, 1)
        assert not np.allclose(numpy(forward(ids)), logits, atol=1e-3)
        model.load_weights(tmp_path / f"{name}.weights.h5")
        np.testing.assert_array_equal(numpy(forward(ids)), logits)
        for loaded, weight in zip(model.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(loaded, weight)
        expected[f"{name} logits"] = logits
        for field, value in search(model, ids["source_ids"], 3)._asdict().items():
            expected[f"{name} {field}"] = numpy(value)
    np.savez(tmp_path / "expected.npz", **ids, **expected)
    run_python("tensorflow", FRESH, *names, cwd=tmp_path, errors=["UserWarning"])


# Decoding

PROMPTS = {  # lengths of three rows, and the side of their padding
    "one token": ([1, 1, 1], None),
    "right": ([2, 4, 1], "right"),
    "left": ([2, 4, 1], "left"),
}


def check_steps(variant, prompt):
    """Logits and weights of steps == those of the whole functional model."""
    (model, forward), V = toy(variant), vocabulary(variant)
    lengths, side = PROMPTS[prompt]
    width, steps = max(lengths), 3
    rng = np.random.default_rng(0)
    source = batch()["source_ids"]
    targets = rng.integers(1, V, size=(3, width + steps)).astype("int32")
    whole = {"source_ids": source, "target_ids": targets}
    full = numpy(forward(whole))
    prompts = np.full((3, width), PAD, "int32")
    for row, n in enumerate(lengths):
        start = width - n if side == "left" else 0
        prompts[row, start : start + n] = targets[row, :n]
    sequences = SequenceDecoder(model)
    decoder = sequences.decoder
    memory, mask = sequences.encode(source)
    weights = numpy(sequences.align(memory, mask, targets))
    logits, state = decoder.prefill(
        prompts, None if side is None else prompts != PAD, memory, mask, width + steps
    )
    rows = np.arange(3)
    for step in range(steps + 1):
        at = np.array(lengths) + step - 1
        np.testing.assert_allclose(numpy(logits), full[rows, at], atol=1e-5)
        if step < steps:
            at = (at + 1).astype("int32")
            logits, state, scores = decoder.step(targets[rows, at], at, state, True)
            assert len(scores["cross"]) == sequences.num_attentions
            for cross in scores["cross"]:
                np.testing.assert_allclose(numpy(cross)[:, 0], weights[rows, at], atol=1e-5)


@EACH
def test_step_by_step_is_teacher_forcing(variant):
    check_steps(variant, "right")


@pytest.mark.parametrize(
    ("variant", "prompt"),
    [
        ("normalized, lstm, two layers", "left"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("monotonic", "one token"),
                ("none", "left"),
                ("none", "one token"),
                ("normalized, lstm, two layers", "one token"),
                ("monotonic", "left"),
            ]
        ),
    ],
)
def test_step_by_step_after_other_prompts(variant, prompt):
    check_steps(variant, prompt)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype, tolerance",
    [
        pytest.param("mixed_bfloat16", 0.1, marks=pytest.mark.slow),
        ("mixed_float16", 0.02),
    ],
)
@pytest.mark.parametrize(
    "variant", some_slow(["none", "additive", "general, lstm", "monotonic"], ["general, lstm"])
)
def test_half_precision(variant, dtype, tolerance):
    """Step by step == teacher forcing as far as the dtype goes, and both near float32."""
    model, (_, exact) = make(variant, dtype=dtype), toy(variant)
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
    result = search(model, ids["source_ids"], 3)
    assert keras.backend.standardize_dtype(result.scores.dtype) == "float32"
    assert np.isfinite(numpy(result.scores)).all()


def recomputed(forward, function, ids, **settings):
    """A search that runs the whole model at each step."""

    def whole(target_ids, source_ids, source_mask):
        return forward({"source_ids": source_ids, "target_ids": target_ids})

    prompt = ops.zeros_like(ids[:, :1]) + START
    settings = {"max_length": 5, "end_id": END, **settings}
    return function(RecomputeDecoder(whole), prompt, None, ids, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    some_slow(["none", "general, lstm", "normalized, lstm, two layers"], ["general, lstm"]),
)
def test_searches(variant):
    """Over random models: greedy == a beam of one == recomputing; beams == recomputing."""
    model, forward = toy(variant)
    source = batch(rows=12)["source_ids"]
    # The model takes padding for what it is; a search would take it for a token.
    rules = {"suppressed_ids": (PAD,)}
    beams = {**rules, "num_beams": 3, "num_return_sequences": 3, "alpha": 0.6}
    different = set()
    for seed in (6, 0):
        randomize(model, seed)
        greedy, one, several = (
            search(model, source, width, **rules, **more)
            for width, more in [(None, {}), (1, {}), (3, {"alpha": 0.6})]
        )
        again = recomputed(forward, greedy_search, source, **rules)
        several_again = recomputed(forward, beam_search, source, **beams)
        for field in greedy._fields:
            value = numpy(getattr(greedy, field))
            for other in (getattr(one, field)[:, 0], getattr(again, field)):
                np.testing.assert_allclose(numpy(other), value, atol=1e-5)
            np.testing.assert_allclose(
                numpy(getattr(several, field)), numpy(getattr(several_again, field)), atol=1e-5
            )
        different |= {tuple(row) for row in numpy(greedy.tokens).tolist()}
    assert len(different) > 5


@pytest.mark.slow
def test_decoder_follows_the_model():
    """It has no weights of its own, and decodes what the model does."""
    model = make("scaled, two vocabularies")
    sequences, ids = SequenceDecoder(model), batch(vocabulary=9)
    prompt = ids["target_ids"]
    for seed in (0, 1):
        randomize(model, seed)
        memory, mask = sequences.encode(ids["source_ids"])
        np.testing.assert_array_equal(numpy(mask), ids["source_ids"] != 0)
        logits, _ = sequences.decoder.prefill(prompt, prompt != 0, memory, mask)
        last = (prompt != 0).sum(1) - 1
        full = numpy(model(ids))[np.arange(3), last]
        np.testing.assert_allclose(numpy(logits), full, atol=1e-5)


# Training


@pytest.mark.parametrize(
    "settings",
    [{"attention": "additive"}, {"attention": "luong-general", "cell": "lstm"}],
    ids=str,
)
@pytest.mark.slow
def test_it_learns_to_reverse(settings):
    """Sequences of 4 to 8 tokens, reversed; those of the test were never seen."""
    keras.utils.set_random_seed(0)
    config = RecurrentEncoderDecoderConfig(12, dim=16, units=48, dropout=0.0, **settings)
    model = config.build()
    rng = np.random.default_rng(0)

    def examples(count):
        lengths = rng.integers(4, 8, size=(count, 1), endpoint=True)
        slots = np.arange(9)
        source = np.where(slots < lengths, rng.integers(3, 12, size=(count, 9)), PAD)
        turned = np.take_along_axis(source, np.maximum(lengths - 1 - slots, 0), axis=1)
        target = np.where(slots < lengths, turned, np.where(slots == lengths, END, PAD))
        start = np.full((count, 1), START)
        target_ids = np.concatenate([start, target[:, :-1]], axis=1)
        target_ids[target_ids == END] = PAD
        return {"source_ids": source.astype("int32"), "target_ids": target_ids.astype("int32")}, (
            target.astype("int32")
        )

    model.compile(keras.optimizers.Adam(1e-2), MaskedCrossEntropy(), jit_compile=False)
    history = model.fit(*examples(12_288), 64, 2, verbose=0)
    assert history.history["loss"][-1] < 0.15, history.history["loss"]
    inputs, targets = examples(200)
    found = search(model, inputs["source_ids"], max_length=9)
    right = np.all(numpy(found.tokens) == targets, axis=1).mean()
    assert right > 0.8, history.history["loss"]

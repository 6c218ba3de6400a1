"""Captioners: against NumPy, their loss, step by step, searches, saving, backends, training."""

import functools
import json

import keras
import numpy as np
import pytest
from caption_references import caption, objective, values_of
from keras import ops
from model_toys import END, PAD, START, compile_for, compiled, numpy, randomize
from processes import run_python

from keras_attn import attention_maps
from keras_attn.generation import RecomputeDecoder, beam_search, greedy_search
from keras_attn.models import (
    CAPTIONERS,
    CaptionDecoder,
    SoftAttentionCaptionerConfig,
    TransformerCaptionerConfig,
    small_cnn_encoder,
)
from keras_attn.training import MaskedCrossEntropy

V, D, R = 9, 5, 6
SOFT = {"dim": 4, "units": 7, "attention_units": 3, "dropout": 0.0}
BLOCKS = {
    "num_layers": 2, "dim": 8, "num_heads": 2, "intermediate_dim": 12, "dropout": 0.0,
    "region_positions": "none",
}  # fmt: skip
VARIANTS = {
    "soft": SOFT,
    "soft, as its code": {**SOFT, "activation": "tanh", "doubly_stochastic": 0.3},
    "soft, plain": {
        **SOFT,
        "attention_units": None,
        "context_gate": False,
        "doubly_stochastic": 0.0,
        "initial_units": 6,
    },
    "transformer": BLOCKS,
    "transformer, grid": {
        **BLOCKS,
        "num_layers": 1,
        "region_positions": "sinusoidal",
        "grid": (2, 3),
        "normalize_first": False,
    },
    "transformer, learned": {**BLOCKS, "region_positions": "learned", "grid": (2, 3)},
}
# "soft, plain" is compared with the paper in quick tests.
QUICK = ("soft", "transformer", "transformer, grid")


def some_slow(variants, quick=QUICK):
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in variants]


EACH = pytest.mark.parametrize("variant", some_slow(VARIANTS))


def make(variant="soft", seed=0, dtype=None, **settings):
    kind = "soft-attention" if variant.startswith("soft") else "transformer"
    config = CAPTIONERS[kind](V, D, **{**VARIANTS[variant], **settings})
    return randomize(config.build(dtype), seed)


@functools.cache
def toy(variant):
    """One model for all tests that leave its weights alone, and what calls it compiled."""
    model = make(variant)
    return model, compiled(model)


def numpy64(x):
    return np.asarray(ops.convert_to_numpy(x), "float64")


def batch(rows=3, steps=4, seed=0):
    """Right-padded ids of lengths 4, 2 and 3, and what comes next."""
    rng = np.random.default_rng(seed)
    here = np.arange(steps) < np.array([4, 2, 3])[:rows, None]
    inputs = {
        "regions": rng.normal(size=(rows, R, D)).astype("float32"),
        "target_ids": np.where(here, rng.integers(1, V, (rows, steps)), PAD).astype("int32"),
    }
    return inputs, np.where(here, rng.integers(1, V, (rows, steps)), PAD).astype("int32")


def search(model, regions, num_beams=None, **settings):
    captions = CaptionDecoder(model)
    memory, mask = captions.encode(regions)
    prompt = ops.zeros_like(ops.cast(mask[:, :1], "int32")) + START
    settings = {"max_length": 5, "end_id": END, **settings}
    if num_beams:
        settings = {"num_return_sequences": num_beams, "num_beams": num_beams, **settings}
    found = beam_search if num_beams else greedy_search
    return found(captions.decoder, prompt, None, memory, mask, **settings)


# --- against NumPy

PAPER = {
    "the paper": {},
    "its code": {"activation": "tanh"},
    "without the gate": {"context_gate": False},
    "hidden layers": {"initial_units": 6, "doubly_stochastic": 0.3},
}


@pytest.mark.quick("the paper")
@pytest.mark.parametrize("variant", some_slow(PAPER, [x for x in PAPER if x != "its code"]))
def test_it_is_that_of_the_paper(variant):
    """Initial states, attention, gate, LSTM, deep output; the objective and its gradient."""
    import tensorflow as tf

    settings = PAPER[variant]
    model = make(dtype="float64", **settings)
    (inputs, labels), weight = batch(), settings.get("doubly_stochastic", 1.0)
    inputs["target_ids"] = np.append(inputs["target_ids"], [[PAD] * 4], axis=0)  # no caption
    inputs["regions"] = np.append(inputs["regions"], inputs["regions"][:1], axis=0)
    labels = np.append(labels, [[PAD] * 4], axis=0)
    options = {"activation": np.tanh} if settings.get("activation") == "tanh" else {}
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)
        [added] = model.losses
        loss = MaskedCrossEntropy()(labels, logits) + added
    variables = model.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables])
    gradients = {v.path: numpy64(g) for v, g in zip(variables, gradients, strict=True)}

    w = values_of(model, numpy64)
    captions = CaptionDecoder(model)
    aligned = numpy(captions.align(*captions.encode(inputs["regions"]), inputs["target_ids"]))
    pictures = inputs["regions"].astype("float64")
    for row, length in enumerate([4, 2, 3, 0]):
        assert not aligned[row, length:].any()
        if length:
            read = inputs["target_ids"][row, :length]
            wanted, alphas = caption(w, pictures[row], read, **options)
            np.testing.assert_allclose(numpy64(logits)[row, :length], wanted, atol=1e-9)
            np.testing.assert_allclose(aligned[row, :length], alphas, atol=1e-6)

    def total(w):
        return objective(w, pictures, inputs["target_ids"], labels, weight, **options)

    np.testing.assert_allclose(float(loss), total(w), atol=1e-9)
    found = values_of(model, lambda variable: gradients[variable.path], power=-1)
    assert sum(np.size(value) for value in w.values()) == model.count_params()
    rng, step = np.random.default_rng(1), 1e-5
    for name, value in w.items():
        for _ in range(4):
            index = tuple(rng.integers(0, value.shape))
            of_both = []
            for sign in (1, -1):
                changed = value.copy()
                changed[index] += sign * step
                of_both.append(total({**w, name: changed}))
            numeric = (of_both[0] - of_both[1]) / (2 * step)
            np.testing.assert_allclose(found[name][index], numeric, atol=1e-8, err_msg=name)


@pytest.mark.slow
def test_fit_minimizes_the_objective():
    """What `evaluate` and `fit` report is the objective; a greater factor makes R smaller."""
    inputs, labels = batch()
    pictures = inputs["regions"].astype("float64")
    missed = []
    for factor in (0.0, 5.0):
        model = make(doubly_stochastic=factor)
        w = values_of(model, numpy64)
        expected = objective(w, pictures, inputs["target_ids"], labels, factor)
        # Eagerly: tracing takes longer than some steps.
        model.compile(keras.optimizers.Adam(0.06), MaskedCrossEntropy(), run_eagerly=True)
        reported = [model.evaluate(inputs, labels, verbose=0)] if factor else []
        history = model.fit(inputs, labels, batch_size=3, epochs=10, verbose=0).history["loss"]
        np.testing.assert_allclose([*reported, history[0]], expected, rtol=1e-5)
        [weights] = attention_maps(model, inputs).values()
        missed.append(((1 - weights.sum(axis=1)) ** 2).sum())
    assert missed[1] < 0.8 * missed[0]


@pytest.mark.slow
@pytest.mark.parametrize("variant", some_slow(["soft", "transformer, grid"], ["soft"]))
def test_fit_by_xla(variant):
    """With unknown lengths, as Keras compiles by itself on a GPU: the same losses."""
    inputs, labels = batch()
    losses = []
    for how in ({"run_eagerly": True}, {"jit_compile": True}):
        model = make(variant)
        model.compile(keras.optimizers.SGD(0.1), MaskedCrossEntropy(), **how)
        history = model.fit(inputs, labels, batch_size=3, epochs=3, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.slow
def test_weights():
    """Counted by hand; m = 4, n = 7, D = 5, V = 9, 3 units of attention."""
    lstm = 4 * ((4 + 5 + 7) * 7 + 7)
    attention = 5 * 3 + 7 * 3 + 3 + 3
    count = 9 * 4 + lstm + attention + 2 * (5 * 7 + 7) + (7 + 5) * 4 + (4 * 9 + 9)
    assert make(context_gate=False).count_params() == count
    assert make().count_params() == count + 7 + 1
    hidden = 2 * (5 * 6 + 6) + 2 * (6 - 5) * 7
    assert make(initial_units=6).count_params() == count + 8 + hidden


# --- padding, the future, regions


@pytest.mark.quick("transformer")
@EACH
def test_padding_and_the_future_change_nothing(variant):
    model, forward = toy(variant)
    inputs, _ = batch()
    logits = numpy(model(inputs))
    losses = [float(loss) for loss in model.losses]
    assert len(losses) == (variant in ("soft", "soft, as its code"))
    ids = inputs["target_ids"]
    real = ids != PAD
    padded = {**inputs, "target_ids": np.pad(ids, [[0, 0], [0, 3]])}
    found = numpy(model(padded))
    np.testing.assert_allclose([float(loss) for loss in model.losses], losses, rtol=1e-5)
    outputs = [found, numpy(forward(padded))]
    if variant == "soft":  # what is traced has been tried by the line above
        outputs.append(model.predict(padded, verbose=0))
    for each in outputs:
        np.testing.assert_allclose(each[:, :4][real], logits[real], atol=1e-5)
    for row in range(3):
        alone = {
            "regions": inputs["regions"][row : row + 1],
            "target_ids": ids[row : row + 1, real[row]],
        }
        np.testing.assert_allclose(numpy(forward(alone))[0], logits[row, real[row]], atol=1e-5)
    future = ids.copy()
    future[:, 2:] = future[:, 2:] % (V - 1) + 1
    changed = numpy(forward({**inputs, "target_ids": future}))
    np.testing.assert_allclose(changed[:, :2][real[:, :2]], logits[:, :2][real[:, :2]], atol=1e-5)
    assert not np.allclose(changed[0, 2:], logits[0, 2:], atol=1e-3)
    other = {**inputs, "regions": inputs["regions"] + 1}
    assert not np.allclose(numpy(forward(other)), logits, atol=1e-3)


@pytest.mark.slow
@EACH
def test_the_order_of_regions(variant):
    """Without positions it changes nothing."""
    model, forward = toy(variant)
    inputs, _ = batch()
    turned = {**inputs, "regions": inputs["regions"][:, ::-1]}
    difference = np.abs(numpy(forward(turned)) - numpy(forward(inputs))).max()
    has_places = VARIANTS[variant].get("grid") is not None
    assert (difference > 1e-3) == has_places
    if has_places:
        with pytest.raises(ValueError, match="regions"):
            model({**inputs, "regions": inputs["regions"][:, :5]})


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["soft", "transformer"])
def test_pictures_with_fewer_regions(variant):
    """Hidden by the mask of the memory, in teacher forcing and in decoding."""
    model, _ = toy(variant)
    inputs, _ = batch()
    fewer = {**inputs, "regions": inputs["regions"][:, :4]}
    captions = CaptionDecoder(model)
    expected = numpy(search(model, fewer["regions"]).scores)
    wanted = numpy(captions.align(*captions.encode(fewer["regions"]), inputs["target_ids"]))
    memory, mask = captions.encode(inputs["regions"])
    mask = ops.logical_and(mask, np.arange(R) < 4)
    aligned = numpy(captions.align(memory, mask, inputs["target_ids"]))
    np.testing.assert_allclose(aligned[..., :4], wanted, atol=1e-6)
    assert not aligned[..., 4:].any()
    prompt = np.full((3, 1), START, "int32")
    found = greedy_search(captions.decoder, prompt, None, memory, mask, max_length=5, end_id=END)
    np.testing.assert_allclose(numpy(found.scores), expected, atol=1e-5)


# --- decoding


@pytest.mark.quick("soft")
@EACH
def test_step_by_step_is_teacher_forcing(variant):
    """From prompts of one token and of two, with the weights of each step."""
    model, forward = toy(variant)
    inputs, _ = batch()
    ids = np.where(inputs["target_ids"] == PAD, 3, inputs["target_ids"])  # no padding here
    whole = numpy(forward({**inputs, "target_ids": ids}))
    captions = CaptionDecoder(model)
    memory, mask = captions.encode(inputs["regions"])
    aligned = numpy(captions.align(memory, mask, ids))
    assert aligned.shape == (3, 4, R)
    np.testing.assert_allclose(aligned.sum(axis=-1), 1, atol=1e-5)
    [*_, collected] = attention_maps(model, {**inputs, "target_ids": ids}).select("cross")
    collected = collected if collected.ndim == 3 else collected.mean(axis=1)
    np.testing.assert_allclose(aligned, collected, atol=1e-6)
    for length in (1, 2):
        logits, state = captions.decoder.prefill(ids[:, :length], None, memory, mask, 4)
        np.testing.assert_allclose(numpy(logits), whole[:, length - 1], atol=1e-5)
        for t in range(length, 4):
            positions = np.full(3, t, "int32")
            logits, state, scores = captions.decoder.step(ids[:, t], positions, state, True)
            np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)
            weights = numpy(scores["cross"][-1])
            weights = weights[:, 0] if weights.ndim == 3 else weights[:, :, 0].mean(axis=1)
            np.testing.assert_allclose(weights, aligned[:, t], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", some_slow(["soft", "soft, as its code", "transformer, grid"], ["soft"])
)
def test_searches(variant):
    """Over several random models: greedy == a beam of one == recomputing; beams == recomputing."""
    model, forward = toy(variant)
    regions = np.random.default_rng(3).normal(size=(8, R, D)).astype("float32")

    def recomputed(function, **settings):
        def whole(ids, regions, mask):
            return forward({"regions": regions, "target_ids": ids})

        prompt = np.full((8, 1), START, "int32")
        settings = {"max_length": 5, "end_id": END, **settings}
        memory = ops.convert_to_tensor(regions)
        return function(RecomputeDecoder(whole), prompt, None, memory, **settings)

    # The model takes padding for what it is; a search would take it for a token.
    rules = {"suppressed_ids": (PAD,)}
    beams = {**rules, "num_beams": 3, "num_return_sequences": 3, "alpha": 0.6}
    different = set()
    for seed in (1, 2, 0):
        randomize(model, seed)
        greedy, one, several = (
            search(model, regions, width, **rules, **more)
            for width, more in [(None, {}), (1, {}), (3, {"alpha": 0.6})]
        )
        again, several_again = recomputed(greedy_search, **rules), recomputed(beam_search, **beams)
        for field in greedy._fields:
            value = numpy(getattr(greedy, field))
            for other in (getattr(one, field)[:, 0], getattr(again, field)):
                np.testing.assert_allclose(numpy(other), value, atol=1e-5)
            np.testing.assert_allclose(
                numpy(getattr(several, field)), numpy(getattr(several_again, field)), atol=1e-5
            )
        different |= {tuple(row) for row in numpy(greedy.tokens).tolist()}
    assert len(different) > 3


# --- saving, other backends, half precision

FRESH = """
import sys
import keras, numpy as np
import keras_attn
from keras_attn.generation import CompiledFunction, beam_search
from keras_attn.models import CaptionDecoder
from keras_attn.training import MaskedCrossEntropy

data = np.load("expected.npz")
inputs = {name: data[name] for name in ("regions", "target_ids")}
ids = keras.ops.convert_to_tensor(inputs["target_ids"])
jax = keras.backend.backend() == "jax"
training = sys.argv[1] == "fit"
for name in sys.argv[2:]:
    model = keras.models.load_model(f"{name}.keras", safe_mode=True)
    captions = CaptionDecoder(model)

    def run(regions, max_length):
        regions = keras.ops.convert_to_tensor(regions)
        memory, mask = captions.encode(regions)
        aligned = captions.align(memory, mask, ids)
        prompt = np.full((3, 1), 1, "int32")
        found = beam_search(
            captions.decoder, prompt, None, memory, mask,
            max_length=max_length, end_id=2, num_beams=3, num_return_sequences=3,
        )
        logits = model({"regions": regions, "target_ids": ids})
        return {"logits": logits, "aligned": aligned, **found._asdict()}

    if jax:  # one function to compile, not each operation
        run = CompiledFunction(run, model.variables, dtype="float32", rank=3)
    for field, value in run(inputs["regions"], 5).items():
        value = keras.ops.convert_to_numpy(value).astype("float32")
        np.testing.assert_allclose(value, data[f"{name} {field}"], atol=1e-5)
    if training:
        model.compile(keras.optimizers.SGD(0.1), MaskedCrossEntropy(), jit_compile=jax)
        history = model.fit(inputs, data["labels"], batch_size=3, epochs=3, verbose=0)
        np.testing.assert_allclose(history.history["loss"], data[f"{name} losses"], rtol=1e-4)
"""


def saved(folder, variants, training):
    """Models, and what they compute, decode and learn on TensorFlow."""
    inputs, labels = batch()
    arrays = {**inputs, "labels": labels}
    for i, variant in enumerate(variants):
        (model, forward), name = toy(variant), f"model_{i}"
        model.save(folder / f"{name}.keras")
        model.save_weights(folder / f"{name}.weights.h5")
        arrays[f"{name} logits"] = logits = numpy(forward(inputs))
        randomize(model, 1)
        assert not np.allclose(numpy(forward(inputs)), logits, atol=1e-3)
        model.load_weights(folder / f"{name}.weights.h5")
        np.testing.assert_array_equal(numpy(forward(inputs)), logits)
        captions = CaptionDecoder(model)
        encoded = captions.encode(inputs["regions"])
        arrays[f"{name} aligned"] = numpy(captions.align(*encoded, inputs["target_ids"]))
        for field, value in search(model, inputs["regions"], 3)._asdict().items():
            arrays[f"{name} {field}"] = numpy(value)
        if training:
            model = make(variant)
            model.compile(keras.optimizers.SGD(0.1), MaskedCrossEntropy(), jit_compile=False)
            history = model.fit(inputs, labels, batch_size=3, epochs=3, verbose=0)
            arrays[f"{name} losses"] = history.history["loss"]
    np.savez(folder / "expected.npz", **arrays)
    return folder, [f"model_{i}" for i in range(len(variants))]


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("some"), ("soft", "transformer, grid"), False)


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("every"), tuple(VARIANTS), True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax")), "torch"],
)
def test_a_fresh_process(some, backend):
    """Predictions, weights and beams, on each backend; `test_backends.py` trains them there.

    JAX compiles for long: of the Transformer `test_compiled.py` tries the decoder there.
    """
    folder, names = some
    names = names[:1] if backend == "jax" else names
    run_python(backend, FRESH, "", *names, cwd=folder, errors=["UserWarning"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_training_in_a_fresh_process(every, backend):
    """All of them; three steps of training too."""
    folder, names = every
    run_python(backend, FRESH, "fit", *names, cwd=folder, errors=["UserWarning"])


MIXED = pytest.mark.parametrize(
    ("variant", "policy"),
    [
        ("soft", "mixed_float16"),
        pytest.param("transformer, grid", "mixed_bfloat16", marks=pytest.mark.slow),
        pytest.param("soft", "mixed_bfloat16", marks=pytest.mark.slow),
        pytest.param("transformer, grid", "mixed_float16", marks=pytest.mark.slow),
    ],
)


@pytest.mark.slow
@MIXED
def test_mixed_precision(variant, policy):
    model, (exact, _) = make(variant, dtype=policy), toy(variant)
    inputs, labels = batch()
    inputs["regions"] = inputs["regions"].astype("float16")  # as a cache may hold them
    logits = model(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == policy.removeprefix("mixed_")
    wanted = numpy(exact(inputs))
    assert np.abs(numpy(logits) - wanted).max() < 0.03 * np.abs(wanted).max()
    assert {keras.backend.standardize_dtype(w.dtype) for w in model.trainable_weights} == {
        "float32"
    }
    for loss, other in zip(model.losses, exact.losses, strict=True):
        assert keras.backend.standardize_dtype(loss.dtype) == "float32"
        np.testing.assert_allclose(float(loss), float(other), rtol=0.02)
    found = search(model, inputs["regions"], 2)
    assert found.tokens.shape == (3, 2, 5)
    assert np.isfinite(numpy(found.scores)).all()
    model.compile(keras.optimizers.Adam(0.02), MaskedCrossEntropy(), run_eagerly=True)
    losses = model.fit(inputs, labels, batch_size=3, epochs=4, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


# --- training


def objects(count, kinds, places, seed):
    """Regions in any order, each with one object and its place; captions name them by place."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, kinds, (count, places))
    place = rng.permuted(np.tile(np.arange(places), (count, 1)), axis=1)
    regions = np.concatenate([np.eye(kinds)[kind], np.eye(places)[place]], axis=-1)
    region_at = np.argsort(place, axis=1)
    words = np.take_along_axis(kind, region_at, axis=1) + 3
    labels = np.concatenate([words, np.full((count, 1), END)], axis=1).astype("int32")
    start = np.full((count, 1), START)
    inputs = {
        "regions": regions.astype("float32"),
        "target_ids": np.concatenate([start, words], axis=1).astype("int32"),
    }
    return inputs, labels, region_at


TOYS = {
    "soft": SoftAttentionCaptionerConfig(
        7, 7, dim=12, units=24, dropout=0.0, doubly_stochastic=0.2
    ),
    "blocks": TransformerCaptionerConfig(
        7, 7, num_layers=1, dim=16, num_heads=1, intermediate_dim=24, region_positions="none"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", some_slow(TOYS))
def test_it_names_what_is_there(kind):
    """Pictures that were not seen in training; it looks at what it names."""
    model = TOYS[kind].build()
    inputs, labels, _ = objects(2048, kinds=4, places=3, seed=0)
    compile_for(model, keras.optimizers.Adam(0.01), MaskedCrossEntropy())
    history = model.fit(inputs, labels, 32, 4, verbose=0).history["loss"]
    inputs, labels, region_at = objects(100, kinds=4, places=3, seed=1)
    found = search(model, inputs["regions"], max_length=4)
    right = (numpy(found.tokens) == labels).all(axis=1).mean()
    assert right > 0.9, history
    captions = CaptionDecoder(model)
    weights = captions.align(*captions.encode(inputs["regions"]), inputs["target_ids"])
    looked = numpy(weights)[:, :3].argmax(axis=-1)
    assert (looked == region_at).mean() > 0.9, history


@pytest.mark.slow
def test_an_encoder_before_it():
    """One model from pictures to logits trains both; the captioner within decodes."""
    encoder = small_cnn_encoder(8, (4, D))
    inner, _ = toy("soft")
    begun = inner.get_weights()
    images = keras.Input((None, None, 3), name="images")
    ids = keras.Input((None,), dtype="int32", name="target_ids")
    logits = inner({"regions": encoder(images), "target_ids": ids})
    model = keras.Model({"images": images, "target_ids": ids}, logits)
    inputs, labels = batch()
    pictures = np.random.default_rng(0).integers(0, 256, (3, 9, 9, 3)).astype("uint8")
    inputs = {"images": pictures, "target_ids": inputs["target_ids"]}
    model(inputs)
    assert len(model.losses) == 1
    before = [numpy(w) for w in encoder.trainable_weights]
    model.compile(keras.optimizers.Adam(0.02), MaskedCrossEntropy(), run_eagerly=True)
    losses = model.fit(inputs, labels, batch_size=3, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert any(
        (numpy(w) != b).any() for w, b in zip(encoder.trainable_weights, before, strict=True)
    )
    found = search(model.get_layer(inner.name), encoder(pictures))
    assert found.tokens.shape == (3, 5)
    inner.set_weights(begun)


# --- settings and errors


@EACH
def test_configs(variant):
    settings = VARIANTS[variant]
    kind = "soft-attention" if variant.startswith("soft") else "transformer"
    config = CAPTIONERS[kind](V, D, **settings)
    assert type(config)(**json.loads(json.dumps(config.to_dict()))) == config
    with pytest.raises(AttributeError):
        config.dim = 16
    model, _ = toy(variant)
    assert CAPTIONERS.name_of(config) == kind
    assert CaptionDecoder(model).num_attentions == settings.get("num_layers", 1)


def test_no_captioners():
    for wrong in ({"dim": 3}, keras.Sequential(), None, small_cnn_encoder(8, (4,))):
        with pytest.raises(TypeError, match="captioner that was built from its config"):
            CaptionDecoder(wrong)


def test_regions_of_another_width():
    captions = CaptionDecoder(toy("transformer")[0])
    with pytest.raises(ValueError, match=r"\(B, R, 5\).*\(3, 6, 4\)"):
        captions.encode(np.zeros((3, 6, 4)))
    with pytest.raises(ValueError, match=r"\(B, R, 5\).*\(3, 5\)"):
        captions.encode(np.zeros((3, 5)))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("soft-attention", {"units": 0}, "`units`.* 0"),
        ("soft-attention", {"attention_units": 0}, "`attention_units`.* 0"),
        ("soft-attention", {"initial_units": -1}, "`initial_units`.* -1"),
        ("soft-attention", {"dropout": 1.0}, r"`dropout`.*1\.0"),
        ("soft-attention", {"context_gate": None}, "`context_gate`.*None"),
        ("soft-attention", {"doubly_stochastic": -1}, "`doubly_stochastic`.*-1"),
        ("soft-attention", {"doubly_stochastic": True}, "`doubly_stochastic`.*True"),
        ("soft-attention", {"activation": "softish"}, "softish"),
        ("transformer", {"num_layers": 0}, "`num_layers`.* 0"),
        ("transformer", {"dim": 10, "num_heads": 4}, "dim=10, num_heads=4"),
        ("transformer", {"attention_dropout": 2}, "`attention_dropout`.*2"),
        ("transformer", {"region_positions": "2d"}, "`region_positions`.*'learned'.*'2d'"),
        ("transformer", {"region_positions": "learned"}, "requires the `grid`.*grid=None"),
        (
            "transformer",
            {"region_positions": "learned", "grid": 6},
            "`grid` must be of type tuple.*6",
        ),
        ("transformer", {"region_positions": "learned", "grid": (2, 0)}, "`grid`.*0"),
        (
            "transformer",
            {"region_positions": "sinusoidal", "grid": (2, 3), "dim": 9, "num_heads": 3},
            "even.*9",
        ),
    ],
)
def test_wrong_settings(kind, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        CAPTIONERS[kind](V, D, **settings).build()

"""LoRA: what is trained, what is not, and what comes of it."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import layers, models
from keras_attn.adapt import enable_lora, load_lora, merge_lora, save_lora
from keras_attn.adapt.quantization import quantize
from keras_attn.layers.quantization import quick_deletions, sublayers
from keras_attn.tasks import TextGenerator
from keras_attn.text import CharacterTokenizer
from keras_attn.training import MaskedCrossEntropy, load_training_state, save_training_state

V = 23
IDS = np.random.default_rng(0).integers(1, V, (4, 5)).astype("int32")
INPUTS = {"source_ids": IDS, "target_ids": IDS}
TRANSFORMER = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 12, "dropout": 0.0}
RECURRENT = {"dim": 8, "units": 12, "dropout": 0.0}


@pytest.fixture(autouse=True)
def _quickly():
    """Keras collects garbage for each weight that it deletes."""
    with quick_deletions():
        yield


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def transformer(**more):
    config = models.TransformerEncoderDecoderConfig(V, **{**TRANSFORMER, **more})
    return config.build()


def attention(dim=8):
    x = keras.Input((6, dim))
    return keras.Model(x, layers.MultiHeadSelfAttention(2, name="attention")(x))


def recurrent(**more):
    return models.RecurrentEncoderDecoderConfig(V, **{**RECURRENT, **more}).build()


def compiled(model, rate=0.02):
    # Eagerly: tracing takes longer than some steps.
    model.compile(keras.optimizers.Adam(rate), MaskedCrossEntropy(), run_eagerly=True)
    return model


def fit(model, epochs=2):
    return compiled(model).fit(INPUTS, IDS[:, ::-1], epochs=epochs, verbose=0).history["loss"]


def values(model):
    return {w.path: numpy(w).copy() for w in model.weights}


PROJECTIONS = {
    "transformer": (
        transformer,
        "encoder/block_0/self_attention/qkv encoder/block_0/self_attention/output "
        "decoder/block_0/self_attention/qkv decoder/block_0/self_attention/output "
        "decoder/block_0/cross_attention/query decoder/block_0/cross_attention/key "
        "decoder/block_0/cross_attention/value decoder/block_0/cross_attention/output",
    ),
    "additive": (
        recurrent,
        "decoder/attention/query decoder/attention/key decoder/attention_vector",
    ),
    "luong": (
        lambda: recurrent(attention="luong-general"),
        "decoder/attention/key decoder/attention_vector",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["transformer", *(pytest.param(x, marks=pytest.mark.slow) for x in ("luong", "additive"))],
)
def test_only_the_projections_learn_and_merging_keeps_the_outputs(name):
    build, wanted = PROJECTIONS[name]
    model = build()
    before, plain = values(model), numpy(model(INPUTS))
    trainable = [w.path for w in model.trainable_weights]
    report = enable_lora(model, rank=2, alpha=3)
    assert sorted(report.layers) == sorted(wanted.split())
    sizes = [before[f"{path}/kernel"].shape for path in report.layers]
    assert report.trainable == sum(2 * (rows + columns) for rows, columns in sizes)
    assert report.frozen == sum(value.size for value in before.values())
    np.testing.assert_allclose(numpy(model(INPUTS)), plain, atol=1e-6)
    fit(model)
    after = values(model)
    assert all(np.array_equal(after[path], before[path]) for path in before)
    learnt = numpy(model(INPUTS))
    assert np.abs(learnt - plain).max() > 1e-3

    path = report.layers[0]
    a, b = (after[f"{path}/lora_kernel_{part}"].astype("float64") for part in "ab")
    merge_lora(model)
    np.testing.assert_allclose(numpy(model(INPUTS)), learnt, atol=1e-5)
    expected = before[f"{path}/kernel"] + 1.5 * a @ b
    np.testing.assert_allclose(values(model)[f"{path}/kernel"], expected, atol=1e-6)
    assert [w.path for w in model.weights] == list(before)
    assert [w.path for w in model.trainable_weights] == trainable
    fit(model, epochs=1)  # all of it learns again
    assert not np.array_equal(values(model)[trainable[0]], before[trainable[0]])


@pytest.mark.slow
def test_feed_forward_and_others():
    assert len(enable_lora(transformer(), 1, feed_forward=True).layers) == 12
    assert set(enable_lora(recurrent(), 1, also="bridge").layers) == {
        "decoder/bridge_0", "decoder/attention/key", "decoder/attention/query",
        "decoder/attention_vector",
    }  # fmt: skip
    tokenizer = CharacterTokenizer.train(["abc"])
    generator = TextGenerator(tokenizer, model={"units": 8, "dim": 4}, data={"sequence_length": 8})
    with pytest.raises(ValueError, match="regular expression"):
        enable_lora(generator, 1)
    assert enable_lora(generator, 1, also="^head$").layers == ("head",)


@pytest.mark.slow
def test_a_task_compiles_again_and_saves_merged_weights(tmp_path):
    tokenizer = CharacterTokenizer.train(["abc"])
    generator = TextGenerator(tokenizer, model={"units": 8, "dim": 4}, data={"sequence_length": 8})
    generator.fit("abc" * 20, epochs=1, verbose=0, run_eagerly=True)
    generator.evaluate("abcabc")  # compiled for the former weights
    enable_lora(generator, 2, also="head")
    generator.fit("cba" * 20, epochs=2, learning_rate=0.05, verbose=0, run_eagerly=True)
    bits = generator.evaluate("cbacba").bits_per_character
    generator.save(tmp_path / "lora.task")
    loaded = TextGenerator.load(tmp_path / "lora.task")
    assert loaded.evaluate("cbacba").bits_per_character == pytest.approx(bits, abs=1e-5)
    assert not loaded.model.get_layer("head").lora_enabled
    assert loaded.model.get_layer("head").trainable
    merge_lora(generator)
    assert generator.evaluate("cbacba").bits_per_character == pytest.approx(bits, abs=1e-5)


@pytest.mark.slow
def test_adapters_and_whole_states_are_files(tmp_path):
    model, other = transformer(), transformer()
    other.set_weights(model.get_weights())
    report = enable_lora(model, 2, alpha=5)
    fit(model)
    save_lora(model, tmp_path / "adapter.npz")
    assert load_lora(other, tmp_path / "adapter.npz") == report
    np.testing.assert_allclose(numpy(other(INPUTS)), numpy(model(INPUTS)), atol=1e-6)
    # A run goes on with A, B and their moments.
    save_training_state(tmp_path / "state.npz", model)
    third = transformer()
    enable_lora(third, 2, alpha=5)
    load_training_state(tmp_path / "state.npz", compiled(third))
    for one in (model, third):
        one.train_on_batch(INPUTS, IDS)
    np.testing.assert_allclose(numpy(third(INPUTS)), numpy(model(INPUTS)), atol=1e-6)


@pytest.mark.slow
def test_saved_models_are_plain(tmp_path):
    model = transformer()
    count = len(model.trainable_weights)
    enable_lora(model, 2)
    fit(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    np.testing.assert_allclose(numpy(loaded(INPUTS)), numpy(model(INPUTS)), atol=1e-6)
    assert len(loaded.trainable_weights) == count


@pytest.mark.slow
def test_lora_over_int8():
    """A and B learn beside int8 kernels; merging rounds anew, within two steps of 1/127."""
    model = transformer()
    plain = numpy(model(INPUTS))
    for path, layer in sublayers(model):
        if path.endswith("/qkv"):
            layer.quantize("int8")
    enable_lora(model, 2)
    losses = fit(model, epochs=4)
    assert losses[-1] < losses[0]
    learnt = numpy(model(INPUTS))
    merge_lora(model)
    assert np.abs(numpy(model(INPUTS)) - learnt).max() < 0.05 * np.abs(learnt - plain).max() + 0.05
    assert model.get_layer("encoder").blocks[0].self_attention.qkv_dense._kernel.dtype == "int8"


@pytest.mark.slow
def test_batch_normalization_keeps_its_statistics():
    x = keras.Input((6, 8))
    y = keras.layers.BatchNormalization()(x)
    frozen = layers.MultiHeadSelfAttention(2, name="frozen")
    frozen.trainable = False
    model = keras.Model(x, layers.MultiHeadSelfAttention(2, name="learns")(frozen(y)))
    report = enable_lora(model, 2)
    assert set(report.layers) == {"learns/output", "learns/qkv"}
    before = values(model)
    given = np.random.default_rng(0).normal(3, 2, (8, 6, 8)).astype("float32")
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(given, given, verbose=0)
    after = values(model)
    changed = {path for path in before if not np.array_equal(before[path], after[path])}
    assert changed <= {path for path in before if "lora" in path}
    merge_lora(model)
    assert model.layers[1].trainable
    assert not frozen.trainable
    assert not frozen.trainable_weights


def trained(model):
    return sorted(weight.path for weight in model.trainable_weights)


def test_what_was_frozen_or_unfrozen_after_enabling_stays_so():
    """A projection, the layer around it, a norm with statistics, and what was frozen before."""
    x = keras.Input((6, 8))
    norm = keras.layers.BatchNormalization(name="norm")
    other = keras.layers.BatchNormalization(name="other")
    before = keras.layers.Dense(8, name="before")
    first, second, third = (
        layers.MultiHeadSelfAttention(2, name=name) for name in ("first", "second", "third")
    )
    model = keras.Model(x, third(second(first(before(other(norm(x)))))))
    before.trainable = False
    enable_lora(model, 2)
    first.trainable = False
    second.qkv_dense.trainable = False
    norm.trainable = False
    before.trainable = True
    merge_lora(model)
    wanted = {"before/kernel", "before/bias", "other/gamma", "other/beta"}
    wanted |= {w.path for layer in (second.output_dense, third) for w in layer.weights}
    assert trained(model) == sorted(wanted)
    assert not (first.trainable_weights or second.qkv_dense.trainable_weights)
    assert (norm.trainable, other.trainable, first.trainable) == (False, True, False)
    model.compile("sgd", "mse", run_eagerly=True)
    old = values(model)
    given = np.random.default_rng(0).normal(3, 2, (8, 6, 8)).astype("float32")
    model.fit(given, given, verbose=0)
    changed = {
        path for path, value in values(model).items() if not np.array_equal(value, old[path])
    }
    assert changed <= wanted | {"other/moving_mean", "other/moving_variance"}
    assert {"before/kernel", "other/moving_mean"} <= changed


def test_a_model_that_is_frozen_with_lora_stays_frozen():
    model = attention()
    enable_lora(model, 1)
    model.trainable = False
    merge_lora(model)
    assert not model.trainable_weights
    assert not any(weight.trainable for weight in model.weights)


def test_each_layer_has_its_rank_and_alpha(tmp_path):
    """As Keras' own method gives them; `save_lora` wrote those of the first for all."""
    model, other = attention(), attention()
    other.set_weights(model.get_weights())
    layer = model.get_layer("attention")
    layer.qkv_dense.enable_lora(2, lora_alpha=6)
    layer.output_dense.enable_lora(3)
    rng = np.random.default_rng(0)
    for dense in (layer.qkv_dense, layer.output_dense):
        dense.lora_kernel_b.assign(rng.normal(size=dense.lora_kernel_b.shape))
    save_lora(model, tmp_path / "adapter.npz")
    load_lora(other, tmp_path / "adapter.npz")
    given = rng.normal(size=(2, 6, 8)).astype("float32")
    np.testing.assert_allclose(numpy(other(given)), numpy(model(given)), atol=1e-6)
    found = other.get_layer("attention")
    assert (found.qkv_dense.lora_rank, found.qkv_dense.lora_alpha) == (2, 6)
    assert (found.output_dense.lora_rank, found.output_dense.lora_alpha) == (3, 3)


def rewritten(path, **changes):
    """A file of `save_lora` with another header."""
    with np.load(path) as file:
        arrays = dict(file)
    header = {**json.loads(arrays["header"].tobytes()), **changes}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), "uint8")
    changed = path.with_name("changed.npz")
    np.savez(changed, **arrays)
    return changed


def test_a_file_that_does_not_fit_changes_nothing(tmp_path):
    model = attention()
    enable_lora(model, 2, alpha=5)
    save_lora(model, tmp_path / "adapter.npz")
    merge_lora(model)
    before, learns = values(model), trained(model)
    constrained = attention()
    dense = constrained.get_layer("attention").output_dense
    dense.kernel_constraint = keras.constraints.NonNeg()
    for other, file, words in [
        (model, rewritten(tmp_path / "adapter.npz", ranks=[2, 3]), "different ranks"),
        (constrained, tmp_path / "adapter.npz", "kernel_constraint"),
    ]:
        with pytest.raises(ValueError, match=words):
            load_lora(other, file)
        assert trained(other) == learns
        assert {w.path for w in other.weights} == set(before)
    with pytest.raises(ValueError, match="kernel_constraint"):
        enable_lora(constrained, 2)
    assert trained(constrained) == learns
    # The format before this one.
    old = rewritten(tmp_path / "adapter.npz", format_version=1, rank=2, alpha=5)
    load_lora(model, old)
    assert model.get_layer("attention").qkv_dense.lora_alpha == 5


@pytest.mark.slow
def test_what_had_no_lora_is_left_as_it_is():
    """A head on an encoder with LoRA; a layer with LoRA by Keras itself; a part of a model."""
    encoder = models.TransformerClassifierConfig(20, num_classes=4, dim=8, intermediate_dim=8)
    encoder = encoder.build()
    ids = keras.Input((None,), dtype="int32")
    whole = keras.Model(ids, keras.layers.Dense(3)(encoder(ids)))
    count = len(whole.trainable_weights)
    enable_lora(encoder, 2)
    merge_lora(whole)
    assert len(whole.trainable_weights) == count
    encoder.get_layer("head").enable_lora(2)
    merge_lora(encoder)
    assert len(whole.trainable_weights) == count
    enable_lora(encoder, 2)
    part = keras.Model(encoder.input, encoder.get_layer("encoder").output)
    with pytest.raises(ValueError, match=r"with \d+ layers.*its other layers would stay frozen"):
        merge_lora(part)
    merge_lora(encoder)
    assert len(whole.trainable_weights) == count


@pytest.mark.slow
def test_float8_has_none():
    model = attention()
    enable_lora(model, 1)
    with pytest.raises(ValueError, match="Call `merge_lora` on it first"):
        quantize(model, "float8")
    merge_lora(model)
    quantize(model, "float8")
    with pytest.raises(ValueError, match="in float8"):
        enable_lora(model, 1)
    with pytest.raises(ValueError, match="already quantized"):
        quantize(model, "float8")
    with pytest.raises(ValueError, match="none of them supports float8"):  # embeddings alone
        quantize(models.SkipGramConfig(20, dim=4).build(), "float8")


@pytest.mark.slow
def test_word_by_word_attention():
    config = models.EntailmentConfig(20, num_classes=3, dim=4, units=6, projection_dim=4)
    report = enable_lora(config.build(), 2)
    names = {path.split("/")[-1] for path in report.layers}
    assert {"value", "query", "state", "carry"} <= names


def test_errors(tmp_path, monkeypatch):
    model = attention()
    with pytest.raises(ValueError, match="rank"):
        enable_lora(model, 0)
    with pytest.raises(ValueError, match="alpha"):
        enable_lora(model, 1, alpha=0)
    with pytest.raises(ValueError, match="no LoRA"):
        merge_lora(model)
    with pytest.raises(ValueError, match="no LoRA"):
        save_lora(model, tmp_path / "a.npz")
    with pytest.raises(ValueError, match="Expected a model"):
        enable_lora("model", 1)
    enable_lora(model, 1)
    monkeypatch.setenv("HOME", str(tmp_path))
    save_lora(model, "~/a.npz")
    with pytest.raises(ValueError, match="already"):
        enable_lora(model, 1)
    with pytest.raises(ValueError, match="already"):
        load_lora(model, tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"does not fit.*\(8, 24\)"):
        load_lora(attention(dim=16), tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=1)
    with pytest.raises(ValueError, match="another kind of file"):
        load_lora(attention(), tmp_path / "b.npz")

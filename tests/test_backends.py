"""What TensorFlow saves gives its numbers on JAX and PyTorch, and trains there as here."""

import dataclasses
import json
from pathlib import Path

import keras
import numpy as np
import pytest
from backend_script import (
    CLOSELY,
    POLICIES,
    QUICK,
    closely,
    collected,
    numpy,
    quick_names,
    symbolic_policies,
    train,
)
from processes import answer

from keras_attn import layers, models

HERE = Path(__file__).parent
N, F, D = 2, 12, 8


def translator():
    """Ids; implicit masks; pre-norm, grouped heads, learned and fixed positions."""
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embed = layers.TokenEmbedding(11, D, name="embed")
    settings = {"normalize_first": True, "num_kv_heads": 1, "activation": "gelu"}
    memory = layers.TransformerEncoder(1, N, intermediate_dim=F, **settings)(
        layers.PositionalEncoding()(embed(source))
    )
    y = layers.LearnedPositionalEncoding(9)(embed(target))
    y, own, cross = layers.TransformerDecoder(1, N, intermediate_dim=F, **settings)(
        y, memory, return_attention_scores=True
    )
    model = keras.Model(
        {"source": source, "target": target}, [embed(y, reverse=True), own[0], cross[0]]
    )
    inputs = {
        "source": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], "int32"),
        "target": np.array([[5, 3, 0, 0], [5, 8, 9, 7]], "int32"),
    }
    return model, inputs


def layer_by_layer():
    """Vectors of an odd width; explicit masks as inputs; post-norm; explicit positions."""
    x, memory = keras.Input((None, 7), name="x"), keras.Input((None, 6), name="memory")
    mask = keras.Input((None,), dtype="int32", name="mask")
    memory_mask = keras.Input((None,), dtype="bool", name="memory_mask")
    each = keras.Input((1, None, None), dtype="bool", name="each")
    positions = keras.Input((None,), dtype="int32", name="positions")
    y = layers.PositionalEncoding()(x, positions=positions, mask=mask)
    y = layers.Dropout(0.0)(layers.FeedForward(5)(y))
    y, alone = layers.SelfAttention(scale=0.5)(y, mask=mask, return_attention_scores=True)
    y = layers.SelfAttention(projection="shared", units=5)(y, attention_mask=each)
    y = layers.SelfAttention(projection="separate", use_bias=True)(y, use_causal_mask=True)
    y, own = layers.MultiHeadSelfAttention(N, key_dim=3, output_dim=D)(
        y, attention_mask=each, use_causal_mask=True, return_attention_scores=True
    )
    y, cross = layers.MultiHeadAttention(N, key_dim=3, value_dim=5)(
        y, memory, value_mask=memory_mask, return_attention_scores=True
    )
    y, additive = layers.AdditiveAttention(5, use_bias=True)(
        y, memory, value_mask=memory_mask, return_attention_scores=True
    )
    y = keras.layers.Dense(D)(y)
    y = layers.TransformerEncoderBlock(N, intermediate_dim=F)(y, padding_mask=mask)
    y = layers.DecoderBlock(N, intermediate_dim=F, value_rank=3)(
        y, memory, memory_mask=memory_mask, padding_mask=mask
    )
    y = layers.DecoderBlock(N, intermediate_dim=F)(y)
    y = layers.TransformerEncoder(1, N, intermediate_dim=F, value_rank=2)(y, attention_mask=each)
    y = layers.TransformerDecoder(1, N, intermediate_dim=F)(y)
    inputs = [x, memory, mask, memory_mask, each, positions]
    rng = np.random.default_rng(0)
    visible = rng.random((2, 1, 4, 4)) > 0.4
    visible[0, 0, 2] = False
    values = {
        "x": rng.normal(size=(2, 4, 7)).astype("float32"),
        "memory": rng.normal(size=(2, 5, 6)).astype("float32"),
        "mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32"),
        "memory_mask": np.arange(5) < [[5], [2]],
        "each": visible,
        "positions": np.array([[0, 1, 0, 1], [3, 2, 70000, 0]], "int32"),
    }
    return keras.Model({i.name: i for i in inputs}, [y, own, cross, additive, alone]), values


def recurrent():
    """An encoder and two decoders, in both orders, with every kind of score and window.

    Of known lengths: on PyTorch Keras makes 83 and 89 steps to infer shapes of unknown ones, as it
    does for `captions` and `entailment`.
    """
    source = keras.Input((5,), dtype="int32", name="source")
    target = keras.Input((4,), dtype="int32", name="target")
    embed = layers.TokenEmbedding(11, D, name="embed")
    memory = layers.RecurrentEncoder(3, cell="lstm")(embed(source))
    y, one = layers.AttentionDecoder(
        keras.layers.GRUCell(6),
        layers.AdditiveAttention(5, use_bias=True, normalize=True),
        order="bahdanau",
        attention_units=7,
        bridge=True,
        summary="ends",
    )(embed(target), memory, return_attention_scores=True)
    y, two = layers.AttentionDecoder(
        [keras.layers.GRUCell(5), keras.layers.LSTMCell(6)],
        [
            layers.LuongAttention(score="scaled", window="monotonic", window_size=2),
            layers.LuongAttention(score="concat", window="predictive", window_size=3),
        ],
    )(y, memory, return_attention_scores=True)
    model = keras.Model({"source": source, "target": target}, [y, *one, *two])
    inputs = {
        "source": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], "int32"),
        "target": np.array([[5, 3, 0, 0], [5, 8, 9, 7]], "int32"),
    }
    return model, inputs


def pooled():
    """Every pooling of tokens, weighted, and of pairs, weighted, and a row without a token."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x, weights = layers.TokenWeighting(11, activation="softplus")(
        layers.TokenEmbedding(11, D)(ids), ids, return_attention_scores=True
    )
    pairs = layers.HashedTokenPairs(60)(ids)
    y = layers.TokenWeighting(60, activation="exponential")(
        layers.TokenEmbedding(60, D)(pairs), pairs
    )
    context, attention = layers.AttentionPooling(5)(x, return_attention_scores=True)
    vectors = [
        layers.MaskedAveragePooling()(x),
        layers.MaskedAveragePooling(combiner="sqrtn")(y),
        layers.MaskedMaxPooling()(y),
        layers.FirstTokenPooling()(x),
        layers.FinalStatesPooling()(x),
        layers.AttentionPooling(score="dot")(y),
        context,
    ]
    inputs = {"ids": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [0, 0, 0, 0, 0]], "int32")}
    return keras.Model({"ids": ids}, [*vectors, weights, attention]), inputs


def bag():
    """A text classifier with pairs."""
    config = models.BagClassifierConfig(
        11, 3, dim=D, dropout=0.0, word_dropout=0.0, pair_buckets=60
    )
    inputs = {"token_ids": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], "int32")}
    model = config.build()
    return keras.Model({"token_ids": model.input}, model.output), inputs


def pictures():
    """Channel and spatial attention with their gates, and two encoders of pictures."""
    images = keras.Input((None, None, 3), name="images")
    x = layers.ImagePreprocessing((5, 8), scaling="torch")(images)
    x, channel = layers.ChannelAttention(reduction=1, pools=("max", "average"))(
        x, return_attention_scores=True
    )
    x, spatial = layers.SpatialAttention(kernel_size=3)(x, return_attention_scores=True)
    x, what, where = layers.CBAM(reduction=2, kernel_size=5)(x, return_attention_scores=True)
    cnn = models.small_cnn_encoder(8, (4, 4), "cbam", reduction=2, kernel_size=3)
    patches = models.patch_encoder(
        8, 4, num_layers=1, dim=D, num_heads=N, intermediate_dim=F, dropout=0.0
    )
    outputs = [x, channel, spatial, what, where, cnn(images), patches(images)]
    inputs = {"images": np.random.default_rng(0).integers(0, 256, (2, 9, 6, 3)).astype("uint8")}
    return keras.Model({"images": images}, outputs), inputs


def captions():
    """Both captioners; one adds a loss."""
    regions = keras.Input((6, 5), name="regions")
    target = keras.Input((None,), dtype="int32", name="target")
    soft = models.SoftAttentionCaptionerConfig(
        11, 5, dim=D, units=6, initial_units=4, dropout=0.0, doubly_stochastic=0.3
    )
    positions = {"region_positions": "sinusoidal", "grid": (2, 3)}
    over_regions = models.TransformerCaptionerConfig(
        11, 5, num_layers=1, dim=D, num_heads=N, intermediate_dim=F, dropout=0.0, **positions
    )
    given = {"regions": regions, "target_ids": target}
    logits = [config.build()(given) for config in (soft, over_regions)]
    inputs = {
        "regions": np.random.default_rng(0).normal(size=(2, 6, 5)).astype("float32"),
        "target": np.array([[5, 3, 0, 0], [5, 8, 9, 7]], "int32"),
    }
    return keras.Model({"regions": regions, "target": target}, logits), inputs


def modern():
    """Norms without means, gates, no biases; rotary positions and ALiBi, counted and given."""
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    positions = keras.Input((None,), dtype="int32", name="positions")
    embed = layers.TokenEmbedding(11, D, name="embed")
    settings = {"normalization": "rms_norm", "gated": True, "use_bias": False, "num_kv_heads": 1}
    memory = layers.TransformerEncoder(
        1,
        N,
        intermediate_dim=F,
        positions="rotary",
        normalize_first=True,
        activation="silu",
        **settings,
    )(embed(source))
    y = layers.InputEmbedding(11, D, num_segments=2, sequence_length=9)(target, target % 2)
    y = layers.DecoderBlock(N, intermediate_dim=F, positions="rotary")(y, positions=positions)
    y, own, cross = layers.TransformerDecoder(
        1, N, intermediate_dim=F, positions="alibi", rematerialize=True, **settings
    )(y, memory, positions=positions, return_attention_scores=True)
    y = layers.MultiHeadSelfAttention(N, positions="alibi")(layers.RMSNormalization()(y))
    y = layers.FeedForward(F, activation="gelu", gated=True)(y)
    heads = layers.RotaryEmbedding(base=100.0)(keras.ops.expand_dims(y, 2), positions=positions)
    given = {"source": source, "target": target, "positions": positions}
    inputs = {
        "source": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], "int32"),
        "target": np.array([[5, 3, 0, 0], [5, 8, 9, 7]], "int32"),
        "positions": np.array([[0, 1, 2, 3], [7, 9, 1000, 3]], "int32"),
    }
    return keras.Model(given, [y, heads, own[0], cross[0]]), inputs


def bert():
    """Masked words at places and next sentences, with segments by a separator; tags without."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    mask = keras.Input((None,), dtype="bool", name="mask")
    places = keras.Input((2,), dtype="int32", name="places")
    sizes = {"dim": D, "num_layers": 1, "num_heads": N, "intermediate_dim": F}
    rates = {"dropout": 0.0, "attention_dropout": 0.0}
    config = models.BertConfig(11, **sizes, **rates, sequence_length=9)
    given = {"token_ids": ids, "padding_mask": mask}
    heads = ("masked_words", "next_sentence")
    found = models.with_heads(config, heads, at_positions=True)(
        {**given, "segment_ids": layers.TokenSegments(4)(ids), "masked_positions": places}
    )
    bare = dataclasses.replace(config, num_segments=None, pooler_activation=None)
    tags = models.with_heads(bare, ("tags",), 3, name="tagger")(given)
    inputs = {
        "ids": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], "int32"),
        "mask": np.arange(5) < [[5], [3]],
        "places": np.array([[1, 4], [2, 0]], "int32"),
    }
    outputs = [found[head] for head in heads] + [tags["tags"]]
    return keras.Model({x.name: x for x in (ids, mask, places)}, outputs), inputs


def entailment():
    """Two texts, one of them without a word in a row; word-by-word attention."""
    config = models.EntailmentConfig(
        11, num_classes=3, dim=D, units=6, projection_dim=5, dropout=0.0, word_dropout=0.0
    )
    inputs = {
        "premise_ids": np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [1, 2, 0, 0, 0]], "int32"),
        "hypothesis_ids": np.array([[5, 3, 0, 0], [5, 8, 9, 7], [0, 0, 0, 0]], "int32"),
    }
    return config.build(), inputs


def visual_questions():
    """Two questions about each picture, one of them without a word."""
    config = models.VisualQuestionsConfig(
        11, 3, region_dim=4, grid=(2, 3), dim=D, num_heads=N, num_layers=1, intermediate_dim=F,
        dropout=0.0, region_layers=1,
    )  # fmt: skip
    inputs = {
        "regions": np.random.default_rng(4).normal(size=(2, 6, 4)).astype("float32"),
        "question_ids": np.array([[[3, 1, 4], [1, 5, 0]], [[9, 2, 0], [0, 0, 0]]], "int32"),
    }
    return config.build(), inputs


def memory_network():
    """Sentences and words of different numbers, and a story without a sentence."""
    story = np.zeros((3, 4, 5), "int32")
    story[0, :3, :2], story[1, :, :] = [[3, 1], [4, 1], [5, 9]], 7
    story[1, 2, 1:4] = [2, 8, 1]
    inputs = {
        "story_ids": story,
        "question_ids": np.array([[5, 3, 0], [5, 8, 9], [2, 0, 0]], "int32"),
    }
    return models.MemoryNetworkConfig(11, dim=D, num_hops=2).build(), inputs


MODELS = {
    "translator": translator,
    "modern": modern,
    "layer_by_layer": layer_by_layer,
    "recurrent": recurrent,
    "pooled": pooled,
    "bag": bag,
    "pictures": pictures,
    "captions": captions,
    "bert": bert,
    "entailment": entailment,
    "visual_questions": visual_questions,
    "memory_network": memory_network,
}


def save(folder, names, trained):
    """Models, their inputs, and what TensorFlow computes; of some after a step too."""
    for name in names:
        make = MODELS[name]
        keras.utils.set_random_seed(0)
        model, inputs = make()
        rng = np.random.default_rng(1)
        for variable in model.trainable_variables:
            variable.assign(variable + 0.1 * rng.normal(size=variable.shape))
        model.save(folder / f"{name}.keras")
        model.save_weights(folder / f"{name}.weights.h5")
        arrays = {f"input {k}": v for k, v in inputs.items()}
        arrays |= {f"output {i}": v for i, v in enumerate(numpy(model(inputs)))}
        used = sorted({type(layer).__name__ for layer in model._flatten_layers()})
        found = {"layers": used}
        if name in trained:
            found["maps"] = collected(model, inputs)
            arrays |= {f"trained {i}": v for i, v in enumerate(train(model, inputs))}
        np.savez(folder / f"{name}.npz", **arrays)
        (folder / f"{name}.json").write_text(json.dumps(found))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("saved"), QUICK, CLOSELY)


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("whole"), MODELS, MODELS)


def found_here(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.slow
def test_every_layer_is_saved(whole_folder):
    used = {layer for name in MODELS for layer in found_here(whole_folder, name)["layers"]}
    named = {name for name in layers.__all__ if name[0].isupper()}
    assert named - used == {"AttentionKey", "AttentionMaps", "SequenceAttention"}  # no layers


def check(backend, folder, how):
    result = answer(backend, HERE / "backend_script.py", folder, how)
    whole = how == "whole"
    names, trained = (MODELS, MODELS) if whole else (quick_names(backend), closely(backend))
    assert result["backend"] == backend
    assert result["imported"] == []  # what `import keras` itself brings is not ours
    assert result["without tensorflow"] == (backend != "tensorflow")
    if whole or backend != "jax":
        assert result["subclassed"] < 1e-6
    assert result.get("moved", 0.0) < 1e-6
    assert set(result["predicted"]) == set(names)
    assert all(distance < 1e-5 for distance in result["predicted"].values())
    for name in trained:
        assert result["trained"][name] < 1e-5
        assert result["split"].get(name, 0.0) < 1e-5
    for name in trained if whole or backend != "jax" else ():
        assert result["outputs"][name] < 1e-5
        assert result["maps"][name] == found_here(folder, name)["maps"]
    assert list(result["split"]) == ["bag"] * ("bag" in trained)
    if whole:
        distance, moved, seeds = result["rematerialized"]
        assert distance < 1e-5 < 1e-2 < moved
        assert seeds
    for policy in POLICIES:
        if backend != "tensorflow" and (whole or policy == "mixed_float16"):
            assert result[f"nothing visible {policy}"] == {"finite": True, "zero": True}
        if whole or policy in symbolic_policies(backend):
            assert result[f"symbolic {policy}"] == [
                [None, None, 8],
                [None, None, 8],
                [None, 2, None, None],
                ["cross", "self"],
            ]


@pytest.mark.quick("jax")
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(folder, backend):
    check(backend, folder, "quick")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend_with_all_models_trained(whole_folder, backend):
    check(backend, whole_folder, "whole")


def test_training_changed_something(folder):
    """Or the comparison after training would prove nothing."""
    for name in CLOSELY:
        with np.load(folder / f"{name}.npz") as arrays:
            assert np.abs(arrays["trained 0"] - arrays["output 0"]).max() > 2e-3


REPLICA_SCRIPT = """
import json
import keras, numpy as np, tensorflow as tf
from keras_attn import layers
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
ids = np.random.default_rng(0).integers(1, 9, (8, 6)).astype("int32")
ids[:, 4:] = 0
inputs = {"ids": ids, "mask": (ids > 0).astype("int32"), "positions": ids % 6}
target = np.random.default_rng(0).normal(size=(8, 6, 4)).astype("float32")

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.TokenEmbedding(9, 4)
        self.positions = layers.LearnedPositionalEncoding(6)
        self.block = layers.TransformerEncoderBlock(2, intermediate_dim=8)
    def call(self, inputs):
        x = self.positions(self.embed(inputs["ids"]), positions=inputs["positions"])
        return self.block(x, padding_mask=inputs["mask"])

def train():
    keras.utils.set_random_seed(0)
    model = Model()
    model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=False)
    return model.fit(inputs, target, batch_size=8, epochs=3, shuffle=False, verbose=0).history
losses = train()["loss"]
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    of_two = train()["loss"]
print(json.dumps([losses, of_two]))
"""


@pytest.mark.slow
def test_two_replicas():
    """Keras builds a subclassed model with means of ids and masks, floats, there."""
    losses, of_two = answer("tensorflow", REPLICA_SCRIPT)
    np.testing.assert_allclose(of_two, losses, rtol=1e-5)
    assert losses[-1] < losses[0]

"""Every layer, block and stack keeps the contracts."""

import dataclasses
import inspect

import keras
import numpy as np
import pytest
from harness import CHECKS, CHECKS_OF_VARIANTS, SLOW_CHECKS, run_layer_test
from harness_case import LayerCase

from keras_attn import layers, models

N, D = 2, 8
X = {"x": ("T", D)}
TWO = {"query": ("T", D), "value": ("S", 6)}
MEMORY = {"x": ("T", D), "memory": ("S", 6)}
SELF, CROSS = ("x", "x", N), ("x", "memory", N)
BLOCK = {"num_heads": N, "intermediate_dim": 12}
STACK = {"num_layers": 2, **BLOCK}
LLAMA = {
    "normalization": "rms_norm", "gated": True, "activation": "silu", "use_bias": False,
    "positions": "rotary", "num_kv_heads": 1, "normalize_first": True,
}  # fmt: skip
T5 = {
    "positions": "relative", "num_buckets": 4, "max_distance": 5, "scale": 1.0, "use_bias": False,
    "sliding_window": 3, "activation": "gelu_tanh",
}  # fmt: skip


@keras.saving.register_keras_serializable(package="tests")
def nearer(scores, head, query, key):
    """A function of scores: near keys count more, in each head otherwise."""
    distance = keras.ops.cast(keras.ops.abs(query - key) * (1 + head), scores.dtype)
    return scores * 1.5 - 0.3 * distance


@keras.saving.register_keras_serializable(package="tests")
def even(head, query, key):
    """A function of visibility that shows each query itself."""
    return (query - key + head) % 2 == head % 2


GEMMA = {
    "softcap": 1.5, "qk_norm": "rms_norm", "sandwich_norm": True, "window_blocks": 2,
    "sliding_window": 2, "sink_tokens": 1, "positions": "rotary", "window_rotary_base": 50.0,
    "normalize_first": True, "attention_sinks": True, "normalization": "rms_norm",
}  # fmt: skip


def make(cls, **settings):
    return lambda **kwargs: cls(**settings, **kwargs)


def self_attention(**settings):
    return LayerCase(
        make(layers.MultiHeadSelfAttention, num_heads=N, **settings),
        X,
        masks={"x": "mask"},
        hides=("x",),
        attention_mask=SELF,
        scores=(SELF,),
        causal={"use_causal_mask": True},
        partial_weights=settings.get("attention_sinks", False),
        repeats=True,
    )


def by_chunks(case):
    """Of an attention layer made with `attention_kernel="chunked"`: it has no scores."""
    return dataclasses.replace(case, scores=())


def one_head(projection, repeats=True, **settings):
    return LayerCase(
        make(layers.SelfAttention, projection=projection, **settings),
        X,
        masks={"x": "mask"},
        hides=("x",),
        attention_mask=("x", "x", 1),
        scores=(("x", "x", 0),),
        causal={"use_causal_mask": True},
        repeats=repeats,
    )


def attention(inputs=TWO, **settings):
    return LayerCase(
        make(layers.MultiHeadAttention, num_heads=N, **settings),
        inputs,
        masks={"query": "query_mask", "value": "value_mask"},
        hides=("value",),
        attention_mask=("query", "value", N),
        scores=(("query", "value", N),),
        causal={"use_causal_mask": True},
        partial_weights=settings.get("attention_sinks", False),
        repeats=True,
    )


def additive(inputs=TWO, units=7, **settings):
    return LayerCase(
        make(layers.AdditiveAttention, units=units, **settings),
        inputs,
        masks={"query": "query_mask", "value": "value_mask"},
        hides=("value",),
        # Padding has no position in a window; what `attention_mask` hides has one.
        attention_mask=None if "window" in settings else ("query", "value", 1),
        scores=(("query", "value", 0),),
    )


def luong(score, width=6, **settings):
    return LayerCase(
        make(layers.LuongAttention, score=score, **settings),
        {"query": ("T", width), "value": ("S", 6)},
        masks={"query": "query_mask", "value": "value_mask"},
        hides=("value",),
        attention_mask=None if "window" in settings else ("query", "value", 1),
        scores=(("query", "value", 0),),
        partial_weights="predictive" in settings.values(),
    )


def recurrent_decoder(cell, attention=(), inputs=MEMORY, **settings):
    """`cell` and `attention` make theirs of a dtype."""

    def make_one(dtype=None, **kwargs):
        made = [a(dtype=dtype) for a in attention]
        return layers.AttentionDecoder(cell(dtype), made or None, dtype=dtype, **settings, **kwargs)

    has_memory = "memory" in inputs
    return LayerCase(
        make_one,
        inputs,
        masks={"x": "padding_mask", **({"memory": "memory_mask"} if has_memory else {})},
        hides=("x", "memory") if has_memory else ("x",),
        scores=(("x", "memory", 0),) * len(attention),
        causal={},
        loops=True,
    )


def recurrent_encoder(**settings):
    return LayerCase(
        make(layers.RecurrentEncoder, units=4, **settings),
        X,
        masks={"x": "padding_mask"},
        hides=("x",),
        repeats=True,
        loops=True,
    )


def word_by_word(**settings):
    return LayerCase(
        make(layers.WordByWordAttention, units=7, **settings),
        TWO,
        masks={"query": "query_mask", "value": "value_mask"},
        hides=("query", "value"),
        scores=(("query", "value", 0),),
        causal={},
        loops=True,
    )


def gru_cell(dtype):
    return keras.layers.GRUCell(6, dropout=0.1, recurrent_dropout=0.1, seed=1, dtype=dtype)


def two_cells(dtype):
    return [keras.layers.GRUCell(5, dtype=dtype), keras.layers.LSTMCell(6, dtype=dtype)]


def block(cls, inputs=X, scores=(SELF,), **settings):
    decodes = cls in (layers.DecoderBlock, layers.TransformerDecoder)
    return LayerCase(
        make(cls, **settings),
        inputs,
        masks={"x": "padding_mask", "memory": "memory_mask"}
        if "memory" in inputs
        else {"x": "padding_mask"},
        hides=tuple(inputs),
        attention_mask=SELF,
        scores=scores,
        causal={} if decodes else {"use_causal_mask": True},
        partial_weights=settings.get("attention_sinks", False),
        repeats=True,
    )


def plain(cls, inputs=X, **settings):
    return LayerCase(make(cls, **settings), inputs, masks={"x": "mask"}, repeats=len(X["x"]) == 2)


def pooling(cls, hides=("x",), scores=(), **settings):
    return LayerCase(
        make(cls, **settings),
        X,
        masks={"x": "mask"},
        hides=hides,
        scores=scores,
        role="pooling",
        keeps_mask=False,
        pools=True,
    )


def image(cls, channels=D, **settings):
    return LayerCase(make(cls, **settings), {"x": ("T", 5, channels)}, masks={}, keeps_mask=False)


def token_weighting(**settings):
    return LayerCase(
        make(layers.TokenWeighting, vocabulary_size=11, **settings),
        {"x": ("T", D), "token_ids": ("T",)},
        masks={"x": "mask"},
        hides=("x",),
        scores=((None, "x", 0),),
        role="weighting",
        normalized=False,
    )


CASES = {
    "self_attention": self_attention(),
    "self_attention_grouped": self_attention(
        num_kv_heads=1, key_dim=3, value_dim=5, use_bias=False, scale=0.3, attention_dropout=0.1
    ),
    "self_attention_low_rank": self_attention(value_rank=2),
    "self_attention_low_rank_grouped": self_attention(
        num_kv_heads=1, key_dim=3, value_dim=5, value_rank=3, use_bias=False, attention_dropout=0.1
    ),
    "self_attention_rotary": self_attention(positions="rotary", num_kv_heads=1),
    "self_attention_alibi": self_attention(positions="alibi", attention_dropout=0.1),
    "self_attention_relative": self_attention(
        positions="relative", num_buckets=4, max_distance=5, num_kv_heads=1
    ),
    "self_attention_window": self_attention(sliding_window=3),
    "self_attention_scores": self_attention(
        qk_norm="layer_norm", softcap=1.5, attention_sinks=True, sliding_window=3, sink_tokens=1,
        attention_dropout=0.1, score_mod=nearer, mask_mod=even, num_kv_heads=1,
    ),
    "self_attention_scores_chunked": by_chunks(
        self_attention(
            attention_kernel="chunked", qk_norm="rms_norm", softcap=1.5, attention_sinks=True,
            sliding_window=3, sink_tokens=1, score_mod=nearer, mask_mod=even, num_kv_heads=1,
        )
    ),
    "attention_scores": attention(
        qk_norm="rms_norm", softcap=1.5, attention_sinks=True, num_kv_heads=1
    ),
    "self_attention_chunked": by_chunks(
        self_attention(attention_kernel="chunked", num_kv_heads=1, value_dim=5)
    ),
    "one_head_bare": one_head(None, scale=1.0),
    "one_head_shared": one_head("shared", attention_dropout=0.1, seed=3),
    "one_head_separate": one_head("separate", repeats=False, units=5, use_bias=True),
    "attention": attention(),
    "attention_grouped": attention(
        num_kv_heads=1, key_dim=3, value_dim=5, attention_dropout=0.1, seed=3,
        kernel_regularizer="l2", bias_regularizer="l1", kernel_constraint="non_neg",
    ),
    "attention_low_rank": attention(num_kv_heads=1, key_dim=3, value_dim=5, value_rank=2),
    "attention_key": attention({**TWO, "key": ("S", 3)}),
    "attention_chunked": by_chunks(attention(attention_kernel="chunked")),
    "additive": additive(),
    "additive_key": additive({**TWO, "key": ("S", 3)}, use_bias=True, attention_dropout=0.1),
    "additive_bare": additive({"query": ("T", 6), "value": ("S", 6)}, units=None),
    "additive_local": additive(normalize=True, use_bias=True, window="monotonic", window_size=3),
    "luong_dot": luong("dot", attention_dropout=0.1),
    "luong_general": luong("general", width=D, window="monotonic", window_size=4),
    "luong_concat": luong("concat", width=D, units=3, seed=2),
    "luong_scaled": luong("scaled", window="predictive", window_size=3),
    "recurrent_decoder": recurrent_decoder(
        gru_cell,
        [make(layers.AdditiveAttention, units=7)],
        order="bahdanau",
        input_feeding=True,
        attention_units=5,
        activation="relu",
        bridge=True,
        summary="ends",
        dropout=0.1,
    ),
    "recurrent_decoder_two": recurrent_decoder(
        two_cells,
        [
            make(layers.LuongAttention, score="dot", window="monotonic", window_size=3),
            make(layers.AdditiveAttention, units=7, normalize=True),
        ],
        bridge=True,
    ),
    "recurrent_decoder_gated": recurrent_decoder(
        two_cells,
        [
            make(layers.AdditiveAttention, units=7, use_bias=True),
            make(layers.LuongAttention, score="general"),
        ],
        order="bahdanau",
        attention_units=D,
        activation=None,
        bridge=True,
        bridge_units=3,
        context_gate=True,
        add_input=True,
    ),
    "recurrent_decoder_fixed": recurrent_decoder(two_cells, summary="last", bridge=True),
    "recurrent_decoder_alone": recurrent_decoder(two_cells, inputs=X, seed=1),
    "recurrent_encoder": recurrent_encoder(),
    "recurrent_encoder_deep": recurrent_encoder(
        num_layers=2, cell="lstm", dropout=0.1, recurrent_dropout=0.1, seed=3
    ),
    "recurrent_encoder_forward": LayerCase(
        make(layers.RecurrentEncoder, units=4, bidirectional=False),
        X,
        masks={"x": "padding_mask"},
        hides=("x",),
        causal={},
        loops=True,
    ),
    "word_by_word": word_by_word(),
    "positions": plain(layers.PositionalEncoding),
    "positions_odd": plain(layers.PositionalEncoding, {"x": ("T", 7)}, max_wavelength=100.0),
    "learned_positions": plain(layers.LearnedPositionalEncoding, sequence_length=9),
    "grid_positions": plain(layers.GridPositionalEncoding, columns=3),
    "feed_forward": plain(
        layers.FeedForward, intermediate_dim=12, activation="gelu", dropout=0.1, seed=1
    ),
    "feed_forward_gated": plain(
        layers.FeedForward, intermediate_dim=12, activation="silu", dropout=0.1, gated=True
    ),
    "feed_forward_no_bias": plain(layers.FeedForward, intermediate_dim=12, use_bias=False),
    "dropout": plain(layers.Dropout, rate=0.3, seed=1),
    "layer_normalization": plain(layers.LayerNormalization, epsilon=1e-5),
    "rms_normalization": plain(layers.RMSNormalization, epsilon=1e-5),
    "rotary": plain(layers.RotaryEmbedding, {"x": ("T", 3, 6)}, base=100.0),
    "input_embedding": LayerCase(
        make(layers.InputEmbedding, vocabulary_size=11, dim=8, num_segments=2, sequence_length=9),
        {"x": ("T",)},
        masks={"x": "mask"},
    ),
    "input_embedding_sinusoidal": LayerCase(
        make(
            layers.InputEmbedding, vocabulary_size=11, dim=8, positions="sinusoidal",
            normalize=False, scale=True,
        ),
        {"x": ("T",)},
        masks={"x": "mask"},
    ),
    "embedding": LayerCase(
        make(layers.TokenEmbedding, vocabulary_size=11, dim=6), {"x": ("T",)}, masks={"x": "mask"}
    ),
    "tied_output": LayerCase(
        make(layers.TokenEmbedding, vocabulary_size=11, dim=8, mask_zero=False, scale=False),
        X,
        masks={"x": "mask"},
        call={"reverse": True},
    ),
    "average_pooling": pooling(layers.MaskedAveragePooling),
    "average_pooling_sqrtn": pooling(layers.MaskedAveragePooling, combiner="sqrtn"),
    "max_pooling": pooling(layers.MaskedMaxPooling),
    "first_token_pooling": pooling(layers.FirstTokenPooling, hides=()),
    "final_states_pooling": pooling(layers.FinalStatesPooling),
    "attention_pooling": pooling(
        layers.AttentionPooling, scores=((None, "x", 0),), units=5, attention_dropout=0.1, seed=3
    ),
    "attention_pooling_dot": pooling(
        layers.AttentionPooling, scores=((None, "x", 0),), score="dot"
    ),
    "token_weighting": token_weighting(),
    "token_weighting_softplus": token_weighting(
        initial=np.linspace(0.5, 2, 11), activation="softplus"
    ),
    "token_pairs": LayerCase(
        make(layers.HashedTokenPairs, num_buckets=50, seed=2),
        {"token_ids": ("T",)},
        masks={"token_ids": "mask"},
        hides=("token_ids",),
        keeps_mask=False,
        output_dtype="int32",
    ),
    "token_segments": LayerCase(
        make(layers.TokenSegments, separator_id=7),
        {"token_ids": ("T",)},
        masks={"token_ids": "mask"},
        hides=("token_ids",),
        keeps_mask=False,
        output_dtype="int32",
    ),
    "encoder_block": block(layers.TransformerEncoderBlock, **BLOCK),
    "encoder_block_pre": block(
        layers.TransformerEncoderBlock, **BLOCK, normalize_first=True, num_kv_heads=1, key_dim=3,
        dropout=0.1, attention_dropout=0.1, activation="gelu", seed=1,
        kernel_regularizer=keras.regularizers.L1L2(0.1, 0.2), bias_constraint="max_norm",
    ),
    "encoder_block_low_rank": block(layers.TransformerEncoderBlock, **BLOCK, value_rank=2),
    "encoder_block_llama": block(layers.TransformerEncoderBlock, **BLOCK, **LLAMA),
    "encoder_block_t5": block(layers.TransformerEncoderBlock, **BLOCK, **T5),
    "decoder_block": block(layers.DecoderBlock, MEMORY, (SELF, CROSS), **BLOCK),
    "decoder_block_pre": block(
        layers.DecoderBlock, MEMORY, (SELF, CROSS), **BLOCK, normalize_first=True, dropout=0.1
    ),
    "decoder_block_alone": block(layers.DecoderBlock, **BLOCK, normalize_first=True),
    "decoder_block_low_rank": block(
        layers.DecoderBlock, MEMORY, (SELF, CROSS), **BLOCK, value_rank=3
    ),
    "decoder_block_alibi": block(
        layers.DecoderBlock, MEMORY, (SELF, CROSS), **BLOCK, positions="alibi", dropout=0.1
    ),
    "encoder": block(layers.TransformerEncoder, X, (SELF, SELF), **STACK),
    "encoder_pre": block(
        layers.TransformerEncoder, X, (SELF, SELF), **STACK, normalize_first=True, seed=5
    ),
    "encoder_rematerialized": block(
        layers.TransformerEncoder, X, (SELF, SELF), **STACK, dropout=0.1, rematerialize=True
    ),
    "decoder": block(layers.TransformerDecoder, MEMORY, (SELF, SELF, CROSS, CROSS), **STACK),
    "decoder_alone": block(
        layers.TransformerDecoder, X, (SELF, SELF), **STACK, normalize_first=True
    ),
    "decoder_t5": block(
        layers.TransformerDecoder, MEMORY, (SELF, SELF, CROSS, CROSS), **STACK, **T5,
        normalize_first=True, output_scale=0.5,
    ),
    "encoder_local": block(
        layers.TransformerEncoder, X, (SELF, SELF), **STACK, normalize_first=True, norm_bias=False,
        first_norm=False, sliding_window=2, window_blocks=[False, True], positions="rotary",
    ),
    "decoder_gemma": block(
        layers.TransformerDecoder, MEMORY, (SELF, SELF, CROSS, CROSS), **STACK, **GEMMA,
        score_mod=nearer,
    ),
    "decoder_llama": block(
        layers.TransformerDecoder, MEMORY, (SELF, SELF, CROSS, CROSS), **STACK, **LLAMA,
        attention_dropout=0.1, rematerialize=True,
    ),
}  # fmt: skip

IMAGE_CASES = {
    "channel_attention": image(layers.ChannelAttention, reduction=2),
    "channel_attention_two": image(
        layers.ChannelAttention, reduction=3, activation="gelu", pools=("max", "average")
    ),
    "spatial_attention": image(layers.SpatialAttention, kernel_size=3, use_bias=True),
    "cbam": image(layers.CBAM, reduction=4, kernel_size=5),
    "image_preprocessing": image(
        layers.ImagePreprocessing, channels=3, image_size=(3, 6), scaling="caffe"
    ),
}


LOSS_CASES = {
    "doubly_stochastic": LayerCase(
        make(layers.DoublyStochasticLoss, weight=0.3),
        {"x": ("T", D), "attention_weights": ("T", 5)},
        masks={"x": "padding_mask"},
    )
}


# Their layers go through these checks on their own; "saving" makes symbolic calls too, and
# "nothing_visible" has every dtype.
SLOW_PAIRS = {
    "decoder": (
        "symbolic", "models_masks", "lost_masks", "accepted_masks", "dtypes", "empty",
        "nothing_visible", "saving",
    ),
    "encoder": (
        "symbolic", "models_masks", "lost_masks", "accepted_masks", "dtypes", "nothing_visible",
        "saving",
    ),
    "encoder_block": ("models_masks",),
    "decoder_block": ("models_masks", "lost_masks", "symbolic", "saving", "accepted_masks"),
    "recurrent_decoder": (
        "models_masks", "lost_masks", "symbolic", "dtypes", "saving", "implicit_masks",
        "accepted_masks", "nothing_visible",
    ),
    "recurrent_encoder": (
        "models_masks", "symbolic", "dtypes", "saving", "implicit_masks", "nothing_visible",
    ),
    "word_by_word": ("models_masks", "symbolic", "saving", "lost_masks"),
}  # fmt: skip
# Their settings are tried in other layers or blocks too, or by the tests of these settings.
SLOW_VARIANTS = (
    "attention_scores",
    "self_attention_scores_chunked",
    "decoder_llama",
    "recurrent_decoder_gated",
    "encoder_local",
    "decoder_gemma",
    "self_attention_chunked",
    "attention_chunked",
    "encoder_rematerialized",
    "recurrent_encoder_deep",
    "decoder_t5",
    "decoder_alone",
    "encoder_pre",
    "decoder_block_pre",
    "decoder_block_low_rank",
    "encoder_block_pre",
    "recurrent_decoder_two",
    "recurrent_decoder_alone",
    "self_attention_low_rank",
    "self_attention_grouped",
    "attention_low_rank",
)


# One thing makes these right for all layers.
QUICK_ONLY = {
    "frozen": ("feed_forward", "encoder"),
    "models_masks": ("self_attention", "additive", "attention_pooling", "token_weighting"),
    "saving_in_a_subclass": ("attention", "encoder", "token_weighting", "input_embedding"),
}


def pairs():
    """All checks for the first case of a class; of its variants the others are slow."""
    seen = set()
    for name, case in CASES.items():
        cls = type(case.make())
        first = cls not in seen
        seen.add(cls)
        for check in CHECKS:
            quick = (first or check in CHECKS_OF_VARIANTS) and check not in SLOW_CHECKS
            quick &= check == "config" or name not in SLOW_VARIANTS
            quick &= check not in SLOW_PAIRS.get(name, ())
            quick &= name in QUICK_ONLY.get(check, (name,))
            if first and check == "attention_mask":
                continue  # within "accepted_masks"
            marks = [] if quick else [pytest.mark.slow]
            yield pytest.param(name, check, marks=marks, id=f"{name}-{check}")


@pytest.mark.parametrize(("case", "check"), list(pairs()))
def test_contract(case, check, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_attn.ops.chunked_attention.CHUNK", 2)
    run_layer_test(CASES[case], tmp_path, only=(check,))


@pytest.mark.quick(slow=["channel_attention_two"])
@pytest.mark.parametrize("case", IMAGE_CASES)
def test_an_image_layer(case, tmp_path):
    """A picture has no masks and no padding."""
    run_layer_test(IMAGE_CASES[case], tmp_path, skip=("models_masks", "padding"))


@pytest.mark.parametrize("case", LOSS_CASES)
def test_a_layer_that_adds_a_loss(case, tmp_path):
    """Its output says nothing of what the loss is of: gradients are tested with the layer."""
    run_layer_test(LOSS_CASES[case], tmp_path, skip=("dtypes",))


MODEL_CHECKS = ("config", "dtypes", "empty", "saving")
MASK_CHECKS = (
    "accepted_masks", "refused_masks", "implicit_masks", "models_masks", "nothing_visible",
)  # fmt: skip
OTHER_CHECKS = tuple(name for name in CHECKS if name not in (*MODEL_CHECKS, *MASK_CHECKS))
IN_TWO = pytest.mark.parametrize("checks", [MODEL_CHECKS, OTHER_CHECKS], ids=["some", "others"])

TRANSFORMER = models.TransformerEncoderDecoderConfig(
    11, num_layers=1, dim=D, num_heads=N, intermediate_dim=12, normalize_first=False
)
RECURRENT = models.RecurrentEncoderDecoderConfig(11, dim=D, units=6)


@pytest.mark.slow
@pytest.mark.parametrize("config", [TRANSFORMER, RECURRENT], ids=["transformer", "rnn"])
@IN_TWO
def test_a_model(config, checks, tmp_path):
    """Of an encoder and a decoder; its masks are those of its embeddings."""
    case = LayerCase(
        lambda dtype=None, name="model": config.build(dtype, name),
        {"target_ids": ("T",), "source_ids": ("S",)},
        masks={},
        as_dict=True,
    )
    empty = ("empty", "no_rows") if config is BIDIRECTIONAL else ()  # Keras' layers cannot
    run_layer_test(case, tmp_path, skip=empty, only=checks)


SEEN = {"vocabulary_size": 11, "region_dim": 6, "dim": D}
SOFT = models.SoftAttentionCaptionerConfig(**SEEN, units=5, dropout=0.1)
OVER_REGIONS = models.TransformerCaptionerConfig(
    **SEEN, num_layers=1, num_heads=N, intermediate_dim=12, region_positions="none"
)


@pytest.mark.slow
@pytest.mark.parametrize("config", [SOFT, OVER_REGIONS], ids=models.CAPTIONERS.name_of)
def test_a_captioner(config, tmp_path):
    """Its masks are made of its ids; regions have none, and are never padding."""
    case = LayerCase(
        lambda dtype=None, name="model": config.build(dtype, name),
        {"target_ids": ("T",), "regions": ("S", 6)},
        masks={},
        as_dict=True,
    )
    no_rows = ("no_rows",) if config is SOFT else ()  # Keras' recurrent cells cannot
    run_layer_test(case, tmp_path, skip=(*MASK_CHECKS, "padding", *no_rows))


# Without the dropout of words, whose config in Keras has a tuple that JSON makes a list.
TEXT = {"vocabulary_size": 11, "num_classes": 3, "dim": D, "word_dropout": 0.0}
BAG = models.BagClassifierConfig(**TEXT, pair_buckets=20, hidden_dim=5)
BIDIRECTIONAL = models.RecurrentClassifierConfig(**TEXT, units=6)
ENCODER = models.TransformerClassifierConfig(
    **TEXT, num_layers=1, num_heads=N, intermediate_dim=12, positions="learned"
)


KIND = models.TEXT_CLASSIFIERS.name_of


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [BAG, BIDIRECTIONAL, ENCODER],
    ids=KIND,
)
@IN_TWO
def test_a_text_classifier(config, checks, tmp_path):
    """Its masks are made of its ids."""
    case = LayerCase(
        lambda dtype=None, name="model": config.build(dtype, name),
        {"token_ids": ("T",)},
        masks={},
        keeps_mask=False,
        pools=True,
    )
    empty = ("empty", "no_rows") if config is BIDIRECTIONAL else ()  # Keras' layers cannot
    run_layer_test(case, tmp_path, skip=empty, only=checks)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["dot", "linear", "uniform"])
def test_a_memory_network(attention, tmp_path):
    """Its masks are made of its ids, of words and of whole sentences."""
    config = models.MemoryNetworkConfig(11, dim=D, attention=attention)
    case = LayerCase(
        lambda dtype=None, name="model": config.build(dtype, name),
        {"story_ids": ("S", "T"), "question_ids": ("T",)},
        masks={},
        as_dict=True,
        keeps_mask=False,
        pools=True,
    )
    run_layer_test(case, tmp_path, skip=MASK_CHECKS)


def test_every_layer_is_there():
    public = {
        cls
        for name in layers.__all__
        if inspect.isclass(cls := getattr(layers, name)) and issubclass(cls, keras.layers.Layer)
    }
    abstract = {layers.SequenceAttention}
    cases = {**CASES, **IMAGE_CASES, **LOSS_CASES}
    assert public - abstract == {type(case.make()) for case in cases.values()}

"""The weights of BERT and its successors: our names and Hugging Face's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keras_attn.interop.modern_bert_settings import KIND as MODERN_BERT
from keras_attn.interop.weights import Weight
from keras_attn.models import BertConfig

TOKENS = "embedding/tokens/embedding/embeddings"
OUTPUT_BIAS = "embedding/tokens/bias"


class Names(NamedTuple):
    """The Hugging Face names of the layers of a kind of encoder."""

    prefix: str
    """Prefix of the names of the encoder in a model with a head."""
    block: str
    """Prefix of the names of a block."""
    dense: dict[str, tuple[str, ...]]
    """The dense layers of a block."""
    norms: dict[str, str]
    """The norms of a block."""
    parts: dict[str, str]
    """The layers after the blocks."""
    bias: str
    """The bias of the logits of tokens."""
    decoder: str
    """The layer that computes the logits of tokens; its matrix is the embedding."""


_WITH_SEGMENTS = ("bert", "roberta")
_HEADS = {"classes": "classifier", "tags": "classifier", "spans": "qa_outputs"}
NAMES = {
    "bert": Names(
        "bert.",
        "encoder.layer.{}.",
        {
            "self_attention/qkv": (
                "attention.self.query", "attention.self.key", "attention.self.value",
            ),
            "self_attention/output": ("attention.output.dense",),
            "feed_forward/hidden": ("intermediate.dense",),
            "feed_forward/output": ("output.dense",),
        },
        {
            "self_attention_norm": "attention.output.LayerNorm",
            "feed_forward_norm": "output.LayerNorm",
        },
        {
            "pooler": "pooler.dense",
            "masked_words": "cls.predictions.transform.dense",
            "masked_words_norm": "cls.predictions.transform.LayerNorm",
            "next_sentence": "cls.seq_relationship",
            **_HEADS,
        },
        "cls.predictions.bias",
        "cls.predictions.decoder",
    ),
    "distilbert": Names(
        "distilbert.",
        "transformer.layer.{}.",
        {
            "self_attention/qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "self_attention/output": ("attention.out_lin",),
            "feed_forward/hidden": ("ffn.lin1",),
            "feed_forward/output": ("ffn.lin2",),
        },
        {"self_attention_norm": "sa_layer_norm", "feed_forward_norm": "output_layer_norm"},
        {
            "pooler": "pre_classifier",
            "masked_words": "vocab_transform",
            "masked_words_norm": "vocab_layer_norm",
            **_HEADS,
        },
        "vocab_projector.bias",
        "vocab_projector",
    ),
}  # fmt: skip
"""The names of each kind of model."""
NAMES["roberta"] = NAMES["bert"]._replace(
    prefix="roberta.",
    parts={
        "pooler": "pooler.dense",
        "pooler of classes": "classifier.dense",
        "masked_words": "lm_head.dense",
        "masked_words_norm": "lm_head.layer_norm",
        **_HEADS,
        "classes": "classifier.out_proj",
    },
    bias="lm_head.bias",
    decoder="lm_head.decoder",
)
NAMES[MODERN_BERT] = Names(
    "model.",
    "layers.{}.",
    {
        "self_attention/qkv": ("attn.Wqkv",),
        "self_attention/output": ("attn.Wo",),
        "feed_forward/hidden": ("mlp.Wi",),
        "feed_forward/output": ("mlp.Wo",),
    },
    {"self_attention_norm": "attn_norm", "feed_forward_norm": "mlp_norm"},
    {
        "pooler": "head.dense",
        "pooler_norm": "head.norm",
        "masked_words": "head.dense",
        "masked_words_norm": "head.norm",
        **dict.fromkeys(("classes", "tags", "spans"), "classifier"),
    },
    "decoder.bias",
    "decoder",
)
WORDS = {
    **dict.fromkeys(NAMES, "embeddings.word_embeddings.weight"),
    MODERN_BERT: "embeddings.tok_embeddings.weight",
}
"""The table of the tokens of each kind."""
IGNORED = "embeddings.position_ids"


def plain_name(kind: str, name: str) -> str:
    """Returns the name of a stored tensor without the encoder's prefix and in the newer form."""
    name = name.removeprefix(NAMES[kind].prefix)
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def encoder_weights(config: BertConfig, kind: str) -> Iterator[Weight]:
    """Yields the `Weight`s of the embeddings and of each block of an encoder."""
    names, dim = NAMES[kind], config.dim
    if kind == MODERN_BERT:
        yield from _modern_bert_weights(config)
        return
    yield Weight(TOKENS, (WORDS[kind],), (config.vocabulary_size, dim))
    if kind in _WITH_SEGMENTS and config.num_segments is not None:
        theirs = ("embeddings.token_type_embeddings.weight",)
        yield Weight("embedding/segments/embeddings", theirs, (config.num_segments, dim))
    theirs = ("embeddings.position_embeddings.weight",)
    rows = config.sequence_length + (config.first_position or 0)
    yield Weight("embedding/positions/embedding/embeddings", theirs, (rows, dim))
    yield from _norm("embedding/norm", "embeddings.LayerNorm", dim)
    widths = {
        "feed_forward/hidden": (config.intermediate_dim, dim),
        "feed_forward/output": (dim, config.intermediate_dim),
    }
    for number in range(config.num_layers):
        start = names.block.format(number)
        ours = f"encoder/block_{number}"
        for part, layers in names.dense.items():
            several = tuple(f"{start}{layer}" for layer in layers)
            yield from _dense(f"{ours}/{part}", several, *widths.get(part, (dim, dim)))
        for part, layer in names.norms.items():
            yield from _norm(f"{ours}/{part}", f"{start}{layer}", dim)


def _modern_bert_weights(config: BertConfig) -> Iterator[Weight]:
    """No layer has a bias, and the first block no norm before its attention."""
    names, dim = NAMES[MODERN_BERT], config.dim
    yield Weight(TOKENS, (WORDS[MODERN_BERT],), (config.vocabulary_size, dim))
    yield from _norm("embedding/norm", "embeddings.norm", dim, False)
    sizes = {
        "self_attention/qkv": (3 * dim, dim),
        "self_attention/output": (dim, dim),
        "feed_forward/hidden": (2 * config.intermediate_dim, dim),
        "feed_forward/output": (dim, config.intermediate_dim),
    }
    for number in range(config.num_layers):
        ours, theirs = f"encoder/block_{number}", names.block.format(number)
        for part, (layer,) in names.dense.items():
            yield from _dense(f"{ours}/{part}", (f"{theirs}{layer}",), *sizes[part], False)
        for part, layer in names.norms.items():
            if number or part != "self_attention_norm":
                yield from _norm(f"{ours}/{part}", f"{theirs}{layer}", dim, False)
    yield from _norm("encoder/norm", "final_norm", dim, False)


def part_weights(
    config: BertConfig, kind: str, part: str, num_classes: int | None = None
) -> list[Weight]:
    """Returns the `Weight`s of the pooler or of a head, given by its name `part`."""
    names, dim = NAMES[kind], config.dim
    ours, theirs = part.removesuffix(" of classes"), (names.parts[part],)
    units = {
        "pooler": dim, "masked_words": dim, "next_sentence": 2, "spans": 2,
        "classes": num_classes or 0, "tags": num_classes or 0,
    }  # fmt: skip
    bias = config.head_bias or ours not in ("pooler", "masked_words")
    found = list(_dense(ours, theirs, units[ours], dim, bias))
    if f"{ours}_norm" in names.parts:
        found += _norm(f"{ours}_norm", names.parts[f"{ours}_norm"], dim, bias)
    if part == "masked_words":
        found.append(Weight(OUTPUT_BIAS, (names.bias,), (config.vocabulary_size,)))
    return found


def pooler_part(kind: str, classes: bool) -> str:
    """Returns the name of the pooler among the parts in `NAMES`.

    RoBERTa's text classifier has its own dense layer on the first token instead of a pooler.
    """
    own = "pooler of classes"
    return own if classes and own in NAMES[kind].parts else "pooler"


def _dense(
    ours: str, theirs: tuple[str, ...], units: int, inputs: int, bias: bool = True
) -> Iterator[Weight]:
    weights = tuple(f"{name}.weight" for name in theirs)
    yield Weight(f"{ours}/kernel", weights, (units, inputs), turned=True)
    if bias:
        yield Weight(f"{ours}/bias", tuple(f"{name}.bias" for name in theirs), (units,))


def _norm(ours: str, theirs: str, dim: int, bias: bool = True) -> Iterator[Weight]:
    yield Weight(f"{ours}/gamma", (f"{theirs}.weight",), (dim,))
    if bias:
        yield Weight(f"{ours}/beta", (f"{theirs}.bias",), (dim,))

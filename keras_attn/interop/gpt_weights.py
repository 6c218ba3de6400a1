"""The weights of GPT-2 and of decoders like Llama: our names and Hugging Face's names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keras_attn.interop.weights import Weight
from keras_attn.models import GptConfig

TOKENS = "embedding/embedding/embeddings"
LLAMAS = ("llama", "qwen3", "gemma2", "gemma3_text")
"""Decoders with the names of Llama."""
PREFIXES = {"gpt2": "transformer.", **dict.fromkeys(LLAMAS, "model.")}
"""Prefixes of the names of the decoder in a model with logits."""
EMBEDDINGS = {"gpt2": "wte.weight", **dict.fromkeys(LLAMAS, "embed_tokens.weight")}
"""The table of the tokens."""
HEAD = "lm_head.weight"
"""The matrix of the logits."""
_MASKS = re.compile(
    r"h\.\d+\.attn\.(bias|masked_bias)|layers\.\d+\.self_attn\.rotary_emb\.inv_freq"
)


def plain_name(kind: str, name: str) -> str:
    """Returns the name of a stored tensor without the decoder's prefix."""
    return name.removeprefix(PREFIXES[kind])


def is_ignored(name: str) -> bool:
    """Returns whether a stored tensor is a constant, such as a causal mask, and not a weight."""
    return _MASKS.fullmatch(name) is not None


def head_weight(config: GptConfig) -> Weight:
    """Returns the `Weight` of the output layer of a decoder with an untied output."""
    return Weight("head/kernel", (HEAD,), (config.vocabulary_size, config.dim), turned=True)


def decoder_weights(config: GptConfig, kind: str) -> Iterator[Weight]:
    """Yields the `Weight`s of the embeddings and of each block of a decoder."""
    yield Weight(TOKENS, (EMBEDDINGS[kind],), (config.vocabulary_size, config.dim))
    blocks = _gpt2_block if kind == "gpt2" else _llama_block
    if kind == "gpt2":
        shape = (config.sequence_length, config.dim)
        yield Weight("positions/embedding/embeddings", ("wpe.weight",), shape)
    for number in range(config.num_layers):
        yield from blocks(config, number)
    if kind == "gpt2":
        yield from _norm("decoder/norm", "ln_f", config.dim)
    else:
        yield _rms("decoder/norm", "norm", config.dim, config)


def _gpt2_block(config: GptConfig, number: int) -> Iterator[Weight]:
    """The matrices of GPT-2 are `(inputs, outputs)`, as ours."""
    ours, theirs, dim = f"decoder/block_{number}", f"h.{number}", config.dim
    dense = {
        "self_attention/qkv": ("attn.c_attn", dim, 3 * dim),
        "self_attention/output": ("attn.c_proj", dim, dim),
        "feed_forward/hidden": ("mlp.c_fc", dim, config.intermediate_dim),
        "feed_forward/output": ("mlp.c_proj", config.intermediate_dim, dim),
    }
    for part, (layer, inputs, units) in dense.items():
        yield Weight(f"{ours}/{part}/kernel", (f"{theirs}.{layer}.weight",), (inputs, units))
        yield Weight(f"{ours}/{part}/bias", (f"{theirs}.{layer}.bias",), (units,))
    yield from _norm(f"{ours}/self_attention_norm", f"{theirs}.ln_1", dim)
    yield from _norm(f"{ours}/feed_forward_norm", f"{theirs}.ln_2", dim)


def _llama_block(config: GptConfig, number: int) -> Iterator[Weight]:
    ours, theirs, dim = f"decoder/block_{number}", f"layers.{number}", config.dim
    width = config.head_width
    heads, kv_heads = config.num_heads * width, (config.num_kv_heads or config.num_heads) * width
    hidden = config.intermediate_dim
    dense = {
        "self_attention/qkv": (
            ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            dim,
            (heads, kv_heads, kv_heads),
        ),
        "self_attention/output": (("self_attn.o_proj",), heads, (dim,)),
        "feed_forward/hidden": (("mlp.gate_proj", "mlp.up_proj"), dim, (hidden, hidden)),
        "feed_forward/output": (("mlp.down_proj",), hidden, (dim,)),
    }
    for part, (layers, inputs, rows) in dense.items():
        kernels, biases = (
            tuple(f"{theirs}.{layer}.{name}" for layer in layers) for name in ("weight", "bias")
        )
        yield Weight(f"{ours}/{part}/kernel", kernels, (rows[0], inputs), turned=True, rows=rows)
        if config.use_bias:
            yield Weight(f"{ours}/{part}/bias", biases, (rows[0],), rows=rows)
    if config.qk_norm is not None:
        for part, layer in (("query_norm", "q_norm"), ("key_norm", "k_norm")):
            yield _rms(
                f"{ours}/self_attention/{part}", f"{theirs}.self_attn.{layer}", width, config
            )
    sandwich = config.sandwich_norm
    norms = {
        "self_attention_norm": "input_layernorm",
        "feed_forward_norm": "pre_feedforward_layernorm"
        if sandwich
        else "post_attention_layernorm",
    }
    if sandwich:
        norms["self_attention_output_norm"] = "post_attention_layernorm"
        norms["feed_forward_output_norm"] = "post_feedforward_layernorm"
    for part, layer in norms.items():
        yield _rms(f"{ours}/{part}", f"{theirs}.{layer}", dim, config)


def _rms(ours: str, theirs: str, width: int, config: GptConfig) -> Weight:
    """The scale of a norm; that of Gemma is one less."""
    added = 1.0 if config.sandwich_norm else 0.0
    return Weight(f"{ours}/scale", (f"{theirs}.weight",), (width,), added=added)


def _norm(ours: str, theirs: str, dim: int) -> Iterator[Weight]:
    yield Weight(f"{ours}/gamma", (f"{theirs}.weight",), (dim,))
    yield Weight(f"{ours}/beta", (f"{theirs}.bias",), (dim,))

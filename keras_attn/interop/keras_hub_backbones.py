"""BERT and GPT-2 of KerasHub, read and made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_attn.interop.matching import decoder_tensors, encoder_tensors
from keras_attn.models import BertConfig, GptConfig, RobertaConfig
from keras_attn.packages import needed
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer

if TYPE_CHECKING:
    from keras_hub.models import BertBackbone, GPT2Backbone

Config = BertConfig | GptConfig
# What KerasHub's BertBackbone computes, whatever its settings.
_FIXED: dict[str, Any] = {
    "activation": "gelu_tanh",
    "layer_norm_epsilon": 1e-12,
    "pooler_activation": "tanh",
}
# And its GPT2Backbone.
_GPT2_FIXED: dict[str, Any] = {
    "activation": "gelu_tanh",
    "layer_norm_epsilon": 1e-5,
    "positions": "learned",
    "normalization": "layer_norm",
    "gated": False,
    "use_bias": True,
    "num_kv_heads": None,
    "key_dim": None,
    "tie_embeddings": True,
}


def to_keras_hub(model: keras.Model, config: Config) -> BertBackbone | GPT2Backbone:
    """Creates KerasHub's `BertBackbone` or `GPT2Backbone` with the weights of a model.

    A `BertBackbone` always has segments, a pooler with tanh, and norms with epsilon 1e-12. A
    `GPT2Backbone` has learned positions, norms with epsilon 1e-5, and biases, and requires a tied
    output, which KerasHub's task models compute. Both backbones use the tanh approximation of GELU,
    and a single dropout rate. Models that differ from this raise an error.

    Args:
        model: A model built by `config.build`, `keras_attn.models.with_heads` or
            `keras_attn.models.BertClassifierConfig`. Its heads are left out.
        config: The settings of the model, a `BertConfig` or a `GptConfig`.

    Returns:
        A `keras_hub.models.BertBackbone`, whose outputs `sequence_output` and `pooled_output` equal
        the outputs `sequence` and `pooled` of `model`; or a `GPT2Backbone`, whose output equals the
        last tensor of `keras_attn.models.hidden_states`.

    Raises:
        ImportError: If KerasHub is not installed.
        TypeError: If `model` is not a Keras model.
        ValueError: If KerasHub cannot express the model, or the model does not have the settings of
            `config`.

    Example:

    >>> config = BertConfig(
    ...     50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32, activation="gelu_tanh"
    ... )
    >>> to_keras_hub(config.build(), config).hidden_dim
    16
    """
    decoder = isinstance(config, GptConfig)
    name = "GPT2Backbone" if decoder else "BertBackbone"
    wrong = [
        f"{name}={getattr(config, name)!r}, not {value!r}"
        for name, value in (_GPT2_FIXED if decoder else _FIXED).items()
        if getattr(config, name) != value
    ]
    if isinstance(config, RobertaConfig):
        wrong.append("a RobertaConfig, whose positions are made of the mask")
    if isinstance(config, BertConfig) and config.num_segments is None:
        wrong.append("num_segments=None, not a number")
    if config.attention_dropout != config.dropout:
        wrong.append(f"attention_dropout={config.attention_dropout}, not {config.dropout}")
    if wrong:
        raise ValueError(
            f"KerasHub's {name} cannot express this model. Received: {'; '.join(wrong)}."
        )
    if isinstance(config, GptConfig):
        tensors = decoder_tensors(model, config)
    else:
        tensors = encoder_tensors(model, config)
    if not decoder and "pooler/kernel" not in tensors:
        raise ValueError(
            "KerasHub's BertBackbone has a pooler. Received: a model without the layer `pooler`."
        )
    backbone = getattr(_keras_hub().models, name)(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.dim,
        intermediate_dim=config.intermediate_dim,
        dropout=config.dropout,
        max_sequence_length=config.sequence_length,
        **({"num_segments": config.num_segments} if isinstance(config, BertConfig) else {}),
    )
    variables = _variables(backbone)
    for ours, theirs in _pairs(config):
        parts = np.split(tensors[ours], len(theirs), axis=-1)
        for path, part in zip(theirs, parts, strict=True):
            variables[path].assign(part.reshape(variables[path].shape))
    return backbone


def read_backbone(backbone: object) -> tuple[Config, dict[str, np.ndarray]]:
    """Returns the config of a KerasHub backbone, and its weights as float32 arrays, keyed by the
    names of `keras_attn.models.tensors.load_tensors`. Raises a TypeError for other objects."""
    expected = (
        "Expected a folder, a name on Hugging Face's hub, 'keras_hub:' and the name of a preset, "
        "or a keras_hub.models.BertBackbone or GPT2Backbone. Received: "
    )
    if not isinstance(backbone, keras.Model):
        raise TypeError(f"{expected}{type(backbone).__name__}.")
    models = _keras_hub().models
    if not isinstance(backbone, models.BertBackbone | models.GPT2Backbone):
        raise TypeError(f"{expected}a {type(backbone).__name__}.")
    settings: dict[str, Any] = {
        "dim": backbone.hidden_dim,
        "num_layers": backbone.num_layers,
        "num_heads": backbone.num_heads,
        "intermediate_dim": backbone.intermediate_dim,
        "dropout": backbone.dropout,
        "attention_dropout": backbone.dropout,
        "sequence_length": backbone.max_sequence_length,
    }
    config: Config
    if isinstance(backbone, models.GPT2Backbone):
        config = GptConfig(backbone.vocabulary_size, **settings, **_GPT2_FIXED)
    else:
        segments = backbone.num_segments
        config = BertConfig(backbone.vocabulary_size, num_segments=segments, **settings, **_FIXED)
    arrays = {
        path: np.asarray(keras.ops.convert_to_numpy(variable), np.float32)
        for path, variable in _variables(backbone).items()
    }
    tensors = {}
    for ours, theirs in _pairs(config):
        parts = [_flat(theirs[n], arrays[theirs[n]], config.dim) for n in range(len(theirs))]
        tensors[ours] = np.concatenate(parts, axis=-1)
    return config, tensors


def read_preset(
    name: str,
) -> tuple[Config, dict[str, np.ndarray], WordPieceTokenizer | BytePairTokenizer | None]:
    """Reads the config, weights and tokenizer of a KerasHub preset."""
    models = _keras_hub().models
    known = (models.BertBackbone, models.GPT2Backbone)
    try:
        backbone = models.Backbone.from_preset(name)
    except Exception as error:  # of several libraries: no network, no such name, no permission
        raise OSError(
            f"KerasHub could not load the preset {name!r}: {type(error).__name__}: "
            f"{str(error)[:300]}. Give the folder of a preset, `keras_hub:FOLDER`, which "
            "`save_to_preset` writes."
        ) from error
    if not isinstance(backbone, known):
        raise ValueError(
            f"{name!r} is not a preset of KerasHub's BertBackbone or GPT2Backbone. Received: "
            f"a preset of {type(backbone).__name__}."
        )
    return *read_backbone(backbone), _tokenizer_of(name, isinstance(backbone, known[1]))


def _tokenizer_of(name: str, decoder: bool) -> WordPieceTokenizer | BytePairTokenizer | None:
    """The tokenizer of a preset, or None if it has none."""
    models = _keras_hub().models
    try:
        kind = models.GPT2Tokenizer if decoder else models.BertTokenizer
        theirs = kind.from_preset(name)
    except (ValueError, OSError):  # a preset of the backbone alone
        return None
    if decoder:
        ids_of = theirs.vocabulary
        lines = [line for line in theirs.merges if line and not line.startswith("#version")]
        merges = [tuple(line.split(" ")) for line in lines]
        tokens = sorted(ids_of, key=ids_of.__getitem__)
        special = [theirs.end_token] * 3
        return BytePairTokenizer(tokens, merges, False, "gpt2", special)
    tokens = theirs.get_vocabulary()
    return WordPieceTokenizer(tokens, lowercase=theirs.lowercase, mask_in_text="[MASK]" in tokens)


def _pairs(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields our names, and the paths of KerasHub's variables that make them up."""
    decoder = isinstance(config, GptConfig)
    if decoder:
        stack, attention = "decoder", "self_attention"
        yield "embedding/embedding/embeddings", ("token_embedding/embeddings",)
        yield "positions/embedding/embeddings", ("position_embedding/embeddings",)
    else:
        stack, attention = "encoder", "self_attention_layer"
        yield "embedding/tokens/embedding/embeddings", ("token_embedding/embeddings",)
        yield "embedding/segments/embeddings", ("segment_embedding/embeddings",)
        yield "embedding/positions/embedding/embeddings", ("position_embedding/embeddings",)
    for name in ("gamma", "beta"):
        if decoder:
            yield f"decoder/norm/{name}", (f"layer_norm/{name}",)
        else:
            yield f"embedding/norm/{name}", (f"embeddings_layer_norm/{name}",)
    for number in range(config.num_layers):
        ours, theirs = f"{stack}/block_{number}", f"transformer_layer_{number}"
        parts = {
            "self_attention/output": f"{attention}/attention_output",
            "feed_forward/hidden": "feedforward_intermediate_dense",
            "feed_forward/output": "feedforward_output_dense",
        }
        for name in ("kernel", "bias"):
            qkv = tuple(f"{theirs}/{attention}/{part}/{name}" for part in ("query", "key", "value"))
            yield f"{ours}/self_attention/qkv/{name}", qkv
            for part, layer in parts.items():
                yield f"{ours}/{part}/{name}", (f"{theirs}/{layer}/{name}",)
        for name in ("gamma", "beta"):
            for part, layer in (
                ("self_attention_norm", "self_attention_layer_norm"),
                ("feed_forward_norm", "feedforward_layer_norm"),
            ):
                yield f"{ours}/{part}/{name}", (f"{theirs}/{layer}/{name}",)
    if not decoder:
        for name in ("kernel", "bias"):
            yield f"pooler/{name}", (f"pooled_dense/{name}",)


def _flat(path: str, array: np.ndarray, dim: int) -> np.ndarray:
    """Joins the axes of heads and their width."""
    if array.ndim == 3:  # (D, N, H) or (N, H, D)
        return array.reshape(dim, dim)
    return array.reshape(-1) if path.endswith("/bias") else array


def _variables(backbone: keras.Model) -> dict[str, Any]:
    return {variable.path: variable for variable in backbone.weights}


def _keras_hub() -> Any:
    with needed("A backbone of KerasHub"):
        import keras_hub
    return keras_hub

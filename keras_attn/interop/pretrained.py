"""Pretrained models of Hugging Face and KerasHub, loaded into ours."""

from __future__ import annotations

import dataclasses
import os

import keras

from keras_attn.hints import DType
from keras_attn.interop import bert_settings, gpt_settings, marian_files, marian_settings, t5_files
from keras_attn.interop.bert_weights import NAMES
from keras_attn.interop.ctranslate2_folders import is_ctranslate2, read_ctranslate2
from keras_attn.interop.decoder_folders import read_decoder
from keras_attn.interop.encoder_folders import POOLERS, read_encoder
from keras_attn.interop.json_files import read_object
from keras_attn.interop.keras_hub_backbones import read_backbone, read_preset
from keras_attn.interop.places import find_folder
from keras_attn.interop.pretrained_model import Pretrained, PretrainedTokenizer
from keras_attn.interop.sentence_folders import transformer_folder
from keras_attn.interop.sentence_piece_files import XLM_ROBERTA
from keras_attn.models import BertConfig, ModernBertConfig, with_heads
from keras_attn.models.tensors import LoadReport, load_tensors

KERAS_HUB = "keras_hub:"
"""Prefix of the names of KerasHub presets."""


def read_pretrained(place: str | os.PathLike[str] | keras.Model) -> Pretrained:
    """Reads a pretrained encoder, decoder or encoder-decoder: settings, tokenizer and weights.

    The files contain only data (JSON, safetensors, HDF5, and models of SentencePiece and
    CTranslate2); no code is executed. Names, shapes, dtypes and positions of the tensors are
    checked against the settings before a tensor is read. All weights become float32. BERT,
    DistilBERT, RoBERTa, XLM-RoBERTa, ModernBERT, GPT-2, Llama, Qwen 3, Gemma 2, the text models of
    Gemma 3, T5, mT5, Marian and translation models of CTranslate2 are supported. Unsupported
    settings raise an error that names them.

    Args:
        place: One of the following:
            - A folder with `config.json`, and the weights in `model.safetensors`, in several files
              with `model.safetensors.index.json`, or, for Marian, in `tf_model.h5`. The tokenizer
              is read from `vocab.txt`, `vocab.json` with `merges.txt`, `tokenizer.json`,
              `tokenizer.model`, `sentencepiece.bpe.model`, `spiece.model` (T5), or `source.spm` and
              `target.spm` (Marian), and from `tokenizer_config.json`.
            - A folder of a Transformer for CTranslate2, with `model.bin`, or a package of Argos
              Translate.
            - A name on the Hugging Face hub, such as `"google/bert_uncased_L-2_H-128_A-2"`.
            - `"keras_hub:"` and the name or folder of a KerasHub preset, such as
              `"keras_hub:bert_tiny_en_uncased"`.
            - A `keras_hub.models.BertBackbone` or `GPT2Backbone`.

    Returns:
        A `Pretrained`, with the settings, the tokenizer and the weights.

    Raises:
        FileNotFoundError: If there is no such folder, or it has no weights that can be read.
        ImportError: If `place` is a name, a preset or a backbone, and the package that loads it is
            not installed; or if the tokenizer is a SentencePiece model, and `sentencepiece` is not
            installed.
        OSError: If `place` is a name or a preset that cannot be loaded.
        TypeError: If `place` is an object of another class.
        ValueError: If a file is damaged or contradicts another file, or the model is not supported.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> save_pretrained(folder, with_heads(config, ("spans",)), config)
    >>> found = read_pretrained(folder)
    >>> found.heads, found.tensors["spans/kernel"].shape
    (('spans',), (16, 2))
    """
    if isinstance(place, str) and place.startswith(KERAS_HUB):
        config, tensors, tokenizer = read_preset(place.removeprefix(KERAS_HUB))
        return Pretrained(config, tokenizer, tensors, (), None, [])
    if not isinstance(place, str | os.PathLike):
        config, tensors = read_backbone(place)
        return Pretrained(config, None, tensors, (), None, [])
    folder = transformer_folder(find_folder(place))
    if is_ctranslate2(folder):
        return read_ctranslate2(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"Expected a folder with a config.json. Received: {folder}.")
    settings = read_object(path)
    kind = settings.get("model_type", "bert")
    kinds = (
        *bert_settings.KINDS,
        XLM_ROBERTA,
        *gpt_settings.KINDS,
        *t5_files.KINDS,
        *marian_settings.KINDS,
    )
    if kind not in kinds:
        raise ValueError(
            f"{path}: `model_type` must be one of {list(kinds)}. Received: {kind!r}. "
            "Other models cannot be loaded."
        )
    if kind in t5_files.KINDS:
        return t5_files.read_t5(folder, settings)
    if kind in marian_settings.KINDS:
        return marian_files.read_marian(folder, settings)
    read = read_decoder if kind in gpt_settings.KINDS else read_encoder
    return read(folder, settings)


def load_pretrained(
    place: str | os.PathLike[str] | keras.Model,
    heads: tuple[str, ...] = (),
    num_classes: int | None = None,
    dtype: DType = None,
) -> tuple[keras.Model, PretrainedTokenizer | None, LoadReport]:
    """Loads a pretrained encoder, with or without heads, a decoder, or an encoder-decoder.

    Args:
        place: A folder of weights, a name on the Hugging Face hub, a KerasHub preset, or a KerasHub
            backbone; `read_pretrained` describes their form.
        heads: Names from `keras_attn.models.HEADS`; only for encoders. Heads, and a
            pooler that they need, get random weights if the file lacks them.
        num_classes: Number of classes of the heads `"classes"` and `"tags"`; None for the number in
            the file.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.

    Returns:
        A tuple `(model, tokenizer, report)`. The model is built by `BertConfig.build`,
        `GptConfig.build`, `T5Config.build`, `TransformerEncoderDecoderConfig.build` or
        `keras_attn.models.with_heads`. The tokenizer is the tokenizer of the sources if an
        encoder-decoder has two, and None if there is none. The report, a `LoadReport`, lists the
        loaded tensors, the new random tensors, and the unused tensors of the file.

    Raises:
        FileNotFoundError: If there is no such folder, or it has no weights that can be read.
        ImportError: If `place` is a name, a preset or a backbone, and the package that loads it is
            not installed; or if the tokenizer is a SentencePiece model, and `sentencepiece` is not
            installed.
        OSError: If `place` is a name or a preset that cannot be loaded.
        TypeError: If `place` is an object of another class.
        ValueError: If a file is damaged or contradicts another file; if the model is not supported;
            if `heads` or `num_classes` are given for a model that is not an encoder, or
            `keras_attn.models.with_heads` refuses them; or if `heads` has `"masked_words"`, and
            this head of the file is not tied to the embeddings.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> save_pretrained(folder, with_heads(config, ("spans",)), config)
    >>> model, tokenizer, report = load_pretrained(folder, ("tags",), num_classes=5)
    >>> print(report)
    loaded: 17 tensors of embedding, encoder
    new and random: 2 tensors of tags
    left over in the file: 2 tensors of spans
    """
    heads = tuple(heads)
    found = read_pretrained(place)
    config = found.config
    if not isinstance(config, BertConfig) and (heads or num_classes is not None):
        raise ValueError(
            f"{place}: `heads` and `num_classes` are only for encoders. Received: "
            f"heads={list(heads)}, num_classes={num_classes} for a {type(config).__name__}. "
            "Remove these arguments."
        )
    pooled = {"classes", "next_sentence"} & set(heads)
    if isinstance(config, ModernBertConfig):
        pooled |= {"tags", "spans"} & set(heads)
    if pooled and isinstance(config, BertConfig) and config.pooler_activation is None:
        pooler = POOLERS[bert_settings.encoder_kind(config)]
        config = dataclasses.replace(config, pooler_activation=pooler)
    if num_classes is None:
        for head in {"classes", "tags"} & set(heads) & set(found.heads):
            num_classes = found.tensors[f"{head}/bias"].shape[0]
    if "masked_words" in heads and "masked_words" not in found.heads:
        untied = [
            n for n in found.unused if n.endswith(tuple(names.bias for names in NAMES.values()))
        ]
        if untied:
            raise ValueError(
                f"{place}: the head for masked words must be tied to the embeddings of the "
                "tokens. Received: a head with its own matrix. Load the model without this "
                "head."
            )
    if heads and isinstance(config, BertConfig):
        model = with_heads(config, heads, num_classes, dtype=dtype)
    else:
        model = config.build(dtype)
    loaded, new, left_over = load_tensors(model, found.tensors, strict=False)
    return model, found.tokenizer, LoadReport(loaded, new, [*left_over, *found.unused])

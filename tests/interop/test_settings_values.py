"""Values of all types for each setting of a `config.json`: read, or refused by its name."""

import json
import re
from pathlib import Path

import pytest

import keras_attn.interop
from keras_attn.interop.bert_settings import read_bert_config, read_labels
from keras_attn.interop.gpt_settings import read_gpt_config
from keras_attn.interop.marian_settings import read_marian_config
from keras_attn.interop.search_settings import read_search, read_tasks
from keras_attn.interop.t5_files import read_t5_config

SOURCES = Path(keras_attn.interop.__file__).parent
VALUES = [
    None, True, -1, 0, 0.5, float("inf"), 10**12, "x", "", [], [1], ["x"], [[1]], [None], {},
    {"a": 1}, {"0": "x"}, {"a": {}}, {"rope_type": [1]}, {"type": {}, "factor": []},
    {"full_attention": 5}, {"full_attention": {"rope_type": [1]}}, {"translation_en_to_de": {}},
    {"summarization": {"prefix": 1}}, {"summarization": {"max_length": "x"}},
]  # fmt: skip
SIZES = {
    "vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 8, "d_model": 8, "d_kv": 4, "d_ff": 8,
    "num_layers": 1, "num_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 1,
    "pad_token_id": 0, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
}  # fmt: skip


def names():
    """All strings of the package's code that may be names of settings."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCES.glob("*settings*.py"))
    found = {name for text in texts for name in re.findall(r'"([a-z_0-9]{4,})"', text)}
    return sorted(found | {"architectures", "id2label"})


READERS = {
    **{
        kind: (lambda settings, where: read_bert_config(settings, where), kind)
        for kind in ("bert", "distilbert", "roberta", "modernbert")
    },
    **{
        kind: (lambda settings, where: read_gpt_config(settings, where), kind)
        for kind in ("gpt2", "llama", "qwen3", "gemma2", "gemma3_text")
    },
    "marian": (lambda settings, where: read_marian_config(settings, where), "marian"),
    "t5": (lambda settings, where: read_t5_config(settings, where), "t5"),
    "labels": (lambda settings, where: read_labels(settings, where), "bert"),
    "search": (lambda settings, where: read_search(Path(where), settings), "marian"),
    "tasks": (lambda settings, where: read_tasks(Path(where), settings), "t5"),
}


@pytest.mark.quick("gemma3_text", "search")
@pytest.mark.parametrize("name", READERS)
def test_any_value_is_read_or_refused_by_name(name):
    read, kind = READERS[name]
    base, failed, refused = {**SIZES, "model_type": kind}, [], 0
    read(base, "FOLDER")
    for setting in names():
        for value in VALUES:
            try:
                read({**base, setting: value}, "FOLDER")
            except ValueError as error:
                refused += 1
                if "FOLDER" not in str(error):
                    failed.append((setting, value, error))
            except Exception as error:
                failed.append((setting, value, error))
    assert not failed, json.dumps([repr(x) for x in failed[:20]], indent=1)
    assert refused > 5

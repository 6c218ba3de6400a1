"""Locations of pretrained models: folders, and names on Hugging Face's hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from keras_attn.packages import needed

_FILES = [
    "config.json", "model*.safetensors", "model.safetensors.index.json", "vocab.txt",
    "tokenizer.json", "tokenizer_config.json", "added_tokens.json", "vocab.json", "merges.txt",
    "*.spm", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "target_vocab.json",
    "generation_config.json",
    "modules.json", "*/config.json", "sentence_*_config.json", "config_sentence_transformers.json",
]  # fmt: skip
_OF_FILES = (".task", ".keras", ".h5", ".safetensors", ".zip")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def find_folder(place: str | os.PathLike[str]) -> Path:
    """Returns the folder of a model, which is downloaded if `place` is a name on the hub."""
    folder = Path(place).expanduser()
    if folder.is_dir():
        return folder
    if folder.suffix in _OF_FILES and not folder.exists():
        raise FileNotFoundError(f"There is no file {os.fspath(place)!r}.")
    if not isinstance(place, str) or folder.exists() or not _NAME.fullmatch(place):
        raise FileNotFoundError(
            "Expected a folder with a config.json, or a name on Hugging Face's hub such as "
            f"'google/bert_uncased_L-2_H-128_A-2'. Received: {os.fspath(place)!r}, which is "
            f"{'a file' if folder.exists() else 'neither'}."
        )
    way = (
        "Download its config.json, model.safetensors, the files of its tokenizer and "
        "tokenizer_config.json on a machine with network, and give the folder."
    )
    with needed(f"There is no folder {place!r}, and a name on Hugging Face's hub", way):
        from huggingface_hub import snapshot_download
    try:
        found = Path(snapshot_download(place, allow_patterns=_FILES))
        if not any(found.glob("model*.safetensors*")):
            snapshot_download(place, allow_patterns=["tf_model.h5"])
        return found
    except Exception as error:  # of several libraries: no network, no such name, no permission
        raise OSError(
            f"There is no folder {place!r}, and the name could not be fetched from Hugging Face's "
            f"hub: {type(error).__name__}: {str(error)[:300]}. {way}"
        ) from error

"""Hugging Face's MarianMT on PyTorch with its tokenizer: strings in, strings out."""

import functools
import json
import tempfile
import warnings
from pathlib import Path

import torch
from transformers import MarianMTModel, MarianTokenizer

from benchmarks import opus
from benchmarks.peers import Job


@functools.cache
def loaded(case: str):
    """The tokenizer, the model, and the bytes of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        opus.write_folder(json.loads(case), Path(folder))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package that MarianTokenizer does without
            tokenizer = MarianTokenizer.from_pretrained(folder)
        model = MarianMTModel.from_pretrained(folder).eval()
        return tokenizer, model, opus.folder_size(Path(folder))


def translating(case: dict) -> Job:
    """The tokenizer, `generate`, and the tokenizer again."""
    tokenizer, model, _ = loaded(opus.sizes(case))
    texts = opus.texts(case)
    settings = {"num_beams": case["beams"], "max_new_tokens": case["target"], "do_sample": False}

    @torch.inference_mode()
    def run():
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        found = model.generate(**inputs, **settings, max_length=None)
        return tokenizer.batch_decode(found, skip_special_tokens=True)

    return Job(run, len(texts), lambda found: found)


def file(case: dict) -> Job:
    """How many bytes the folder has."""
    return Job(lambda: None, loaded(opus.sizes(case))[2])

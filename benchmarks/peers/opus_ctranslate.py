"""CTranslate2 with the weights and SentencePiece models of an imported translator."""

import functools
import json
import tempfile
from pathlib import Path

import ctranslate2
from ctranslate2.converters import TransformersConverter

from benchmarks import opus
from benchmarks.machine import available_cores
from benchmarks.peers import Job


@functools.cache
def loaded(case: str, compute: str):
    """The converted translator, and the bytes of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        source, converted = Path(folder) / "source", Path(folder) / "converted"
        source.mkdir()
        opus.write_folder(json.loads(case), source)
        quantization = None if compute == "float32" else compute
        TransformersConverter(str(source)).convert(str(converted), quantization=quantization)
        model = ctranslate2.Translator(
            str(converted),
            device="cpu",
            compute_type=compute,
            inter_threads=1,
            intra_threads=available_cores(),
        )
        return model, opus.folder_size(converted)


def translating(case: dict, compute: str) -> Job:
    """`translate_batch` between pieces of SentencePiece."""
    model, _ = loaded(opus.sizes(case), compute)
    source, target = opus.processors(case)
    texts = opus.texts(case)
    settings = {"beam_size": case["beams"], "max_decoding_length": case["target"]}

    def run():
        pieces = [[*row, "</s>"] for row in source.encode(texts, out_type=str)]
        found = model.translate_batch(pieces, **settings)
        return [target.decode(each.hypotheses[0]) for each in found]

    return Job(run, len(texts), lambda found: found)


def file(case: dict, compute: str) -> Job:
    """How many bytes the folder has."""
    return Job(lambda: None, loaded(opus.sizes(case), compute)[1])

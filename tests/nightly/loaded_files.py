"""Files and folders of each loader, and the loader."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "tasks", "interop")]

import ctranslate2_toys
import marian_toys
import similarity_toys
import text_classification_toys
import translation_toys
from test_damaged_files import KINDS as DAMAGED

from keras_attn.images import load_image, read_coco_captions, read_karpathy
from keras_attn.interop import load_pretrained, read_word_vectors, save_pretrained
from keras_attn.models import BertConfig, GptConfig
from keras_attn.records import (
    read_dialogues,
    read_labelled,
    read_pairs,
    read_questions,
)
from keras_attn.records.labelled_pairs import read_labelled_pairs
from keras_attn.tasks import SimilarityScorer, TextClassifier, Translator
from keras_attn.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    SentencePieceTokenizer,
)
from keras_attn.text.registry import load_tokenizer

SIZES = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
ROWS = [{"text": f"some {w} text", "label": w} for w in ("good", "bad", "fair")] * 3


class Made(NamedTuple):
    """A function that writes a folder, and the function that reads it."""

    make: Callable[[Path], object]
    read: Callable[[Path], object]


def file(name, content, read):
    """A file with fixed contents and the function that reads it."""
    raw = content.encode()
    return {name: Made(lambda f: (f / name).write_bytes(raw), lambda f: read(f / name))}


def lines(rows):
    return "\n".join(map(json.dumps, rows))


def table(delimiter):
    rows = [[*ROWS[0]], *(row.values() for row in ROWS)]
    return "\n".join(map(delimiter.join, rows))


def parquet(folder):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "a.parquet")


def picture(name):
    def make(folder):
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 255, (12, 9, 3), "uint8")
        Image.fromarray(pixels).save(folder / name)

    return Made(make, lambda folder: load_image(folder / name, (8, 8)))


def bert(folder):
    config = BertConfig(60, **SIZES, sequence_length=8)
    save_pretrained(folder / "a", config.build(), config)


def gpt(folder):
    tokenizer = BytePairTokenizer.train(
        ["a dog ran to a cat"], 270, normalize=False, pattern="gpt2", allow_fewer=True
    )
    config = GptConfig(tokenizer.vocabulary_size, **SIZES, sequence_length=8)
    save_pretrained(folder / "a", config.build(), config, tokenizer)


def marian(folder):
    marian_toys.translator(folder / "a")


def t5(folder):
    import test_t5_files
    import transformers

    (folder / "a").mkdir()
    pieces = test_t5_files.sentence_pieces(folder / "a")
    settings = {**test_t5_files.SMALL, "vocab_size": pieces + 104}
    prefix = {"prefix": "translate English to German: ", "max_length": 9, "num_beams": 2}
    config = transformers.T5Config(
        **settings, task_specific_params={"translation_en_to_de": prefix}
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder / "a")


def sentences(folder):
    """A folder of sentence-transformers, with their settings of pooling and prompts."""
    bert(folder)
    tokens = similarity_toys.TOKENIZER.vocabulary
    (folder / "a/vocab.txt").write_text("\n".join(tokens[:60]) + "\n")
    data = {"prompt": "a red ", "pooling": "first", "unit_length": True, "max_length": 8}
    SimilarityScorer.from_backbone(folder / "a", **data).save_pretrained(folder / "b")
    shutil.rmtree(folder / "a")


def saved(task):
    return lambda folder: task().save(folder / "a.task")


def assets(tokenizer):
    return lambda folder: tokenizer().save_assets(folder)


def sentence_pieces():
    return SentencePieceTokenizer.train(["a dog ran to a cat"] * 9, 280, allow_fewer=True)


def ctranslate2(folder):
    ctranslate2_toys.folder_of(folder / "a")


COCO = {
    "images": [{"id": i, "file_name": f"{i}.png"} for i in range(4)],
    "annotations": [{"image_id": i, "id": i, "caption": f"a {i}"} for i in range(4)],
}
KARPATHY = {
    "images": [
        {"filename": f"{i}.png", "split": s, "sentences": [{"raw": f"a {i}", "tokens": ["a"]}]}
        for i, s in enumerate(("train", "val", "test"))
    ]
}
PAIRS = [{"source": f"the {w}", "target": f"das {w}"} for w in ("dog", "cat", "hen")]
NLI = {"premise": "a dog", "hypothesis": "a cat", "label": "no"}
SQUAD = {
    "data": [{"title": "a", "paragraphs": [{"context": "the dog ran", "qas": [
        {"id": "1", "question": "who?", "answers": [{"text": "dog", "answer_start": 4}]}]}]}]
}  # fmt: skip
KINDS = {
    "task": Made(
        saved(lambda: text_classification_toys.make("first")),
        lambda folder: TextClassifier.load(folder / "a.task"),
    ),
    "translator": Made(
        saved(lambda: Translator(translation_toys.tokenizer(), model=SIZES)),
        lambda folder: Translator.load(folder / "a.task"),
    ),
    **{
        make.__name__: Made(make, lambda folder: load_pretrained(folder / "a"))
        for make in (bert, gpt, marian, ctranslate2, t5)
    },
    "sentences": Made(sentences, lambda f: SimilarityScorer.from_backbone(f / "b")),
    **{
        name: Made(assets(make), load_tokenizer)
        for name, make in {
            "byte pairs": lambda: BytePairTokenizer.train(["good bad"] * 3, 262),
            "characters": lambda: CharacterTokenizer.train(["a dog ran"]),
            "sentence piece": sentence_pieces,
        }.items()
    },
    "parquet": Made(parquet, lambda folder: read_labelled(folder / "a.parquet")),
    **file("a.csv", table(","), read_labelled),
    **file("a.tsv", table("\t"), read_labelled),
    **file("a.jsonl", lines(ROWS), read_labelled),
    **file("b.jsonl", lines(PAIRS), read_pairs),
    **file("c.jsonl", lines([{"turns": ["hi", "you", "bye"]}] * 3), read_dialogues),
    **file("d.jsonl", lines([NLI] * 3), read_labelled_pairs),
    **file("squad.json", json.dumps(SQUAD), read_questions),
    **file(
        "coco.json",
        json.dumps(COCO),
        lambda path: read_coco_captions(path, path.parent, check_files=False),
    ),
    **file(
        "karpathy.json", json.dumps(KARPATHY), lambda path: read_karpathy(path, check_files=False)
    ),
    **file("a.vec", "3 2\na 1 2\nb 3 4\nc 5 6\n", read_word_vectors),
    **{f"a.{end}": picture(f"a.{end}") for end in ("png", "jpg", "gif", "bmp", "webp")},
    **{kind.__name__: kind() for kind in DAMAGED},
}

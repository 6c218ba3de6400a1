"""A real translator of OpenNMT in our layers: Arabic names in Latin letters."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from keras_attn.generation import beam_search
from keras_attn.interop import load_pretrained, read_pretrained
from keras_attn.models import SequenceDecoder

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is of the extra `test`")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder():
    place = Path(os.environ.get("KERAS_ATTN_DATA") or "nowhere") / "aren_transliteration"
    if not place.is_dir():
        pytest.skip("KERAS_ATTN_DATA names no folder with aren_transliteration/")
    return place


@pytest.fixture(scope="module")
def names(folder):
    """1,000 names of its letters, frequent ones more often, and texts that no name is."""
    tokens = (folder / "source_vocabulary.txt").read_text("utf-8").split("\n")[3:39]
    draw = random.Random(0)
    weights = [1 / (i + 1) ** 0.5 for i in range(len(tokens))]
    made = ["".join(draw.choices(tokens, weights, k=draw.randint(2, 12))) for _ in range(994)]
    return [*made, "آتزمون", "محمد", "سارة", "ي", "قاسمxyz", "123"]


@pytest.mark.parametrize("beams", [1, 4])
def test_the_same_names(folder, names, beams):
    """With an end that may come first: CTranslate2 else leaves it out of the first softmax."""
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    expected = translator.translate_batch(
        [*map(list, names)], beam_size=beams, return_scores=True, min_decoding_length=0
    )
    pretrained = read_pretrained(folder)
    decoding = SequenceDecoder(load_pretrained(folder)[0])
    source, target = pretrained.tokenizer, pretrained.target_tokenizer
    rows = source.encode(names)
    ids = np.full((len(rows), max(map(len, rows))), source.pad_id, "int32")
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    search = {name: pretrained.search[name] for name in ("length_penalty_kind", "early_stopping")}
    for start in range(0, len(rows), 250):
        memory, mask = decoding.encode(ids[start : start + 250])
        prompt = np.full((len(mask), 1), target.start_id, "int32")
        found = beam_search(
            decoding.decoder, prompt, None, memory, mask, num_beams=beams, max_length=60,
            alpha=pretrained.search["alpha"], end_id=target.end_id, pad_id=target.pad_id,
            num_return_sequences=1, **search,
        )  # fmt: skip
        part = expected[start : start + 250]
        texts = target.decode(np.asarray(found.tokens)[:, 0])
        wanted = ["".join(x.hypotheses[0]).replace("<unk>", "\ufffd") for x in part]
        assert texts == wanted
        scores = np.asarray(found.scores)[:, 0]
        np.testing.assert_allclose(scores, [x.scores[0] for x in part], atol=1e-5)

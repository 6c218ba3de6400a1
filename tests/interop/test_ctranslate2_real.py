"""A real translator of OpenNMT in our layers: Arabic names in Latin letters."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from keras_attn.tasks import Translator

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


def theirs(folder, names, beams, **settings):
    """Texts and scores of the package."""
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    found = translator.translate_batch(
        [*map(list, names)], beam_size=beams, return_scores=True, **settings
    )
    texts = ["".join(x.hypotheses[0]).replace("<unk>", "\ufffd") for x in found]
    return texts, [x.scores[0] for x in found]


@pytest.mark.parametrize("beams", [1, 4])
def test_the_same_names(folder, names, beams, tmp_path):
    """As a task and as its SavedModel, with the scores of the package."""
    import tensorflow as tf

    texts, scores = theirs(folder, names, beams)
    translator = Translator.from_pretrained(folder)
    best = translator.translate_n_best(names, 1, beams)
    assert [x.translations[0] for x in best] == texts
    np.testing.assert_allclose([x.scores[0] for x in best], scores, atol=1e-5)
    translator.export(tmp_path / "saved", beams=beams)
    served = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    found = served(text=tf.constant(names))["translation"].numpy()
    assert [text.decode() for text in found] == texts


def test_where_the_end_may_come_first(folder, names):
    """Then both compute probabilities among all tokens."""
    texts, scores = theirs(folder, names, 2, min_decoding_length=0)
    translator = Translator.from_pretrained(folder)
    best = translator.translate_n_best(names, 1, min_length=0, renormalize=False)
    assert [x.translations[0] for x in best] == texts
    np.testing.assert_allclose([x.scores[0] for x in best], scores, atol=1e-5)

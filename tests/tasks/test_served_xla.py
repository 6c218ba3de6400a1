"""SavedModels whose searches XLA compiles."""

import pytest
import tensorflow as tf
from translation_toys import PAIRS, fitted

from keras_attn.tasks import TranslationUse
from keras_attn.tasks.base.calls import options_for
from keras_attn.tasks.families.served_xla import with_xla

TEXTS = [source for source, _ in PAIRS[::25]]


def test_few_shapes_are_compiled():
    """Rows and ids are rounded up; what is added is not in the results."""
    shapes = []

    def compute(given):
        shapes.append(tuple(given["ids"].shape))
        ids = given["ids"]
        return {"ids": ids + 0, "sums": tf.reduce_sum(ids, 1) + given["more"]}

    run = with_xla(tf, compute, "ids", pad_id=7, fill_id=5, most=(6, 40))
    specs = {"ids": tf.TensorSpec([None, None], tf.int32), "more": tf.TensorSpec([None], tf.int32)}
    served = tf.function(run, input_signature=[specs])
    for rows, width, length in ((1, 3, 16), (3, 17, 32), (6, 40, 48)):
        found = served({"ids": tf.ones([rows, width], tf.int32), "more": tf.range(rows)})
        assert found["ids"].numpy().tolist() == [[1] * width + [7] * (length - width)] * rows
        total = width + 7 * (length - width)
        assert found["sums"].numpy().tolist() == [total + i for i in range(rows)]
    assert shapes == [(None, None)]  # traced once, for all


def test_added_rows_have_a_token():
    def compute(given):
        return {"count": tf.zeros_like(given["ids"][:, 0]) + tf.reduce_sum(given["ids"])}

    served = with_xla(tf, compute, "ids", pad_id=0, fill_id=5, most=(8, 16))
    assert served({"ids": tf.ones([3, 2], tf.int32)})["count"].numpy().tolist() == [6 + 5] * 3


def test_it_is_a_setting_of_exports():
    assert not TranslationUse().xla
    names = [[x.name for x in options_for(TranslationUse, step)] for step in ("export", "predict")]
    assert ["xla" in each for each in names] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
def test_strings_in_and_out(beams, tmp_path):
    """The export itself compares all signatures on odd texts."""
    translator = fitted()
    translator.export(tmp_path / "saved", beams=beams, xla=True)
    signatures = tf.saved_model.load(tmp_path / "saved").signatures
    for texts in (TEXTS, TEXTS[:1], []):
        found = signatures["serving_default"](text=tf.constant(texts, tf.string))["translation"]
        expected = translator.translate(texts, beams=beams)
        assert [text.decode() for text in found.numpy()] == expected
    numbers = {"alpha": tf.fill([len(TEXTS)], 2.0), "min_length": tf.fill([len(TEXTS)], 3)}
    found = signatures["with_settings"](text=tf.constant(TEXTS), **numbers)["translation"]
    expected = translator.translate(TEXTS, beams=beams, alpha=2.0, min_length=3)
    assert [text.decode() for text in found.numpy()] == expected
    nodes = (tmp_path / "saved" / "saved_model.pb").read_bytes()
    assert b"_XlaMustCompile" in nodes

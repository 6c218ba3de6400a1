"""Answers of the SavedModels are packed as rows, as TensorFlow Serving's REST interface does."""

import captioning_toys
import numpy as np
import pretraining_toys
import pytest
import tensorflow as tf
import text_classification_toys
import text_generation_toys
import translation_toys

from keras_attn.tasks import Translator

TEXTS = ["one dog", "", "a  third  text"]
NUMBERS = {
    "alpha": [1.0, 0.5, 0.0],
    "min_length": [0, 1, 2],
    "temperature": [1.0, 0.5, 2.0],
    "top_k": [0, 1, 2],
    "top_p": [1.0, 0.9, 0.5],
    "min_p": [0.0, 0.0, 0.1],
    "repetition_penalty": [1.0, 1.1, 1.2],
}
"""Inputs of `with_settings`."""


def rows_of(outputs, count):
    """`{"instances": [...]}` is answered row by row: each output needs a row for each input."""
    for name, value in outputs.items():
        assert value.shape.rank, f"{name} is a scalar"
        assert value.shape[0] == count, f"{name} has {value.shape[0]} rows"
    return [{name: value[i] for name, value in outputs.items()} for i in range(count)]


def translator():
    tokenizer = translation_toys.tokenizer()
    made = Translator(
        tokenizer, model={**translation_toys.CONFIG, "dim": 8}, data={"max_length": 6}
    )
    return made, {"beams": 1}, {"text": TEXTS}


def classifier():
    return text_classification_toys.make("bag"), {}, {"text": TEXTS}


def generator():
    given = {"prompt": TEXTS, "seed": [1, 2, 3], "num_characters": 4}
    return text_generation_toys.make(), {}, given


def captioner():
    files = [captioning_toys.file_bytes(picture) for picture in captioning_toys.PICTURES[:3]]
    return captioning_toys.small(max_length=5), {"beams": 2}, {"image": files}


def pretrainer():
    given = {"text": [*TEXTS[:2], "[MASK] [MASK]"], "second": TEXTS}
    return pretraining_toys.make(), {}, given


@pytest.mark.slow
@pytest.mark.parametrize("make", [translator, classifier, generator, captioner, pretrainer])
def test_each_output_has_a_row_for_each_input(make, unsaved, eager, monkeypatch, tmp_path):
    # What has learned nothing decodes to the end, step by step.
    monkeypatch.setattr(Translator, "longest", lambda task, length: 3 + 0 * length)
    task, use, given = make()
    task.export(tmp_path / "model", **use)
    (functions,) = unsaved
    given |= NUMBERS if "with_settings" in functions else {}
    for signature, function in functions.items():
        for count in (3, 0):
            inputs = {
                name: tf.constant(x[:count] if isinstance(x, list) else x, _dtype(x))
                for name, x in given.items()
                if name in task.signature_inputs.get(signature, given)
            }
            outputs = function(**inputs)
            rows = rows_of({name: tf.constant(np.asarray(x)) for name, x in outputs.items()}, count)
            assert len(rows) == count


def _dtype(value):
    first = value[0] if isinstance(value, list) else value
    return {int: tf.int32, float: tf.float32}.get(type(first), tf.string)

"""Which method explains a model, and that a compiled one gives what the function gives."""

import numpy as np
import pytest
from model_toys import numpy, randomize

from keras_attn import explain, tasks
from keras_attn.explain.attributions import attention_function, gradient_function
from keras_attn.explain.methods import check_label, checked_method, compiled_method
from keras_attn.models import BagClassifierConfig

BASE = {"vocabulary_size": 13, "num_classes": 3, "dim": 8, "pair_buckets": 0}
IDS = np.array([[5, 3, 9, 1], [7, 2, 0, 0]], "int32")


def test_names():
    weighted = BagClassifierConfig(**BASE).build()
    bare = BagClassifierConfig(**BASE, token_weights="none").build()
    assert [checked_method(weighted), checked_method(bare)] == ["attention", "gradient"]
    assert [checked_method(weighted, "gradient"), checked_method(bare, "gradient")] == [
        "gradient"
    ] * 2
    with pytest.raises(ValueError, match=r"one of \['attention', 'gradient'\]. Received: 'other'"):
        checked_method(weighted, "other")
    with pytest.raises(ValueError, match=r"\['gradient'\].*pools its tokens without weights"):
        checked_method(bare, "attention")
    with pytest.raises(ValueError, match=r"the same for all classes\. Received: label='good'"):
        check_label("good", "attention")


@pytest.mark.slow
def test_compiled():
    model = randomize(BagClassifierConfig(**BASE).build())
    for rows in (IDS, IDS[:1, :3]):
        found = compiled_method(model, "attention")(rows, 1)
        for ours, expected in zip(found, attention_function(model)(rows), strict=True):
            np.testing.assert_allclose(ours, numpy(expected), atol=1e-6)
        for of in (-1, 0, 2):
            classes = np.full(len(rows), of, "int32")
            for multi_label in (False, True):
                found = compiled_method(model, "gradient", multi_label)(rows, of)
                function = gradient_function(model, multi_label)
                for ours, expected in zip(found, function(rows, classes), strict=True):
                    np.testing.assert_allclose(ours, numpy(expected), atol=1e-5)


def test_what_the_tasks_hand_on():
    for name in ("Alignment", "DeletionCurve", "EncoderStudy", "Explanation", "deletion_curve"):
        assert name in tasks.__all__
        assert getattr(tasks, name) is getattr(explain, name)

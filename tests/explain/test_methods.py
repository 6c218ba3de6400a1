"""Which method explains a model, and what it computes."""

import numpy as np
import pytest
from model_toys import numpy, randomize

from keras_attn import explain, tasks
from keras_attn.explain.attributions import GradientPath, attention_function, gradient_function
from keras_attn.explain.methods import check_label, checked_method, path_of, weighed_tokens
from keras_attn.fields import EncoderInput
from keras_attn.models import BagClassifierConfig
from keras_attn.text import WordPieceTokenizer, WordTokenizer

BASE = {"vocabulary_size": 13, "num_classes": 3, "dim": 8, "pair_buckets": 0}
IDS = np.array([[5, 3, 9, 1], [7, 2, 0, 0]], "int32")
PATH = GradientPath(12, (0,))


def test_names():
    weighted = BagClassifierConfig(**BASE).build()
    bare = BagClassifierConfig(**BASE, token_weights="none").build()
    assert [checked_method(weighted), checked_method(bare)] == ["attention", "integrated_gradients"]
    assert [checked_method(weighted, "gradient"), checked_method(bare, "gradient")] == [
        "gradient"
    ] * 2
    every = r"one of \['attention', 'gradient', 'integrated_gradients'\]. Received: 'other'"
    with pytest.raises(ValueError, match=every):
        checked_method(weighted, "other")
    with pytest.raises(
        ValueError,
        match=r"\['gradient', 'integrated_gradients'\].*pools its tokens without weights",
    ):
        checked_method(bare, "attention")
    with pytest.raises(ValueError, match=r"the same for all classes\. Received: label='good'"):
        check_label("good", "attention")


def test_weights_by_each_method():
    model = randomize(BagClassifierConfig(**BASE).build())
    found = weighed_tokens(model, IDS, "attention")
    for ours, expected in zip(found, attention_function(model)(IDS), strict=True):
        np.testing.assert_allclose(numpy(ours), numpy(expected), atol=1e-6)
    for classes in (None, np.array([0, 2], "int32")):
        of = np.full(len(IDS), -1, "int32") if classes is None else classes
        for multi_label in (False, True):
            for method, path in (("gradient", None), ("integrated_gradients", PATH)):
                found = weighed_tokens(model, IDS, method, multi_label, classes, path)
                function = gradient_function(model, multi_label, path)
                for ours, expected in zip(found, function(IDS, of), strict=True):
                    np.testing.assert_allclose(numpy(ours), numpy(expected), atol=1e-5)


def test_blank_texts():
    """`[MASK]` for each word, or padding where the tokenizer has no such token."""
    word_piece = WordPieceTokenizer.train(["so good"] * 3, 50, allow_fewer=True)
    words = WordTokenizer.train(["so good", "so good"])
    field = EncoderInput(word_piece, 8)
    assert path_of("gradient", words) is path_of("attention", word_piece, field) is None
    assert path_of("integrated_gradients", words) == GradientPath(0, (0,))
    found = path_of("integrated_gradients", word_piece, field)
    assert found == GradientPath(4, (0, 2, 3))  # [MASK]; padding, [CLS] and [SEP] stay
    ids, _ = field.encode(["so good"], ["so"])
    assert numpy(found.blank(ids)).tolist() == [[2, 4, 4, 3, 4, 3]]


def test_what_the_tasks_hand_on():
    for name in ("Alignment", "DeletionCurve", "EncoderStudy", "Explanation", "deletion_curve"):
        assert name in tasks.__all__
        assert getattr(tasks, name) is getattr(explain, name)

"""The files of translators."""

import numpy as np
import pytest
from translation_toys import CONFIG, PAIRS, tokenizer

from keras_attn.tasks import Translator
from keras_attn.text import BytePairTokenizer


@pytest.mark.slow
def test_two_vocabularies_and_the_length_come_back(tmp_path):
    target = BytePairTokenizer.train([t for _, t in PAIRS], 280)
    translator = Translator(
        tokenizer(), target_tokenizer=target, model=CONFIG, data={"max_length": 24}
    )
    translator.save(tmp_path / "two.task")
    loaded = Translator.load(tmp_path / "two.task")
    assert loaded.source_tokenizer.get_config() == tokenizer().get_config()
    assert loaded.target_tokenizer.get_config() == target.get_config()
    assert loaded.max_source_length == 24
    assert loaded.config == translator.config
    for one, other in zip(translator.model.weights, loaded.model.weights, strict=True):
        np.testing.assert_array_equal(one, other)

"""The rows that a `TextWriter` reads and returns."""

import keras
import numpy as np
import pytest

from keras_attn.generation import TextWriter, Writing
from keras_attn.models import RecurrentLanguageModelConfig, language_decoder
from keras_attn.text import CharacterTokenizer

TOKENIZER = CharacterTokenizer.train(["to be"])


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_no_prompt_is_lost_if_a_batch_is_small(monkeypatch, rows):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    writer = TextWriter(None, None, TOKENIZER, max_prompt=20)
    start = TOKENIZER.start_id
    ids = writer.padded([[start, 5 + row] for row in range(rows)], batch_size=2)
    assert ids.shape == (rows, 16)
    assert ids[:rows, :2].tolist() == [[start, 5 + row] for row in range(rows)]


def test_longer_prompts_are_refused():
    writer = TextWriter(None, None, TOKENIZER, max_prompt=2)
    with pytest.raises(ValueError, match=r"at most 2 ids.*Received: 3 ids"):
        writer.padded([[1], [1, 5, 6]], batch_size=2)


@pytest.mark.slow
def test_new_ids_have_no_padding():
    """Whether they are written in one piece, or in several, which stop strings need."""
    keras.utils.set_random_seed(0)
    model = RecurrentLanguageModelConfig(TOKENIZER.vocabulary_size, dim=4, units=4).build()
    writer = TextWriter(model, language_decoder(model), TOKENIZER, max_prompt=8)
    rows, seeds = [[TOKENIZER.start_id]] * 6, np.arange(6, dtype="int32")
    whole = writer.tokens(rows, seeds, 12, Writing(ends=True))
    assert whole == writer.tokens(rows, seeds, 12, Writing(ends=True, stops=("never",)))
    assert not any(TOKENIZER.pad_id in row for row in whole)
    assert len({len(row) for row in whole}) > 1  # some ended before the others
    assert any(row[-1] == TOKENIZER.end_id for row in whole)

"""Lists cut into batches for decoding, and what XLA compiles of them."""

import random
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_attn.tasks import Translator
from keras_attn.tasks.families import decoding_batches as module
from keras_attn.tasks.families.decoding_batches import DecodingBatches, fixed_shape
from keras_attn.text import BytePairTokenizer

WORDS = "zero one two three four five six seven eight nine".split()


def lists(count=200, seed=0):
    """Rows of log-normal lengths, each with its number in it."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(2.5, 0.6, count), 1, 90).astype(int)
    return [[i + 10] * (n - 1) + [2] for i, n in enumerate(lengths)]


def padded(batches):
    cells = sum(batch.ids.size for batch in batches)
    return 1 - sum(int((batch.ids != 0).sum()) for batch in batches) / cells


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 500])
def test_every_row_is_there_once_as_it_was(batch_size, jit_compile):
    ids = lists()
    seen = []
    for batch in DecodingBatches(0, 2)(ids, batch_size, jit_compile):
        assert batch.compiled is jit_compile
        assert len(batch.rows) <= len(batch.ids) <= batch_size
        for i, row in zip(batch.rows, batch.ids.tolist(), strict=False):
            assert row == ids[i] + [0] * (len(row) - len(ids[i]))
        for row in batch.ids[len(batch.rows) :].tolist():
            assert row == [2] + [0] * (len(row) - 1)
        seen += batch.rows
    assert sorted(seen) == list(range(len(ids)))


def test_rows_of_one_length_keep_their_order():
    assert [b.rows for b in DecodingBatches(0, 2)([[5, 2]] * 5, 2)] == [[0, 1], [2, 3], [4]]
    assert list(DecodingBatches(0, 2)([], 4)) == []


def test_sorted_batches_hold_less_padding():
    ids = lists(1000)
    in_order = []
    for i in range(0, len(ids), 32):
        part = ids[i : i + 32]
        longest = max(map(len, part))
        rows = np.array([row + [0] * (longest - len(row)) for row in part])
        in_order.append(SimpleNamespace(ids=rows))
    assert padded(in_order) > 0.5
    assert padded(list(DecodingBatches(0, 2)(ids, 32))) < 0.1


def test_few_shapes_are_compiled():
    shapes = {b.ids.shape for b in DecodingBatches(0, 2)(lists(1000), 32, True)}
    assert shapes <= {(32, 16), (32, 32), (32, 48), (32, 64), (32, 96), (8, 96)}
    lengths = {fixed_shape(1, n, 1)[1] for n in range(1, 513)}
    assert sorted(lengths) == [16, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    assert all(fixed_shape(r, n, 64)[1] >= n for r in (1, 64) for n in range(1, 513))
    assert [fixed_shape(rows, 1, 48)[0] for rows in (1, 3, 32, 33, 48)] == [1, 4, 32, 48, 48]


def test_a_shape_is_compiled_where_that_pays(monkeypatch):
    monkeypatch.setattr(module, "PAYS_AFTER", 5)
    batches = DecodingBatches(0, 2)
    sentences = [[5, 2]] * 2

    def compiled(batch_size, **settings):
        return [batch.compiled for batch in batches(sentences, batch_size, **settings)]

    assert compiled(1) == [False, False]
    assert compiled(1) == [False, False]
    assert compiled(1) == [True, True]  # six of one row
    assert compiled(2) == [False]  # the first of two
    assert compiled(1, jit_compile=False) == [False, False]
    assert compiled(2, jit_compile=True) == [True]
    assert [b.compiled for b in DecodingBatches(0, 2)([[5, 2]] * 9, 1)] == [True] * 9
    assert not any(b.compiled for b in DecodingBatches(0, 2)([[5, 2]] * 180, 9))  # large ones
    assert not any(b.compiled for b in DecodingBatches(0, 2, recurrent=True)([[5, 2]] * 9, 1))


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_backends_that_have_no_choice(monkeypatch, backend):
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # not even imported
    found = [
        b.compiled for jit in (None, False, True) for b in DecodingBatches(0, 2)([[2]], 4, jit)
    ]
    assert found == [backend == "jax"] * 3


@pytest.fixture(scope="module")
def translator():
    keras.utils.set_random_seed(3)
    tokenizer = BytePairTokenizer.train(WORDS, 260)
    config = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    return Translator(tokenizer, model=config, data={"max_length": 64})


def texts():
    rng = random.Random(0)
    found = [" ".join(rng.choices(WORDS, k=rng.randint(1, 2))) for _ in range(4)]
    return [*found, "", found[0], found[3], ""]  # none has more than 16 tokens: one shape


@pytest.mark.slow
def test_lists_with_empty_texts_and_doubles(translator):
    given = texts()
    found = translator.translate(given, beams=2, batch_size=4, jit_compile=False)
    assert found == [translator.translate(t, beams=2, jit_compile=False) for t in given]
    assert found[4] == found[7]
    assert found[0] == found[5]
    assert translator.translate([]) == []


def check_alignments(translator, jit_compile):
    given = texts()
    found = translator.translate_n_best(given, 2, 3, batch_size=4, jit_compile=jit_compile)
    for text, n_best in zip(given, found, strict=True):
        alone = translator.translate_n_best(text, 2, 3, jit_compile=False)
        assert n_best.translations == alone.translations
        for a, b in zip(n_best.alignments, alone.alignments, strict=True):
            assert a.source_text == text
            assert a.source_tokens == b.source_tokens
            assert a.target_tokens == b.target_tokens
            np.testing.assert_allclose(a.weights, b.weights, atol=1e-5)


@pytest.mark.slow
def test_alignments_come_back_in_order(translator):
    check_alignments(translator, jit_compile=False)


@pytest.mark.slow
def test_with_xla_the_same_is_found(translator):
    plain, compiled = (
        translator.translate(texts(), beams=2, batch_size=4, jit_compile=jit)
        for jit in (False, True)
    )
    assert plain == compiled
    check_alignments(translator, jit_compile=True)

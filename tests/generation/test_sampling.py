"""Sampling: each filter against NumPy, noise, frequencies, rows, backends."""

from pathlib import Path

import keras
import numpy as np
import pytest
from generation_toys import END, GROWTH, PAD, START, TableDecoder, tables
from keras import ops
from processes import answer
from sampling_toys import (
    PROMPTS,
    SEEDS,
    SETTINGS,
    blocked,
    everything,
    filtered,
    noise,
    plain_sample,
    seed_of_row,
    softmax,
    table_logits,
    transformer,
    transformer_sample,
)

from keras_attn.generation import greedy_search, row_seeds, sample, uniform_noise
from keras_attn.generation.repetition import History
from keras_attn.generation.sampling import draw, filter_logits

HERE = Path(__file__).parent
V = 7


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def run(table, prompt, mask=None, length=6, end_id=END, decoder=None, **settings):
    return sample(
        decoder or TableDecoder(), prompt, mask, table, max_length=length, end_id=end_id, **settings
    )


def of_distribution(*p):
    """A table of one distribution everywhere, and a decoder for it."""
    table = np.log(np.broadcast_to(p, (1, len(p) ** 2, len(p)))).astype("float32")
    return {"table": table, "decoder": TableDecoder(growth=0.0)}


# Random numbers


def test_noise_is_that_of_python_integers():
    seeds = np.array([0, 1, 2, 12345, -1, -(2**31), 2**31 - 1], "int32")
    for step in [0, 1, 2, 1000, 2**20]:
        expected = [noise(int(seed), step) for seed in seeds]
        assert numpy(uniform_noise(ops.convert_to_tensor(seeds), step)).tolist() == expected
    got = numpy(row_seeds(99, ops.arange(5)))
    assert (got.astype("int64") % 2**32).tolist() == [seed_of_row(99, i) for i in range(5)]


def grid(rows=512, steps=128):
    seeds = row_seeds(0, ops.arange(rows))
    return np.stack([numpy(uniform_noise(seeds, i)) for i in range(steps)], axis=1)


@pytest.mark.slow
def test_noise_is_uniform_and_independent():
    u = grid()
    assert u.min() > 0
    assert u.max() < 1
    n = u.size

    def chi_square(values, cells):
        counts = np.bincount(values.ravel(), minlength=cells)
        expected = values.size / cells
        z = (((counts - expected) ** 2 / expected).sum() - (cells - 1)) / np.sqrt(2 * (cells - 1))
        assert abs(z) < 4, z

    chi_square((u * 256).astype(int), 256)
    low_bits = (u * 2**23).astype(int) % 256
    chi_square(low_bits, 256)
    k = (u * 16).astype(int)
    chi_square(k[:, 1:] * 16 + k[:, :-1], 256)  # a step and the next
    chi_square(k[1:] * 16 + k[:-1], 256)  # a row and the next
    chi_square(k[1:, 1:] * 16 + k[:-1, :-1], 256)
    # Every row and every step is uniform too.
    assert np.abs(u.mean(axis=1) - 0.5).max() < 5 / np.sqrt(12 * u.shape[1])
    assert np.abs(u.mean(axis=0) - 0.5).max() < 5 / np.sqrt(12 * u.shape[0])
    assert len(np.unique(u)) > n * 0.98
    # Plain seeds one after the other are as good as mixed ones.
    plain = ops.arange(512, dtype="int32")
    u = np.stack([numpy(uniform_noise(plain, i)) for i in range(64)], axis=1)
    k = (u * 16).astype(int)
    chi_square(k[1:] * 16 + k[:-1], 256)
    chi_square(k[1:, :-1] * 16 + k[:-1, 1:], 256)


# Filters


LOGITS = np.log([0.4, 0.05, 0.25, 0.2, 0.1])


def kept(**settings):
    x = numpy(filter_logits(ops.convert_to_tensor(LOGITS, "float32"), **settings))
    return [i for i, value in enumerate(x) if value > -np.inf]


def test_filters_by_hand():
    assert kept() == [0, 1, 2, 3, 4]
    assert kept(top_k=2) == [0, 2]
    assert kept(top_k=99) == [0, 1, 2, 3, 4]
    assert kept(top_p=0.39) == [0]
    assert kept(top_p=0.41) == [0, 2]
    assert kept(top_p=0.66) == [0, 2, 3]
    assert kept(top_p=1e-9) == [0]
    assert kept(top_p=1.0) == [0, 1, 2, 3, 4]
    assert kept(min_p=0.49) == [0, 2, 3]
    assert kept(min_p=0.51) == [0, 2]
    assert kept(min_p=0.0) == [0, 1, 2, 3, 4]
    # p of top-p and min-p is after the temperature: 0.4^2, 0.25^2, ... of 0.2750.
    assert kept(temperature=0.5, top_p=0.58) == [0]
    assert kept(temperature=0.5, min_p=0.3) == [0, 2]
    # top-p counts what top-k left: 0.4 of 0.65.
    assert kept(top_k=2, top_p=0.61) == [0]
    p = numpy(ops.softmax(filter_logits(ops.convert_to_tensor(LOGITS, "float32"), 0.5)))
    np.testing.assert_allclose(p, np.exp(LOGITS) ** 2 / 0.275, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.3}, {"temperature": 2.5}, {"top_k": 1}, {"top_k": 7}, {"top_p": 0.3},
        {"top_p": 0.95}, {"min_p": 0.3}, {"min_p": 0.9},
        {"temperature": 1.7, "top_k": 20, "top_p": 0.9, "min_p": 0.2},
    ],
)  # fmt: skip
def test_filters_are_those_of_the_reference(settings):
    rng = np.random.default_rng(0)
    logits = (2 * rng.normal(size=(64, 33))).astype("float32")
    logits[::5, 3:9] = -np.inf
    x = numpy(filter_logits(ops.convert_to_tensor(logits), **settings))
    for row, expected in zip(x, logits, strict=True):
        expected = filtered(expected, **settings)
        np.testing.assert_array_equal(row > -np.inf, expected > -np.inf)
        np.testing.assert_allclose(softmax(row), softmax(expected), rtol=2e-5)


def test_of_equal_tokens_all_are_kept_or_none():
    x = ops.convert_to_tensor([[1.0, 2.0, 2.0, 2.0, 0.0]])
    for settings in ({"top_k": 1}, {"top_k": 2}, {"top_p": 0.1}, {"top_p": 0.5}, {"min_p": 0.9}):
        assert (numpy(filter_logits(x, **settings)) > -np.inf).tolist() == [
            [False, True, True, True, False]
        ]


def test_tiny_temperatures_and_half_precision():
    for dtype in ("float32", "float16", "bfloat16"):
        x = filter_logits(ops.cast(ops.convert_to_tensor([[3.0, 90.0, -90.0]]), dtype), 1e-30)
        assert numpy(ops.softmax(x)).tolist() == [[0.0, 1.0, 0.0]]


def test_draw_never_takes_what_is_impossible():
    logits = np.full((4, 1000), -np.inf, "float32")
    logits[:, [300, 600]] = 0.0
    u = np.array([2.0**-24, 0.499999, 0.500001, 1 - 2.0**-24], "float32")
    token = draw(ops.convert_to_tensor(logits), ops.convert_to_tensor(u))
    assert numpy(token).tolist() == [300, 300, 600, 600]


def test_draw_survives_a_sum_that_is_rounded_up(monkeypatch):
    """As sums in parallel may be, where nothing was added."""
    logits = np.full((1, 1000), -np.inf, "float32")
    logits[:, [300, 600]] = 0.0
    real = ops.cumsum

    def rounded(x, axis):
        total = np.array(numpy(real(x, axis=axis)))
        if total.dtype == "float32":
            total[:, 400] += 1e-6
        return ops.convert_to_tensor(total)

    monkeypatch.setattr(ops, "cumsum", rounded)
    token = draw(ops.convert_to_tensor(logits), ops.convert_to_tensor([0.5000005]))
    assert numpy(token).tolist() == [600]


# Whole samples


def test_frequencies_are_those_of_the_distribution():
    p = np.array([0.0, 0.05, 0.0, 0.5, 0.25, 0.15, 0.05])
    with np.errstate(divide="ignore"):
        toy = of_distribution(*p)
    n = 400
    prompt = np.full((n, 1), START, "int32")
    toy["table"] = np.repeat(toy["table"], n, axis=0)
    found = numpy(run(**toy, prompt=prompt, length=25, end_id=None, seed=0).tokens)
    counts = np.bincount(found.ravel(), minlength=V)
    assert counts[p == 0].sum() == 0
    expected = p[p > 0] * found.size
    assert ((counts[p > 0] - expected) ** 2 / expected).sum() < 20  # 4 degrees of freedom


@pytest.mark.quick(
    slow=[
        "{'no_repeat_ngram_size': 1}",
        "{'no_repeat_ngram_size': 3, 'temperature': 0.4}",
        "{'repetition_penalty': 0.6}",
    ]
)
@pytest.mark.parametrize(
    "settings",
    [
        *SETTINGS.values(),
        {"min_length": 5, "suppressed_ids": (PAD, 3)},
        {"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 3, "temperature": 0.4},
        {"repetition_penalty": 0.6},
    ],
    ids=str,
)  # fmt: skip
def test_samples_are_those_of_the_reference(settings):
    """Prompts of unlike lengths, padded on either side; scores too."""
    count, length = 24, 9
    table = tables(count, V)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(1, V, size=1 + i % 4).tolist() for i in range(count)]
    ids, mask = np.full((count, 5), 6, "int32"), np.zeros((count, 5), bool)
    for i, prompt in enumerate(prompts):
        left = i % 2 and 5 - len(prompt)
        ids[i, left : left + len(prompt)] = prompt
        mask[i, left : left + len(prompt)] = True
    seeds = rng.integers(-(2**31), 2**31, size=count).astype("int32")

    class Aligned(TableDecoder):
        """It takes right-padded prompts only."""

        def prefill(self, prompt, prompt_mask=None, *rest, **kwargs):
            order = np.argsort(~numpy(prompt_mask), axis=1, kind="stable")
            return super().prefill(
                np.take_along_axis(numpy(prompt), order, 1),
                np.take_along_axis(numpy(prompt_mask), order, 1),
                *rest,
                **kwargs,
            )

    found = run(table, ids, mask, length, seed=seeds, decoder=Aligned(), **settings)
    names = {"repetition_penalty": "penalty", "no_repeat_ngram_size": "n", "suppressed_ids": "s"}
    names["s"] = names["suppressed_ids"] = "suppressed"
    renamed = {names.get(name, name): value for name, value in settings.items()}
    compared = 0
    for i, prompt in enumerate(prompts):
        tokens, score, nearest = plain_sample(
            table_logits(table[i], GROWTH), prompt, length, int(seeds[i]), **renamed
        )
        if nearest < 1e-5:
            continue
        compared += 1
        assert numpy(found.tokens)[i].tolist() == tokens + [PAD] * (length - len(tokens))
        assert numpy(found.lengths)[i] == len(tokens)
        assert bool(numpy(found.finished)[i]) == (tokens[-1] == END)
        assert numpy(found.scores)[i] == pytest.approx(score, abs=1e-4)
    assert compared > count - 3


def test_blocked_ngrams_cross_the_end_of_the_prompt():
    """After 3 4 5 | 3 comes no 4, and after 3 4 5 3 | 5 comes anything; by hand."""
    toy = of_distribution(1e-9, 1e-9, 1e-9, 1e-9, 0.999, 5e-4, 1e-9)
    found = run(
        **toy, prompt=np.array([[3, 4, 5, 3]]), length=1, end_id=None, seed=1,
        no_repeat_ngram_size=2,
    )  # fmt: skip
    assert numpy(found.tokens)[0, 0] == 5
    assert blocked([3, 4, 5, 3], 2) == {4}
    found = run(
        **toy, prompt=np.array([[6, 4]]), length=4, end_id=None, seed=1, no_repeat_ngram_size=3
    )
    # 6 4 | 4 4 x: a third 4 4 4 may come once, a second time not.
    assert numpy(found.tokens)[0].tolist() == [4, 4, 5, 4]


@pytest.mark.slow
def test_blocking_gives_way_where_nothing_else_is_left():
    toy = of_distribution(0.25, 0.25, 0.25, 0.25)
    found = run(
        **toy, prompt=np.array([[1]]), length=20, end_id=None, seed=1, no_repeat_ngram_size=1,
        suppressed_ids=[0],
    )  # fmt: skip
    tokens = numpy(found.tokens)[0]
    assert sorted(tokens[:2]) == [2, 3]
    assert 0 not in tokens
    assert set(tokens[2:]) == {1, 2, 3}


@pytest.mark.slow
def test_ngrams_longer_than_all_there_is():
    table = tables(1, V)
    prompt = np.array([[START]])
    plain = run(table, prompt, length=2, seed=3)
    long = run(table, prompt, length=2, seed=3, no_repeat_ngram_size=50)
    assert numpy(plain.tokens).tolist() == numpy(long.tokens).tolist()


@pytest.mark.slow
def test_rows_that_ended_are_padded():
    table = tables(16, V)
    prompt = np.full((16, 1), START)
    found = run(table, prompt, length=12, seed=0)
    tokens, lengths, finished = map(numpy, (found.tokens, found.lengths, found.finished))
    assert set(finished.tolist()) == {True, False}
    for row, length, ended in zip(tokens, lengths, finished, strict=True):
        assert (row[length:] == PAD).all()
        assert (END in row[: length - 1]) is False
        assert (row[length - 1] == END) == ended
    limits = np.arange(16) % 5
    limited = run(table, prompt, length=12, seed=0, max_lengths=limits)
    for row, limit, other in zip(numpy(limited.tokens), limits, tokens, strict=True):
        limit = max(limit, 1)
        assert row[:limit].tolist() == other[:limit].tolist()
        assert (row[limit:] == PAD).all()
    # Padding may be the end token: rows that were cut have not ended.
    same = run(table, prompt, length=12, seed=0, max_lengths=limits, pad_id=END)
    assert numpy(same.finished).tolist() == numpy(limited.finished).tolist()
    assert numpy(same.lengths).tolist() == numpy(limited.lengths).tolist()
    # Without an end token nothing ends, whatever comes.
    endless = run(table, prompt, length=12, seed=0, end_id=None)
    assert numpy(endless.lengths).tolist() == [12] * 16
    assert not numpy(endless.finished).any()
    assert (numpy(endless.tokens) == END).any()


@pytest.mark.slow
def test_a_row_does_not_depend_on_its_batch():
    decoder = transformer()
    generate = transformer_sample(decoder, **SETTINGS["all"])
    together = generate(PROMPTS, 12, SEEDS)
    for i, length in enumerate([4, 2, 3]):
        alone = generate(PROMPTS[i : i + 1, :length], 12, SEEDS[i : i + 1])
        assert alone.tokens.tolist() == together.tokens[i : i + 1].tolist()
    # With one seed for all, a row depends on its number alone.
    one = sample(decoder, PROMPTS[:1], max_length=9, end_id=None, seed=4)
    two = sample(decoder, PROMPTS[[0, 0]], max_length=9, end_id=None, seed=4)
    assert numpy(one.tokens)[0].tolist() == numpy(two.tokens)[0].tolist()
    assert numpy(two.tokens)[0].tolist() != numpy(two.tokens)[1].tolist()


def test_seeds_repeat_and_differ():
    table = np.repeat(tables(1, V), 20, axis=0)
    prompt = np.full((20, 1), START)
    first = numpy(run(table, prompt, length=12, seed=1, end_id=None).tokens).tolist()
    assert numpy(run(table, prompt, length=12, seed=1, end_id=None).tokens).tolist() == first
    assert numpy(run(table, prompt, length=12, seed=2, end_id=None).tokens).tolist() != first
    assert len({tuple(row) for row in first}) == 20
    same = np.full(20, 5, "int32")
    assert len({tuple(r) for r in numpy(run(table, prompt, seed=same).tokens).tolist()}) == 1


@pytest.mark.slow
def test_only_the_most_probable_is_greedy_search():
    decoder = transformer()
    mask = PROMPTS != PAD
    greedy = greedy_search(decoder, PROMPTS, mask, max_length=8, end_id=END)
    for settings in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 0.999999}, {"temperature": 1e-4}):
        found = sample(decoder, PROMPTS, mask, max_length=8, end_id=END, seed=0, **settings)
        for a, b in zip(found, greedy, strict=True):
            np.testing.assert_allclose(numpy(a), numpy(b), rtol=1e-5)


def test_history_keeps_nothing_that_is_not_needed():
    prompt, mask = ops.zeros((2, 3), "int32"), ops.ones((2, 3), "bool")
    logits = ops.zeros((2, 5))
    assert History(prompt, mask, logits, 1.0, 0).start(4) == {}
    assert set(History(prompt, mask, logits, 2.0, 0).start(4)) == {"seen"}
    assert set(History(prompt, mask, logits, 1, 3).start(4)) == {"ids"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, "greedy_search"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": 1e-40}, "at least 1e-30"),
        ({"temperature": 1e39}, "at most 1e"),  # infinite in float32
        ({"repetition_penalty": 1e39}, "at most 1e"),
        ({"repetition_penalty": 1e-46}, "at least 1e-30"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 2.5}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": 1.0}, "min_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "2\\^31 - 1"),
        ({"seed": 1.0}, "seed"),
        ({"seed": np.zeros((2, 1), "int32")}, r"shape \(B,\)"),
        ({"seed": np.zeros(2)}, "dtype float"),
        ({"seed": [1, 2**32 + 5]}, "2\\^31 - 1. Received: .*4294967301"),
        ({"seed": np.zeros(3, "int32")}, "each of the 2 rows. Received: 3"),
        ({"end_id": None, "min_length": 2}, "requires an `end_id`"),
        ({"end_id": V}, "end_id"),
        ({"pad_id": V}, "pad_id"),
        (
            {"min_length": 2, "suppressed_ids": [i for i in range(V) if i != END]},
            "other than",
        ),
        ({"suppressed_ids": range(V)}, "whole vocabulary"),
        ({"max_length": 0}, "max_length"),
        ({"max_lengths": np.ones((2, 1), "int32")}, "max_lengths"),
    ],
)
def test_errors(settings, message):
    settings = {"max_length": 3, "end_id": END, "seed": 0, **settings}
    prompt = np.full((2, 1), START)
    with pytest.raises(ValueError, match=message):
        sample(TableDecoder(), prompt, None, tables(2, V), **settings)


# Compiled


@pytest.mark.slow
def test_compiled_functions_take_seeds():
    generate = transformer_sample(transformer(), top_k=3)
    no_rows = generate(PROMPTS[:0], 5, SEEDS[:0])
    assert no_rows.tokens.shape == (0, 5)
    with pytest.raises(ValueError, match="each of the 3 rows"):
        generate(PROMPTS, 5, SEEDS[:2])
    with pytest.raises(ValueError, match="float"):
        generate(PROMPTS, 5, SEEDS * 1.0)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="XLA of TensorFlow")
def test_xla_gives_the_same():
    decoder = transformer()
    plain = transformer_sample(decoder, **SETTINGS["all"])
    xla = transformer_sample(decoder, **SETTINGS["all"])
    xla.jit_compile = True
    assert xla(PROMPTS, 6, SEEDS).tokens.tolist() == plain(PROMPTS, 6, SEEDS).tokens.tolist()


@pytest.fixture(scope="module")
def here():
    return everything()


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_the_same_on_other_backends(backend, here):
    result = answer(backend, HERE / "sampling_toys.py", path=[HERE])
    assert result.pop("backend") == backend
    assert result.keys() == here.keys()
    for name, value in here.items():
        if name.endswith("scores"):
            np.testing.assert_allclose(result[name], value, atol=2e-3)
        else:
            assert result[name] == value, name

"""Numbers of a sample and a search as tensors, a value for each row; what is kept compiled."""

import threading
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from generation_toys import (
    END,
    GROWTH,
    PAD,
    START,
    TableDecoder,
    assert_same,
    exhaustive_search,
    tables,
)
from keras import ops
from sampling_toys import filtered, plain_sample, softmax, table_logits

from keras_attn.generation import (
    CompiledFunction,
    CompiledSteps,
    Recent,
    SampledSteps,
    beam_search,
    greedy_search,
    sample,
)
from keras_attn.generation.numbers import columns, sampling_inputs
from keras_attn.generation.sampling import filter_logits

V = 7
ROWS = [
    {"temperature": 0.3, "top_k": 2, "top_p": 0.4, "min_p": 0.3, "repetition_penalty": 1.7},
    {"temperature": 2.5, "top_k": 5, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 0.6},
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0},
    {"temperature": 0.8, "top_k": 999, "top_p": 1e-6, "min_p": 0.0, "repetition_penalty": 1.0},
]
FILTERS = ("temperature", "top_k", "top_p", "min_p")


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def stacked(names, repeat=1):
    return {
        name: ops.convert_to_tensor(np.repeat([row[name] for row in ROWS], repeat).astype(dtype))
        for name in names
        for dtype in ["int32" if name == "top_k" else "float32"]
    }


def plain(row, names=FILTERS):
    """The same settings for one row, as numbers: what is off is left out."""
    off = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    return {name: row[name] for name in names if row[name] != off.get(name)}


@pytest.mark.parametrize("names", [FILTERS, FILTERS[:1], FILTERS[1:2], FILTERS[2:]], ids=str)
@pytest.mark.parametrize("most", [None, 1024])
def test_filters_of_each_row_are_those_of_the_reference(names, most):
    rng = np.random.default_rng(0)
    logits = (2 * rng.normal(size=(len(ROWS), 12, 33))).astype("float32")
    logits[:, ::5, 3:9] = -np.inf
    flat = ops.convert_to_tensor(logits.reshape(-1, 33))
    x = numpy(filter_logits(flat, **stacked(names, 12), largest_top_k=most)).reshape(logits.shape)
    for row, some, settings in zip(x, logits, ROWS, strict=True):
        for one, given in zip(row, some, strict=True):
            expected = filtered(given, **plain(settings, names))
            np.testing.assert_array_equal(one > -np.inf, expected > -np.inf)
            np.testing.assert_allclose(softmax(one), softmax(expected), rtol=2e-5)


def test_a_top_p_of_one_keeps_what_rounding_would_drop():
    x = ops.convert_to_tensor(np.linspace(0, -40, 50)[None], "float32")
    assert (numpy(filter_logits(x, top_p=ops.ones(1))) > -np.inf).all()
    assert (numpy(filter_logits(x, top_p=ops.array([0.999]))) == -np.inf).any()


@pytest.mark.slow
def test_samples_of_each_row_are_those_of_the_reference():
    """In one compiled function, which is traced once for all values."""
    count = 6
    table = tables(len(ROWS) * count, V)
    least = np.arange(len(ROWS) * count) % 4
    seeds = np.arange(len(ROWS) * count)
    names = list(ROWS[0])
    traces = []

    def run(ids, length, seeds, least, *numbers):
        traces.append(length)
        return sample(
            TableDecoder(), ids, None, ops.convert_to_tensor(table), max_length=length,
            end_id=END, seed=seeds, min_length=least, **dict(zip(names, numbers, strict=True)),
        )  # fmt: skip

    run = CompiledFunction(run, [])
    prompt = np.full((len(seeds), 1), START)
    numbers = [numpy(x) for x in stacked(names, count).values()]
    found = run(prompt, 9, seeds, least, *numbers)
    compared = 0
    for i, settings in enumerate(np.repeat(ROWS, count)):
        tokens, score, nearest = plain_sample(
            table_logits(table[i], GROWTH), [START], 9, int(seeds[i]),
            penalty=settings["repetition_penalty"], min_length=least[i], **plain(settings),
        )  # fmt: skip
        if nearest < 1e-5:
            continue
        compared += 1
        assert found.tokens[i].tolist() == tokens + [PAD] * (9 - len(tokens))
        assert found.scores[i] == pytest.approx(score, abs=1e-4)
    assert compared > len(seeds) - 3
    other = run(prompt, 9, seeds, least, np.full(len(seeds), 3.0), *numbers[1:])
    assert other.tokens.tolist() != found.tokens.tolist()
    if keras.backend.backend() != "torch":
        assert len(traces) == 1


def test_no_rows_of_numbers_that_must_be_above_zero(monkeypatch):
    """Where functions are not compiled, as on PyTorch, the numbers are checked in each call."""
    monkeypatch.setattr(CompiledFunction, "_tensorflow", CompiledFunction._eager)
    table = ops.convert_to_tensor(tables(1, V))

    def run(ids, length, temperature):
        return sample(
            TableDecoder(), ids, None, table, max_length=length, end_id=END, seed=1,
            temperature=temperature,
        )  # fmt: skip

    compiled = CompiledFunction(run, [])
    assert compiled(np.full((1, 1), START), 3, np.ones(1)).tokens.shape == (1, 3)
    assert compiled(np.full((0, 1), START), 3, np.ones(0)).tokens.shape == (0, 3)
    with pytest.raises(ValueError, match="temperature"):
        compiled(np.full((1, 1), START), 3, np.zeros(1))


@pytest.mark.slow
def test_parts_take_numbers_when_they_begin():
    """What `sample` draws, from functions that are compiled for all values."""
    table = ops.convert_to_tensor(tables(1, V)[0])

    class OneTable(TableDecoder):
        def prefill(self, prompt, prompt_mask=None, memory=None, mask=None, max_length=None):
            memory = ops.zeros_like(ops.cast(prompt[:, :1, None], "float32")) + table
            return super().prefill(prompt, prompt_mask, memory, None, max_length)

    names = [*ROWS[0], "min_length"]
    steps = SampledSteps(OneTable(), end_id=END, pad_id=PAD, no_repeat_ngram_size=3)
    run = CompiledSteps(
        lambda ids, room, seeds, *numbers: steps.begin(
            ids, None, seeds, max_length=room, numbers=dict(zip(names, numbers, strict=True))
        ),
        lambda state: steps.advance(state, 8),
        keras.Sequential(),
    )
    prompt, seeds = np.full((4, 1), START), np.arange(4)
    for shift in (0.0, 0.5):
        numbers = {name: numpy(x) for name, x in stacked(ROWS[0]).items()}
        numbers["temperature"] = numbers["temperature"] + np.float32(shift)
        numbers["min_length"] = np.array([0, 5, 8, 2])
        found, _ = run.advance(run.begin(prompt, 8, seeds, *numbers.values()))
        whole = sample(
            OneTable(), prompt, max_length=8, end_id=END, pad_id=PAD, seed=seeds,
            no_repeat_ngram_size=3, **numbers,
        )  # fmt: skip
        assert found["tokens"].tolist() == numpy(whole.tokens).tolist()
    if keras.backend.backend() == "tensorflow":
        assert run._advance.experimental_get_tracing_count() == 1
    with pytest.raises(ValueError, match=r"among temperature, .*min_length. Received: seed"):
        steps.begin(prompt, None, seeds, max_length=8, numbers={"seed": seeds})


def test_numbers_of_parts_may_become_others():
    """Integers and floats are functions of their own."""
    run = CompiledSteps(
        lambda ids, room, x: {"x": x}, lambda state: (state["x"] / 2, state), keras.Sequential()
    )
    assert run.advance(run.begin([[1]], 1, [3]))[0].tolist() == [1.5]
    assert run.advance(run.begin([[1]], 1, [2.5]))[0].tolist() == [1.25]


@pytest.mark.slow
def test_the_length_penalty_of_each_row_in_one_search():
    """Against exhaustive search: the exponents choose sequences of unlike lengths."""
    alphas, least = [-2.0, 0.0, 0.6, 3.0], [0, 1, 3, 2]
    table = np.repeat(tables(1, 5), 4, axis=0)
    traces = []

    def run(ids, length, alpha, least):
        traces.append(length)
        return beam_search(
            TableDecoder(), ids, None, ops.convert_to_tensor(table), num_beams=125, max_length=4,
            end_id=END, num_return_sequences=3, alpha=alpha, min_length=least,
        )  # fmt: skip

    run = CompiledFunction(run, [])
    prompt = np.full((4, 1), START)
    for shift in (0.0, 0.25):
        given = np.array(alphas) + shift
        found = run(prompt, 4, given, least)
        for row, (alpha, n) in enumerate(zip(given, least, strict=True)):
            expected = exhaustive_search(table[row], [START], 4, alpha=alpha, min_length=n)
            assert_same(found, row, expected)
    assert len({length for row in found.lengths[:, :1] for length in row.tolist()}) > 1
    if keras.backend.backend() != "torch":
        assert len(traces) == 1
    greedy = greedy_search(
        TableDecoder(), prompt, None, ops.convert_to_tensor(table), max_length=4, end_id=END,
        min_length=ops.array(least),
    )  # fmt: skip
    for row, n in enumerate(least):
        alone = greedy_search(
            TableDecoder(), prompt[:1], None, ops.convert_to_tensor(table[:1]), max_length=4,
            end_id=END, min_length=n,
        )  # fmt: skip
        assert numpy(greedy.tokens)[row].tolist() == numpy(alone.tokens)[0].tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": np.array([1.0, 0.0])}, "`temperature` .* Received: 0.0"),
        ({"temperature": np.ones((2, 1))}, r"`temperature` .* shape \(\) or \(B,\), .* \(2, 1\)"),
        ({"top_k": np.array([1.0, 2.0])}, "`top_k` must be an integer of at least 0"),
        ({"top_k": np.array([1, -1])}, "`top_k` .* Received: -1"),
        ({"top_p": np.array([0.5, 1.5])}, "`top_p` .* Received: 1.5"),
        ({"min_p": np.array([0.5, 1.0])}, "`min_p` .* Received: 1.0"),
        ({"repetition_penalty": np.array([1.0, np.nan])}, "`repetition_penalty` .* Received: nan"),
        ({"min_length": np.array([1, 4])}, "min_length=4, max_length=3"),
        ({"min_length": np.array([1, 2]), "end_id": None}, "requires an `end_id`"),
    ],
)
def test_errors(settings, message):
    settings = {"max_length": 3, "end_id": END, "seed": 0, **settings}
    with pytest.raises(ValueError, match=message):
        sample(TableDecoder(), np.full((2, 1), START), None, tables(2, V), **settings)


def test_what_functions_are_compiled_for():
    """Filters that are off are no inputs; k is looked for among a few counts of logits."""
    off = {
        "temperature": 0.7, "top_k": None, "top_p": None, "min_p": 0.0,
        "repetition_penalty": 1, "no_repeat_ngram_size": 0,
    }  # fmt: skip
    assert sampling_inputs(off) == ({"temperature": 0.7}, {"no_repeat_ngram_size": 0})
    assert sampling_inputs({**off, "min_p": None, "top_p": 1.0}) == sampling_inputs(off)
    found = [sampling_inputs({"top_k": k})[1]["largest_top_k"] for k in (1, 64, 65, 256, 257)]
    assert found == [64, 64, 256, 256, 1024]
    numbers, fixed = sampling_inputs({"top_k": 10**12})
    assert columns(numbers, 1)[0].tolist() == [2**30] and fixed["largest_top_k"] == 2**30


def test_recent_forgets_what_was_not_asked_for_the_longest():
    made, recent = [], Recent(most=3)

    def get(key):
        return recent.get(key, lambda: made.append(key) or [key])

    first = get("a")
    assert get("b") == ["b"] and get("c") == ["c"]
    assert get("a") is first
    assert get("d") == ["d"] and len(recent) == 3
    assert get("a") is first and made == ["a", "b", "c", "d"]
    assert get("b") == ["b"] and made == ["a", "b", "c", "d", "b"]
    recent.clear()
    assert len(recent) == 0
    with pytest.raises(ValueError, match=r"`most` must be an integer of at least 1. Received: 0"):
        Recent(0)


def test_threads_make_a_thing_once():
    recent, made = Recent(most=2), []
    begun, again, go_on = threading.Event(), threading.Event(), threading.Event()

    def make():
        (again if made else begun).set()
        made.append("thing")
        assert go_on.wait(60)
        return object()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(recent.get, "key", make)
        assert begun.wait(60)
        second = threads.submit(recent.get, "key", make)
        again.wait(0.3)  # a second thread that does not wait would be here at once
        go_on.set()
        assert first.result(60) is second.result(60)
    assert made == ["thing"]

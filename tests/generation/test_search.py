"""Greedy and beam search over small language models, against plain Python."""

import itertools
import math

import numpy as np
import pytest
from generation_toys import (
    END,
    PAD,
    START,
    TableDecoder,
    assert_same,
    exhaustive_search,
    log_probabilities,
    next_log_probabilities,
    plain_beam_search,
    tables,
    to_lists,
)
from keras import ops

from keras_attn.generation import beam_search, greedy_search, length_penalty

A, B = 3, 4


def prompts(count, *ids):
    return np.array([ids or (START,)] * count, "int32")


def search(table, prompt, mask=None, num_beams=None, max_length=4, decoder=None, **settings):
    if num_beams:
        settings = {"num_beams": num_beams, "num_return_sequences": num_beams, **settings}
    return (beam_search if num_beams else greedy_search)(
        decoder or TableDecoder(),
        prompt,
        mask,
        table,
        max_length=max_length,
        **{"end_id": END, **settings},
    )


def by_hand(after):
    """A table `(1, 25, 5)` of probabilities after the last one or two tokens (else the
    end), and a decoder for which they are the same everywhere."""
    table = np.full((5, 5, 5), -np.inf, "float32")
    table[..., END] = 0.0
    for context, following in after.items():
        before = context[0] if len(context) == 2 else slice(None)
        table[before, context[-1]] = -np.inf
        for token, probability in following.items():
            table[before, context[-1], token] = math.log(probability)
    return {"table": table.reshape(1, 25, 5), "decoder": TableDecoder(growth=0.0)}


# By hand


def test_length_penalty():
    lengths = np.array([1, 7, 13])
    assert ops.convert_to_numpy(length_penalty(lengths, 0.0)).tolist() == [1, 1, 1]
    assert ops.convert_to_numpy(length_penalty(lengths, 1.0)).tolist() == [1, 2, 3]
    np.testing.assert_allclose(length_penalty(lengths, 0.6), [1, 2**0.6, 3**0.6], rtol=1e-6)


def test_two_steps_by_hand():
    table = by_hand(
        {(START,): {A: 0.6, B: 0.4}, (A,): {A: 0.37, B: 0.33, END: 0.3}, (B,): {END: 0.9, A: 0.1}}
    )
    greedy = search(**table, prompt=prompts(1), max_length=2)
    assert ops.convert_to_numpy(greedy.tokens).tolist() == [[A, A]]
    np.testing.assert_allclose(greedy.scores, [math.log(0.6 * 0.37)], rtol=1e-6)
    assert ops.convert_to_numpy(greedy.finished).tolist() == [False]

    beam = search(**table, prompt=prompts(1), num_beams=2, max_length=2)
    assert to_lists(beam, 0) == [
        (pytest.approx(math.log(0.36)), (B, END), True),
        (pytest.approx(math.log(0.222)), (A, A), False),
    ]
    beam = search(**table, prompt=prompts(1), num_beams=2, max_length=2, alpha=1.0)
    np.testing.assert_allclose(beam.scores, [np.log([0.36, 0.222]) / (7 / 6)], rtol=1e-6)
    # Three steps let the sequences that were cut go on.
    beam = search(**table, prompt=prompts(1), num_beams=3, max_length=3)
    assert to_lists(beam, 0)[:2] == [
        (pytest.approx(math.log(0.36)), (B, END), True),
        (pytest.approx(math.log(0.6 * 0.33 * 0.9)), (A, B, END), True),
    ]


def test_finished_beams_are_frozen():
    # A beam that went on scoring after the end would hold the first for 0.4 * 0.2 * 0.2.
    everything = dict.fromkeys(range(5), 0.2)
    go_on = {A: 0.6, END: 0.4}
    table = by_hand({(START,): go_on, (A,): go_on, (END,): everything, (PAD,): everything})
    beam = search(**table, prompt=prompts(1), num_beams=2, max_length=3)
    assert to_lists(beam, 0) == [
        (pytest.approx(math.log(0.4)), (END,), True),
        (pytest.approx(math.log(0.216)), (A, A, A), False),
    ]
    beam = search(**table, prompt=prompts(1), num_beams=3, max_length=3)
    assert to_lists(beam, 0)[1] == (pytest.approx(math.log(0.24)), (A, END), True)


def test_what_ended_is_not_lost():
    # After two steps "a a" and "a b", 0.35 each, have the two places; then they fall apart.
    apart = {END: 0.28, A: 0.24, B: 0.24, START: 0.24}
    table = by_hand(
        {
            (START,): {A: 0.7, END: 0.3},
            (START, A): {A: 0.51, B: 0.49},
            (A, A): apart,
            (A, B): apart,
        }
    )
    expected = [
        (pytest.approx(math.log(0.3)), (END,), True),
        (pytest.approx(math.log(0.7 * 0.51 * 0.28)), (A, A, END), True),
    ]
    assert to_lists(search(**table, prompt=prompts(1), num_beams=2, max_length=3), 0) == expected
    lost = plain_beam_search(table["table"][0], (START,), 2, 3, forget=True)
    assert (END,) not in [tokens for _, tokens, _ in lost]


def test_the_stop_waits_for_what_may_win():
    # alpha > 0: the penalty makes up for it only at length 7: log(0.4) / 2 against log(0.6).
    table = by_hand({(START,): {A: 0.4, END: 0.6}, (A,): {A: 1.0}})
    settings = {**table, "prompt": prompts(1), "num_beams": 2, "num_return_sequences": 1}
    beam = search(**settings, max_length=7, alpha=1.0)
    assert to_lists(beam, 0) == [(pytest.approx(math.log(0.4) / 2), (A,) * 7, False)]
    # alpha < 0: it does so at length 2, and never again.
    table = by_hand({(START,): {A: 0.7, END: 0.3}})
    beam = search(**settings | table, max_length=20, alpha=-1.0)
    assert to_lists(beam, 0) == [(pytest.approx(math.log(0.7) * 7 / 6), (A, END), True)]


def test_end_as_the_first_token():
    table = np.tile(by_hand({})["table"], (3, 1, 1))
    for result in (search(table, prompts(3)), search(table, prompts(3), num_beams=1)):
        tokens = ops.convert_to_numpy(result.tokens).reshape(3, 4)
        assert tokens.tolist() == [[END, PAD, PAD, PAD]] * 3
        assert ops.convert_to_numpy(result.scores).ravel().tolist() == [0, 0, 0]
        assert ops.convert_to_numpy(result.lengths).ravel().tolist() == [1, 1, 1]
        assert ops.convert_to_numpy(result.finished).all()
    # No other sequence is there.
    result = search(table, prompts(3), num_beams=4)
    assert to_lists(result, 1) == [(0.0, (END,), True)] + [(-math.inf, (), False)] * 3


def test_padding_may_be_the_end():
    table = tables(20, 5)
    for width in (None, 3):
        other = search(table, prompts(20), num_beams=width)
        same = search(table, prompts(20), num_beams=width, pad_id=END)
        tokens, lengths = (ops.convert_to_numpy(t) for t in (other.tokens, other.lengths))
        padded = np.arange(4) >= lengths[..., None]
        expected = np.where(padded, END, tokens)
        np.testing.assert_array_equal(ops.convert_to_numpy(same.tokens), expected)
        for a, b in zip(other[1:], same[1:], strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(a), ops.convert_to_numpy(b))


def test_vocabulary_of_one():
    table = np.zeros((2, 1, 1), "float32")
    decoder, prompt = TableDecoder(), np.zeros((2, 1), "int32")
    for result in (
        greedy_search(decoder, prompt, None, table, max_length=3, end_id=0),
        beam_search(decoder, prompt, None, table, max_length=3, end_id=0, num_beams=2),
    ):
        assert ops.convert_to_numpy(result.lengths).ravel().tolist() == [1, 1]
        assert ops.convert_to_numpy(result.scores).ravel().tolist() == [0, 0]


# Against plain Python, 60 random models at a time


@pytest.mark.quick("rules1-0.6")
@pytest.mark.parametrize("alpha", [0.6, *(pytest.param(a, marks=pytest.mark.slow) for a in (0, 1))])
@pytest.mark.parametrize(
    "rules",
    [{}, {"min_length": 3}, {"suppressed": (PAD, 3)}, {"min_length": 4, "suppressed": (1,)}],
)
def test_wide_beam_is_exhaustive_search(alpha, rules):
    alpha = -alpha if "suppressed" in rules else alpha  # negative ones favour short sequences
    table = tables(60, 4)
    settings = dict(rules)
    settings["suppressed_ids"] = settings.pop("suppressed", ())
    result = search(
        table,
        prompts(60),
        num_beams=128,
        num_return_sequences=30,
        alpha=alpha,
        **settings,
    )
    for row in range(60):
        expected = exhaustive_search(table[row], (START,), 4, alpha, **rules)
        assert_same(result, row, expected)


@pytest.mark.slow
def test_any_of_several_tokens_may_be_the_end():
    table = tables(20, 4)
    ends = [END, 3]
    result = search(table, prompts(20), num_beams=128, num_return_sequences=9, end_id=ends)
    best = search(table, prompts(20), end_id=ends)
    endless = search(table, prompts(20), end_id=None)
    cut = 0
    for row in range(20):
        assert_same(result, row, exhaustive_search(table[row], (START,), 4, ends=ends))
        tokens = ops.convert_to_numpy(endless.tokens)[row].tolist()
        found = [i for i, token in enumerate(tokens) if token in ends]
        length = found[0] + 1 if found else 4
        assert ops.convert_to_numpy(best.tokens)[row].tolist()[:length] == tokens[:length]
        assert int(best.lengths[row]) == length and bool(best.finished[row]) == bool(found)
        cut += tokens[length - 1] == 3
    assert cut > 2


QUICK = [(1, 0.6), (3, 0.0), (5, 0.6)]


@pytest.mark.quick("3-0.0")
@pytest.mark.parametrize(
    ("width", "alpha"),
    [
        case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow)
        for case in itertools.product([1, 2, 3, 5], [0.0, 0.6, 1.0])
    ],
)
def test_beam_search_against_plain_python(width, alpha):
    """The reference never stops early, so the stop changes nothing."""
    for seed, (V, length, rules) in enumerate(
        [
            (6, 6, {}),
            (12, 8, {"min_length": 3}),
            (5, 1, {}),
            (6, 7, {"suppressed": (PAD, START)}),
        ]
    ):
        table = tables(60, V, seed=seed, scale=2.0)
        settings = dict(rules)
        settings["suppressed_ids"] = settings.pop("suppressed", ())
        expected = [
            plain_beam_search(table[row], (START,), width, length, alpha, **rules)
            for row in range(60)
        ]
        for returned in {1, width} if V == 12 else {width}:
            result = search(
                table,
                prompts(60),
                num_beams=width,
                num_return_sequences=returned,
                max_length=length,
                alpha=alpha,
                **settings,
            )
            for row in range(60):
                assert_same(result, row, expected[row])


def test_more_beams_than_tokens():
    table = tables(60, 3)
    result = search(table, prompts(60), num_beams=7, max_length=3)
    for row in range(60):
        assert_same(result, row, plain_beam_search(table[row], (START,), 7, 3))


@pytest.mark.slow
def test_without_an_end_all_go_on():
    table, rows = tables(5, 6, seed=1), prompts(5)
    settings = {"max_length": 4, "end_id": None, "pad_id": 0}
    decoder, memory = TableDecoder(), ops.convert_to_tensor(table)
    greedy = greedy_search(decoder, rows, None, memory, **settings)
    beam = beam_search(decoder, rows, None, memory, num_beams=1, **settings)
    np.testing.assert_array_equal(greedy.tokens, beam.tokens[:, 0])
    wide = beam_search(decoder, rows, None, memory, num_beams=3, **settings)
    for found in (greedy, wide):
        assert (ops.convert_to_numpy(found.lengths) == 4).all()
        assert not ops.convert_to_numpy(found.finished).any()


@pytest.mark.parametrize("alpha", [pytest.param(0.0, marks=pytest.mark.slow), 0.6])
def test_greedy_is_a_beam_of_one(alpha):
    for length, min_length in [(8, 0), (8, 3), (1, 0), (2, 2)]:
        table = tables(60, 6, seed=length)
        settings = {"max_length": length, "min_length": min_length}
        greedy = search(table, prompts(60), **settings)
        beam = search(table, prompts(60), num_beams=1, alpha=alpha, **settings)
        assert ops.convert_to_numpy(greedy.finished).any() or length == 1
        for field in ("tokens", "lengths", "finished"):
            np.testing.assert_array_equal(
                ops.convert_to_numpy(getattr(greedy, field)),
                ops.convert_to_numpy(getattr(beam, field))[:, 0],
            )
        penalty = ops.convert_to_numpy(length_penalty(greedy.lengths, alpha))
        np.testing.assert_allclose(
            ops.convert_to_numpy(greedy.scores) / penalty,
            ops.convert_to_numpy(beam.scores)[:, 0],
            atol=1e-5,
        )


@pytest.mark.slow
@pytest.mark.parametrize("width", [None, 3])
def test_scores_are_the_decoders_own(width):
    """What is suppressed is passed over; what is left is not scaled up."""
    table = tables(20, 6)
    settings = {"suppressed_ids": (PAD, 4), "min_length": 3, "max_length": 5}
    result = search(table, prompts(20), num_beams=width, **settings)
    if width is None:
        result = [np.expand_dims(ops.convert_to_numpy(t), 1) for t in result]
    for row in range(20):
        for score, tokens, finished in to_lists(result, row):
            assert not {PAD, 4} & set(tokens)
            assert len(tokens) >= 3
            assert finished == (tokens[-1] == END)
            assert finished or len(tokens) == 5
            logp = log_probabilities(table[row], 6)
            total = sum(
                next_log_probabilities(logp, (START,), tokens[:i])[token]
                for i, token in enumerate(tokens)
            )
            assert score == pytest.approx(total, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_half_precision_logits(dtype):
    """Logits that the dtype holds exactly give what float32 gives."""
    table = np.round(tables(40, 6) * 16) / 16
    for width in (None, 3):
        expected, result = (
            search(
                table,
                prompts(40),
                num_beams=width,
                max_length=6,
                decoder=TableDecoder(each, growth=0.0),
            )
            for each in ("float32", dtype)
        )
        exact = np.asarray(ops.convert_to_numpy(ops.cast(ops.cast(table, dtype), "float32")))
        np.testing.assert_array_equal(exact, table)
        assert "float32" in str(result.scores.dtype)
        for a, b in zip(expected, result, strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(a), ops.convert_to_numpy(b), atol=1e-5)


@pytest.mark.slow
def test_impossible_logits():
    """-inf logits never come, give no NaN, and what is not there has a score of -inf."""
    table = tables(60, 4)
    table[np.random.default_rng(0).random(table.shape) < 0.4] = -np.inf
    table[..., END] = np.where(np.isneginf(table).all(-1), 0.0, table[..., END])
    for width in (2, 5, 128):
        result = search(table, prompts(60), num_beams=width, max_length=3)
        assert not np.isnan(ops.convert_to_numpy(result.scores)).any()
        for row in range(60):
            assert_same(result, row, plain_beam_search(table[row], (START,), width, 3))
    greedy = search(table, prompts(60), max_length=3)
    assert np.isfinite(ops.convert_to_numpy(greedy.scores)).all()


# Batches


@pytest.mark.quick("None")
@pytest.mark.parametrize("width", [None, pytest.param(1, marks=pytest.mark.slow), 3])
def test_rows_do_not_depend_on_each_other(width):
    """Prompts of different lengths, and rows that end early beside rows that do not."""
    table = tables(5, 6)
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 5, size=5)
    mask = np.arange(4) < lengths[:, None]
    prompt = np.where(mask, rng.integers(1, 6, size=(5, 4)), PAD).astype("int32")
    limits = rng.integers(1, 8, size=5).astype("int32")
    settings = {"num_beams": width, **({"alpha": 1.0} if width else {})}
    for max_lengths in (None, limits):
        together = search(table, prompt, mask, max_length=7, max_lengths=max_lengths, **settings)
        for row in range(5):
            most = 7 if max_lengths is None else int(limits[row])
            alone = search(
                table[row : row + 1],
                prompt[row : row + 1, : lengths[row]],
                max_length=most,
                **settings,
            )
            tokens = ops.convert_to_numpy(together.tokens)[row]
            assert np.all(tokens[..., most:] == PAD)
            np.testing.assert_array_equal(tokens[..., :most], ops.convert_to_numpy(alone.tokens)[0])
            for a, b in zip(together[1:], alone[1:], strict=True):
                np.testing.assert_allclose(
                    ops.convert_to_numpy(a)[row], ops.convert_to_numpy(b)[0], atol=1e-6
                )


@pytest.mark.slow
def test_limits_are_kept_within_max_length():
    table = np.tile(by_hand({(START,): {A: 1.0}, (A,): {A: 1.0}})["table"], (3, 1, 1))
    for width in (None, 2):
        result = search(
            table, prompts(3), num_beams=width, max_length=3, max_lengths=np.array([0, 2, 9])
        )
        assert ops.convert_to_numpy(result.lengths).reshape(3, -1)[:, 0].tolist() == [1, 2, 3]


# Errors


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"max_length": 0}, "`max_length` must be an integer of at least 1. Received: 0"),
        ({"max_length": 2.5}, "`max_length` must be an integer"),
        ({"max_length": True}, "`max_length` must be an integer"),
        ({"min_length": -1}, "`min_length` must be an integer of at least 0. Received: -1"),
        ({"min_length": 5}, "min_length=5, max_length=4"),
        ({"min_length": 2, "end_id": None}, "requires an `end_id`. Received: min_length=2, end_id"),
        ({"min_length": np.array([2]), "end_id": []}, "requires an `end_id`"),
        ({"end_id": 6}, "`end_id` must be within the vocabulary, 0 to 5. Received: 6"),
        ({"end_id": -1}, "`end_id` must be within"),
        ({"pad_id": -1}, "`pad_id` must be within the vocabulary"),
        ({"suppressed_ids": (1, 6)}, "`suppressed_ids` must be within the vocabulary"),
        ({"suppressed_ids": range(6)}, "must leave at least one token"),
        ({"max_lengths": np.array([[1]])}, r"`max_lengths` .* Received: shape \(1, 1\)"),
        ({"max_lengths": np.array([1.5])}, "dtype float"),
        ({"prompt": np.array([START])}, r"`prompt` must have shape \(B, P\)"),
        ({"prompt": np.zeros((1, 0), "int32")}, "at least one token per row"),
        ({"prompt_mask": np.array([[True, False]])}, "`prompt_mask` must have one value per token"),
        ({"prompt_mask": np.array([[1.0]])}, "`prompt_mask` must be boolean"),
        ({"prompt_mask": np.array([[1], [1]])}, r"Received: shape \(2, 1\)"),
    ],
)
def test_errors_of_both_searches(settings, message):
    settings = {
        "prompt": prompts(1),
        "memory": tables(1, 6),
        "max_length": 4,
        "end_id": END,
        **settings,
    }
    with pytest.raises(ValueError, match=message):
        greedy_search(TableDecoder(), **settings)
    with pytest.raises(ValueError, match=message):
        beam_search(TableDecoder(), **settings, num_beams=2)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_beams": 0}, "`num_beams` must be an integer of at least 1. Received: 0"),
        ({"num_beams": 2.0}, "`num_beams` must be an integer"),
        ({"num_beams": 2, "num_return_sequences": 0}, "`num_return_sequences` must be"),
        ({"num_beams": 2, "num_return_sequences": 3}, "at most `num_beams`. Received: .*=3, .*=2"),
    ],
)
def test_errors_of_beam_search(settings, message):
    with pytest.raises(ValueError, match=message):
        beam_search(
            TableDecoder(), prompts(1), None, tables(1, 6), max_length=3, end_id=END, **settings
        )


def test_numpy_integers_and_sets_are_taken():
    table = tables(4, 6)
    settings = {"end_id": np.int64(END), "max_length": np.int32(4), "suppressed_ids": {A, B}}
    result = beam_search(TableDecoder(), prompts(4), None, table, num_beams=np.int64(2), **settings)
    assert not np.isin(ops.convert_to_numpy(result.tokens), [A, B]).any()

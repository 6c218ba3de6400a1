"""Sampling in parts: the tokens of `sample`, ends, limits, compiled functions."""

import keras
import numpy as np
import pytest
from generation_toys import END, PAD, TableDecoder, tables
from keras import ops

from keras_attn.generation import CompiledSteps, SampledSteps, sample
from keras_attn.models import GptConfig, language_decoder

SETTINGS = {"temperature": 0.9, "top_p": 0.95, "repetition_penalty": 1.3, "no_repeat_ngram_size": 3}
PROMPT = np.array([[1, 5, 0], [1, 3, 4], [1, 0, 0]])
MASK = PROMPT != PAD
SEEDS = np.array([1, -2, 3], "int32")


class OneTable(TableDecoder):
    """All rows have the same model."""

    table = tables(1, 7, seed=3)[0]

    def prefill(self, prompt, prompt_mask=None, memory=None, memory_mask=None, max_length=None):
        memory = ops.zeros_like(ops.cast(prompt[:, :1, None], "float32")) + self.table
        return super().prefill(prompt, prompt_mask, memory, None, max_length)


def in_parts(run, count, limits, total):
    """The tokens of each row, and whether it has ended; each call has at most `count` tokens."""
    state = run.begin(PROMPT, total, SEEDS, np.asarray(limits))
    rows, calls = [[] for _ in PROMPT], 0
    while True:
        found, state = run.advance(state)
        calls += 1
        for row, tokens, length in zip(rows, found["tokens"], found["lengths"], strict=True):
            assert (tokens[length:] == PAD).all()
            row += tokens[:length].tolist()
        open_ = [not f and len(r) < n for f, r, n in zip(found["finished"], rows, limits)]  # noqa: B905
        if not any(open_):
            return rows, found["finished"].tolist(), calls


def compiled(count, end_id, least=0):
    steps = SampledSteps(
        OneTable(), end_id=end_id, pad_id=PAD, min_length=least, suppressed_ids=[PAD], **SETTINGS
    )
    return CompiledSteps(
        lambda ids, room, seeds, limits: steps.begin(
            ids, ops.not_equal(ids, PAD), seeds, limits, max_length=room
        ),
        lambda state: steps.advance(state, count),
        keras.Sequential(),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "end_id", "least"),
    [
        (1, None, 0),
        (4, END, 0),
        (4, [END, 5], 6),
        pytest.param(1, END, 0, marks=pytest.mark.slow),
        pytest.param(4, None, 0, marks=pytest.mark.slow),
    ],
)
def test_all_parts_are_what_sample_draws(count, end_id, least):
    limits = [9, 12, 5]
    whole = sample(
        OneTable(), PROMPT, MASK, max_length=12, end_id=end_id, pad_id=PAD, seed=SEEDS,
        max_lengths=np.array(limits), min_length=least, suppressed_ids=[PAD], **SETTINGS,
    )  # fmt: skip
    lengths = ops.convert_to_numpy(whole.lengths)
    wanted = [
        row[:n].tolist() for row, n in zip(ops.convert_to_numpy(whole.tokens), lengths, strict=True)
    ]
    run = compiled(count, end_id, least)
    found, finished, calls = in_parts(run, count, limits, 12)
    assert all(not f or len(row) >= least for f, row in zip(finished, found, strict=True))
    assert found == wanted
    assert finished == ops.convert_to_numpy(whole.finished).tolist()
    assert any(finished) == (end_id is not None)
    assert calls == -(-max(lengths) // count)  # not one more
    if keras.backend.backend() == "tensorflow":
        in_parts(run, count, [3, 2, 1], 40)  # other limits and room, the same functions
        assert run._advance.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_parts_may_be_longer_than_what_is_left():
    """A decoder with a cache, eagerly, which checks that it has room."""
    config = GptConfig(9, dim=8, num_layers=1, num_heads=2, intermediate_dim=8, sequence_length=16)
    decoder = language_decoder(config.build())
    steps = SampledSteps(decoder, end_id=None)
    state = steps.begin(PROMPT[:, :2], None, SEEDS, max_length=6)
    first, state = steps.advance(state, 4)
    second, state = steps.advance(state, 4)
    found = np.concatenate([first["tokens"], second["tokens"][:, :2]], axis=1)
    whole = sample(decoder, PROMPT[:, :2], max_length=6, end_id=None, seed=SEEDS)
    np.testing.assert_array_equal(found, whole.tokens)


def test_new_variables_are_compiled_anew():
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
    model.build((None, 1))
    run = CompiledSteps(
        lambda ids, n: {"x": ops.cast(ids, "float32")},
        lambda state: (model(state["x"]), state),
        model,
    )

    def value():
        return float(run.advance(run.begin([[2]], 1))[0][0, 0])

    model.layers[0].kernel.assign([[3.0]])
    assert value() == 6
    model.layers[0].kernel.assign([[4.0]])
    assert value() == 8
    model.layers[0].enable_lora(1)
    model.layers[0].lora_kernel_a.assign([[1.0]])
    model.layers[0].lora_kernel_b.assign([[1.0]])
    assert value() == 10


def test_wrong_settings():
    with pytest.raises(ValueError, match=r"requires an `end_id`\. Received: min_length=2"):
        SampledSteps(OneTable(), end_id=None, min_length=2)
    steps = SampledSteps(OneTable(), end_id=None)
    with pytest.raises(ValueError, match="requires an `end_id`"):
        steps.begin(PROMPT, None, SEEDS, max_length=4, numbers={"min_length": SEEDS})
    with pytest.raises(ValueError, match="temperature"):
        SampledSteps(OneTable(), end_id=None, temperature=0.0)


def test_no_step_before_the_first_state():
    steps = CompiledSteps(lambda ids, n: ids, lambda state: (state, state), keras.Sequential())
    with pytest.raises(RuntimeError, match="Call `begin` first"):
        steps.advance({})

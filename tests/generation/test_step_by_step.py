"""Decoding step by step == the call on the whole sequence (teacher forcing)."""

import functools
import itertools

import keras
import numpy as np
import pytest
from generation_toys import (
    END,
    PAD,
    START,
    compiled,
    randomize,
    small_transformer,
    sources,
    translate,
)
from keras import ops

from keras_attn.generation import RecomputeDecoder, beam_search, greedy_search
from keras_attn.layers import (
    DecoderBlock,
    LearnedPositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
    transformer_stacks,
)
from keras_attn.models import SequenceDecoder, TokenDecoder

DIM, STEPS = 8, 3
PROMPTS = {  # lengths of three rows, and the side of their padding
    "one token": ([1, 1, 1], None),
    "equal": ([3, 3, 3], None),
    "right": ([2, 4, 1], "right"),
    "left": ([2, 4, 1], "left"),
}
LLAMA = {
    "normalization": "rms_norm", "gated": True, "activation": "silu", "use_bias": False,
    "positions": "rotary", "num_kv_heads": 2, "normalize_first": True, "rotary_base": 50.0,
}  # fmt: skip


@keras.saving.register_keras_serializable(package="tests")
def far_is_less(scores, head, query, key):
    """Scores by distance, in each head otherwise, and not in proportion."""
    distance = ops.cast((query - key) * (1 + head), scores.dtype)
    return ops.sin(scores) - 0.2 * distance


@keras.saving.register_keras_serializable(package="tests")
def by_absolute_position(head, query, key):
    """Hides some keys by where they are, not by how far."""
    return ((query + key + head) % 3 != 0) | (query == key)


TODAY = {  # of the attention of today, all at once
    "normalize_first": True, "positions": "rotary", "num_kv_heads": 2, "qk_norm": "rms_norm",
    "softcap": 1.0, "attention_sinks": True, "sliding_window": 2, "sink_tokens": 1,
    "window_blocks": 2, "window_rotary_base": 20.0, "sandwich_norm": True,
    "score_mod": far_is_less, "mask_mod": by_absolute_position,
}  # fmt: skip
FUNCTIONS = {name: TODAY[name] for name in ("score_mod", "mask_mod")}
CASES = [  # settings of the stack, memory, prompt
    *(
        pytest.param(
            {"normalize_first": first, "num_kv_heads": heads},
            memory,
            prompt,
            marks=()
            if (first, heads, memory, prompt) == (False, 2, True, "left")
            else pytest.mark.slow,
        )
        for first, heads, memory, prompt in itertools.product(
            [True, False], [None, 2], [True, False], ["right", "left"]
        )
    ),
    pytest.param({"normalize_first": True}, True, "one token", marks=pytest.mark.slow),
    ({"num_kv_heads": 1}, False, "one token"),
    pytest.param({}, True, "equal", marks=pytest.mark.slow),
    pytest.param(
        {"normalize_first": True, "num_kv_heads": 1}, False, "equal", marks=pytest.mark.slow
    ),
    (LLAMA, True, "right"),
    pytest.param(LLAMA, True, "left", marks=pytest.mark.slow),
    pytest.param(LLAMA, False, "right", marks=pytest.mark.slow),
    (LLAMA, False, "left"),
    pytest.param(LLAMA, False, "equal", marks=pytest.mark.slow),
    (TODAY, True, "left"),
    pytest.param(TODAY, False, "right", marks=pytest.mark.slow),
    pytest.param(FUNCTIONS, False, "right", marks=pytest.mark.slow),
    ({"positions": "alibi"}, True, "right"),
    pytest.param({"positions": "alibi", "num_kv_heads": 2}, False, "left", marks=pytest.mark.slow),
    pytest.param(
        {"positions": "alibi", "normalize_first": True}, False, "one token", marks=pytest.mark.slow
    ),
]


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def prompt_slots(lengths, side):
    """The slots of each row's prompt tokens, and the prompt's mask."""
    width = max(lengths)
    slots = [np.arange(n) + (width - n if side == "left" else 0) for n in lengths]
    mask = np.zeros((len(lengths), width), bool)
    for row, own in enumerate(slots):
        mask[row, own] = True
    return slots, mask


def fill_free_slots(cache, used, value):
    """Writes garbage into all slots that hold no prompt."""
    free = ops.reshape(ops.arange(cache.shape[2]) >= used, (1, 1, -1, 1))
    return ops.where(free, ops.cast(value, cache.dtype), cache)


def _name(x):
    named = [name for name, group in (("today", TODAY), ("functions", FUNCTIONS)) if x is group]
    return named[0] if named else str(x)[:80]


@pytest.mark.parametrize("settings, with_memory, prompt", CASES, ids=_name)
def test_transformer_decoder(settings, with_memory, prompt):
    """Vectors: outputs and weights, with slots to spare and garbage in them."""
    lengths, side = PROMPTS[prompt]
    rng = np.random.default_rng(0)
    stack = TransformerDecoder(2, 4, intermediate_dim=16, **settings)
    x = rng.normal(size=(3, max(lengths) + STEPS, DIM)).astype("float32")
    memory = rng.normal(size=(3, 5, DIM)).astype("float32") if with_memory else None
    memory_mask = np.arange(5) < np.array([[5], [2], [3]]) if with_memory else None
    whole = {"memory": memory, "memory_mask": memory_mask} if with_memory else {}
    stack.build(x.shape, *([memory.shape] if with_memory else []))
    randomize(stack, 1)
    full, own, cross = stack(x, **whole, return_attention_scores=True)
    full = numpy(full)

    width = max(lengths)
    slots, mask = prompt_slots(lengths, side)
    prompts = rng.normal(size=(3, width, DIM)).astype("float32")  # padding is garbage too
    for row, n in enumerate(lengths):
        prompts[row, slots[row]] = x[row, :n]
    # The functions of `TODAY` read absolute positions, which padding on the left shifts.
    counted = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    positions = {"positions": counted} if "mask_mod" in settings else {}
    output, state = stack.prefill(
        ops.convert_to_tensor(prompts),
        None if side is None else mask,
        None if memory is None else ops.convert_to_tensor(memory),
        memory_mask,
        width + STEPS + 2,
        **positions,
    )
    for row, n in enumerate(lengths):
        np.testing.assert_allclose(numpy(output)[row, slots[row]], full[row, :n], atol=1e-5)
    state["cache"] = keras.tree.map_structure(
        lambda c: fill_free_slots(c, width, 1e4), state["cache"]
    )
    assert ("positions" in state) == bool({"positions", "score_mod"} & set(settings))
    if "positions" in state:
        free = np.arange(width + STEPS + 2) >= width
        state["positions"] = ops.where(free, 99, state["positions"])
    for step in range(STEPS):
        at = np.array(lengths) + step
        new = np.take_along_axis(x, at[:, None, None], axis=1)
        output, state, scores = stack.step(ops.convert_to_tensor(new), state, True)
        np.testing.assert_allclose(numpy(output)[:, 0], full[np.arange(3), at], atol=1e-5)
        assert len(scores["self"]) == 2
        assert len(scores["cross"]) == (2 if with_memory else 0)
        for layer, row in itertools.product(range(2), range(3)):
            expected = np.zeros((4, width + STEPS + 2), "float32")
            seen = [*slots[row], *range(width, width + step + 1)]
            expected[:, seen] = numpy(own[layer])[row, :, at[row], : at[row] + 1]
            np.testing.assert_allclose(numpy(scores["self"][layer])[row, :, 0], expected, atol=1e-5)
            if with_memory:
                np.testing.assert_allclose(
                    numpy(scores["cross"][layer])[row, :, 0],
                    numpy(cross[layer])[row, :, at[row]],
                    atol=1e-5,
                )


@pytest.mark.parametrize(
    ("settings", "with_memory", "side"),
    [
        (LLAMA, True, "right"),
        pytest.param({"normalize_first": True}, True, "left", marks=pytest.mark.slow),
        pytest.param({"num_kv_heads": 2}, False, "right", marks=pytest.mark.slow),
        pytest.param(TODAY, False, "left", marks=pytest.mark.slow),
        pytest.param({"positions": "alibi"}, True, "left", marks=pytest.mark.slow),
        pytest.param(
            {"positions": "relative", "max_distance": 4, "num_buckets": 4, "num_kv_heads": 2},
            False, "right", marks=pytest.mark.slow,
        ),
    ],
    ids=_name,
)  # fmt: skip
@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_beams_that_continue_others(settings, with_memory, side, shared, monkeypatch):
    """Outputs and weights are those of whole sequences; shared slots are copied by no reorder."""
    beams, lengths = 3, (2, 4)
    monkeypatch.setattr(transformer_stacks, "MOST_SHARING", 4 if shared else 1)
    monkeypatch.setattr(transformer_stacks, "compiler", lambda: "xla")
    rng = np.random.default_rng(0)
    stack = TransformerDecoder(2, 4, intermediate_dim=16, **settings)
    memory = rng.normal(size=(2, 5, DIM)).astype("float32") if with_memory else None
    stack.build((2, 4, DIM), *([memory.shape] if with_memory else []))
    randomize(stack, 1)
    slots, mask = prompt_slots(lengths, side)
    prompts = rng.normal(size=(2, 4, DIM)).astype("float32")
    histories = [prompts[row, slots[row]] for row in (0, 1) for _ in range(beams)]
    read = [list(slots[row]) for row in (0, 1) for _ in range(beams)]
    counted = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    positions = {"positions": counted} if "mask_mod" in settings else {}
    _, state = stack.prefill(ops.convert_to_tensor(prompts), mask, memory, None, 8, **positions)
    state = stack.repeat(state, beams)
    assert ("owners" in state) == shared
    for step in range(STEPS):
        new = rng.normal(size=(2 * beams, 1, DIM)).astype("float32")
        output, after, scores = stack.step(ops.convert_to_tensor(new), state, True)
        histories = [np.concatenate(pair) for pair in zip(histories, new, strict=True)]
        for row, history in enumerate(histories):
            whole = (history[None],) if memory is None else (history[None], memory[[row // beams]])
            full, own, _ = stack(*map(ops.convert_to_tensor, whole), return_attention_scores=True)
            np.testing.assert_allclose(numpy(output)[row, 0], numpy(full)[0, -1], atol=1e-5)
            seen = [*read[row], *range(4, 4 + step + 1)]
            for layer in (0, 1):
                expected = np.zeros((4, 8), "float32")
                expected[:, seen] = numpy(own[layer])[0, :, -1]
                found = numpy(scores["self"][layer])[row, :, 0]
                np.testing.assert_allclose(found, expected, atol=1e-5)
        parents = rng.integers(0, beams, size=2 * beams) + np.repeat([0, beams], beams)
        state = stack.reorder(after, ops.convert_to_tensor(parents.astype("int32")))
        histories = [histories[parent] for parent in parents]
        same = numpy(state["cache"][0][0]) == numpy(after["cache"][0][0])
        assert same.all() == shared
    if shared:
        with pytest.raises(ValueError, match=r"repeated once\. Received: .* of 3 beams"):
            stack.repeat(state, 2)


@pytest.mark.parametrize(("rows", "slots", "shared"), [(1, 63, False), (1, 64, True), (2, 3, True)])
def test_which_beams_share_slots(rows, slots, shared, monkeypatch):
    monkeypatch.setattr(transformer_stacks, "compiler", lambda: "xla")
    stack = TransformerDecoder(1, 2, intermediate_dim=4)
    stack.build((None, None, DIM))
    _, state = stack.prefill(ops.zeros((rows, 2, DIM)), max_length=slots)
    assert ["owners" in stack.repeat(state, n) for n in (1, 4, 5)] == [False, shared, False]
    if keras.backend.backend() == "tensorflow":
        monkeypatch.setattr(transformer_stacks, "compiler", lambda: "none")
        assert "owners" not in stack.repeat(state, 4)


@pytest.mark.parametrize("positions", ["rotary", pytest.param("alibi", marks=pytest.mark.slow)])
def test_steps_count_on_from_given_positions(positions):
    """A prompt that begins at 40 in one row, and skips positions in the other."""
    given = np.array([[40, 41, 42, 43, 44], [3, 7, 8, 9, 10]])
    stack = TransformerDecoder(2, 2, intermediate_dim=16, positions=positions)
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 5, DIM)).astype("float32"))
    stack(x)
    randomize(stack, 1)
    full = numpy(stack(x, positions=given))
    output, state = stack.prefill(x[:, :2], max_length=5, positions=given[:, :2])
    np.testing.assert_allclose(numpy(output), full[:, :2], atol=1e-5)
    for at in range(2, 5):
        output, state = stack.step(x[:, at : at + 1], state)
        np.testing.assert_allclose(numpy(output)[:, 0], full[:, at], atol=1e-5)
    np.testing.assert_array_equal(numpy(state["positions"]), given)


def test_a_block_without_positions_given():
    """Slots are positions then."""
    block = DecoderBlock(2, intermediate_dim=16, positions="alibi")
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 4, DIM)).astype("float32"))
    full = numpy(block(x))
    output, state = block.prefill(x[:, :3], max_length=6)
    visible = ops.convert_to_tensor(np.tile(np.arange(6) < 4, (2, 1)))
    output, _, _ = block.step(x[:, 3:], state, ops.convert_to_tensor(3, "int32"), visible)
    np.testing.assert_allclose(numpy(output)[:, 0], full[:, 3], atol=1e-5)


@functools.cache
def translator(normalize_first):
    model = small_transformer(num_layers=2, normalize_first=normalize_first)
    return model, compiled(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("normalize_first", "prompt"),
    [
        (True, "one token"),
        (True, "right"),
        (True, "left"),
        *(
            pytest.param(first, prompt, marks=pytest.mark.slow)
            for first, prompt in [(True, "equal"), *((False, prompt) for prompt in PROMPTS)]
        ),
    ],
)
def test_token_decoder_of_a_model(normalize_first, prompt):
    """Ids: logits and weights of steps == those of the whole functional model."""
    lengths, side = PROMPTS[prompt]
    rng = np.random.default_rng(0)
    model, forward = translator(normalize_first)
    sequences = SequenceDecoder(model)
    source = sources([5, 2, 4], 5)
    width = max(lengths)
    targets = rng.integers(1, 9, size=(3, width + STEPS)).astype("int32")
    full = numpy(forward({"source_ids": source, "target_ids": targets}))
    memory, memory_mask = sequences.encode(source)
    slots, mask = prompt_slots(lengths, side)
    prompts = np.full((3, width), PAD, "int32")
    for row, n in enumerate(lengths):
        prompts[row, slots[row]] = targets[row, :n]
    decoder = sequences.decoder
    logits, state = decoder.prefill(
        prompts, None if side is None else mask, memory, memory_mask, width + STEPS
    )
    for step in range(STEPS + 1):
        at = np.array(lengths) + step - 1
        np.testing.assert_allclose(numpy(logits), full[np.arange(3), at], atol=1e-5)
        if step < STEPS:
            at = (at + 1).astype("int32")
            logits, state, scores = decoder.step(targets[np.arange(3), at], at, state, True)
            assert tuple(scores["self"][1].shape) == (3, 2, 1, width + STEPS)
            np.testing.assert_allclose(numpy(ops.sum(scores["cross"][0], -1)), 1, atol=1e-5)
            assert np.all(numpy(scores["cross"][0])[1, :, :, 2:] == 0)


@functools.cache
def language_model(seed=0, positions=None):
    """A decoder-only model of learned positions, or others, and an output that is not tied.

    Compiled, with its decoder; shared.
    """
    ids = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(9, DIM, mask_zero=False)
    learned = LearnedPositionalEncoding(8) if positions is None else None
    stack = TransformerDecoder(
        2, 2, intermediate_dim=16, num_kv_heads=1, normalize_first=True, positions=positions
    )
    head = keras.layers.Dense(9)
    x = embedding(ids) if learned is None else learned(embedding(ids))
    model = keras.Model(ids, head(stack(x)))
    return compiled(randomize(model, seed)), TokenDecoder(embedding, learned, stack, head)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"positions": "rotary", "sliding_window": 2},
        {"positions": "alibi"},
        {"positions": "relative", "max_distance": 4, "num_buckets": 4},
        {"sliding_window": 3},
        TODAY,
    ],
    ids=lambda settings: (
        "today" if settings is TODAY else "-".join(map(str, settings.values())) or "learned"
    ),
)
def test_holes_in_a_prompt_count_nowhere(settings):
    """Logits of the prompts and of steps are those of the tokens alone, without padding."""
    keras.utils.set_random_seed(0)
    embedding = TokenEmbedding(9, DIM, mask_zero=False)
    learned = LearnedPositionalEncoding(12) if "positions" not in settings else None
    settings = {"normalize_first": True, **settings}
    stack = TransformerDecoder(2, 2, intermediate_dim=16, **settings)
    for layer in filter(None, (embedding, learned, stack)):
        layer.build((None, None, DIM))
    tables = [w for w in stack.weights if "relative" in w.path]
    assert len(tables) == (settings.get("positions") == "relative")
    for table in tables:
        table.assign(np.random.default_rng(0).normal(size=table.shape))
    decoder = TokenDecoder(embedding, learned, stack)
    mask = np.array([[1, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 0, 1, 1, 0, 0]], bool)
    prompts, next_tokens = np.random.default_rng(1).integers(1, 9, size=(2, 2, 8)).astype("int32")
    logits, state = decoder.prefill(prompts, mask, max_length=11)
    alone = [decoder.prefill(prompts[i : i + 1, mask[i]], max_length=11) for i in (0, 1)]
    for step in range(STEPS + 1):
        for row, (wanted, _) in enumerate(alone):
            np.testing.assert_allclose(numpy(logits)[row], numpy(wanted)[0], atol=1e-5)
        if step < STEPS:
            tokens = next_tokens[:, step]
            places = mask.sum(axis=1).astype("int32") + step
            logits, state = decoder.step(tokens, places, state)
            alone = [
                decoder.step(tokens[i : i + 1], places[i : i + 1], alone[i][1]) for i in (0, 1)
            ]


@pytest.mark.quick("left-None")
@pytest.mark.parametrize(
    "positions", [None, "rotary", pytest.param("alibi", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_token_decoder_without_memory(prompt, positions):
    lengths, side = PROMPTS[prompt]
    model, decoder = language_model(positions=positions)
    targets = np.random.default_rng(0).integers(0, 9, size=(3, 7)).astype("int32")
    full = numpy(model(targets))
    slots, mask = prompt_slots(lengths, side)
    prompts = np.full(mask.shape, 5, "int32")  # a token where padding is: the mask decides
    for row, n in enumerate(lengths):
        prompts[row, slots[row]] = targets[row, :n]
    recompute = RecomputeDecoder(lambda ids, memory, memory_mask: model(ids))
    for other in (decoder, recompute):
        logits, state = other.prefill(prompts, mask, max_length=7)
        for step in range(STEPS + 1):
            at = np.array(lengths) + step - 1
            np.testing.assert_allclose(numpy(logits), full[np.arange(3), at], atol=1e-5)
            if step < STEPS:
                at = (at + 1).astype("int32")
                logits, state = other.step(targets[np.arange(3), at], at, state)


@pytest.mark.slow
def test_no_more_positions_than_needed():
    """A table of 8 positions serves a prompt of 3 and 6 new tokens: the last one is not read."""
    model, decoder = language_model()
    prompt = np.array([[1, 3, 5]], "int32")
    recompute = RecomputeDecoder(lambda ids, memory, memory_mask: model(ids))
    cached = greedy_search(decoder, prompt, max_length=6, end_id=END, suppressed_ids=[END])
    slow = greedy_search(recompute, prompt, max_length=6, end_id=END, suppressed_ids=[END])
    assert numpy(cached.lengths).tolist() == [6]
    np.testing.assert_array_equal(numpy(cached.tokens), numpy(slow.tokens))


@pytest.mark.slow
def test_prefill_makes_room_for_one_step_by_default():
    model, decoder = language_model()
    recompute = RecomputeDecoder(lambda ids, memory, memory_mask: model(ids))
    ids = np.array([[1, 3, 5]], "int32")
    full = numpy(model(ids))
    for each in (decoder, recompute):
        logits, state = each.prefill(ids[:, :2])
        np.testing.assert_allclose(numpy(logits), full[:, 1], atol=1e-5)
        logits, _ = each.step(ids[:, 2], np.array([2], "int32"), state)
        np.testing.assert_allclose(numpy(logits), full[:, 2], atol=1e-5)


def test_recompute_decoder_has_no_scores():
    _, decoder = language_model()
    recompute = RecomputeDecoder(lambda ids, memory, memory_mask: decoder.embedding(ids))
    _, state = recompute.prefill(np.array([[1]]))
    with pytest.raises(ValueError, match="Received: return_scores=True"):
        recompute.step(np.array([1]), np.array([1]), state, return_scores=True)


# Searches

RULES = {"suppressed_ids": (PAD,)}  # the model takes it for padding, the cache for a token


@pytest.mark.slow
def test_greedy_is_a_beam_of_one_and_recomputing():
    """Over many random models: the compiled functions follow the weights."""
    model = small_transformer(num_layers=2)
    forward = compiled(model)
    source = sources([5, 2, 1, 4, 3, 5] * 3, 5)
    greedy, beam = translate(model, **RULES), translate(model, 1, **RULES).function
    recompute = RecomputeDecoder(
        lambda ids, source_ids, mask: forward({"source_ids": source_ids, "target_ids": ids})
    )
    prompt, settings = np.full((18, 1), START, "int32"), {"max_length": 6, "end_id": END, **RULES}
    different = set()
    for seed in range(4):
        randomize(model, seed)
        one, two = greedy(source, 6), beam(ops.convert_to_tensor(source), 6)
        three = greedy_search(recompute, prompt, None, ops.convert_to_tensor(source), **settings)
        for field in one._fields:
            value = getattr(one, field)
            np.testing.assert_allclose(numpy(getattr(two, field))[:, 0], value, atol=1e-5)
            np.testing.assert_allclose(numpy(getattr(three, field)), value, atol=1e-5)
        different |= {tuple(row) for row in one.tokens.tolist()}
    assert len(different) > 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "positions"),
    [
        ("right", "rotary"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("right", None),
                ("left", None),
                ("left", "rotary"),
                ("left", "alibi"),
                ("right", "alibi"),
            ]
        ),
    ],
)
def test_searches_with_padded_prompts(side, positions):
    """A prompt alone == beside longer ones, cached and recomputed, greedy and beams."""
    model, decoder = language_model(3, positions)
    lengths = [2, 4, 1]
    slots, mask = prompt_slots(lengths, side)
    rng = np.random.default_rng(1)
    prompts = np.where(mask, rng.integers(1, 9, size=mask.shape), PAD).astype("int32")
    recompute = RecomputeDecoder(lambda ids, memory, memory_mask: model(ids))
    settings = {"max_length": 4, "end_id": END}
    beams = {"num_beams": 3, "num_return_sequences": 3, "alpha": 0.6}
    for search, more in [(greedy_search, {}), (beam_search, beams)]:
        each = [search(decoder, prompts, mask, **settings, **more)]
        if search is greedy_search:
            each.append(search(recompute, prompts, mask, **settings, **more))
        for row in range(3):
            alone = search(decoder, prompts[row : row + 1, slots[row]], **settings, **more)
            for together, field in itertools.product(each, alone._fields):
                np.testing.assert_allclose(
                    numpy(getattr(together, field))[row], numpy(getattr(alone, field))[0], atol=1e-5
                )


@pytest.mark.slow
def test_scores_of_beams_are_the_models_own():
    """The score of each of n best == the log-probabilities of its tokens in one teacher-forced
    call, divided by the penalty."""
    model = small_transformer()
    source = sources([4, 3], 4)
    search = translate(model, 4, num_return_sequences=4, alpha=1.0, **RULES).function
    found = keras.tree.map_structure(numpy, search(ops.convert_to_tensor(source), 5))
    forward = compiled(model)
    for row, best in itertools.product(range(2), range(4)):
        length = found.lengths[row, best]
        tokens = found.tokens[row, best, :length]
        ids = np.array([[START, *tokens[:-1]]], "int32")
        logits = forward({"source_ids": source[row : row + 1], "target_ids": ids})
        logp = numpy(ops.log_softmax(logits, axis=-1))[0]
        total = logp[np.arange(length), tokens].sum() / ((5 + length) / 6)
        np.testing.assert_allclose(found.scores[row, best], total, atol=1e-5)
        assert np.all(np.diff(found.scores[row]) <= 0)

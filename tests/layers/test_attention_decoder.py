"""The recurrent decoder: against NumPy, step by step, masks, states, errors."""

import itertools
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from keras.layers import GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells
from processes import answer
from recurrent_references import additive_score, attend, gru, lstm, luong_score

from keras_attn import attention_maps, collect_attention
from keras_attn.layers import (
    AdditiveAttention,
    AttentionDecoder,
    LuongAttention,
    MultiHeadAttention,
    TokenEmbedding,
    TransformerEncoder,
)

RNG = np.random.default_rng(0)
B, T, S, D, M = 2, 5, 7, 4, 6
X = RNG.normal(size=(B, T, D)).astype("float32")
MEMORY = RNG.normal(size=(B, S, M)).astype("float32")
MEMORY_MASK = np.arange(S) < [[7], [3]]
CELLS = {
    "gru": lambda: GRUCell(6),
    "lstm": lambda: LSTMCell(6),
    "simple": lambda: SimpleRNNCell(6),
    "stack": lambda: [GRUCell(5, dropout=0.2, recurrent_dropout=0.2), LSTMCell(6, dropout=0.1)],
}
ATTENTIONS = {
    "none": lambda: None,
    "additive": lambda: AdditiveAttention(5, use_bias=True, normalize=True),
    "local-m": lambda: LuongAttention(score="dot", window="monotonic", window_size=1),
    "two": lambda: [LuongAttention(score="general"), AdditiveAttention(3, window="predictive")],
}


def array(x):
    return ops.convert_to_numpy(x)


def randomize(layer):
    for weight in layer.weights:
        if "float" in weight.dtype:
            weight.assign(RNG.normal(size=weight.shape) * 0.7)


def values(layer):
    return [array(w).astype("float64") for w in layer.weights]


# --- against NumPy


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_it_is_that_of_the_papers(cell, order, feeding):
    """Equations of both papers, in float64, word by word: a bridge, and the attention vector."""
    decoder = AttentionDecoder(
        CELLS[cell](),
        AdditiveAttention(5) if order == "bahdanau" else LuongAttention(score="general"),
        order=order,
        input_feeding=feeding,
        attention_units=3,
        bridge=True,
    )
    decoder(X, MEMORY)
    randomize(decoder)
    output, [weights] = decoder(X, MEMORY, memory_mask=MEMORY_MASK, return_attention_scores=True)
    inner = values(decoder.cell)
    Wa = array(decoder.attention_dense.kernel).astype("float64")
    bridges = [values(dense) for dense in decoder.bridge_denses]
    layer = decoder.attention[0]
    if order == "bahdanau":
        Wq, Wk = values(layer.query_dense)[0], values(layer.key_dense)[0]
        v = array(layer.scale)[:, 0].astype("float64")

        def score(q, k):
            return additive_score(q, k, Wq, Wk, v)
    else:
        W = values(layer.key_dense)[0].T

        def score(q, k):
            return luong_score("general", q, k, W=W)

    for b in range(B):
        memory = MEMORY[b].astype("float64")
        mean = memory[MEMORY_MASK[b]].mean(axis=0)
        state = [np.tanh(mean @ W + bias) for W, bias in bridges]
        a = np.zeros(3)
        for t in range(T):
            inputs = [X[b, t].astype("float64")]
            if order == "bahdanau":
                context, row = attend(score, state[0], memory, MEMORY_MASK[b])
                inputs.append(context)
            inputs = np.concatenate(inputs + [a] * feeding)
            step = gru(inputs, state[0], *inner) if cell == "gru" else lstm(inputs, state, *inner)
            state = [step] if cell == "gru" else list(step)
            if order == "luong":
                context, row = attend(score, state[0], memory, MEMORY_MASK[b])
            a = np.tanh(np.concatenate([state[0], context]) @ Wa)
            np.testing.assert_allclose(array(output)[b, t], a, atol=1e-5)
            np.testing.assert_allclose(array(weights)[b, t], row, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "feeding"),
    [
        ("bahdanau", True),
        ("luong", False),
        pytest.param("bahdanau", False, marks=pytest.mark.slow),
        pytest.param("luong", True, marks=pytest.mark.slow),
    ],
)
def test_gates_and_a_deep_output(order, feeding):
    """Xu et al., 2015, with two attentions: each has a gate; hidden layers of the bridge."""
    decoder = AttentionDecoder(
        LSTMCell(5),
        [AdditiveAttention(3), AdditiveAttention(2)],
        order=order,
        input_feeding=feeding,
        attention_units=D,
        bridge=True,
        bridge_units=3,
        context_gate=True,
        add_input=True,
    )
    decoder(X, MEMORY)
    randomize(decoder)
    found, weights = decoder(X, MEMORY, memory_mask=MEMORY_MASK, return_attention_scores=True)
    plain = values(decoder.cell)
    gate, gate_bias = values(decoder.gate_dense)
    [Wa] = values(decoder.attention_dense)
    bridges = [
        values(one) + values(two)
        for one, two in zip(decoder.bridge_hidden, decoder.bridge_denses, strict=True)
    ]
    assert gate.shape == (5, 2)
    for b in range(B):
        memory = MEMORY[b].astype("float64")
        mean = memory[MEMORY_MASK[b]].mean(axis=0)
        h, c = (np.tanh(np.maximum(mean @ W + bias, 0) @ V + v) for W, bias, V, v in bridges)
        a = np.zeros(D)

        def look(query, t, b=b, memory=memory):
            contexts = []
            for i, layer in enumerate(decoder.attention):
                Wq, Wk = values(layer.query_dense)[0], values(layer.key_dense)[0]
                v = array(layer.scale)[:, 0].astype("float64")
                context, row = attend(
                    lambda q, k, Wq=Wq, Wk=Wk, v=v: additive_score(q, k, Wq, Wk, v),
                    query,
                    memory,
                    MEMORY_MASK[b],
                )
                np.testing.assert_allclose(array(weights[i])[b, t], row, atol=1e-5)
                contexts.append(context / (1 + np.exp(-query @ gate[:, i] - gate_bias[i])))
            return np.concatenate(contexts)

        for t in range(T):
            inputs = [X[b, t].astype("float64")]
            if order == "bahdanau":
                context = look(h, t)
                inputs.append(context)
            h, c = lstm(np.concatenate(inputs + [a] * feeding), (h, c), *plain)
            context = look(h, t) if order == "luong" else context
            a = np.tanh(X[b, t] + np.concatenate([h, context]) @ Wa)
            np.testing.assert_allclose(array(found)[b, t], a, atol=1e-5)
    prompt, state = decoder.prefill(X[:, :2], memory=MEMORY, memory_mask=MEMORY_MASK)
    np.testing.assert_allclose(array(prompt), array(found)[:, :2], atol=1e-5)
    for t in range(2, T):
        output, state = decoder.step(X[:, t : t + 1], state)
        np.testing.assert_allclose(array(output)[:, 0], array(found)[:, t], atol=1e-5)


@pytest.mark.parametrize("summary", ["mean", "last", "ends"])
def test_the_fixed_context(summary):
    """Cho et al., 2014: one vector for the source, at each step and for the first state."""
    decoder = AttentionDecoder(GRUCell(6), bridge=True, summary=summary)
    decoder(X, MEMORY)
    randomize(decoder)
    output = array(decoder(X, MEMORY, memory_mask=MEMORY_MASK))
    assert output.shape == (B, T, 6 + M)
    inner, [bridge] = values(decoder.cell), [values(d) for d in decoder.bridge_denses]
    for b in range(B):
        tokens = MEMORY[b][MEMORY_MASK[b]].astype("float64")
        c = {
            "mean": tokens.mean(axis=0),
            "last": tokens[-1],
            "ends": np.concatenate([tokens[-1, : M // 2], tokens[0, M // 2 :]]),
        }[summary]
        h = np.tanh(c @ bridge[0] + bridge[1])
        for t in range(T):
            h = gru(np.concatenate([X[b, t], c]), h, *inner)
            np.testing.assert_allclose(output[b, t], np.concatenate([h, c]), atol=1e-5)


def test_without_a_memory_it_is_the_cell():
    cell = LSTMCell(6)
    decoder = AttentionDecoder(cell)
    output, states = decoder(X, return_state=True)
    wanted, *last = keras.layers.RNN(cell, return_sequences=True, return_state=True)(X)
    np.testing.assert_allclose(array(output), array(wanted), atol=1e-6)
    for a, b in zip(states, last, strict=True):
        np.testing.assert_allclose(array(a), array(b), atol=1e-6)
    # It goes on from a state: a long text in pieces.
    first, states = decoder(X[:, :2], return_state=True)
    rest = decoder(X[:, 2:], initial_state=states)
    np.testing.assert_allclose(array(ops.concatenate([first, rest], 1)), array(output), atol=1e-6)


# --- contract 5


@pytest.mark.quick(
    "gru-none-bahdanau-None-False",
    "gru-additive-bahdanau-None-True",
    "lstm-none-luong-None-False",
    "simple-additive-bahdanau-None-False",
    "simple-local-m-bahdanau-None-True",
)
@pytest.mark.parametrize(
    ("cell", "attention", "order", "units", "bridge"),
    [
        pytest.param(*case, marks=() if i % 9 == 0 else pytest.mark.slow)
        for i, case in enumerate(
            itertools.product(CELLS, ATTENTIONS, ["bahdanau", "luong"], [None, 3], [False, True])
        )
        if i % 3 == 0
    ],
)
def test_step_by_step_is_teacher_forcing(cell, attention, order, units, bridge):
    """From a left-padded prompt of two, with the weights of each step."""
    decoder = AttentionDecoder(
        CELLS[cell](),
        ATTENTIONS[attention](),
        order=order,
        attention_units=units,
        bridge=bridge,
        summary="ends",
    )
    padding_mask = np.ones((B, T), bool)
    padding_mask[1, 0] = False
    scored = {"return_attention_scores": True} if attention != "none" else {}
    masks = {"memory_mask": MEMORY_MASK, "padding_mask": padding_mask}
    found = decoder(X, MEMORY, **masks, **scored)
    whole, weights = found if scored else (found, [])
    assert tuple(decoder.compute_output_shape(X.shape, MEMORY.shape)) == tuple(whole.shape)
    prompt, state = decoder.prefill(X[:, :2], padding_mask[:, :2], MEMORY, MEMORY_MASK)
    np.testing.assert_allclose(array(prompt), array(whole)[:, :2], atol=1e-6)
    for t in range(2, T):
        output, state, scores = decoder.step(X[:, t : t + 1], state, True)
        np.testing.assert_allclose(array(output)[:, 0], array(whole)[:, t], atol=1e-5)
        assert len(scores["cross"]) == len(weights)
        for a, b in zip(scores["cross"], weights, strict=True):
            np.testing.assert_allclose(array(a)[:, 0], array(b)[:, t], atol=1e-5)
    # Rows of a sentence can be taken: the memory stays.
    taken = decoder.reorder(state, np.array([1, 1]))
    for a, b in zip(taken["states"], state["states"], strict=True):
        np.testing.assert_array_equal(array(a), array(b)[[1, 1]])
    assert all(taken[k] is state[k] for k in state if k != "states")


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)]
)
def test_positions_are_counted_in_half_precision(policy):
    """bfloat16 counts to 256 only; a monotonic window must come further."""
    length = 300
    memory = np.zeros((1, length, 2), "float32")
    x = np.zeros((1, length, 2), "float32")
    attention = LuongAttention(score="dot", window="monotonic", window_size=1, dtype=policy)
    decoder = AttentionDecoder(GRUCell(2, dtype=policy), attention, dtype=policy)
    call = tf.function(lambda *x: decoder(*x, return_attention_scores=True), autograph=False)
    _, [weights] = call(tf.constant(x), tf.constant(memory))
    weights = array(ops.cast(weights, "float32"))[0]
    np.testing.assert_array_equal(weights.argmax(axis=1), np.maximum(np.arange(length) - 1, 0))


def test_a_cell_of_another_dtype():
    """A cell made without the decoder's policy works in it."""
    decoder = AttentionDecoder(
        LSTMCell(6), LuongAttention(score="dot"), attention_units=3, dtype="mixed_bfloat16"
    )
    output = decoder(X, MEMORY)
    assert output.dtype == "bfloat16"
    _, state = decoder.prefill(X[:, :2], memory=MEMORY)
    step, state = decoder.step(X[:, 2:3], state)
    assert step.dtype == "bfloat16"
    close = array(ops.cast(step - output[:, 2:3], "float32"))
    assert np.abs(close).max() < 0.05


@pytest.mark.slow
def test_a_loop_by_xla():
    """Values and gradients, with a row that sees nothing, are those of the eager loop."""
    decoder = AttentionDecoder(
        GRUCell(6), AdditiveAttention(5), order="bahdanau", attention_units=3, bridge=True
    )
    mask = np.array([[False] * S, [True] * 4 + [False] * 3])
    decoder(X, MEMORY)

    def run():
        with tf.GradientTape() as tape:
            output, scores = decoder(X, MEMORY, memory_mask=mask, return_attention_scores=True)
            loss = tf.reduce_sum(output**2)
        return [
            output,
            *scores,
            *tape.gradient(loss, [v.value for v in decoder.trainable_variables]),
        ]

    plain = run()
    for jit_compile in (False, True):
        compiled = tf.function(run, autograph=False, jit_compile=jit_compile)()
        for a, b in zip(compiled, plain, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


# --- masks and dropout


@pytest.mark.slow
def test_padding_anywhere_changes_nothing():
    decoder = AttentionDecoder(
        GRUCell(6), AdditiveAttention(5), order="bahdanau", bridge=True, summary="ends"
    )
    plain = array(decoder(X, MEMORY))
    junk = np.full((B, 2, D), 9, "float32")
    more = np.full((B, 3, M), -9, "float32")
    for left in (False, True):
        x = np.concatenate([junk, X] if left else [X, junk], axis=1)
        mask = np.concatenate([np.zeros((B, 2)), np.ones((B, T))], axis=1).astype(bool)
        memory = np.concatenate([more, MEMORY] if left else [MEMORY, more], axis=1)
        memory_mask = np.concatenate([np.zeros((B, 3)), np.ones((B, S))], axis=1).astype(bool)
        if not left:
            mask, memory_mask = mask[:, ::-1], memory_mask[:, ::-1]
        output = decoder(x, memory, padding_mask=mask, memory_mask=memory_mask)
        output = array(output)[:, 2:] if left else array(output)[:, :T]
        np.testing.assert_allclose(output, plain, atol=1e-6)


@pytest.mark.slow
def test_a_fully_padded_source():
    """Zero weights, zero contexts, a bridge from zeros: finite, with finite gradients."""
    for summary in ("mean", "last", "ends"):
        decoder = AttentionDecoder(
            GRUCell(6), AdditiveAttention(5), attention_units=3, bridge=True, summary=summary
        )
        mask = np.array([[False] * S, [True] * S])
        with tf.GradientTape() as tape:
            output, [weights] = decoder(X, MEMORY, memory_mask=mask, return_attention_scores=True)
            loss = tf.reduce_sum(output)
        assert np.isfinite(array(output)).all()
        assert not array(weights)[0].any()
        gradients = tape.gradient(loss, [v.value for v in decoder.trainable_variables])
        assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_dropout_of_cells_is_one_mask_for_all_steps(jit_compile):
    """Inputs of ones, and a state that is the input: the same units are off at each step."""
    cell = SimpleRNNCell(64, activation="linear", dropout=0.5, seed=1)
    decoder = AttentionDecoder(cell)
    decoder.build((None, None, 64))
    cell.kernel.assign(np.eye(64))
    cell.recurrent_kernel.assign(np.zeros((64, 64)))
    x = np.ones((2, 3, 64), "float32")
    run = tf.function(lambda: decoder(x, training=True), jit_compile=jit_compile, autograph=False)
    first, second = array(run()), array(run())
    assert set(np.unique(first)) == {0.0, 2.0}
    np.testing.assert_array_equal(first[:, 0], first[:, 2])
    assert (first != second).any()
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(array(decoder(x)), x)
    assert cell._dropout_mask is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "attention",
    [
        lambda: AdditiveAttention(5, normalize=True),
        lambda: LuongAttention(score="concat", window="predictive"),
        lambda: LuongAttention(score="scaled", window="monotonic"),
    ],
)
def test_fit_by_xla(attention):
    """With unknown shapes, as Keras compiles by itself on a GPU."""
    x, memory = keras.Input((None, D)), keras.Input((None, M))
    model = keras.Model(
        [x, memory], AttentionDecoder(GRUCell(6), attention(), bridge=True)(x, memory)
    )
    model.compile("adam", "mse", jit_compile=True)
    history = model.fit([X, MEMORY], np.zeros((B, T, 6 + M)), epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


@pytest.mark.quick("<lambda>0")
@pytest.mark.parametrize(
    "cell",
    [
        lambda: SimpleRNNCell(6, dropout=0.5, recurrent_dropout=0.5),
        lambda: [
            StackedRNNCells([SimpleRNNCell(5, dropout=0.5), GRUCell(6, dropout=0.5)]),
            SimpleRNNCell(6),
        ],
    ],
)
def test_masks_of_dropout_are_never_left_behind(cell):
    """Keras' SimpleRNNCell draws them in inference too; cells may be nested."""
    decoder = AttentionDecoder(cell())
    plain = array(decoder(X))
    a, b = array(decoder(X, training=True)), array(decoder(X, training=True))
    assert (a != b).any()
    tf.function(lambda: decoder(X), autograph=False)()
    tf.function(lambda: decoder(X, training=True), autograph=False)()
    _, state = decoder.prefill(X[:, :2])
    decoder.step(X[:, 2:3], state)
    assert tuple(decoder(X[:1], training=True).shape) == (1, T, 6)
    np.testing.assert_array_equal(array(decoder(X)), plain)


def test_the_query_is_the_top_of_nested_cells():
    cells = [GRUCell(4), StackedRNNCells([GRUCell(5), LSTMCell(6)])]
    decoder = AttentionDecoder(cells, LuongAttention(score="dot"), order="bahdanau")
    assert decoder.state_size == [4, 5, 6, 6]
    decoder(X, MEMORY)  # 6 wide, as the memory: another state would not do


@pytest.mark.slow
def test_stacked_cells_draw_their_masks_before_the_loop():
    decoder = AttentionDecoder(CELLS["stack"](), AdditiveAttention(5), dropout=0.3, seed=3)
    outputs = [array(decoder(X, MEMORY, training=training)) for training in (True, True, False)]
    assert (outputs[0] != outputs[1]).any()
    np.testing.assert_array_equal(array(decoder(X, MEMORY)), outputs[2])


# --- scores


@pytest.mark.slow
def test_weights_are_collected_once_for_all_steps():
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embed = TokenEmbedding(9, 6)
    decoder = AttentionDecoder(
        GRUCell(6),
        [LuongAttention(score="dot", name="first"), AdditiveAttention(4, name="second")],
        name="decoder",
    )
    model = keras.Model([source, target], decoder(embed(target), embed(source)))
    inputs = [np.array([[3, 4, 5, 0]]), np.array([[1, 6, 7]])]
    maps = attention_maps(model, inputs)
    assert [(k.path.split("/")[-1], k.role, k.call) for k in maps] == [
        ("first", "cross", 0),
        ("second", "cross", 0),
    ]
    for weights in maps.values():
        assert weights.shape == (1, 3, 4)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
        assert not weights[:, :, 3].any()
    with collect_attention() as steps:
        model(inputs)
        _, state = decoder.prefill(embed(inputs[1]), memory=embed(inputs[0]))
        decoder.step(embed(inputs[1])[:, :1], state)
    assert len(steps) == 2  # steps add nothing


# --- training, saving


@pytest.mark.slow
def test_it_learns_to_copy_and_survives_a_new_process(tmp_path):
    """Reversed words: found by the attention, saved, and loaded where nothing was built."""
    keras.utils.set_random_seed(0)
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embed = TokenEmbedding(12, 16, name="embed")
    memory = keras.layers.Bidirectional(
        keras.layers.GRU(16, return_sequences=True, use_cudnn=False)
    )(embed(source))
    decoder = AttentionDecoder(GRUCell(32), AdditiveAttention(16))
    logits = keras.layers.Dense(12)(decoder(embed(target), memory))
    model = keras.Model([source, target], logits)
    ids = RNG.integers(2, 12, (400, 4)).astype("int32")
    given = np.concatenate([np.ones((400, 1), "int32"), ids[:, :0:-1]], axis=1)
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    model.fit([ids, given], ids[:, ::-1], epochs=16, batch_size=40, verbose=0)
    predicted = model.predict([ids, given], verbose=0).argmax(-1)
    assert (predicted == ids[:, ::-1]).mean() > 0.98
    weights = next(iter(attention_maps(model, [ids[:50], given[:50]]).values()))
    assert (weights.argmax(-1) == [3, 2, 1, 0]).mean() > 0.7
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "in.npz", ids=ids[:5], given=given[:5])
    script = (
        "import json, keras, keras_attn, numpy as np\n"
        f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r}, safe_mode=True)\n"
        f"data = np.load({str(tmp_path / 'in.npz')!r})\n"
        "y = model.predict([data['ids'], data['given']], verbose=0)\n"
        "print(json.dumps(y.tolist()))"
    )
    again = np.array(answer("tensorflow", script))
    np.testing.assert_allclose(again, model.predict([ids[:5], given[:5]], verbose=0), atol=1e-5)


# --- errors


def symbolic(*shape, **settings):
    return keras.Input(shape, **settings)


@pytest.mark.slow
def test_a_memory_that_lost_its_mask():
    """Its encoder had one: an operator dropped it."""
    embed = TokenEmbedding(9, 6)
    ids, x = symbolic(None, dtype="int32"), symbolic(None, 4)
    memory = embed(ids) * 2.0
    decoder = AttentionDecoder(GRUCell(6), LuongAttention(score="dot"))
    with pytest.raises(ValueError, match=r"lost its mask.*memory_mask") as error:
        decoder(x, memory)
    assert "multiply" in str(error.value)
    with pytest.raises(ValueError, match="lost its mask"):
        decoder(x, keras.layers.Dense(6)(memory))
    decoder(x, memory, memory_mask=symbolic(None, dtype="bool"))
    decoder(x, embed(ids))
    decoder(x, symbolic(None, 6))  # there was none
    pooled = keras.layers.RepeatVector(1)(keras.layers.GlobalAveragePooling1D()(embed(ids)))
    decoder(x, pooled)  # another length: it cannot be the mask of this


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:, 1:],
        lambda x: keras.ops.concatenate([keras.ops.zeros_like(x[:, :1]), x], axis=1) * 2.0,
        keras.layers.Cropping1D(1),
        keras.layers.Conv1D(4, 3),
    ],
)
@pytest.mark.parametrize("length", [None, 7])
@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask:UserWarning")
def test_masks_that_a_change_of_length_lost(change, length):
    x = change(TokenEmbedding(9, 4)(symbolic(length, dtype="int32")))
    with pytest.raises(ValueError, match="lost its mask"):
        TransformerEncoder(1, 2, intermediate_dim=4)(x)


def test_one_step_is_one_position():
    decoder = AttentionDecoder(GRUCell(4))
    x = np.ones((2, 5, 3), "float32")
    decoder(x)
    _, state = decoder.prefill(x[:, :2])
    for wrong in (x[:, 2:5], x[:, 2]):
        with pytest.raises(ValueError, match=r"shape \(B, 1, D\)"):
            decoder.step(wrong, state)
    with pytest.raises(ValueError, match=r"shape \(B, P, D\)"):
        decoder.prefill(x[:, 0])


def test_masks_lost_in_a_nested_encoder():
    ids, inner = symbolic(None, dtype="int32"), symbolic(None, dtype="int32")
    states = keras.layers.GRU(6, return_sequences=True, use_cudnn=False)(
        TokenEmbedding(9, 6)(inner)
    )
    for memory, name in [(states * 2.0, "multiply"), (states, None)]:
        decoder = AttentionDecoder(GRUCell(6), LuongAttention(score="dot"))
        encoder = keras.Model(inner, memory)
        if name is None:
            decoder(symbolic(None, 4), encoder(ids))
        else:
            with pytest.raises(ValueError, match=f"lost its mask.*{name}"):
                decoder(symbolic(None, 4), encoder(ids))


@pytest.mark.slow
def test_masks_that_were_not_lost():
    """Of keys, of another sequence, of what became one vector; a decoder in a nested model."""
    embed = TokenEmbedding(9, 6)
    ids, x = symbolic(None, dtype="int32"), symbolic(None, 6)

    def decoder():
        return AttentionDecoder(GRUCell(6), LuongAttention(score="general"))

    decoder()(x, MultiHeadAttention(2)(symbolic(None, 6), embed(ids)))
    decoder()(x, keras.layers.MultiHeadAttention(2, 3)(symbolic(None, 6), embed(ids)))
    decoder()(x, decoder()(symbolic(None, 4), embed(ids)))
    fixed = embed(symbolic(7, dtype="int32"))
    vector = keras.layers.GRU(6, use_cudnn=False)(fixed)
    decoder()(x, keras.layers.RepeatVector(7)(vector))
    inputs = [symbolic(None, 4), symbolic(None, 6)]
    nested = keras.Model(inputs, decoder()(*inputs))
    with warnings.catch_warnings():
        # Keras warns of masks where a nested model is built, and keeps them when it runs.
        warnings.simplefilter("ignore", UserWarning)
        y = nested([symbolic(5, 4), fixed])
    assert y.shape == (None, 5, 12)


def test_errors():
    attention = LuongAttention(score="general")
    bad = [
        (ValueError, lambda: AttentionDecoder(GRUCell(3), order="lstm"), "'bahdanau', 'luong'"),
        (ValueError, lambda: AttentionDecoder(GRUCell(3), summary="max"), "'mean', 'last', 'ends'"),
        (ValueError, lambda: AttentionDecoder(GRUCell(3), attention_units=0), "positive integer"),
        (ValueError, lambda: AttentionDecoder(GRUCell(3), dropout=1.0), r"\[0, 1\)"),
        (ValueError, lambda: AttentionDecoder([]), "empty list"),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), context_gate=True),
            r"`context_gate` .* needs `attention`. Received: attention=\[\]",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), attention, add_input=True),
            "`add_input` .* needs `attention_units`. Received: attention_units=None",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), attention, bridge_units=2),
            "`bridge_units` .* needs `bridge`. Received: bridge=False",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), bridge=True, bridge_units=0),
            "`bridge_units` .* positive integer",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), attention_units=3, add_input=True)(X),
            r"width 3 \(`attention_units`\)\. .*\(2, 5, 4\)",
        ),
        (TypeError, lambda: AttentionDecoder(keras.layers.GRU(3)), "Pass its cell.*GRUCell"),
        (TypeError, lambda: AttentionDecoder(keras.layers.Dense(3)), "must be a recurrent cell"),
        (TypeError, lambda: AttentionDecoder(GRUCell(3), "additive"), "Received: 'additive'"),
        (
            TypeError,
            lambda: AttentionDecoder(GRUCell(3), keras.layers.AdditiveAttention()),
            "SequenceAttention",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), LuongAttention(attention_dropout=0.1)),
            "Use `dropout`",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), attention)(X),
            "(needs|requires) a `memory`",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), bridge=True)(X),
            "(needs|requires) a `memory`",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), input_feeding=True)(X),
            "`input_feeding` needs a `memory`",
        ),
        (ValueError, lambda: AttentionDecoder(GRUCell(3))(X[0]), r"shape \(5, 4\)"),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), attention)(X, MEMORY[:, 0]),
            r"`memory` of AttentionDecoder must have shape.*\(2, 6\)",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), bridge=True, summary="ends")(X, MEMORY[..., :5]),
            "must be even",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3))(X, memory_mask=MEMORY_MASK),
            "(needs|requires) a `memory`",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3))(X, MEMORY, return_attention_scores=True),
            "has no scores to return",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), bridge=True)(
                X, MEMORY, initial_state=[np.zeros((B, 3), "float32")]
            ),
            "bridge=False",
        ),
        (
            ValueError,
            lambda: AttentionDecoder([GRUCell(3), LSTMCell(4)])(
                X, initial_state=[np.zeros((B, w), "float32") for w in (3, 4, 5)]
            ),
            r"\[3, 4, 4\].*\(2, 5\)",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3))(
                X, initial_state=[np.zeros((B, 3), "float32")] * 2
            ),
            r"widths \[3\]",
        ),
        (
            ValueError,
            lambda: AttentionDecoder(GRUCell(3), LuongAttention(score="dot"))(X, MEMORY),
            "the same width",
        ),
    ]
    for kind, call, message in bad:
        with pytest.raises(kind, match=message):
            call()
    built = AttentionDecoder(GRUCell(6), LuongAttention(score="dot"))
    built(X, MEMORY)
    with pytest.raises(ValueError, match="was built with a memory"):
        built(X)
    with pytest.raises(ValueError, match="has no weights yet"):
        AttentionDecoder(GRUCell(6)).prefill(X)
    with pytest.raises(TypeError, match=r"layer\(x, memory\)"):
        AttentionDecoder(GRUCell(6))([X, MEMORY])
    with pytest.raises(ValueError, match="Embed ids first"):
        AttentionDecoder(GRUCell(6))(X.astype("int32"))
    with pytest.raises(ValueError, match="`bridge` must be True or False"):
        AttentionDecoder(GRUCell(6), bridge="no")
    with pytest.raises(ValueError, match="`context_gate` must be True or False"):
        AttentionDecoder(GRUCell(6), attention, context_gate=None)
    with pytest.raises(ValueError, match="`input_feeding` must be True or False"):
        AttentionDecoder(GRUCell(6), input_feeding="yes")


@pytest.mark.slow
def test_one_attention_twice_is_saved(tmp_path):
    x, memory = keras.Input((None, D)), keras.Input((None, M))
    attention = AdditiveAttention(4)
    model = keras.Model([x, memory], AttentionDecoder(GRUCell(6), [attention] * 2)(x, memory))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded([X, MEMORY]), model([X, MEMORY]), atol=1e-6)
    assert len(loaded.weights) == len(model.weights)


def test_prefill_takes_keras_masks():
    embed = TokenEmbedding(9, 4)
    decoder = AttentionDecoder(GRUCell(6), LuongAttention(score="general"))
    x, memory = embed(np.array([[3, 4], [5, 0]])), embed(np.array([[6, 7, 0], [8, 0, 0]]))
    output = array(decoder(x, memory))
    np.testing.assert_allclose(array(decoder.prefill(x, memory=memory)[0]), output, atol=1e-6)


def test_a_cell_whose_states_are_no_vectors():
    class Matrix(keras.layers.Layer):
        state_size = ((3, 4),)

        def call(self, x, states):
            return x, states

    with pytest.raises(ValueError, match=r"must be a vector"):
        AttentionDecoder(Matrix())
    assert AttentionDecoder(StackedRNNCells([GRUCell(3)])).state_size == [3]

"""GPT: step by step as in one go, padding on either side, weights, files, errors."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
from keras import ops
from model_toys import numpy, randomize

from keras_attn.generation import (
    CompiledFunction,
    SampledSteps,
    WindowDecoder,
    beam_search,
    greedy_search,
    sample,
)
from keras_attn.models import GptConfig, TokenDecoder, hidden_states, language_decoder

V, D, F, T = 11, 12, 10, 8
SMALL = {"dim": D, "num_layers": 2, "num_heads": 2, "intermediate_dim": F, "sequence_length": T}
LLAMA = {
    "positions": "rotary", "normalization": "rms_norm", "gated": True, "activation": "silu",
    "use_bias": False, "tie_embeddings": False, "num_kv_heads": 1, "key_dim": 4,
}  # fmt: skip
KINDS = {"gpt": {}, "llama": LLAMA}
IDS = np.random.default_rng(1).integers(1, V, size=(3, 7)).astype("int32")


@pytest.fixture(scope="module")
def models():
    return {
        name: randomize(GptConfig(V, **{**SMALL, **settings}).build())
        for name, settings in KINDS.items()
    }


@pytest.mark.quick("llama")
@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_is_teacher_forcing(kind, models):
    model = models[kind]
    whole = numpy(model(IDS))
    assert whole.shape == (3, 7, V)
    decoder = language_decoder(model)
    logits, state = decoder.prefill(IDS[:, :3], max_length=7)
    np.testing.assert_allclose(numpy(logits), whole[:, 2], atol=1e-5)
    for t in range(3, 7):
        logits, state = decoder.step(IDS[:, t], np.full(3, t), state)
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)


@pytest.mark.quick("llama")
@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind, models):
    """Each row alone, in a batch with padding on the right and on the left, and decoded so."""
    model, lengths = models[kind], [7, 2, 4]
    decoder = language_decoder(model)
    alone = [numpy(model(IDS[r : r + 1, :n]))[0] for r, n in enumerate(lengths)]
    tokens = [
        numpy(greedy_search(decoder, IDS[r : r + 1, :n], max_length=1, end_id=None).tokens)[0]
        for r, n in enumerate(lengths)
    ]
    for left in (False, True):
        mask = (np.arange(7)[::-1] if left else np.arange(7)) < np.array(lengths)[:, None]
        ids = np.zeros((3, 7), "int32")
        ids[mask] = np.concatenate([IDS[r, :n] for r, n in enumerate(lengths)])
        states = hidden_states(model, {"token_ids": ids, "padding_mask": mask})
        assert len(states) == 1 + SMALL["num_layers"]
        logits = numpy(decoder.logits(states[-1]))
        found = numpy(greedy_search(decoder, ids, mask, max_length=1, end_id=None).tokens)
        after, _ = decoder.prefill(ids, mask)
        for r, row in enumerate(alone):
            np.testing.assert_allclose(logits[r, mask[r]], row, atol=1e-5)
            np.testing.assert_allclose(numpy(after)[r], row[-1], atol=1e-5)
            assert found[r].tolist() == tokens[r].tolist()
        if not left:
            np.testing.assert_allclose(numpy(model(ids))[mask], logits[mask], atol=1e-5)


def test_the_formulas_in_numpy(models):
    """Pre-norm blocks, learned positions, the approximate GELU and the tied output, in float64."""
    model = models["gpt"]
    names = {w.path.removeprefix("decoder/"): numpy(w).astype("float64") for w in model.weights
             if "seed" not in w.path}  # fmt: skip
    get = {**names}
    x = get["embedding/embedding/embeddings"][IDS] + get["positions/embedding/embeddings"][:7]

    def norm(x, place):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * get[f"{place}/gamma"] + get[f"{place}/beta"]

    def dense(x, place):
        return x @ get[f"{place}/kernel"] + get[f"{place}/bias"]

    for i in range(2):
        h = dense(norm(x, f"block_{i}/self_attention_norm"), f"block_{i}/self_attention/qkv")
        q, k, v = (part.reshape(3, 7, 2, 6) for part in np.split(h, 3, -1))
        scores = np.einsum("btnh,bsnh->bnts", q, k) / 6**0.5
        scores = np.where(np.tril(np.ones((7, 7))) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        context = np.einsum("bnts,bsnh->btnh", weights, v).reshape(3, 7, D)
        x = x + dense(context, f"block_{i}/self_attention/output")
        h = dense(norm(x, f"block_{i}/feed_forward_norm"), f"block_{i}/feed_forward/hidden")
        h = h / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h**3)))
        x = x + dense(h, f"block_{i}/feed_forward/output")
    logits = norm(x, "norm") @ get["embedding/embedding/embeddings"].T
    np.testing.assert_allclose(numpy(model(IDS)), logits, atol=2e-5)


def test_how_many_weights(models):
    block = D * 3 * D + 3 * D + D * D + D + D * F + F + F * D + D + 4 * D
    assert models["gpt"].count_params() - seeds(models["gpt"]) == (V + T) * D + 2 * block + 2 * D
    block = D * (8 + 4 + 4) + 8 * D + D * 2 * F + F * D + 2 * D  # 2 heads of 4, one of keys
    assert models["llama"].count_params() - seeds(models["llama"]) == 2 * V * D + 2 * block + D


def seeds(model):
    return sum(int(np.prod(w.shape)) for w in model.weights if "seed" in w.path)


def test_rotary_positions_have_no_limit_and_learned_ones_have(models):
    long = np.ones((1, T + 1), "int32")
    assert tuple(models["llama"](long).shape) == (1, T + 1, V)
    with pytest.raises(ValueError, match="positions for sequences of at most 8 tokens"):
        models["gpt"](long)


@pytest.mark.slow
def test_files_and_dtypes(models, tmp_path):
    models["llama"].save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras", safe_mode=True)
    np.testing.assert_allclose(numpy(loaded(IDS)), numpy(models["llama"](IDS)), atol=1e-6)
    assert isinstance(language_decoder(loaded), TokenDecoder)
    config = GptConfig(V, **SMALL)
    assert GptConfig(**config.to_dict()) == config
    half = config.build("mixed_bfloat16")
    assert keras.backend.standardize_dtype(half(IDS).dtype) == "bfloat16"
    found = greedy_search(language_decoder(half), IDS, max_length=2, end_id=None)
    assert np.isfinite(numpy(found.scores)).all()


@pytest.mark.slow
def test_dropout_is_in_training_only():
    model = GptConfig(V, **SMALL, dropout=0.5, attention_dropout=0.5).build()
    still = numpy(model(IDS, training=False))
    np.testing.assert_array_equal(still, numpy(model(IDS)))
    assert np.abs(numpy(model(IDS, training=True)) - still).max() > 1e-3


def test_errors():
    config = GptConfig(V)
    for message, settings in {
        "divisible by `num_heads`": {"dim": 10, "num_heads": 4},
        "divisible by `num_kv_heads`": {"num_kv_heads": 3},
        "an even width of heads": {"positions": "rotary", "key_dim": 5},
        "`rotary_base` is only used with": {"rotary_base": 5e5},
        "`rotary_scaling` is only used with": {"rotary_scaling": {"type": "linear", "factor": 2.0}},
        "Received: {'type': 'yarn'}": {"positions": "rotary", "rotary_scaling": {"type": "yarn"}},
        "one of 'learned', 'rotary'": {"positions": "alibi"},
    }.items():
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(config, **settings)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="`embedding` and `encoder` or `decoder`"):
        hidden_states(other, {"token_ids": ops.zeros((1, 3))})


@pytest.mark.slow
def test_what_has_no_position_is_refused(models):
    """On JAX it would be NaN."""
    decoder, llama = (language_decoder(models[kind]) for kind in ("gpt", "llama"))
    with pytest.raises(ValueError, match=r"positions for 8 tokens.*Received: 9.*WindowDecoder"):
        decoder.prefill(np.ones((1, 9), "int32"))
    for search in (greedy_search, functools.partial(sample, seed=1)):
        found = search(decoder, IDS[:, :3], max_length=6, end_id=None)
        assert np.isfinite(numpy(found.scores)).all()
        with pytest.raises(ValueError, match="9 tokens, including the tokens to generate"):
            search(decoder, IDS[:, :3], max_length=7, end_id=None)
    padded = np.array([[1, 2, 3], [1, 0, 0], [1, 2, 0]])
    greedy_search(decoder, padded, prompt_mask=padded > 0, max_length=6, end_id=None)
    with pytest.raises(ValueError, match="Received: 9"):
        greedy_search(decoder, padded, prompt_mask=padded > 0, max_length=9, end_id=None)
    with pytest.raises(ValueError, match="Received: 10"):  # the longest prompt: 3 + 8 - 1
        greedy_search(decoder, padded, prompt_mask=padded > 0, max_length=8, end_id=None)
    rows = np.array([6, 8, 7], "int32")
    whole = greedy_search(
        decoder, padded, prompt_mask=padded > 0, max_length=8, end_id=None, max_lengths=rows
    )
    np.testing.assert_array_equal(numpy(whole.lengths), rows)
    with pytest.raises(ValueError, match=r"positions for 8 tokens.*Received: 9"):
        decoder.prefill(np.ones((1, 9), "int32"), np.ones((1, 9), bool))
    _, state = decoder.prefill(IDS[:, :3], max_length=12)
    with pytest.raises(ValueError, match="Received: 9"):
        decoder.step(IDS[:, 0], np.full(3, 8, "int32"), state)
    with pytest.raises(ValueError, match=r"for 8 tokens.*window of sequence_length=9"):
        WindowDecoder(decoder, 9, 1)
    greedy_search(llama, IDS[:, :3], max_length=7, end_id=None)
    steps = SampledSteps(decoder, end_id=None)
    state = steps.begin(IDS[:, :3], None, np.arange(3, dtype="int32"), max_length=6)
    found, _ = steps.advance(state, 8)
    whole = sample(decoder, IDS[:, :3], max_length=6, end_id=None, seed=np.arange(3, dtype="int32"))
    np.testing.assert_array_equal(numpy(found["tokens"])[:, :6], numpy(whole.tokens))
    assert len(hidden_states(models["gpt"], {"token_ids": IDS})) == 3
    with pytest.raises(ValueError, match="at most 8 tokens"):
        hidden_states(models["gpt"], {"token_ids": np.ones((1, 9), "int32")})


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
def test_prompts_of_any_length_in_a_graph(models):
    """What is not known of a prompt is not checked."""
    import tensorflow as tf

    decoder = language_decoder(models["gpt"])
    search = functools.partial(greedy_search, decoder, max_length=3, end_id=None)
    run = tf.function(
        lambda ids: search(ids).tokens,
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    np.testing.assert_array_equal(run(IDS[:, :4]), search(IDS[:, :4]).tokens)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch has no graph here")
@pytest.mark.parametrize("beams", [0, 2])
def test_rows_without_positions_are_cut_in_a_graph(models, beams):
    """There the lengths of the prompts are not known before; rows that fit are as ever."""
    decoder = language_decoder(models["gpt"])
    ids = np.array([[1, 2, 3, 4, 5, 6], [1, 2, 0, 0, 0, 0]], "int32")

    def search(ids, steps):
        settings = {"num_beams": beams} if beams else {}
        how = beam_search if beams else greedy_search
        return how(decoder, ids, ops.not_equal(ids, 0), max_length=steps, end_id=None, **settings)

    found = CompiledFunction(search, models["gpt"].variables, False)(ids, 7)
    lengths, scores = np.ravel(found.lengths), np.ravel(found.scores)
    assert lengths.tolist() == [3, 7] and np.isfinite(scores).all() and not np.any(found.finished)
    alone = greedy_search(decoder, ids[:1], max_length=3, end_id=None)
    if not beams:
        np.testing.assert_array_equal(found.tokens[0, :3], numpy(alone.tokens)[0])

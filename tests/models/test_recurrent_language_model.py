"""The recurrent language model: step by step as in one go, padding, dropout, files."""

import keras
import numpy as np
import pytest
from keras import ops
from model_toys import compiled

from keras_attn.generation import RecomputeDecoder, greedy_search, sample
from keras_attn.models import (
    RecurrentLanguageModelConfig,
    TokenDecoder,
    language_decoder,
)

V = 11
SETTINGS = {
    "lstm": {},
    "gru, 2 layers": {"cell": "gru", "num_layers": 2},
    "tied": {"tie_embeddings": True},
    "tied, one width": {"tie_embeddings": True, "dim": 16, "num_layers": 2},
}


def make(**settings):
    settings = {"dim": 8, "units": 16, **settings}
    model = RecurrentLanguageModelConfig(V, **settings).build()
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return model


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


IDS = np.random.default_rng(1).integers(1, V, size=(3, 7)).astype("int32")


@pytest.mark.quick("lstm")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_step_by_step_is_teacher_forcing(settings):
    model = make(**settings)
    whole = numpy(model(IDS))
    assert whole.shape == (3, 7, V)
    decoder = language_decoder(model)
    logits, state = decoder.prefill(IDS[:, :3])
    np.testing.assert_allclose(numpy(logits), whole[:, 2], atol=1e-5)
    for t in range(3, 7):
        logits, state = decoder.step(IDS[:, t], np.full(3, t), state)
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gru, 2 layers", "tied"])
def test_decoding_is_that_of_the_whole_model(name):
    model = make(**SETTINGS[name])
    forward = compiled(model)
    whole = RecomputeDecoder(lambda ids, memory, memory_mask: forward(ids))
    mask = np.arange(7) < np.array([[7], [2], [4]])
    for search in (greedy_search, sample):
        more = {"seed": 3, "top_p": 0.9} if search is sample else {}
        more |= {"max_length": 6, "end_id": 2}
        expected = search(whole, IDS, mask, **more)
        found = search(language_decoder(model), IDS, mask, **more)
        assert numpy(found.tokens).tolist() == numpy(expected.tokens).tolist()
        np.testing.assert_allclose(numpy(found.scores), numpy(expected.scores), atol=1e-4)


def test_padding_on_the_right_changes_nothing():
    model = make()
    padded = np.pad(IDS, [[0, 0], [0, 3]])
    np.testing.assert_allclose(numpy(model(padded))[:, :7], numpy(model(IDS)), atol=1e-6)


@pytest.mark.slow
def test_shapes_of_weights():
    names = {w.path.partition("/")[0] for w in make().weights if "seed" not in w.path}
    assert names == {"embedding", "decoder", "head"}
    tied = make(tie_embeddings=True)
    assert "head" not in [layer.name for layer in tied.layers]
    # Embedding, LSTM, projection; nothing else.
    assert tied.count_params() == V * 8 + 4 * 16 * (8 + 16 + 1) + 16 * 8
    plain = make(num_layers=2)
    lstm = 4 * 16 * (8 + 16 + 1) + 4 * 16 * (16 + 16 + 1)
    assert plain.count_params() == V * 8 + lstm + 16 * V + V


@pytest.mark.slow
def test_dropout_is_in_training_only():
    model = make(dropout=0.5, recurrent_dropout=0.3, num_layers=2)
    still = numpy(model(IDS, training=False))
    np.testing.assert_array_equal(still, numpy(model(IDS, training=False)))
    assert np.abs(numpy(model(IDS, training=True)) - still).max() > 1e-3


@pytest.mark.slow
def test_files(tmp_path):
    model = make(cell="gru", num_layers=2)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras", safe_mode=True)
    np.testing.assert_allclose(numpy(loaded(IDS)), numpy(model(IDS)), atol=1e-6)
    assert isinstance(language_decoder(loaded), TokenDecoder)
    config = RecurrentLanguageModelConfig(V, cell="gru")
    assert RecurrentLanguageModelConfig(**config.to_dict()) == config


@pytest.mark.slow
def test_mixed_precision():
    config = RecurrentLanguageModelConfig(V, dim=8, units=16)
    model = config.build("mixed_bfloat16")
    assert keras.backend.standardize_dtype(model(IDS).dtype) == "bfloat16"
    found = greedy_search(language_decoder(model), IDS, max_length=4, end_id=2)
    assert np.isfinite(numpy(found.scores)).all()


def test_errors():
    with pytest.raises(ValueError, match=r"lstm.*Received: 'rnn'"):
        RecurrentLanguageModelConfig(V, cell="rnn")
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="RecurrentLanguageModelConfig"):
        language_decoder(other)
    with pytest.raises(ValueError, match="RecurrentLanguageModelConfig"):
        language_decoder("model")

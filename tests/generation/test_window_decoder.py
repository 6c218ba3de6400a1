"""Texts that are longer than what the model can read."""

import keras
import numpy as np
import pytest
from keras import ops
from processes import answer

from keras_attn.generation import CompiledFunction, WindowDecoder, beam_search, greedy_search
from keras_attn.layers import transformer_stacks
from keras_attn.models import GptConfig, language_decoder

V, T, START = 11, 8, 1
KINDS = {
    "learned": {},
    "rotary": {"positions": "rotary", "normalization": "rms_norm", "gated": True},
}


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    config = GptConfig(
        V, dim=8, num_layers=1, num_heads=2, intermediate_dim=8, sequence_length=T,
        tie_embeddings=False, **KINDS[request.param],
    )  # fmt: skip
    model = config.build()
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(size=weight.shape))
    return model


PROMPTS = [[START], [START, 5, 6], [START, 4, 7, 3, 9, 2]]


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def windows(prompt, tokens):
    """What is read before each of the tokens, and after the last one."""
    window, text, added = list(prompt), list(prompt[1:]), 0
    yield window
    for token in tokens:
        text.append(int(token))
        if added == T // 4:
            window, added = [START, *text[-(T - T // 4 - 1) :]], 0
        else:
            window, added = [*window, text[-1]], added + 1
        yield window


def batch(left):
    width = max(map(len, PROMPTS))
    ids, mask = np.zeros((3, width), "int32"), np.zeros((3, width), bool)
    for r, prompt in enumerate(PROMPTS):
        place = slice(width - len(prompt), None) if left else slice(len(prompt))
        ids[r, place], mask[r, place] = prompt, True
    return ids, mask


@pytest.mark.quick(slow=["rotary-False"])
@pytest.mark.parametrize("left", [False, True])
def test_each_step_by_definition(model, left):
    decoder = WindowDecoder(language_decoder(model), T, START)
    assert decoder.longest_prompt == max(map(len, PROMPTS))
    tokens = np.random.default_rng(1).integers(2, V, (3, 7))
    rows = [w for prompt, row in zip(PROMPTS, tokens, strict=True) for w in windows(prompt, row)]
    padded = np.array([[*row, *[0] * (T - len(row))] for row in rows])
    last = [len(row) - 1 for row in rows]
    wanted = numpy(model(padded))[np.arange(len(rows)), last].reshape(3, 8, V)
    logits, state = decoder.prefill(*batch(left))
    found = [numpy(logits)]
    for t in range(7):
        logits, state = decoder.step(tokens[:, t], None, state)
        found.append(numpy(logits))
    np.testing.assert_allclose(np.stack(found, 1), wanted, atol=1e-4, rtol=1e-4)


BY_HAND = """
import json, numpy as np
from keras_attn.generation import WindowDecoder
from keras_attn.models import GptConfig, language_decoder
config = GptConfig(11, dim=8, num_layers=1, num_heads=2, intermediate_dim=8, sequence_length=8)
model = config.build()
decoder = WindowDecoder(language_decoder(model), 8, 1)
ids = np.random.default_rng(0).integers(2, 11, (1, 12))
ids[:, 0] = 1
logits, state = decoder.prefill(ids[:, :1])
for t in range(1, 12):
    logits, state = decoder.step(ids[:, t], None, state)
last = int(state["length"][0])  # the window begins anew with the start token
window = np.concatenate([ids[:, :1], ids[:, 12 - last + 1 :]], axis=1)
print(json.dumps(float(abs(np.asarray(logits) - np.asarray(model(window))[:, -1]).max())))
"""


@pytest.mark.slow
def test_steps_by_hand_on_jax():
    """Both branches of a condition are evaluated there, with all positions known."""
    assert answer("jax", BY_HAND) < 1e-4


@pytest.mark.slow
def test_in_a_graph(model):
    """Its lengths are not known there."""
    decoder = WindowDecoder(language_decoder(model), T, START)
    ids, mask = batch(False)

    def search(ids, count, mask):
        return greedy_search(decoder, ids, mask > 0, max_length=count, end_id=None).tokens

    wanted = numpy(search(ids, 9, mask)).tolist()
    compiled = CompiledFunction(search, model)
    assert compiled(ids, 9, mask.astype("int32")).tolist() == wanted
    assert compiled(ids, 4, mask.astype("int32")).tolist() == [row[:4] for row in wanted]


@pytest.mark.slow
def test_a_beam_of_one(model):
    decoder = WindowDecoder(language_decoder(model), T, START)
    ids = np.array([PROMPTS[1]], "int32")
    found = beam_search(decoder, ids, max_length=5, end_id=2, num_beams=1)
    wanted = greedy_search(decoder, ids, max_length=5, end_id=2)
    assert numpy(found.tokens)[:, 0].tolist() == numpy(wanted.tokens).tolist()


@pytest.mark.quick("learned")
def test_beams_of_a_compiled_search(model, monkeypatch):
    """A window that moves reads its prompt anew, in the same state as before."""
    monkeypatch.setattr(transformer_stacks, "compiler", lambda: "xla")
    decoder = WindowDecoder(language_decoder(model), T, START)
    ids = np.array([PROMPTS[2]] * 2, "int32")

    def search(ids, count):
        return beam_search(decoder, ids, max_length=count, end_id=None, num_beams=3).tokens

    wanted = numpy(search(ids, 4)).tolist()
    assert CompiledFunction(search, model)(ids, 4).tolist() == wanted


@pytest.mark.slow
def test_the_smallest_windows():
    model = GptConfig(V, dim=4, num_layers=1, num_heads=1, intermediate_dim=4, sequence_length=2)
    model = model.build()
    decoder = WindowDecoder(language_decoder(model), 2, START)
    found = greedy_search(decoder, np.array([[START, 3]]), max_length=4, end_id=None)
    last, wanted = 3, []
    for _ in range(4):
        last = int(numpy(model(np.array([[START, last]])))[0, -1].argmax())
        wanted.append(last)
    assert numpy(found.tokens)[0].tolist() == wanted


def test_errors():
    decoder = WindowDecoder(None, 8, START)
    with pytest.raises(ValueError, match=r"at most 6 tokens.*Received: a prompt of shape \(1, 7\)"):
        decoder.prefill(np.ones((1, 7), "int32"))
    with pytest.raises(ValueError, match="does not support a memory"):
        decoder.prefill(np.ones((1, 2), "int32"), memory=keras.ops.ones((1, 2, 3)))
    with pytest.raises(ValueError, match="cannot return attention scores"):
        decoder.step(np.ones(1), np.ones(1), {}, return_scores=True)
    with pytest.raises(ValueError, match="integer of at least 2"):
        WindowDecoder(None, 1, START)

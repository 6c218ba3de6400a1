"""Caches that are full, and ids of padding that are words."""

import numpy as np
import pytest
from keras import ops
from processes import answer

from keras_attn.generation import RecomputeDecoder, beam_search, greedy_search, sample
from keras_attn.layers import PositionalEncoding, TokenEmbedding, TransformerDecoder
from keras_attn.models import TokenDecoder

V, D = 7, 8


@pytest.fixture(scope="module")
def parts():
    """Weights at which searches produce the id 0, which the embedding takes for padding."""
    embedding, positions = TokenEmbedding(V, D), PositionalEncoding()
    stack = TransformerDecoder(1, 2, intermediate_dim=12)
    rng = np.random.default_rng(19)
    embedding(np.ones((1, 1), "int32"))
    stack(np.ones((1, 3, D), "float32"))
    for layer, scale in ((embedding, 0.5), (stack, 1.0)):
        layer.set_weights([scale * rng.normal(size=w.shape) for w in layer.weights])
    return embedding, positions, stack


def whole(parts, by_mask=True):
    """The same by the whole model at each step."""
    embedding, positions, stack = parts

    def hidden_by_mask(ids, memory, memory_mask, padding_mask):
        return embedding(stack(positions(embedding(ids, mask=padding_mask))), reverse=True)

    def hidden_by_id(ids, memory, memory_mask):
        return embedding(stack(positions(embedding(ids))), reverse=True)

    return RecomputeDecoder(hidden_by_mask if by_mask else hidden_by_id)


PROMPT = np.array([[1], [3], [4], [5], [6], [0]])  # the last one begins with it


def searches(decoder):
    settings = {"max_length": 6, "end_id": 2}
    yield greedy_search(decoder, ops.array(PROMPT), **settings)
    yield beam_search(decoder, ops.array(PROMPT), num_beams=3, num_return_sequences=2, **settings)
    yield sample(decoder, ops.array(PROMPT), seed=3, temperature=3.0, **settings)


@pytest.mark.slow
def test_a_produced_id_of_padding_is_seen(parts):
    """Visibility comes from masks, in the cache and without it."""
    cached, plain = searches(TokenDecoder(*parts)), searches(whole(parts))
    differs = False
    for ours, theirs, wrong in zip(cached, plain, searches(whole(parts, False)), strict=True):
        assert (ops.convert_to_numpy(ours.tokens)[..., :-1] == 0).any()
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
        differs |= not np.allclose(ours.scores, wrong.scores, atol=1e-4)
    assert differs  # else this would find nothing


def test_a_step_of_a_recomputed_search_shows_its_token():
    """Also one with the id of padding."""
    masks = []

    def function(ids, memory, memory_mask, padding_mask):
        masks.append(ops.convert_to_numpy(padding_mask).tolist())
        return ops.zeros((*ids.shape, V))

    decoder = RecomputeDecoder(function)
    _, state = decoder.prefill(ops.array([[4]]), max_length=3)
    decoder.step(ops.array([0]), ops.array([1]), state)
    assert masks == [[[True, False, False]], [[True, True, False]]]


FULL = """
import json, numpy as np
from keras import ops
from keras_attn.generation import RecomputeDecoder
from keras_attn.layers import TokenEmbedding, TransformerDecoder
from keras_attn.models import TokenDecoder
embedding, stack = TokenEmbedding(7, 8), TransformerDecoder(1, 2, intermediate_dim=12)
stack(np.ones((1, 3, 8), "float32"))
plain = RecomputeDecoder(lambda ids, *_: embedding(stack(embedding(ids)), reverse=True))
found = []
for decoder in (TokenDecoder(embedding, None, stack), plain):
    _, state = decoder.prefill(ops.ones((2, 2), "int32"), max_length=3)
    _, state = decoder.step(ops.array([1, 1]), ops.array([2, 2]), state)
    try:
        decoder.step(ops.array([1, 1]), ops.array([3, 3]), state)
    except ValueError as error:
        found.append(str(error))
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    "backend",
    [
        "tensorflow",
        pytest.param("jax", marks=pytest.mark.slow),
        pytest.param("torch", marks=pytest.mark.slow),
    ],
)
def test_a_step_past_the_end_is_refused(backend):
    cached, plain = answer(backend, FULL)
    assert "has 3 slots" in cached
    assert "step 4" in cached
    assert "room for 3 tokens" in plain
    for message in (cached, plain):
        assert "larger `max_length`" in message


class Counting:
    """A decoder that notes the greatest position and the room that it was given."""

    def __init__(self, decoder):
        self.decoder, self.room, self.last = decoder, 0, 0

    def prefill(self, *args, max_length):
        self.room = int(max_length)
        return self.decoder.prefill(*args, max_length=max_length)

    def step(self, tokens, positions, state):
        self.last = max(self.last, int(ops.max(positions)))
        return self.decoder.step(tokens, positions, state)


@pytest.mark.slow
def test_searches_use_all_slots_and_no_more(parts):
    """Eagerly, where a step past the end would be refused."""
    prompt, never = ops.array([[1, 3, 4], [5, 0, 0]]), V - 1
    mask = ops.array([[1, 1, 1], [1, 0, 0]])
    for search, more in [
        (greedy_search, {}),
        (beam_search, {"num_beams": 3}),
        (sample, {"seed": 1}),
    ]:
        for length in (1, 2, 5):
            decoder = Counting(TokenDecoder(*parts))
            settings = {"max_length": length, "end_id": never, "suppressed_ids": [never]}
            search(decoder, prompt, mask, **settings, **more)
            assert decoder.room == 3 + length - 1
            assert decoder.last == (3 + length - 2 if length > 1 else 0)

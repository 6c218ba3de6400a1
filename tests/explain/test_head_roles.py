"""What heads look at: by hand, against slow references, and under padding."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from keras_attn.explain import HeadRoles, head_divergence, head_roles
from keras_attn.layers import attention_maps
from keras_attn.models.bert import BertConfig


def attention(*shape, seed=0):
    weights = np.random.default_rng(seed).random(shape) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


def slow_roles(maps, real, special):
    """Token by token, with scipy's entropy."""
    sums, tokens = 0, 0
    for row in range(len(real)):
        places = [t for t in range(real.shape[1]) if real[row, t]]
        for at, q in enumerate(places):
            if special[row, q]:
                continue
            found = np.zeros((len(maps), maps[0].shape[1], 5))
            for layer, head in np.ndindex(*found.shape[:2]):
                w = maps[layer][row, head, q]
                for which, near in ((0, at - 1), (1, at + 1)):
                    if 0 <= near < len(places) and not special[row, places[near]]:
                        found[layer, head, which] = w[places[near]]
                found[layer, head, 2] = w[q]
                found[layer, head, 3] = sum(w[k] for k in places if special[row, k])
                spread = entropy(w[places]) / np.log(len(places)) if len(places) > 1 else 0
                found[layer, head, 4] = spread
            sums, tokens = sums + found, tokens + 1
    return sums / tokens


@pytest.fixture(scope="module")
def encoder():
    """A random BERT, its inputs with padding, and which tokens are special."""
    model = BertConfig(20, dim=16, num_layers=2, num_heads=2, intermediate_dim=16).build()
    ids = np.array([[2, 9, 8, 7, 3, 0, 0], [2, 5, 3, 6, 7, 8, 3], [2, 4, 3, 0, 0, 0, 0]])
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    for weight in model.trainable_weights:
        noise = np.random.default_rng(len(weight.path)).normal(0, 0.6, weight.shape)
        weight.assign(weight + noise)
    return model, inputs, (ids == 2) | (ids == 3)


class TestRoles:
    def test_by_hand(self):
        """[CLS] a b [SEP] of one head; the rows of special tokens do not count."""
        weights = [
            [0.0, 0.0, 0.0, 1.0],
            [0.4, 0.1, 0.3, 0.2],
            [0.25, 0.25, 0.25, 0.25],
            [0.0, 0.0, 0.0, 1.0],
        ]
        roles = head_roles([np.array([[weights]])], special_mask=np.array([[1, 0, 0, 1]]))
        spread = -(0.4 * np.log(0.4) + 0.1 * np.log(0.1) + 0.3 * np.log(0.3) + 0.2 * np.log(0.2))
        expected = [0.25 / 2, 0.3 / 2, 0.35 / 2, 1.1 / 2, (spread / np.log(4) + 1) / 2]
        np.testing.assert_allclose(roles.values, [[expected]])
        np.testing.assert_allclose(roles.other, [[0.0]], atol=1e-12)
        assert roles.tokens == 2 and roles.texts == 1
        assert roles.role_of(0, 0) == "special"
        assert roles.role_of(0, 0, threshold=0.6, spread_threshold=0.95) == "spread"
        assert roles.role_of(0, 0, threshold=0.6, spread_threshold=0.99) == "mixed"

    def test_heads_that_look_at_one_thing(self):
        size = 6
        heads = [np.eye(size, k=-1), np.eye(size, k=1), np.eye(size), np.full((size,) * 2, 1 / 6)]
        heads[0][0, 0] = heads[1][-1, -1] = 1
        roles = head_roles([np.stack(heads)[None]])
        assert [roles.role_of(0, h) for h in range(4)] == ["previous", "next", "same", "spread"]
        np.testing.assert_allclose(roles.values[0, 0], [5 / 6, 0, 1 / 6, 0, 0], atol=1e-9)
        np.testing.assert_allclose(roles.values[0, 3], [5 / 36, 5 / 36, 1 / 6, 0, 1])
        np.testing.assert_allclose(roles.other[0], [0, 0, 0, 1 - 16 / 36], atol=1e-9)
        strongest = roles.strongest("previous", 2)
        assert strongest == [(0, 0, pytest.approx(5 / 6)), (0, 3, pytest.approx(5 / 36))]

    def test_against_a_slow_reference(self):
        real = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
        special = np.array([[1, 0, 0, 1, 0, 1], [1, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 1]], bool)
        maps = [attention(3, 4, 6, 6, seed=i) * real[:, None, None] for i in range(2)]
        maps = [m / m.sum(axis=-1, keepdims=True) for m in maps]
        roles = head_roles(maps, real, special)
        np.testing.assert_allclose(roles.values, slow_roles(maps, real, special), atol=1e-12)
        assert (roles.tokens, roles.texts) == (3 + 1 + 4, 3)

    def test_a_mean_over_tokens_not_over_texts(self):
        """A text of one token that looks at itself, one of three that look at the first."""
        first = np.zeros((3, 3))
        first[:, 0] = 1
        maps = np.zeros((2, 1, 3, 3))
        maps[0, 0, :, 0], maps[1, 0] = 1, first
        roles = head_roles([maps], np.array([[1, 0, 0], [1, 1, 1]]))
        np.testing.assert_allclose(roles.values[0, 0], [1 / 4, 0, 2 / 4, 0, 0])
        assert roles.tokens == 4

    def test_a_single_token(self):
        alone = head_roles([np.ones((1, 2, 1, 1))])
        np.testing.assert_array_equal(alone.values, [[[0, 0, 1, 0, 0]] * 2])
        third = head_roles([np.full((1, 1, 3, 3), 1 / 3)], special_mask=[[1, 0, 1]])
        np.testing.assert_allclose(third.values, [[[0, 0, 1 / 3, 2 / 3, 1]]])

    def test_padding_of_a_model_changes_nothing(self, encoder):
        model, inputs, special = encoder
        together = head_roles(attention_maps(model, inputs), inputs["padding_mask"], special)
        sums = 0
        for row, length in enumerate(inputs["padding_mask"].sum(axis=1)):
            one = {name: x[row : row + 1, :length] for name, x in inputs.items()}
            alone = head_roles(attention_maps(model, one), special_mask=special[[row], :length])
            sums = sums + alone.values * alone.tokens
        np.testing.assert_allclose(together.values, sums / together.tokens, atol=1e-5)
        assert together.values.shape == (2, 2, 5) and together.tokens == 8

    def test_written(self):
        roles = HeadRoles([[[0.9, 0.0, 0.1, 0.0, 0.2]], [[0.0, 0.2, 0.1, 0.2, 0.9]]], 4, 2)
        lines = str(roles).splitlines()
        assert len(lines) == 3 and len({line.index("0.") for line in lines[1:]}) == 1
        assert lines[2].split() == "1 0 0.00 0.20 0.10 0.20 0.50 0.90 spread".split()
        told = json.loads(json.dumps(roles.to_dict()))
        assert told["tokens"] == 4 and told["texts"] == 2
        assert told["heads"][1] == {
            "layer": 1, "head": 0, "previous": 0.0, "next": 0.2, "same": 0.1, "special": 0.2,
            "spread": 0.9, "other": pytest.approx(0.5), "role": "spread",
        }  # fmt: skip
        assert repr(roles) == "<HeadRoles of 2 x 1 heads, 4 tokens>"

    def test_refuses(self):
        maps = [np.full((1, 1, 2, 2), 0.5)]
        with pytest.raises(ValueError, match="at least one token that is neither"):
            head_roles(maps, special_mask=[[1, 1]])
        with pytest.raises(ValueError, match=r"up to 0\.500 of a token's weight on padding"):
            head_roles(maps, [[1, 0]])
        with pytest.raises(ValueError, match=r"shape \(1, 1, 3, 3\) in layer 1"):
            head_roles([*maps, np.full((1, 1, 3, 3), 1 / 3)])
        with pytest.raises(ValueError, match="at least one layer"):
            head_roles([])
        with pytest.raises(ValueError, match="special_mask"):
            head_roles(maps, special_mask=[[1, 0, 0]])
        with pytest.raises(ValueError, match="finite weights"):
            head_roles([np.full((1, 1, 2, 2), np.nan)])
        with pytest.raises(ValueError, match="from 0 to 1"):
            HeadRoles([[[0, 0, 2, 0, 0]]], 1)
        with pytest.raises(ValueError, match=r"shape \(1, 1, 2\)"):
            HeadRoles([[[0, 0]]], 1)
        with pytest.raises(ValueError, match="`measure` must be one of"):
            HeadRoles([[[0, 0, 1, 0, 0]]], 1).strongest("last")


class TestDivergence:
    def test_by_hand(self):
        """One head looks at itself, one at the first token, one at both: log 2 and below."""
        same, first = np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])
        half = np.full((2, 2), 0.5)
        found = head_divergence([np.stack([same, first, half])[None]])
        # (1, 0) and (1/2, 1/2): H(3/4, 1/4) - log(2) / 2.
        near = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - np.log(2) / 2
        expected = [[0, np.log(2) / 2, near], [np.log(2) / 2, 0, near], [near, near, 0]]
        np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_never_the_same_token(self):
        found = head_divergence([np.eye(4)[None, None], np.eye(4)[::-1][None, None]])
        np.testing.assert_allclose(found, [[0, np.log(2)], [np.log(2), 0]])

    def test_against_scipy(self):
        real = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]], bool)
        special = np.array([[1, 0, 0, 0, 1, 0], [1, 0, 1, 0, 0, 0]], bool)
        maps = [attention(2, 3, 6, 6, seed=i) * real[:, None, None] for i in range(2)]
        maps = [m / m.sum(axis=-1, keepdims=True) for m in maps]
        found = head_divergence(maps, real, special)
        heads = np.concatenate(maps, axis=1)
        for i, j in np.ndindex(6, 6):
            each = [
                jensenshannon(heads[row, i, q], heads[row, j, q]) ** 2
                for row, q in np.argwhere(real & ~special)
            ]
            assert found[i, j] == pytest.approx(np.mean(each), abs=1e-9)
        np.testing.assert_array_equal(found, found.T)
        np.testing.assert_array_equal(np.diag(found), 0)

    def test_of_a_model(self, encoder):
        model, inputs, special = encoder
        maps = attention_maps(model, inputs)
        found = head_divergence(maps, inputs["padding_mask"], special)
        assert found.shape == (4, 4) and 0 < found.max() <= np.log(2)
        with pytest.raises(ValueError, match="at least one token"):
            head_divergence(maps, inputs["padding_mask"], np.ones_like(special))

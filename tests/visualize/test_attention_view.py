"""Weights and tokens put together, before any page or figure is made of them."""

import numpy as np
import pytest

from keras_attn.layers.collect import AttentionKey, AttentionMaps
from keras_attn.visualize import AttentionPart, AttentionView
from keras_attn.visualize.display import displayed_tokens

SOURCE, TARGET = ["ein", "Hund", "</s>"], ["a", "dog"]


def attention(*shape, seed=0):
    weights = np.random.default_rng(seed).random(shape).astype("float32")
    return weights / weights.sum(axis=-1, keepdims=True)


def maps_of(**maps):
    """`encoder_0_self=array`: layer `encoder/block_0/self_attention`, role `self`."""
    collected = AttentionMaps()
    for name, weights in maps.items():
        stack, number, role = name.split("_")
        kind = "attention" if role in ("pooling", "weighting") else f"{role}_attention"
        collected[AttentionKey(f"{stack}/block_{number}/{kind}", role, 0)] = weights
    return collected


class TestTokens:
    def shown(self, *tokens):
        return [(t.text, t.joined) for t in displayed_tokens(tokens)]

    def test_pieces_of_words(self):
        assert self.shown("A", "▁small", "er", "▁", "▁dog", ".", "</s>", "x") == [
            ("A", False), ("small", False), ("er", True), ("▁", False), ("dog", False),
            (".", True), ("</s>", False), ("x", False),
        ]  # fmt: skip
        assert self.shown("[CLS]", "small", "##er", "##") == [
            ("[CLS]", False), ("small", False), ("er", True), ("##", False)
        ]  # fmt: skip
        assert self.shown("a", "b") == [("a", False), ("b", False)]

    def test_none_is_empty_and_none_breaks_a_line(self):
        assert self.shown("", "\n", "\t", "\r\n", "\x00", "\ud800") == [
            ("∅", False), ("↵", False), ("⇥", False), ("↵", False), ("␀", False), ("\ufffd", False)
        ]  # fmt: skip

    def test_special_tokens(self):
        tokens = ["</s>", "<start>", "[MASK]", "<", "a>", "[ ]", "dog"]
        assert [t.special for t in displayed_tokens(tokens)] == [True] * 3 + [False] * 4


class TestPart:
    def test_shapes_that_are_taken(self):
        for weights in (attention(2, 3), attention(1, 2, 3), attention(1, 1, 2, 3)):
            part = AttentionPart("cross", TARGET, SOURCE, [weights])
            np.testing.assert_array_equal(part.weights[0], weights.reshape(1, 2, 3))
            assert part.weights[0].dtype == np.float32

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([attention(3, 2)], r"shape \(heads, 2, 3\). Received: shape \(1, 3, 2\)"),
            ([attention(2, 2, 4, 2, 3)[0]], r"\(1, heads, T, S\) of a batch of one"),
            ([], "at least one layer"),
            ([attention(0, 2, 3)], "at least one head"),
            ([np.full((2, 3), np.nan)], "finite and not below 0"),
            ([-attention(2, 3)], "finite and not below 0"),
        ],
    )
    def test_others_are_refused(self, weights, message):
        with pytest.raises(ValueError, match=message):
            AttentionPart("cross", TARGET, SOURCE, weights)

    def test_no_tokens(self):
        with pytest.raises(ValueError, match="0 queries and 3 keys of 'cross'"):
            AttentionPart("cross", [], SOURCE, [np.zeros((0, 3))])
        with pytest.raises(ValueError, match="2 queries and 0 keys"):
            AttentionPart("cross", TARGET, [], [np.zeros((2, 0))])


class TestView:
    def test_title_is_the_text(self):
        part = AttentionPart("x", ["▁A", "▁small", "er", "</s>"], ["b"], [np.ones((4, 1))])
        assert AttentionView([part]).title == "A smaller"
        assert AttentionView([part], "mine").title == "mine"
        long = AttentionPart("x", ["word"] * 50, ["b"], [np.ones((50, 1))])
        assert len(AttentionView([long]).title) == 81

    def test_pictures_and_their_grid(self):
        image = np.zeros((8, 8, 3), "uint8")
        part = AttentionPart("cross", TARGET, None, [attention(2, 6)])
        assert AttentionView([part], image=image, grid=[2, 3]).grid == (2, 3)
        for settings in ({}, {"image": image}, {"grid": (2, 3)}):
            with pytest.raises(ValueError, match="Expected `image`, `grid` and parts"):
                AttentionView([part], **settings)
        with pytest.raises(ValueError, match=r"as there are weights, 6 .*Received: \(2, 2\)"):
            AttentionView([part], image=image, grid=(2, 2))
        text = AttentionPart("cross", TARGET, SOURCE, [attention(2, 3)])
        with pytest.raises(ValueError, match="0 of 1 parts with keys=None"):
            AttentionView([text], image=image, grid=(2, 2))
        with pytest.raises(ValueError, match="at least one `AttentionPart`"):
            AttentionView([])

    def test_large_pictures_are_kept_small(self):
        part = AttentionPart("cross", TARGET, None, [attention(2, 6)])
        view = AttentionView([part], image=np.full((600, 800, 3), 7, "uint8"), grid=(2, 3))
        assert view.image.shape == (480, 640, 3) and view.image.base is None
        assert (view.image == 7).all()

    @pytest.mark.parametrize(
        "image",
        [np.zeros((8, 8)), np.zeros((8, 8, 4)), np.zeros((0, 8, 3)), np.full((2, 2, 3), -1)],
    )
    def test_what_is_no_picture(self, image):
        part = AttentionPart("cross", TARGET, None, [attention(2, 6)])
        with pytest.raises(ValueError, match="`image` must be"):
            AttentionView([part], image=image, grid=(2, 3))

    def test_words_of_a_caption(self):
        class Caption:
            def words(self):
                return [("red", attention(2, 3)), ("car", attention(2, 3, seed=1))]

        view = AttentionView.from_words(np.zeros((4, 4, 3)), Caption())
        assert view.title == "red car" and view.grid == (2, 3)
        np.testing.assert_array_equal(
            view.parts[0].weights[0][0, 1], attention(2, 3, seed=1).ravel()
        )
        for words, message in (
            ([], r"maps \(rows, columns\) of the same size"),
            (
                [("a", np.ones((2, 2))), ("b", np.ones((2, 3)))],
                r"maps \(rows, columns\) of the same size",
            ),
            ([("a", np.ones(2))], r"map of word 0, 'a', must have shape \(rows, columns\)"),
        ):
            with pytest.raises(ValueError, match=message):
                AttentionView.from_words(np.zeros((4, 4, 3)), words)


class TestFromMaps:
    def test_encoder_and_decoder(self):
        """Both self-attentions have the same role and may have the same size."""
        maps = maps_of(
            encoder_0_self=attention(2, 4, 3, 3),
            encoder_1_self=attention(2, 4, 3, 3, seed=1),
            decoder_0_self=attention(2, 4, 3, 3, seed=2),
            decoder_0_cross=attention(2, 4, 3, 3, seed=3),
        )
        target = ["a", "dog", "</s>"]
        view = AttentionView.from_maps(maps, SOURCE, target, row=1)
        cross, encoder, decoder = view.parts
        assert [part.name for part in view.parts] == [
            "cross-attention", "encoder self-attention", "decoder self-attention"
        ]  # fmt: skip
        assert (cross.queries, cross.keys) == (tuple(target), tuple(SOURCE))
        assert (encoder.queries, encoder.keys) == (tuple(SOURCE), tuple(SOURCE))
        assert (decoder.queries, decoder.keys) == (tuple(target), ("<start>", "a", "dog"))
        np.testing.assert_array_equal(cross.weights[0], attention(2, 4, 3, 3, seed=3)[1])
        np.testing.assert_array_equal(encoder.weights[1], attention(2, 4, 3, 3, seed=1)[1])
        np.testing.assert_array_equal(decoder.weights[0], attention(2, 4, 3, 3, seed=2)[1])
        view = AttentionView.from_maps(maps, SOURCE, target, input_tokens=["[B]", "x", "y"])
        assert view.parts[2].keys == ("[B]", "x", "y")

    def test_one_text_and_its_answer(self):
        weighting = np.array([[-3.0, 1.0, 0.0]], "float32")
        maps = maps_of(
            encoder_0_self=attention(1, 2, 3, 3),
            encoder_0_pooling=attention(1, 3),
            bag_0_weighting=weighting,
        )
        view = AttentionView.from_maps(maps, SOURCE, answer="good")
        pooling, weights, own = view.parts
        assert [p.name for p in view.parts] == [
            "attention pooling", "token weighting", "self-attention"
        ]  # fmt: skip
        assert pooling.queries == weights.queries == ("good",)
        assert pooling.weights[0].shape == (1, 1, 3)
        np.testing.assert_allclose(weights.weights[0], [[[0.75, 0.25, 0.0]]])
        assert own.weights[0].shape == (2, 3, 3)

    def test_a_picture(self):
        maps = maps_of(decoder_0_cross=attention(1, 2, 2, 6), decoder_0_self=attention(1, 2, 2, 2))
        view = AttentionView.from_maps(
            maps, target_tokens=TARGET, image=np.zeros((4, 4, 3)), grid=(2, 3)
        )
        assert [part.keys for part in view.parts] == [None, ("<start>", "a")]

    def test_one_head_without_an_axis(self):
        maps = maps_of(decoder_0_cross=attention(2, 2, 3))
        view = AttentionView.from_maps(maps, SOURCE, TARGET, row=1)
        np.testing.assert_array_equal(view.parts[0].weights[0], attention(2, 2, 3)[1:])

    def test_padding_is_cut_and_nothing_else(self):
        padded = np.zeros((1, 2, 4, 5), "float32")
        padded[..., :3] = attention(1, 2, 4, 3)
        view = AttentionView.from_maps(maps_of(decoder_0_cross=padded), SOURCE, TARGET)
        np.testing.assert_array_equal(view.parts[0].weights[0], padded[0, :, :2, :3])
        with pytest.raises(ValueError, match=r"2 tokens; up to 0.* of the weight of a query"):
            AttentionView.from_maps(maps_of(decoder_0_cross=padded), SOURCE[:2], TARGET)
        with pytest.raises(ValueError, match=r"4 queries and 5 keys .*Received: 2 and 6 tokens"):
            AttentionView.from_maps(maps_of(decoder_0_cross=padded), SOURCE * 2, TARGET)

    def test_what_is_missing_is_named(self):
        maps = maps_of(decoder_0_cross=attention(1, 2, 3))
        with pytest.raises(ValueError, match="cross-attention requires `source_tokens`"):
            AttentionView.from_maps(maps, target_tokens=TARGET)
        with pytest.raises(ValueError, match="cross-attention requires `target_tokens`"):
            AttentionView.from_maps(maps, SOURCE)
        with pytest.raises(ValueError, match="`row` must be one of the 1 rows"):
            AttentionView.from_maps(maps, SOURCE, TARGET, row=1)
        with pytest.raises(ValueError, match="at least one `AttentionPart`"):
            AttentionView.from_maps(AttentionMaps(), SOURCE)

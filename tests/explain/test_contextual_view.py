"""One word in many sentences: its vectors by layer, the senses, and what it looks at."""

import re

import keras
import numpy as np
import pytest

from keras_attn.explain import ContextualView, contextual_view, sense_layer
from keras_attn.fields import EncoderInput
from keras_attn.layers import attention_maps
from keras_attn.metrics import WordSpace
from keras_attn.models import BertConfig, hidden_states
from keras_attn.text import WordPieceTokenizer
from keras_attn.visualize import main_directions

WORDS = "a hot cold deep spring ##s sprin ##g in the well".split()
TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])
SENTENCES = {"season": ["a hot spring", "in spring"], "water": ["Spring deep in the well"]}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    size = {"dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 8}
    return BertConfig(len(TOKENIZER.vocabulary), **size, sequence_length=12).build()


@pytest.fixture(scope="module")
def view(model):
    return contextual_view((model, TOKENIZER), SENTENCES, "spring", top_k=3)


@pytest.mark.slow
def test_vectors_are_the_states_of_each_sentence_alone(model, view):
    """What is padded beside longer sentences is as without padding."""
    assert view.places == [(3, 3), (2, 2), (1, 1)]
    assert view.senses == ["season", "season", "water"]
    for i, (sentence, (place, _)) in enumerate(zip(view.sentences, view.places, strict=True)):
        ids = np.array([[2, *TOKENIZER.encode(sentence), 3]])
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
        states = hidden_states(model, inputs)
        expected = [keras.ops.convert_to_numpy(layer)[0, place] for layer in states]
        np.testing.assert_allclose(view.vectors[:, i], expected, atol=1e-5)
        maps = attention_maps(model, inputs)
        rows = [np.asarray(x)[0, :, place] for x in maps.values()]
        np.testing.assert_allclose(view.attention(i), rows, atol=1e-5)


def test_a_word_of_several_tokens_is_their_mean(model):
    whole = contextual_view((model, TOKENIZER), ["a springs well"], "springs", top_k=1)
    ids = np.array([[2, *TOKENIZER.encode("a springs well"), 3]])
    states = hidden_states(model, {"token_ids": ids, "padding_mask": ids > 0})
    (first, last), row = whole.places[0], keras.ops.convert_to_numpy(states[-1])[0]
    assert TOKENIZER.tokens(ids[0, first : last + 1].tolist()) == ["spring", "##s"]
    np.testing.assert_allclose(whole.vectors[-1, 0], row[2:4].mean(axis=0), atol=1e-5)


def test_the_static_vector(model, view):
    table = keras.ops.convert_to_numpy(
        model.get_layer("embedding").token_embedding.embedding.embeddings
    )
    space = WordSpace(TOKENIZER.vocabulary[4:], table[4 : len(TOKENIZER.vocabulary)])
    assert list(view.neighbours) == space.nearest("spring", top_k=3)
    glove = WordSpace(["spring", "summer", "well"], [[1, 0], [1, 0.1], [0, 1]])
    other = contextual_view((model, TOKENIZER), SENTENCES, "spring", glove, top_k=1)
    assert other.neighbours[0].word == "summer"


def test_a_task_with_an_encoder(model, view):
    class Task:
        pass

    task = Task()
    task.model, task.field = model, EncoderInput(TOKENIZER, 12)
    again = contextual_view(task, SENTENCES, "spring")
    np.testing.assert_allclose(again.vectors, view.vectors, atol=1e-6)


def made(vectors, senses):
    places = [(1, 1)] * len(senses)
    return ContextualView("x", ["x"] * len(senses), senses, np.asarray(vectors), [], places, None)


def test_accuracy_and_margin_by_hand():
    """In layer 0 the third and fourth are nearest to each other, of two senses; else none are."""
    angles = np.deg2rad([[0, 20, 35, 49, 90], [0, 5, 8, 80, 90]])
    view = made(np.stack([np.cos(angles), np.sin(angles)], axis=-1), list("aaabb"))
    assert view.accuracies.tolist() == pytest.approx([3 / 5, 1.0])
    cos = np.cos(angles[:, :, None] - angles[:, None, :])
    same = [(0, 1), (0, 2), (1, 2), (3, 4)]
    other = [(i, j) for i in range(3) for j in (3, 4)]
    for layer in (0, 1):
        within = np.mean([cos[layer][i, j] for i, j in same])
        between = np.mean([cos[layer][i, j] for i, j in other])
        assert view.margins[layer] == pytest.approx(within - between)
    assert view.parting_layer == 1 and sense_layer([view]) == 1


def test_equal_neighbours_share():
    """By hand: in layer 0 all vectors are one, in layer 1 the first three, except for rounding."""
    first = np.array([[1.0, 0.0]] * 6)
    second = np.array([[1, 0], [1, 3e-8], [1, -2e-8], [0.9, 0.5], [0, 1], [0.05, 1]])
    view = made([first, second], list("aabbcc"))
    assert view.chance == pytest.approx(1 / 5)
    # The fourth has the first three equally near, one of them of its sense; and so on.
    wanted = [1 / 5, (1 / 2 + 1 / 2 + 0 + 1 / 3 + 1 + 1) / 6]
    assert view.accuracies.tolist() == pytest.approx(wanted)
    for order in ([5, 4, 3, 2, 1, 0], [2, 0, 4, 1, 3, 5], [3, 2, 1, 5, 0, 4]):
        other = made([first[order], second[order]], [view.senses[i] for i in order])
        assert other.accuracies.tolist() == pytest.approx(wanted)


def test_the_page(view):
    page = view.html()
    assert page.count("<svg viewBox") == 3 and page.count("<circle") == 9
    assert 'data-view="0" data-query="3"' in page and "“spring” in 3 sentences" in page
    best = int((view.accuracies == view.accuracies.max()).sum())
    assert len(re.findall(r"<figure class=best>", page)) == best
    assert "By chance the nearest has the sense in 33 %." in page
    names = re.findall(r"<figcaption>(.*?)(?:: |</)", page)
    assert names == ["Layer 0 (embeddings)", "Layer 1", "Layer 2"]
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    plain = contextual_view_without_senses(view)
    assert "nearest has the sense" not in plain.html()
    with pytest.raises(ValueError, match="known senses"):
        _ = plain.accuracies


def test_attention_needs_a_study():
    view = made([np.eye(2)], list("ab"))
    assert view.study is None
    for call in (lambda: view.attention(0), view.html):
        with pytest.raises(ValueError, match=r"no `study`"):
            call()


def contextual_view_without_senses(view):
    return ContextualView(
        view.word, view.sentences, None, view.vectors, view.neighbours, view.places, view.study
    )


def test_main_directions_are_those_of_scikit_learn():
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(0).normal(size=(9, 5))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(
        np.abs(main_directions(vectors)), np.abs(PCA(2).fit_transform(units)), atol=1e-9
    )
    assert main_directions([[1.0, 2.0]]).tolist() == [[0.0, 0.0]]


def test_what_cannot_be(model):
    encoder = (model, TOKENIZER)
    with pytest.raises(ValueError, match="2 times in 'spring in spring'"):
        contextual_view(encoder, ["spring in spring"], "spring")
    with pytest.raises(ValueError, match="0 times in"):  # a vowel of Hindi makes another word
        contextual_view(encoder, ["घरों में"], "घर")
    with pytest.raises(ValueError, match="0 times in 'a springs'"):
        contextual_view(encoder, ["a springs"], "spring")
    with pytest.raises(ValueError, match="'spring' within the first 10 tokens"):
        contextual_view(encoder, ["a " * 12 + "spring"], "spring")
    with pytest.raises(TypeError, match="a model and its tokenizer"):
        contextual_view(model, ["a spring"], "spring")
    with pytest.raises(ValueError, match=r"tokenizer of the encoder knows\. Received: 'zzz'"):
        contextual_view(encoder, ["a zzz"], "zzz")
    for sentences in ({"s": ["a spring"]}, {"s": ["a spring"], "t": ["hot spring"]}):
        few = contextual_view(encoder, sentences, "spring")
        assert "spring" in few.html()
        for name in ("accuracies", "margins", "parting_layer"):
            with pytest.raises(ValueError, match="Expected at least two senses"):
                getattr(few, name)


def test_neighbours_are_words(model):
    found = contextual_view((model, TOKENIZER), ["a spring"], "spring", top_k=50).neighbours
    assert not {n.word for n in found} & {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "spring"}
    assert len(found) == len(WORDS) - 1

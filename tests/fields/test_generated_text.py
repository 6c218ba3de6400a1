"""Prompts and generated texts: by hand, and the same in the graph."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import ODD_TEXTS, GeneratedText, PromptInput
from keras_attn.text import BytePairTokenizer, CharacterTokenizer, WordTokenizer

PAIRS = BytePairTokenizer.train(["to be or not to be, é 🙂 to be é 🙂"], 265, normalize=False)
LETTERS = CharacterTokenizer.train(["to be or not to be, é 🙂"])


def strings(values):
    found = values.numpy().tolist()
    return [
        [x.decode() for x in row] if isinstance(row, list) else row.decode() for row in found
    ]  # fmt: skip


@pytest.mark.quick(slow=["9000-byte pairs"])
@pytest.mark.parametrize("tokenizer", [PAIRS, LETTERS], ids=["byte pairs", "characters"])
@pytest.mark.parametrize("most", [3, 9000])
def test_prompts_in_python_and_in_the_graph(tokenizer, most):
    field = PromptInput(tokenizer, most, lambda tf, number: number + 1)
    texts = [*ODD_TEXTS, "to \ud800", "🙂" * 5]
    seeds = np.arange(len(texts))
    found = field.encode(texts, seeds, 6)
    assert max(map(len, found["ids"])) == min(most + 1, max(map(len, found["ids"])))
    assert all(row[0] == tokenizer.start_id for row in found["ids"])
    encode, (module,) = field.to_graph(tf)
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    graph = encode(tf.constant(raw), tf.constant(seeds), tf.constant(6))
    assert isinstance(module, tf.Module)
    rows = graph["ids"].numpy().tolist()
    for own, row in zip(found["ids"], rows, strict=True):
        assert row == [*own, *[tokenizer.pad_id] * (len(row) - len(own))]
    assert strings(graph["prompt"]) == found["prompt"]
    assert graph["seed"].numpy().tolist() == found["seed"].tolist()
    assert (found["num_tokens"], int(graph["num_tokens"])) == (6, 7)


def test_prompts_must_be_strings():
    with pytest.raises(TypeError, match="Received: 7 of type int at position 1"):
        PromptInput(LETTERS, 3, lambda tf, number: number).encode(["a", 7], [0, 1], 2)


@pytest.mark.parametrize(
    "more", [{}, {"stops": ("be", "🙂")}, {"after": "prompt"}, {"some": "some"},
             {"stops": ("\n",), "after": "prompt", "some": "some"}],
)  # fmt: skip
@pytest.mark.parametrize("tokenizer", [PAIRS, LETTERS, WordTokenizer.train(["to be or not"])])
def test_texts_in_python_and_in_the_graph(tokenizer, more):
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, tokenizer.vocabulary_size, (40, 12)).astype("int32")
    tokens[::5, 4:] = tokenizer.pad_id
    tensors = {
        "tokens": tokens, "prompt": [f"{i}: é" for i in range(40)], "some": np.arange(40) % 3 > 0
    }  # fmt: skip
    field = GeneratedText(tokenizer, **more)
    found = field.decode(tensors)
    assert isinstance(field.modules()[0], tf.Module)
    graph = field.graph(tf, {name: tf.constant(x) for name, x in tensors.items()})
    assert strings(graph) == found
    lists = {**tensors, "tokens": [row.tolist() for row in tokens]}
    assert field.decode(lists) == found


def test_texts_by_hand():
    ids = LETTERS.encode(["to be", "or not"])
    field = GeneratedText(LETTERS, stops=("e", " n"), after="prompt", some="some")
    tensors = {"tokens": [*ids, ids[0]], "prompt": ["1 ", "2 ", "3 "], "some": [1, 1, 0]}
    assert field.decode(tensors) == ["1 to b", "2 or", "3 "]


def test_several_texts_of_a_row():
    tokens = np.array([[LETTERS.encode("to be"), LETTERS.encode("or to")]] * 2, "int32")
    tensors = {"tokens": tokens, "some": np.array([True, False])}
    field = GeneratedText(LETTERS, some="some")
    assert field.decode(tensors) == [["to be", "or to"], ["", ""]]
    field.modules()
    graph = field.graph(tf, {name: tf.constant(x) for name, x in tensors.items()})
    assert strings(graph) == [["to be", "or to"], ["", ""]]


def test_fields_share_a_graph():
    graph = functools.cache(LETTERS.to_graph)
    prompts = PromptInput(LETTERS, 3, lambda tf, number: number, graph)
    (module,) = prompts.to_graph(tf)[1]
    assert GeneratedText(LETTERS, graph=graph).modules() == [module]

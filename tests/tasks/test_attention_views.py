"""What translators and classifiers looked at, for the viewer."""

import numpy as np
import pytest
from text_classification_toys import CASES, EXAMPLES, LONG, make

from keras_attn import ablate
from keras_attn.tasks import TextClassifier, Translator
from keras_attn.tasks.families.attention_views import classification_view, translation_view
from keras_attn.text import BytePairTokenizer
from keras_attn.visualize import attention_viewer

TOKENIZER = BytePairTokenizer.train(["the one and two", "die eins und zwei"] * 3, 275)
pytestmark = pytest.mark.usefixtures("eager")
SMALL = {"dim": 16, "intermediate_dim": 16, "num_layers": 2, "num_heads": 2}


@pytest.mark.slow
def test_all_attention_of_a_transformer():
    translator = Translator(
        TOKENIZER, target_tokenizer=BytePairTokenizer.train(["die eins"] * 3, 262), model=SMALL
    )
    view = translation_view(translator, "the one", "die eins")
    cross, encoder, decoder = view.parts
    alignment = translator.align("the one", "die eins")
    assert cross.queries == tuple(alignment.target_tokens)
    assert cross.keys == encoder.queries == encoder.keys == tuple(alignment.source_tokens)
    assert decoder.keys == ("<start>", *alignment.target_tokens[:-1])
    np.testing.assert_allclose(cross.weights[-1].mean(axis=0), alignment.weights, atol=1e-6)
    for part in view.parts:
        assert [layer.shape[0] for layer in part.weights] == [2, 2]
        for layer in part.weights:
            np.testing.assert_allclose(layer.sum(axis=2), 1, atol=1e-4)
    assert not np.triu(decoder.weights[0][0], 1).any()  # it reads nothing that is to come
    assert view.title == "the one → die eins"
    assert len(attention_viewer(view)) > 10_000


@pytest.mark.slow
def test_its_own_translation():
    translator = Translator(TOKENIZER, model={**SMALL, "num_layers": 1})
    view = translation_view(translator, "the one")
    assert view.title == f"the one → {translator.translate('the one')}"
    assert view.parts[0].queries == tuple(translator.align("the one").target_tokens)


@pytest.mark.slow
def test_a_recurrent_translator():
    settings = {"model": "rnn", "dim": 8, "units": 8}
    view = translation_view(Translator(TOKENIZER, model=settings), "the one", "die")
    (cross,) = view.parts
    assert cross.name == "cross-attention" and cross.weights[0].shape[0] == 1
    translator = Translator(TOKENIZER, model={**settings, "attention": "none"})
    with pytest.raises(ValueError, match=r"attention to show\. Received: attention='none'"):
        translation_view(translator, "the one")


@pytest.mark.slow
def test_what_is_no_text():
    with pytest.raises(TypeError, match=r"Expected strings\. Received: 1"):
        translation_view(Translator(TOKENIZER, model={**SMALL, "num_layers": 1}), 1)


@pytest.mark.quick("the film was great-bag", "the film was great-first")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("text", ["the film was great", pytest.param(LONG, marks=pytest.mark.slow)])
def test_classifiers(case, text):
    classifier = make(case)
    view = classification_view(classifier, text)
    names = {
        "bag": ["attention of the answer"],
        "rnn": ["attention of the answer"],
        "first": ["self-attention"],
        "several": ["attention of the answer", "self-attention"],
    }
    assert [part.name for part in view.parts] == names[case]
    if names[case][0] == "attention of the answer":
        explained = classifier.explain(text, method="attention")
        answer = view.parts[0]
        assert answer.keys == explained.tokens
        np.testing.assert_allclose(answer.weights[0][0, 0], explained.weights, atol=1e-6)
        prediction = classifier.predict(text)
        label = prediction.label
        if case == "several":
            assert answer.queries == (", ".join(label) or "no label",)
        else:
            assert answer.queries[0].startswith(f"{label} ")
    if names[case][-1] == "self-attention":
        own = view.parts[-1]
        assert own.queries == own.keys and len(own.keys) <= classifier.max_length
        assert (own.keys[0] == "[CLS]") == (case == "first")
        np.testing.assert_allclose(own.weights[0].sum(axis=2), 1, atol=1e-4)
    assert view.title == text


@pytest.mark.slow
def test_classifiers_without_attention():
    tokenizer = BytePairTokenizer.train([text for text, _ in EXAMPLES], 290)
    settings = {"dim": 8, "pair_buckets": 0, "token_weights": "none"}
    classifier = TextClassifier(tokenizer, ["bad", "good"], model=settings)
    with pytest.raises(ValueError, match="pools without weights"):
        classification_view(classifier, "a text")
    with pytest.raises(ValueError, match=r"at least one token\. Received: ''"):
        classification_view(make("rnn"), "")
    assert classification_view(make("first"), "").parts[0].keys == ("[CLS]",)


@pytest.mark.slow
def test_answers_without_each_head():
    classifier, text = make("first"), "the film was great"
    view = classification_view(classifier, text, without_heads=True)
    paths = view.parts[0].paths
    assert list(view.outcomes.without) == list(paths)
    assert view.outcomes.whole == (
        classifier.predict(text).label,
        max(classifier.predict(text).probabilities.values()),
    )
    for path in paths:
        for number, answer in enumerate(view.outcomes.without[path]):
            with ablate(classifier.whole, {path: number}):
                alone = classifier.predict(text)
            assert answer.text == alone.label
            assert answer.probability == pytest.approx(max(alone.probabilities.values()), abs=1e-6)
    assert len({answer.probability for row in view.outcomes.without.values() for answer in row}) > 1
    translator = Translator(TOKENIZER, model={**SMALL, "num_layers": 1, "num_heads": 1})
    view = translation_view(translator, "the one", "die", without_heads=True)
    paths = [path for part in view.parts for path in part.paths]
    assert sorted(paths) == sorted(view.outcomes.without)
    with ablate(translator.whole, {paths[0]: 0}):
        assert view.outcomes.without[paths[0]][0].text == translator.translate("the one")

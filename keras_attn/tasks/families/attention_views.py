"""Attention views of a task's model for one input, for `attention_viewer`."""

import dataclasses
from typing import Any

import numpy as np

from keras_attn.explain.attributions import has_attention, has_self_attention
from keras_attn.explain.head_outcomes import head_outcomes
from keras_attn.fields import checked_texts
from keras_attn.layers import attention_maps
from keras_attn.tasks.captioning import Captioner, CaptioningUse
from keras_attn.tasks.families.class_predictions import Prediction
from keras_attn.tasks.text_classification import TextClassifier
from keras_attn.tasks.translation import Translator
from keras_attn.visualize import AttentionPart, AttentionView, Outcome
from keras_attn.visualize.display import percent

_NO_ATTENTION = "The model has no attention to show: {}. Received: {}."


def translation_view(
    translator: Translator,
    text: str,
    translation: str | None = None,
    *,
    without_heads: bool = False,
) -> AttentionView:
    """Returns a view of the attention of a translator for one sentence.

    Args:
        translator: A `Translator`.
        text: The source sentence.
        translation: The translation that the decoder reads and predicts. If None, the translator
            translates the text with its default settings.
        without_heads: Whether the view also shows how the translator's own translation of the text
            changes when a head is removed. This takes one search for each head.

    Returns:
        An `AttentionView` of the cross-attention, and for a Transformer also of the self-attention
        of encoder and decoder. Each target token, including the end token, labels the query that
        predicted it.

    Raises:
        TypeError: If the text or the translation is not a string.
        ValueError: If the model has no attention, or `without_heads` is True and the model has no
            multi-head attention.

    Example:

    >>> tokenizer = BytePairTokenizer.train(["one dog", "ein Hund"], 259)
    >>> translator = Translator(tokenizer, model={"dim": 16, "num_layers": 1})
    >>> translation_view(translator, "one", "ein")
    <AttentionView 'one → ein': cross-attention, encoder self-attention, decoder self-attention>
    """
    view = translator.view(text, translation)
    if not without_heads:
        return view

    return dataclasses.replace(
        view, outcomes=head_outcomes(translator.whole, lambda: Outcome(translator.translate(text)))
    )


def classification_view(
    classifier: TextClassifier, text: str, *, without_heads: bool = False
) -> AttentionView:
    """Returns a view of the attention of a text classifier for one text.

    Args:
        classifier: A `TextClassifier` of single texts, not of pairs.
        text: The text. If it is too long, the view shows only the part that the classifier reads.
        without_heads: Whether the view also shows how the prediction changes when a head is
            removed. This takes one prediction for each head.

    Returns:
        An `AttentionView`. If the model pools its tokens with weights, the view shows the weights
        of `classifier.explain(text, method="attention")`. For a Transformer, it also shows the
        self-attention.

    Raises:
        TypeError: If the text is not a string.
        ValueError: If the model has no attention, the text has no tokens, or `without_heads` is
            True and the model has no multi-head attention.

    Example:

    >>> tokenizer = BytePairTokenizer.train(["so good", "so bad"], 259)
    >>> classifier = TextClassifier(tokenizer, ["bad", "good"], model={"model": "rnn", "units": 8})
    >>> classification_view(classifier, "so good")
    <AttentionView 'so good': attention of the answer>
    """
    (text,) = checked_texts([text])
    (ids,) = classifier.tokenizer.encode([text])
    field = classifier.field
    ((row, _),) = field.rows([ids])
    tokens = classifier.tokenizer.tokens(row)
    pooled = has_attention(classifier.model)
    layered = has_self_attention(classifier.model)
    if not pooled and not layered:
        raise ValueError(_NO_ATTENTION.format("it pools without weights", classifier.model.name))
    if not tokens:
        raise ValueError(f"Expected a text with at least one token. Received: {text!r}.")
    parts = []
    if pooled:
        _, (weights,) = classifier.explain_ids([ids], "attention")
        answer = [_answer(classifier.predict(text))]
        name = "attention of the answer"
        own = tokens[len(field.start) : len(tokens) - len(field.end)]
        parts.append(AttentionPart(name, answer, own, [weights[None]], "answer", "text"))
    if layered:
        maps = attention_maps(classifier.model, np.array([row]))
        view = AttentionView.from_maps(maps, tokens)
        parts += [part for part in view.parts if part.name == "self-attention"]
    view = AttentionView(parts, title=text)
    if not without_heads:
        return view
    return dataclasses.replace(
        view, outcomes=head_outcomes(classifier.whole, lambda: _outcome(classifier.predict(text)))
    )


def caption_view(
    captioner: Captioner, image: Any, caption: str | None = None, beams: int = 4, alpha: float = 1.0
) -> AttentionView:
    """Returns a view of the attention of a captioner's decoder for one image.

    Args:
        captioner: A `Captioner`.
        image: The image: a path, the bytes of a file, or an array `(height, width, 3)` of uint8.
        caption: The caption that the decoder reads and predicts. If None, a beam search generates
            the caption.
        beams: Width of the beam search.
        alpha: Exponent of the length penalty of the beam search.

    Returns:
        An `AttentionView` of the cross-attention over the image, and for a Transformer also of the
        decoder's self-attention. Each token of the caption, including the end token, labels the
        query that predicted it.

    Raises:
        OSError: If the file does not exist or cannot be read.
        TypeError: If the image, `beams` or `alpha` has the wrong type, or the caption is not a
            string.
        ValueError: If the image is broken, or `beams` or `alpha` is out of range.

    Example:

    >>> tokenizer, encoder = BytePairTokenizer.train(["a dog"], 259), small_cnn_encoder(8, (4, 4))
    >>> captioner = Captioner(tokenizer, encoder, model={"model": "transformer", "dim": 8})
    >>> caption_view(captioner, np.zeros((8, 8, 3), "uint8"), "dog")
    <AttentionView 'dog': cross-attention, decoder self-attention>
    """
    return captioner.view(image, caption, CaptioningUse(beams=beams, alpha=alpha))


def _outcome(prediction: Prediction) -> Outcome:
    """The label and its probability, or only the names of several labels."""
    if isinstance(prediction.label, str):
        return Outcome(prediction.label, prediction.probabilities[prediction.label])
    return Outcome(", ".join(prediction.label) or "no label")


def _answer(prediction: Prediction) -> str:
    """The label and its probability as people read them."""
    text, probability = _outcome(prediction)
    return text if probability is None else f"{text} {percent(probability)}"

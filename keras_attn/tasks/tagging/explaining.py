"""Which words speak for the label of a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attn.explain import Explanation
from keras_attn.explain.attributions import log_odds
from keras_attn.tasks.families.windowed import row_lists
from keras_attn.text import split_words

Tensor = Any


def explain_labels(
    tagger: Any, texts: Sequence[str], word: int | str | None = None
) -> list[Explanation]:
    """Explains the label of a word of each text by gradient times input.

    Args:
        tagger: A `Tagger`. Its own `explain` calls this.
        texts: Strings.
        word: As in `Tagger.explain`.

    Returns:
        An `Explanation` of each text, with a weight for each word. One without words is empty.

    Raises:
        ValueError: If a text does not have the word.

    Example:

    >>> from keras_attn.tasks import Tagger
    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer.train(["Ada codes"], 30, allow_fewer=True)
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> tagger = Tagger(tokenizer, ["O", "B-PER", "I-PER"], model=sizes, data={"max_length": 16})
    >>> (explanation,) = explain_labels(tagger, ["Ada codes"], word=1)
    >>> explanation.tokens, explanation.method
    (('Ada', 'codes'), "gradient x input, for the word 'codes'")
    """
    sentences = [split_words(text) for text in texts]
    predictions = tagger.predict(list(texts))
    given = tagger.words.encode([[word.text for word in sentence] for sentence in sentences])
    rows = tagger.rows(np, given)
    numbers = [_number(tagged, word) for tagged in predictions]
    before = np.cumsum(given["words"]) - given["words"]
    words = [int(b) + n for b, n in zip(before, numbers, strict=True) if n is not None]
    labels = [t.labels[n] for t, n in zip(predictions, numbers, strict=True) if n is not None]
    index = [
        (int(rows["column"][word]), tagger.labels.index(label))
        for word, label in zip(words, labels, strict=True)
    ]
    every = row_lists(rows)
    taken = [every[rows["row"][word]] for word in words]
    weights = tagger.gradients(taken, label_log_odds, index)
    tables = tagger.compute(taken, len(taken), tagger.scores) if taken else []
    of_words = iter(zip(words, index, weights, tables, strict=True))
    found = []
    for text, sentence, begin, n in zip(texts, sentences, before.tolist(), numbers, strict=True):
        if n is None:
            found.append(Explanation(text, [], [], np.zeros(0)))
            continue
        at, (column, label), of_row, table = next(of_words)
        some = slice(begin, begin + len(sentence))
        starts = rows["word_pieces"][some] - rows["row_starts"][rows["row"][at]] + 1
        ends = starts + given["pieces"][some]
        last = len(of_row) - 1
        starts, ends = np.clip(starts, 1, last), np.clip(ends, 1, last)
        read = [i for i in range(len(sentence)) if starts[i] < ends[i]]
        found.append(
            Explanation(
                text,
                [sentence[i].text for i in read],
                [(sentence[i].start, sentence[i].end) for i in read],
                np.array([of_row[starts[i] : ends[i]].sum() for i in read]),
                tagger.labels[label],
                dict(zip(tagger.labels, map(float, table["tokens"][column]), strict=True)),
                f"gradient x input, for the word {sentence[n].text!r}",
            )
        )
    return found


def label_log_odds(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Picks the log-odds of a label at a place of each row.

    Args:
        logits: `{"tags": (B, T, C)}`.
        index: The place and the number of the label, int `(B, 2)`.

    Returns:
        `(B,)`.

    Example:

    >>> logits = {"tags": ops.log([[[0.5, 0.5], [0.2, 0.8]]])}
    >>> [round(float(x), 4) for x in label_log_odds(logits, ops.array([[1, 0]]))]
    [-1.3863]
    """
    at = ops.take_along_axis(logits["tags"], index[:, :1, None], axis=1)[:, 0]
    return log_odds(at, index[:, 1])


def _number(tagged: Any, word: int | str | None) -> int | None:
    """The number of the word that is explained; None if the text has no words."""
    if not tagged.words:
        return None
    if word is None:
        return tagged.entities[0].first if tagged.entities else 0
    if isinstance(word, str) and word in tagged.words:
        return tagged.words.index(word)
    if not isinstance(word, str) and 0 <= word < len(tagged.words):
        return int(word)
    raise ValueError(
        f"`word` must be a word of {tagged.text[:80]!r}, or its number, 0 to "
        f"{len(tagged.words) - 1}. Received: {word!r}."
    )

"""Sentences with instructive attention, known from lectures on Transformers."""

from typing import NamedTuple


class LectureSentence(NamedTuple):
    """A sentence or a pair of sentences, and a word whose attention is instructive.

    Example:

    >>> LectureSentence("The cat sat.", None, "sat", "Does the verb look at its subject?").query
    'sat'
    """

    text: str
    second: str | None
    """The second sentence of a pair, or None."""
    query: str
    """The query word."""
    note: str
    """A text that says what the sentence demonstrates."""
    on: str | None = None
    """The word that the query may attend to, or None."""


LECTURE_SENTENCES = (
    LectureSentence(
        "The animal didn't cross the street because it was too tired.",
        None,
        "it",
        'Who was tired? See whether "it" looks at "animal" or at "street", in each layer and head, '
        "and compare with the next sentence, which differs only in its last word.",
        "animal",
    ),
    LectureSentence(
        "The animal didn't cross the street because it was too wide.",
        None,
        "it",
        'What was wide? Now "it" is the street. See in which heads the weight moves from "animal" '
        "to it.",
        "street",
    ),
    LectureSentence(
        "He sat on the bank of the river and swam.",
        None,
        "bank",
        'A bank of a river: "river" and "swam" tell. See which heads let "bank" look at them.',
        "river",
    ),
    LectureSentence(
        "He brought the money to the bank.",
        None,
        "bank",
        'A bank for money. See whether the heads in which "bank" looked at "river" now let it look '
        'at "money".',
        "money",
    ),
    LectureSentence(
        "Where did the children swim?",
        "They swam in the lake behind the old house.",
        "lake",
        'A question and its answer. See whether "lake" looks across [SEP] at "where", and which '
        'heads join "swim" and "swam".',
        "swim",
    ),
)
"""`LectureSentence`s: two pairs of sentences in which one word has different referents, and a
question with its answer."""

"""Sentences whose attention is worth a look: known examples of lectures on Transformers."""

from typing import NamedTuple


class LectureSentence(NamedTuple):
    """A sentence or a pair of sentences, with what to look at.

    Example:

    >>> LectureSentence("The cat sat.", None, "sat", "Does the verb look at its subject?").query
    'sat'
    """

    text: str
    second: str | None
    """The second sentence of a pair, or None."""
    query: str
    """The word whose attention to look at."""
    note: str
    """The point that the sentence shows."""
    on: str | None = None
    """The word that the query may look at, or None."""


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
"""`LectureSentence`s: two pairs that differ in what one word means, and a question and answer."""

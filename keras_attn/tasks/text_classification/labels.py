"""Labels of texts: checked, and as numbers."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn.inputs import listed
from keras_attn.records import LabelledText
from keras_attn.records.labelled_texts import Input, Label, as_labelled, label_names
from keras_attn.tasks.families.class_weights import ClassWeight, weights_of_classes

Labelled = LabelledText | tuple[Input, Label]

_UNEVEN = 10


def checked_examples(examples: Iterable[Labelled]) -> tuple[list[Input], list[Label]]:
    """Returns texts and labels of labelled texts.

    Args:
        examples: `LabelledText`s, or tuples (text, label), where a text may be a pair of texts.

    Returns:
        The texts or the pairs of texts, and the label of each.

    Raises:
        ValueError: For something else, for single texts among pairs, or nothing.

    Example:

    >>> checked_examples([("Good.", "pos"), ("Bad.", "neg")])
    (['Good.', 'Bad.'], ['pos', 'neg'])
    """
    given = listed(examples, "labelled texts", 2, "keras_attn.records.read_labelled(path)")
    checked = [as_labelled(example) for example in given]
    if not checked:
        raise ValueError("Expected at least one labelled text. Received: none.")
    paired = [example.second is not None for example in checked]
    if any(paired) and not all(paired):
        raise ValueError(
            "Expected single texts or pairs of texts. Received: both, a single text at position "
            f"{paired.index(False)} and a pair at position {paired.index(True)}."
        )
    return [example.input for example in checked], [example.label for example in checked]


def checked_class_names(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the classes.

    Args:
        names: Strings.

    Returns:
        A tuple of them.

    Raises:
        ValueError: For fewer than two, or names that come twice or are no strings.

    Example:

    >>> checked_class_names(["positive"])
    Traceback (most recent call last):
        ...
    ValueError: Expected two classes or more. Received: ['positive'].
    """
    names = listed(names, "names")
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ValueError(f"Expected names that are different strings. Received: {names}.")
    if len(names) < 2:
        raise ValueError(f"Expected two classes or more. Received: {names}.")
    return tuple(names)


def class_names_of(examples: Iterable[Labelled]) -> tuple[str, ...]:
    """Returns the names of the classes that occur, in alphabetical order.

    Args:
        examples: Labelled texts.

    Returns:
        A tuple of names.

    Raises:
        ValueError: If there is one only.

    Example:

    >>> class_names_of([("Good.", "pos"), ("Bad.", "neg"), ("Fine.", "pos")])
    ('neg', 'pos')
    """
    _, labels = checked_examples(examples)
    names = sorted({name for label in labels for name in label_names(label)})
    if len(names) < 2:
        raise ValueError(
            f"Expected texts of two classes or more. Received: {names} in {len(labels):,} texts. "
            "Is it the column of the labels? If so, bring texts of other classes too."
        )
    return checked_class_names(names)


def label_numbers(
    labels: Sequence[Label], class_names: Sequence[str], multi_label: bool = False
) -> np.ndarray:
    """Returns labels as numbers.

    Args:
        labels: A name for each text, or tuples of names.
        class_names: Names of the classes.
        multi_label: Whether a text may have several labels, or none.

    Returns:
        int32 `(n,)`, or float32 zeros and ones `(n, C)` where there may be several.

    Raises:
        ValueError: For labels that are not among the classes, and several labels where one is
            expected.

    Example:

    >>> label_numbers(["pos", "neg"], ["neg", "pos"]).tolist()
    [1, 0]
    >>> label_numbers([("a", "b"), ()], ["a", "b"], multi_label=True).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    number = {name: i for i, name in enumerate(class_names)}
    unknown = Counter(n for label in labels for n in label_names(label) if n not in number)
    if unknown:
        found = ", ".join(f"{name!r:.60} ({n} texts)" for name, n in unknown.most_common(5))
        more = f", {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
        known = f"{list(class_names[:20])}"[:600]
        rest = ", ..." if len(class_names) > 20 or len(known) == 600 else ""
        raise ValueError(
            f"Expected labels among the {len(class_names):,} classes {known}{rest}. Received: "
            f"{found}{more}. Is it the column of the labels?"
        )
    if multi_label:
        rows = np.zeros((len(labels), len(number)), "float32")
        for row, label in zip(rows, labels, strict=True):
            row[[number[name] for name in label_names(label)]] = 1.0
        return rows
    names = [label for label in labels if isinstance(label, str)]
    several = [label for label in labels if not isinstance(label, str)]
    if several:
        raise ValueError(
            "Expected one label, a string, for each text. Received: "
            f"{several[0]!r}. Classifiers with multi_label=True take several."
        )
    return np.array([number[name] for name in names], "int32")


def warn_of_imbalance(examples: Iterable[Labelled], class_names: Sequence[str]) -> None:
    """Warns where a class has less than a tenth of the texts of another one, with the counts.

    Args:
        examples: Labelled texts.
        class_names: Names of the classes.

    Example:

    >>> warn_of_imbalance([("Good.", "pos"), ("Bad.", "neg")], ["neg", "pos"])
    """
    _, labels = checked_examples(examples)
    counts = Counter(name for label in labels for name in label_names(label))
    few = min(counts[name] for name in class_names)
    if few * _UNEVEN < max(counts[name] for name in class_names):
        shown = ", ".join(f"{name}: {counts[name]:,}" for name in class_names)
        several = any(not isinstance(label, str) for label in labels)  # these have no class weights
        more = (
            ""
            if several
            else ", and consider class_weight='balanced' (`fit --class-weight balanced`)"
        )
        warnings.warn(
            f"The classes are uneven ({shown}). A model may do well by never naming the rare ones: "
            f"look at macro F1{more}.",
            stacklevel=5,  # who called `fit`
        )


def example_weights(
    labels: np.ndarray,
    names: Sequence[str],
    class_weight: ClassWeight,
    multi_label: bool = False,
) -> np.ndarray | None:
    """Returns the weight of each text in the loss.

    Args:
        labels: Numbers of classes.
        names: Names of the classes.
        class_weight: None: every text has the same weight. `"balanced"`: every class has. Or the
            weights of classes by their names; a class that is not named has weight 1.
        multi_label: Whether texts may have several labels.

    Returns:
        float32 weights, or None if all are the same.

    Raises:
        ValueError: If these are no weights of classes, or texts may have several labels.

    Example:

    >>> example_weights(np.array([0, 0, 0, 1]), ["no", "yes"], {"no": 1, "yes": 3})
    array([1., 1., 1., 3.], dtype=float32)
    """
    if class_weight is None:
        return None
    if multi_label:
        raise ValueError(
            "`class_weight` is for texts of one label each. Received: "
            f"class_weight={class_weight!r}, with texts of several labels. Leave it out."
        )
    return weights_of_classes(labels, names, class_weight)[labels]

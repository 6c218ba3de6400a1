"""A column that is taken for the labels, and is not."""

import numpy as np
import pytest

from keras_attn.records import split_labelled
from keras_attn.records.label_columns import check_label_counts
from keras_attn.tasks import EntailmentClassifier, Tagger, TextClassifier

WORDS = "warm dull funny slow clever tired bright loud fresh stale bold grey".split()
TEXTS = [f"the {a} film of {b} people" for a in WORDS for b in WORDS]
FLOATS = [f"{x:.4f}" for x in np.random.default_rng(0).normal(size=len(TEXTS))]


def table(folder, labels, header="text,label", texts=TEXTS):
    path = folder / "table.csv"
    rows = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    path.write_text("\n".join([header, *rows]))
    return str(path)


@pytest.mark.parametrize("labels", [list(range(len(TEXTS))), FLOATS, TEXTS])
def test_labels_that_come_once_are_none(labels, tmp_path):
    path = table(tmp_path, labels)
    told = r"each of the 144 classes has one of the texts, .*If another .*`label` \(--label\)"
    for more in ({}, {"near_duplicates": "anywhere"}, {"dev": path}):
        with pytest.raises(ValueError, match=told):
            TextClassifier.read(TextClassifier.Data(train=path, **more))


def test_a_split_says_so_too():
    examples = [(text, str(i)) for i, text in enumerate(TEXTS)]
    with pytest.raises(ValueError, match="each of the 144 classes has one of the texts"):
        split_labelled(examples, dev=0.1, test=0)


def test_most_of_them():
    counts = {f"{i}": 1 for i in range(60)} | {"a": 2, "b": 3}
    with pytest.raises(ValueError, match="60 of the 62 classes have one of the pairs, such as '0'"):
        check_label_counts(counts, "pairs")


def test_two_texts_a_class_are_doubted(tmp_path):
    path = table(tmp_path, [i // 2 for i in range(len(TEXTS))])
    with pytest.warns(UserWarning, match="There are 72 classes for 144 texts, such as '0', '1', "):
        TextClassifier.read(TextClassifier.Data(train=path, near_duplicates="apart"))


def test_labels_are_labels():
    check_label_counts({"a": 1, "b": 1}, "texts")  # a toy
    check_label_counts({str(i): 3 for i in range(100)} | {"rare": 1}, "texts")


def test_pairs_and_words(tmp_path):
    path = table(tmp_path, [f"{text},{i}" for i, text in enumerate(TEXTS)], "premise,hypothesis,id")
    columns = {"premise": "premise", "hypothesis": "hypothesis", "label": "id"}
    with pytest.raises(ValueError, match="each of the 144 classes has one of the pairs"):
        EntailmentClassifier.read(EntailmentClassifier.Data(train=path, **columns))
    file = tmp_path / "words.txt"
    file.write_text("\n".join(f"word{i} O {i}" + "\n" * (i % 5 == 0) for i in range(40)))
    with pytest.raises(ValueError, match=r"of the words.*`label_column` \(--label-column\)"):
        Tagger.read(Tagger.Data(train=str(file)))
    Tagger.read(Tagger.Data(train=str(file), label_column=1))

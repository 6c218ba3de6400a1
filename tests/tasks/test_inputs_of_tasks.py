"""Methods that read many things refuse what is no list of them, by its name."""

import keras
import numpy as np
import pytest
from every_task import CASES


class DataFrame:
    """As those of pandas: its iterator gives the names of its columns."""

    columns = ("text", "label")

    def __iter__(self):
        return iter(self.columns)


READ = ("predict", "explain", "evaluate", "embed", "translate", "answer", "generate", "caption")
ONE = {"evaluate of text generation", "predict of text generation"}


def reading(name):
    """The methods of a task that read texts, pairs or examples, by their names."""
    keras.utils.set_random_seed(0)
    task = CASES[name][0]()
    methods = {method: getattr(task, method) for method in READ if hasattr(type(task), method)}
    more = {"fit": lambda given: task.fit(given, epochs=1), "create": type(task).create}
    if hasattr(type(task), "dataset"):
        more["dataset"] = task.dataset
    return {**methods, **more}


@pytest.mark.quick("text classification")
@pytest.mark.parametrize("name", CASES)
def test_tables_are_refused(name):
    frame = DataFrame()
    for method, call in reading(name).items():
        if name == "embeddings" and method == "evaluate":
            continue  # it reads files
        if name == "similarity of pairs" and method == "embed":
            continue  # it has no vectors
        with pytest.raises(TypeError, match="DataFrame"):
            pytest.fail(f"{method} gave {call(frame)!r:.200}")


@pytest.mark.quick("{'a': 'b'}-text classification", "7-translation")
@pytest.mark.parametrize("name", ["text classification", "translation", "captioning"])
@pytest.mark.parametrize("given", [{"a": "b"}, {"a"}, b"abc", 7], ids=str)
def test_other_things_are_refused(name, given):
    if name == "captioning" and isinstance(given, bytes):
        return  # the bytes of a picture
    for method, call in reading(name).items():
        with pytest.raises(TypeError, match=type(given).__name__):
            pytest.fail(f"{method} gave {call(given)!r:.200}")


def test_columns_are_lists(eager):
    """NumPy's columns and iterators of strings give what lists give, in their order."""
    make, _ = CASES["text classification"]
    classifier, texts = make(), ["a great film", "dull", "a book"]
    found = classifier.predict_probabilities(texts)
    for given in (tuple(texts), np.array(texts), np.array(texts, object), iter(texts)):
        if isinstance(given, tuple):
            given = list(given)  # a tuple is a pair here
        np.testing.assert_array_equal(classifier.predict_probabilities(given), found)
    assert [x.label for x in classifier.predict(iter(texts))] == [
        classifier.predict(text).label for text in texts
    ]

"""Scores of captions: numbers by hand, and the words that they count."""

import json
import math
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keras_attn.metrics import caption_scores, tokenize_captions
from keras_attn.metrics.reports import json_safe

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")


def score(candidates, references, *more, **settings):
    return caption_scores(candidates, references, *more, **{"tokenization": "plain", **settings})


def test_bleu_and_rouge_by_hand():
    scores = score(["a b c d"], [["a b c e"]])
    assert scores.bleu_1 == pytest.approx(100 * 3 / 4)
    assert scores.bleu_2 == pytest.approx(100 * math.sqrt(3 / 4 * 2 / 3))
    assert scores.bleu_3 == pytest.approx(100 * (3 / 4 * 2 / 3 * 1 / 2) ** (1 / 3))
    assert scores.bleu_4 == pytest.approx(0, abs=0.1)
    assert scores.rouge_l == pytest.approx(75)
    # Too short: the penalty of the closest length, which is 4 and not 9.
    scores = score(["a b"], [["a b c d", "a b c d e f g h i"]])
    assert scores.bleu_1 == pytest.approx(100 * math.exp(1 - 4 / 2))
    # Precision 1, recall 2/4 with beta 1.2.
    assert scores.rouge_l == pytest.approx(100 * 2.44 * 1 * 0.5 / (0.5 + 1.44 * 1))
    # A repeated word counts as often as the references have it.
    assert score(["the the the the"], [["the cat the mat"]]).bleu_1 == pytest.approx(50)
    # Over all pictures together, not the mean of them.
    scores = score(["a b", "c d e f g h"], [["a b"], ["x x x x x x"]])
    assert scores.bleu_1 == pytest.approx(100 * 2 / 8)
    assert scores.rouge_l == pytest.approx(50)


def cider_d(candidates, references, sigma=6.0):
    """CIDEr-D of each picture by its formula (Vedantam et al., 2015), times 100."""

    def grams(text, n):
        words = text.split()
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    found = []
    for candidate, own in zip(candidates, references, strict=True):
        values = []
        for reference in own:
            for n in range(1, 5):
                sets = [{g for text in texts for g in grams(text, n)} for texts in references]
                seen = Counter(g for of_picture in sets for g in of_picture)
                idf = {g: math.log(len(references) / max(1, seen[g])) for g in seen}
                rare = math.log(len(references))
                c = {g: count * idf.get(g, rare) for g, count in grams(candidate, n).items()}
                r = {g: count * idf[g] for g, count in grams(reference, n).items()}
                norm = math.hypot(*c.values()) * math.hypot(*r.values())
                dot = sum(min(value, r.get(g, 0)) * r.get(g, 0) for g, value in c.items())
                length = len(candidate.split()) - len(reference.split())
                penalty = math.exp(-(length**2) / (2 * sigma**2))
                values.append(dot / norm * penalty if norm else 0.0)
        found.append(1000 * sum(values) / len(values))
    return found


def test_cider():
    candidates = ["a dog runs on the grass", "two red boats", "a cat sleeps on a bed"]
    references = [
        ["a dog runs on green grass", "the dog is running"],
        ["two red boats lie on the beach", "red boats", "boats on a beach"],
        ["a cat sleeps on a bed"],
    ]
    scores = score(candidates, references)
    wanted = cider_d(candidates, references)
    assert [image.cider for image in scores.per_image.values()] == pytest.approx(wanted)
    assert scores.cider == pytest.approx(sum(wanted) / 3)
    perfect = score(["a b c d", "w x y z"], [["a b c d"], ["w x y z"]])
    assert perfect.cider == pytest.approx(1000)
    assert perfect.bleu_4 == pytest.approx(100) and perfect.rouge_l == pytest.approx(100)
    assert math.isnan(score(["a b c d"], [["a b c d"]]).cider)


def test_per_image_and_counts():
    candidates = {"2": "A dog!", "1": "a  dog", "3": "", "4": "Two boats at sea."}
    references = {"1": ["A dog."], "2": ["a cat", "one dog"], "3": ["x"], "4": ["Two boats at sea"]}
    scores = score(candidates, references, ["a dog .", "Two boats.", "unseen"])
    assert (scores.num_images, scores.num_references) == (4, 5)
    assert scores.distinct == 3 and scores.copied == 0.5
    assert scores.mean_length == pytest.approx((2 + 2 + 0 + 4) / 4)
    assert list(scores.per_image) == ["2", "1", "3", "4"]
    assert scores.per_image["4"].candidate == "Two boats at sea."
    assert scores.per_image["4"].bleu_4 == pytest.approx(100)
    assert scores.per_image["3"].rouge_l == 0 and scores.per_image["3"].cider == 0
    text = str(scores)
    assert "plain tokens, without Java" in text and "3 distinct, 50.0% copied" in text
    assert "METEOR" not in text and "per_image" not in repr(scores)
    assert score(["a"], [["a"]]).copied is None
    assert "copied" not in str(score(["a"], [["a"]]))
    shuffled = score(dict(reversed(candidates.items())), references)
    assert shuffled.per_image == scores.per_image and shuffled.bleu_2 == pytest.approx(
        scores.bleu_2
    )


@pytest.mark.parametrize(
    ("name", "written"), [(Path("1.jpg"), "1.jpg"), (np.int64(3), 3), (np.float32(0.5), 0.5)]
)
def test_the_dict_is_json(name, written):
    scores = caption_scores({name: "a dog"}, {name: ["a dog"]}, tokenization="plain")
    assert json.loads(json.dumps(scores.to_dict()))["captions"][0]["image"] == written
    made = {name: (np.int32(1), float("inf")), "of": np.array([float("nan"), 2.0])}
    assert json_safe(made) == {written: (1, None), "of": [None, 2.0]}


def test_punctuation_and_case_do_not_count():
    one = score(["A dog, running."], [["a DOG running !"]])
    assert one.bleu_3 == pytest.approx(100) and one.rouge_l == pytest.approx(100)


@pytest.mark.parametrize(
    ("candidates", "references", "said"),
    [
        ({"1": "a"}, {"1": ["a"], "2": ["b"]}, "1 picture not in the candidates: '2'"),
        ({"1": "a", "2": "b"}, {"1": ["a"]}, "1 picture not in the references: '2'"),
        (["a", "b"], [["a"]], "not in the references: 1"),
        ({"1": "a"}, [["a"]], "two dictionaries or two lists"),
        ([], [], "at least one caption"),
        ([["a"]], [["a"]], "one string as the caption of 0"),
        (["a"], ["a"], "one or more strings as the references of 0"),
        (["a"], [[]], "one or more strings as the references of 0"),
        (["a"], [["a", None]], "one or more strings as the references of 0"),
        (["a"], [["a", " . "]], "references with words"),
    ],
)
def test_wrong_data(candidates, references, said):
    with pytest.raises(ValueError, match=said):
        score(candidates, references)


WORDS = {
    "A dog's ball, isn't it?": "a dog 's ball is n't it",
    "They can't; he cannot": "they ca n't he can not",
    "A black-and-white T-shirt ( wet )": "a black-and-white t-shirt -lrb- wet -rrb-",
    'The sign says " STOP " ...': "the sign says stop",
    "3,000.5 at 5:30 for $ 7 & more": "3,000.5 at 5:30 for $ 7 & more",
    "Café — naïve 日本": "café naïve 日本",
    "": "",
    "U.S. st. a/b o'clock": "u.s. st. a/b o'clock",
    "two\nlines\u2028three": "two lines three",
}
MARKED = {"Cafe\u0301 noir.": "caf\u00e9 noir", "हिन्दी भाषा, हिन्दी's": "हिन्दी भाषा हिन्दी 's"}


def test_plain_words():
    found = [" ".join(words) for words in tokenize_captions(list(WORDS), "plain")]
    assert found == list(WORDS.values())
    found = [" ".join(words) for words in tokenize_captions(list(MARKED), "plain")]
    assert found == list(MARKED.values())
    with pytest.raises(ValueError, match="`tokenization`"):
        tokenize_captions([], "moses")
    with pytest.raises(ValueError, match="`tokenization`"):
        caption_scores(["a"], [["a"]], tokenization="moses")


@needs_java
def test_stanford_words():
    found = [" ".join(words) for words in tokenize_captions(list(WORDS), "ptb")]
    assert found == list(WORDS.values())
    scores = caption_scores(["A dog ."], [["a dog"]])
    assert scores.tokenization == "ptb" and "Stanford CoreNLP 3.4.1" in str(scores)


@needs_java
@pytest.mark.slow
def test_meteor():
    same = caption_scores(["a dog runs on the grass"], [["a dog runs on the grass"]], meteor=True)
    assert same.meteor == pytest.approx(100)
    other = score(["a dog runs"], [["a hound is running"]], meteor=True)
    assert 0 < other.meteor < 60 and "METEOR" in str(other)


def java(folder, monkeypatch, script):
    if script is not None:
        (folder / "java").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_without_java(tmp_path, monkeypatch):
    java(tmp_path, monkeypatch, None)
    assert caption_scores(["a"], [["a"]]).tokenization == "plain"
    with pytest.raises(RuntimeError, match="no command `java`"):
        caption_scores(["a"], [["a"]], tokenization="ptb")
    with pytest.raises(RuntimeError, match="METEOR needs Java"):
        caption_scores(["a"], [["a"]], meteor=True)


@pytest.mark.skipif(os.name != "posix", reason="the false Java is a shell script")
def test_java_that_fails(tmp_path, monkeypatch):
    java(tmp_path, monkeypatch, "echo no memory >&2; exit 3")
    with pytest.raises(RuntimeError, match=r"0 lines for 2 captions \(exit status 3\): no memory"):
        caption_scores(["a"], [["a"]], tokenization="ptb")
    with pytest.raises(RuntimeError, match="METEOR's Java program failed: no memory"):
        score(["a"], [["a"]], meteor=True)
    java(tmp_path, monkeypatch, "echo one line")
    with pytest.raises(RuntimeError, match="1 lines for 2 captions"):
        caption_scores(["a"], [["a"]], tokenization="ptb")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocoevalcap.tokenizer", None)
    with pytest.raises(ImportError, match=r"keras_attn\[captioning\]"):
        score(["a"], [["a"]])
    assert tokenize_captions(["A dog."]) == [["a", "dog"]]

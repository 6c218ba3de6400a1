"""Dialogues: formats, joined messages, bad dialogues, exchanges, splits without leaks."""

import gzip
import json
import random

import pytest

from keras_attn.records import (
    Exchange,
    Turn,
    exchanges,
    read_dialogues,
    split_dialogues,
    without,
)


def written(tmp_path, *rows, name="a.jsonl"):
    path = tmp_path / name
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def said(text, speaker):
    return {"text": text, "speaker": speaker}


def test_json_lines(tmp_path):
    """Strings take turns; messages of one speaker are joined; white space and blank ones go."""
    path = written(
        tmp_path,
        {"turns": ["Hi.", "Hello!\n\n You?", "Fine."]},
        "",
        {"turns": [said("A", "x"), said("B", "y"), said(" \t", "z"), said("C", "y")], "id": 3},
        {"turns": ["one", "", "three", "four"]},
    )
    found = read_dialogues(path)
    assert found[0] == (Turn("Hi.", "A"), Turn("Hello! You?", "B"), Turn("Fine.", "A"))
    assert found[1] == (Turn("A", "x"), Turn("B C", "y"))
    assert found[2] == (Turn("one three", "A"), Turn("four", "B"))  # nobody answered
    assert found.blank == 2 and not found.problems
    assert found.summary() == f"{path}: 3 dialogues of 7 turns; 2 messages without a word left out."
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_dialogues(packed)) == list(found)


def test_dailydialog(tmp_path):
    path = written(
        tmp_path,
        "Hi , you . __eou__ Hello ! __eou__ Bye . __eou__",
        "",
        "One __eou__ Two",
        name="dialogues.txt",
    )
    found = read_dialogues(path)
    assert [[t.text for t in d] for d in found] == [
        ["Hi , you .", "Hello !", "Bye ."],
        ["One", "Two"],
    ]
    assert [t.speaker for t in found[0]] == ["A", "B", "A"]
    assert read_dialogues(path, "dailydialog")[1] == found[1]


def test_chitchat(tmp_path):
    """Messages lie in groups; a speaker's neighbouring ones are one turn, across groups too."""
    talk = {
        "messages": [
            [{"text": "Hello", "sender": "u", "timestamp": ""}, {"text": "You?", "sender": "u"}],
            [{"text": "Still there", "sender": "u"}],
            [{"text": "Yes", "sender": "v"}],
        ],
        "prompt": "x",
    }
    alone = {"messages": talk["messages"][:2]}
    path = written(tmp_path, {"a-1": talk, "b-2": alone}, name="dataset.json")
    found = read_dialogues(path, on_error="skip")
    assert list(found) == [(Turn("Hello You? Still there", "u"), Turn("Yes", "v"))]
    assert "1 with one speaker alone" in found.summary() and "'b-2'" in found.summary()
    with pytest.raises(
        ValueError, match=r"1 of 2 conversations without: .*conversation 2: .*'b-2'"
    ):
        read_dialogues(path)
    with pytest.raises(ValueError, match="a list in the place of an object"):
        read_dialogues(written(tmp_path, [1], name="d.json"))
    with pytest.raises(ValueError, match=r"on each line must end in \.jsonl"):
        read_dialogues(written(tmp_path, {"turns": ["a", "b"]}, name="c.json"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"turns": []}, r"without a word \(line 2: there is no turn with a word\)"),
        ({"turns": [" ", "\u200b"]}, "without a word"),
        (
            {"turns": [said("a", "x"), said("b", "x")]},
            r"one speaker alone \(line 2: only 'x' speak",
        ),
        (
            {"turns": ["a", "x" * 100_000]},
            "line 2: a turn has 100,000 characters, more than 10,000",
        ),
        ('{"turns": ["a", ', r"not one JSON object \(line 2: .* at character 1[67]"),
        ("[1]", "line 2: a list"),
        ({"turn": []}, "no 'turns' among the keys 'turn'"),
        ({"turns": "a b"}, "'turns' is of type str, no list"),
        ({"turns": ["a", said("b", "y")]}, "strings alone, or objects"),
        ({"turns": [said("a", "x"), {"text": "b"}]}, "'speaker of turn 2' is of type NoneType"),
        ({"turns": [said("a", "x"), said(7, "y")]}, "'text of turn 2' is of type int"),
    ],
)
def test_a_bad_dialogue_is_an_error_or_left_out(tmp_path, row, message):
    path = written(tmp_path, {"turns": ["a", "b"]}, row, {"turns": ["c", "d"]})
    with pytest.raises(ValueError, match=message):
        read_dialogues(path)
    found = read_dialogues(path, on_error="skip")
    assert [d[0].text for d in found] == ["a", "c"]
    assert [p.line for p in found.problems] == [2] and "Left out: 1 " in found.summary()


def test_what_is_no_file_of_dialogues(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_dialogues(tmp_path / "nowhere.jsonl")
    with pytest.raises(ValueError, match=r"\.jsonl, \.ndjson, \.txt, \.json"):
        read_dialogues(written(tmp_path, "", name="a.csv"))
    with pytest.raises(ValueError, match="at least one dialogue"):
        read_dialogues(written(tmp_path, ""))
    with pytest.raises(ValueError, match="at least one dialogue"):
        read_dialogues(written(tmp_path, {"turns": []}), on_error="skip")
    with pytest.raises(ValueError, match="max_characters"):
        read_dialogues(written(tmp_path, ""), max_characters=0)
    read_dialogues(written(tmp_path, {"turns": ["a", "x" * 100_000]}), max_characters=100_000)


def test_exchanges_take_turns():
    talk = [Turn(text, who) for text, who in zip("abcdef", "xyzxyx", strict=True)]
    every = exchanges([talk])
    assert every == [
        Exchange(("a",), "b"),
        Exchange(("a b",), "c"),
        Exchange(("a", "b c"), "d"),
        Exchange(("a", "b", "c d"), "e"),
        Exchange(("a", "b c", "d", "e"), "f"),
    ]
    assert exchanges([talk], "x") == [every[2], every[4]]
    assert exchanges([talk], "x", max_turns=2)[1] == Exchange(("d", "e"), "f")
    twice = [Turn(text, who) for text, who in zip("abcd", "xxyy", strict=True)]
    assert exchanges([twice]) == [Exchange(("a b",), "c d")]  # nobody answers himself
    with pytest.raises(ValueError, match="speaker 'w'"):
        exchanges([talk], "w")
    with pytest.raises(ValueError, match="at least one dialogue"):
        exchanges([])


def test_no_two_sides_have_equal_dialogues():
    draw = random.Random(0)
    texts = [f"Question {draw.randrange(60)}?" for _ in range(300)]
    talks = [
        (Turn(text.upper() if draw.random() < 0.5 else text, "A"), Turn("Yes.", who))
        for text, who in zip(texts, "BC" * 150, strict=True)
    ]
    sides = split_dialogues(talks, dev=0.1, test=0.2, seed=3)
    assert sum(map(len, sides)) == 300
    assert abs(len(sides.test) - 60) <= 5 and abs(len(sides.dev) - 30) <= 5
    words = [{d[0].text.casefold() for d in side} for side in sides]
    assert not (words[0] & words[1] or words[0] & words[2] or words[1] & words[2])
    again = split_dialogues(talks, dev=0.1, test=0.2, seed=3)
    other = split_dialogues(talks, dev=0.1, test=0.2, seed=4)
    assert sides == again != other
    # What is drawn does not hang on the order of the file.
    turned = split_dialogues(talks[::-1], dev=0.1, test=0.2, seed=3)
    assert {d[0].text.casefold() for d in turned.test} == words[2]
    assert without(talks, sides.test) == [d for d in talks if d[0].text.casefold() not in words[2]]


def test_sizes_of_a_split():
    talks = [(Turn(f"{i}", "A"), Turn("Yes.", "B")) for i in range(20)]
    assert [len(s) for s in split_dialogues(talks, dev=3, test=0)] == [17, 3, 0]
    assert [len(s) for s in split_dialogues(talks, dev=0.01, test=0.01)] == [18, 1, 1]
    with pytest.raises(ValueError, match="to train on"):
        split_dialogues(talks[:2], dev=1, test=1)
    with pytest.raises(ValueError, match="none of which is left"):
        split_dialogues(talks[:1], dev=1, test=1)
    same = [talks[0]] * 20
    with pytest.raises(ValueError, match="none of which is left"):
        split_dialogues(same, dev=2, test=0)

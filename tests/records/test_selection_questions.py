"""Questions with right answers: what their readers take, checks, and splits by question."""

import pytest

from keras_attn.records import (
    SelectionQuestion,
    SelectionQuestions,
    read_candidates,
    read_selection_questions,
    split_selection_questions,
)
from keras_attn.records.selection_questions import checked_selection_questions


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def test_formats(tmp_path):
    expected = [SelectionQuestion("a, b?", ("one", "two")), SelectionQuestion("c?", ("one",))]
    table = 'id,answer,question\n1,one,"a, b?"\n2,one,c?\n3, two ,"a, b?"\n4,two,"a, b?"\n'
    found = read_selection_questions(write(tmp_path / "a.csv", table))
    assert list(found) == expected
    assert found.summary() == f"{tmp_path / 'a.csv'}: 2 questions, 2 different answers."
    mixed = "question,answer\na?,one\nb?,two\na?,three\n"
    found = read_selection_questions(write(tmp_path / "b.csv", mixed))
    assert found.answers == ("one", "two", "three")  # as they stand in the file
    assert SelectionQuestions(list(found)).answers == ("one", "three", "two")
    tabs = write(tmp_path / "a.tsv", "one\ta, b?\none\tc?\ntwo\ta, b?\n")
    assert list(read_selection_questions(tabs, 1, 0)) == expected
    objects = '{"q": "a, b?", "a": "one\\ntwo"}\n'
    (found,) = read_selection_questions(write(tmp_path / "a.jsonl", objects), "q", "a")
    assert found.answers == ("one\ntwo",)


def test_bad_lines_are_named(tmp_path):
    path = write(tmp_path / "a.csv", "question,answer\na,b\na,\n ,c\na\nd,e\n")
    with pytest.raises(ValueError, match="3 of 6 lines") as error:
        read_selection_questions(path)
    assert "lines 3, 4; the first: the answer is empty" in str(error.value)
    found = read_selection_questions(path, on_error="skip")
    assert [x.question for x in found] == ["a", "d"]
    known = write(tmp_path / "b.csv", "question,answer\na,b\na,new\nc,new\n")
    with pytest.raises(ValueError, match=r"not among those to choose from \(lines 3, 4: 'new'\)"):
        read_selection_questions(known, answers=["b"])
    found = read_selection_questions(known, answers=["b"], on_error="skip")
    assert list(found) == [SelectionQuestion("a", ("b",))] and "Left out: 2 with" in found.summary()
    with pytest.raises(ValueError, match="no such column"):
        read_selection_questions(path, "Frage")
    null = write(tmp_path / "a.jsonl", '{"question": null, "answer": "b"}\n')
    with pytest.raises(ValueError, match="'question' is of type NoneType"):
        read_selection_questions(null)
    for read in (read_selection_questions, read_candidates):
        with pytest.raises(FileNotFoundError, match="which is not an existing file"):
            read(tmp_path / "none.csv")


def test_candidates(tmp_path):
    lines = write(tmp_path / "a.txt", "\ufeffone, two\n\n three \none, two\n")
    assert read_candidates(lines) == ["one, two", "three"]
    table = write(tmp_path / "a.tsv", "n\ttext\n1\tone\n2\tone\n3\ttwo\n")
    assert read_candidates(table, "text") == ["one", "two"]
    with pytest.raises(ValueError, match="expected at least one answer"):
        read_candidates(write(tmp_path / "b.txt", "\n \n"))
    with pytest.raises(ValueError, match="the answer is empty"):
        read_candidates(write(tmp_path / "b.tsv", "answer\tx\n\ty\n"))


def test_checks():
    assert checked_selection_questions([("a", "b"), ("a", ["b", "c"], ["c", "b", "d"])]) == [
        SelectionQuestion("a", ("b",)),
        SelectionQuestion("a", ("b", "c"), ("c", "b", "d")),
    ]
    for wrong in ("ab", ("a",), ("a", []), ("a", 7), ("a", "b", "c", "d"), ("", "b"), ("a", " ")):
        with pytest.raises(ValueError, match="at position 0"):
            checked_selection_questions([wrong])
    with pytest.raises(ValueError, match="among the candidates of their question"):
        checked_selection_questions([("a", "b"), ("a", ["b", "c"], ["b"])])
    with pytest.raises(ValueError, match="at least one question"):
        checked_selection_questions([])


def test_no_question_is_on_both_sides():
    words = "one two six ten red dry new old wet big".split()
    asked = [f"{word} dog?" for word in words] + ["One dog!", "TWO DOG", "6 dogs?", "7 dogs?"]
    examples = [SelectionQuestion(question, ("x",)) for question in asked]
    train, dev = split_selection_questions(examples, 4)
    assert sorted([*train, *dev]) == sorted(examples) and len(dev) == 4
    assert {x.question[:-1] for x in dev} <= {f"{word} dog" for word in words[2:]}
    with pytest.warns(UserWarning, match="too high"):
        split_selection_questions(examples, 4, apart=False)

"""Questions with answers: SQuAD's JSON, JSON lines, answers that stand elsewhere, bad files."""

import gzip
import json
from hashlib import sha256

import numpy as np
import pytest

from keras_attn.records import AnsweredQuestion, TextAnswer, read_questions, split_questions
from keras_attn.records.questions import checked_questions

TEXT = "Ada was in Oslo. Bob was in Oslo too."


def squad(*questions, text=TEXT, title="Norway"):
    return {"version": "1.1", "data": [
        {"title": title, "paragraphs": [{"context": text, "qas": list(questions)}]}
    ]}  # fmt: skip


def question(text="Oslo", start=11, name="q1", **more):
    answers = [{"text": text, "answer_start": start}]
    return {"id": name, "question": "Where?", "answers": answers, **more}


def written(tmp_path, content, name="a.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_squad(tmp_path):
    path = written(tmp_path, squad(question(), question(start=28, name="q2")))
    found = read_questions(path)
    assert found[0] == AnsweredQuestion("Where?", TEXT, (TextAnswer("Oslo", 11),), "Norway", "q1")
    assert found[1].answers == (TextAnswer("Oslo", 28),)
    assert found.moved == found.skipped == 0
    assert found.summary() == f"{path}: 2 questions about 1 text of 1 article"
    packed = tmp_path / "b.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_questions(packed)) == list(found)


def test_squad_2(tmp_path):
    """A question without an answer may have plausible ones, which are none."""
    impossible = question(name="q2", is_impossible=True)
    found = read_questions(written(tmp_path, squad(question(), impossible)))
    assert [len(q.answers) for q in found] == [1, 0]
    assert "1 without an answer" in found.summary()


def test_an_answer_is_looked_for(tmp_path):
    found = read_questions(written(tmp_path, squad(question(start=26))))
    assert found[0].answers[0].start == 28  # nearer than 11
    assert found.moved == 1 and "1 answers stood elsewhere" in found.summary()


def test_json_lines(tmp_path):
    rows = [
        {"question": "Where?", "context": TEXT, "answers": ["Oslo"], "title": "n", "id": 7},
        {"question": "Who?", "text": TEXT, "answers": [{"text": "Bob", "start": 17}]},
        {"question": "Why?", "text": TEXT, "answers": []},
    ]
    path = written(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n", "a.jsonl")
    found = read_questions(path)
    assert [q.answers for q in found] == [
        (TextAnswer("Oslo", 11),), (TextAnswer("Bob", 17),), (),
    ]  # fmt: skip
    assert [q.name for q in found] == ["7", "line 2", "line 3"]
    assert [q.title for q in found] == ["n", TEXT, TEXT]  # of one text are on one side


def test_an_answer_that_is_not_there(tmp_path):
    path = written(tmp_path, squad(question("Rome"), question(name="q2")))
    with pytest.raises(ValueError, match=r"question 'q1' has the answer 'Rome', which is not in"):
        read_questions(path)
    found = read_questions(path, on_error="skip")
    assert [q.name for q in found] == ["q2"] and found.skipped == 1
    assert "1 bad questions were left out" in found.summary()


@pytest.mark.parametrize("start", [400, len(TEXT), -5])
def test_a_place_outside_of_the_text(tmp_path, start):
    path = written(tmp_path, squad(question(start=start), question(name="q2")))
    outside = rf"1 with an answer that starts outside .*'q1' has the answer 'Oslo' at {start}, in"
    with pytest.raises(ValueError, match=outside):
        read_questions(path)
    found = read_questions(path, on_error="skip")
    assert [q.name for q in found] == ["q2"] and (found.skipped, found.moved) == (1, 0)
    with pytest.raises(ValueError, match=f"question '0' has the answer 'Oslo' at {start}, in a"):
        checked_questions([("Where?", TEXT, [("Oslo", start)])])


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (squad(question(), question("Rome")), "a.json", r"1 of 2 questions .*\(question 2: "),
        (squad({"question": "\ud83d"}), "a.json", "has half a surrogate pair"),
        ("{", "a.json", "expected SQuAD's JSON"),
        ("[]", "a.json", "expected SQuAD's JSON"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "a.json", "expected at least one question"),
        ({"data": [{"paragraphs": [{"qas": [1]}]}]}, "a.json", "expected SQuAD's JSON"),
        (squad({"question": 5}), "a.json", "is not a string with a list"),
        (squad({"question": "x", "answers": [{"text": " "}]}), "a.json", "has an empty answer"),
        (squad(question("")), "a.json", r"1 with an empty question or answer \(question 1: "),
        (squad(question() | {"question": " \t"}), "a.json", "empty question .*'q1' has no words"),
        (squad(question() | {"question": ""}), "a.json", "'q1' has no words"),
        (squad(question(start="11")), "a.json", "another type .*a start of type str"),
        (squad(question(5)), "a.json", "another type .*an answer with a text of type int"),
        ('{"question": "x", "text": "y"}', "a.jsonl", "no 'answers' among the keys"),
        ("nothing", "a.jsonl", "JSON"),
        ("", "a.jsonl", "at least one question"),
    ],
)
def test_bad_files(tmp_path, content, name, message):
    with pytest.raises(ValueError, match=message):
        read_questions(written(tmp_path, content, name))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="questions with answers"):
        read_questions(tmp_path / "none.json")


def test_examples_are_checked():
    assert checked_questions([("Who?", TEXT, [("Oslo", 20)])])[0].answers[0].start == 28
    with pytest.raises(ValueError, match="'Rome', which is not in its text"):
        checked_questions([("Who?", TEXT, ["Rome"])])
    with pytest.raises(ValueError, match="question '0' has no words"):
        checked_questions([("  ", TEXT, ["Oslo"])])
    for wrong in (
        *("text", ("q", "t"), ("q", 5, []), ("Who?", TEXT, "Oslo"), ("Who?", TEXT, None)),
        AnsweredQuestion("Who?", TEXT, "Oslo"),
    ):
        with pytest.raises(TypeError, match="as example 0"):
            checked_questions([wrong])


def test_questions_that_were_made_by_hand_are_checked_too():
    right = AnsweredQuestion("Who?", TEXT, (TextAnswer("Oslo", np.int64(28)),))
    assert checked_questions([right])[0] is right
    for answers in ((TextAnswer("Oslo", 20),), ("Oslo",), [("Oslo", 20)]):
        (found,) = checked_questions([AnsweredQuestion("Who?", TEXT, answers, "title", "q9")])
        assert found.answers[0] == TextAnswer("Oslo", 28 if answers != ("Oslo",) else 11)
        assert (found.title, found.name) == ("title", "q9")
    for answer, why in (
        (TextAnswer("Rome", 0), "'q9' has the answer 'Rome', which is not in its text"),
        (TextAnswer("Oslo", 999), "'Oslo' at 999"),
        (TextAnswer("Oslo", -1), "'Oslo' at -1"),
    ):
        with pytest.raises(ValueError, match=why):
            checked_questions([AnsweredQuestion("Who?", TEXT, (answer,), name="q9")])
    with pytest.raises(ValueError, match="has no words"):
        checked_questions([AnsweredQuestion(" ", TEXT, ())])


@pytest.mark.parametrize("starts", [[0], 0, None, "0"])
def test_columns_of_answers_of_different_lengths(tmp_path, starts):
    answers = {"text": ["Oslo", "Oslo"], "answer_start": starts}
    rows = [{"question": "q", "context": "Oslo", "answers": x} for x in (["Oslo"], answers)]
    path = written(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
    with pytest.raises(ValueError, match=r"line 2: .* columns are not lists of one length"):
        read_questions(path)
    found = read_questions(path, on_error="skip")
    assert (len(found), found.skipped) == (1, 1)


def test_articles_stay_together():
    questions = [AnsweredQuestion("?", "t", (), str(n % 30)) for n in range(300)]
    sides = split_questions(questions, 0.2)
    assert sorted(map(len, sides))[0] > 0 and len(sides[0]) + len(sides[1]) == 300
    assert not {q.title for q in sides[0]} & {q.title for q in sides[1]}
    assert sides == split_questions(questions, 0.2) != split_questions(questions, 0.2, seed=1)
    with pytest.raises(ValueError, match="above 0 and below 1"):
        split_questions(questions, 1.0)


@pytest.mark.parametrize("count", range(2, 12))
def test_few_articles_are_on_both_sides(count):
    """Drawn each for itself, none of eight would be held out at a share of 0.1 and this seed."""
    questions = [AnsweredQuestion("?", "t", (), f"article {n % count}") for n in range(3 * count)]
    hashes = {q.title: sha256(f"0\n{q.title}".encode()).digest() for q in questions}
    for share in (0.001, 0.1, 0.5, 0.999):
        first, second = split_questions(questions, share)
        below = sum(h < int(share * 2**48).to_bytes(6, "big") for h in hashes.values())
        wanted = min(max(below, 1), count - 1)
        lowest = sorted(hashes, key=hashes.get)[:wanted]
        assert {q.title for q in second} == set(lowest)
        assert {q.title for q in first} == set(hashes) - set(lowest)
    one = questions[:1]
    assert split_questions(one, 0.5) == (one, [])


def test_so_many_articles():
    questions = [AnsweredQuestion("?", "t", (), str(n % 7)) for n in range(70)]
    first, second = split_questions(questions, 3)
    lowest = sorted({q.title for q in questions}, key=lambda t: sha256(f"0\n{t}".encode()).digest())
    assert {q.title for q in second} == set(lowest[:3]) and len(second) == 30
    assert [q for q in questions if q not in second] == first
    for wrong in (0, 7):
        with pytest.raises(ValueError, match=f"above 0 and below 7. Received: {wrong}"):
            split_questions(questions, wrong)

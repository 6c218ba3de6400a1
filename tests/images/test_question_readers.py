"""Questions about pictures from files: layouts, and what is wrong with a line."""

import gzip
import json

import numpy as np
import pytest
from PIL import Image

from keras_attn.images import (
    PictureQuestion,
    PictureQuestions,
    read_easy_vqa,
    read_question_table,
    read_vqa,
)


@pytest.fixture
def folder(tmp_path):
    for name in ("1.png", "2.png"):
        Image.new("RGB", (4, 4), "red").save(tmp_path / name)
    (tmp_path / "broken.png").write_bytes((tmp_path / "1.png").read_bytes()[:40])
    return tmp_path


def test_json_lines(folder):
    row = '{"image": "1.png", "question": "A cat?", "answer": "yes"}\n'
    (folder / "q.jsonl").write_text(row + row.replace('"yes"', "5"))
    with pytest.raises(ValueError, match="line 2: "):
        read_question_table(folder / "q.jsonl")
    (example,) = read_question_table(folder / "q.jsonl", on_error="skip")
    assert (example.question, example.answer) == ("A cat?", "yes")


def test_the_summary_counts_images_in_memory():
    image = np.zeros((4, 4, 3), "uint8")
    found = PictureQuestions([PictureQuestion(image, q, "yes") for q in ("A?", "B?")], "a", 2)
    assert "2 questions of 2, 1 picture, 1 different answer" in found.summary()


def test_a_table(folder):
    (folder / "q.csv").write_text('image,q,a,k\n1.png,"What, now?",red,color\n2.png,So?,yes,y/n\n')
    found = read_question_table(folder / "q.csv", question="q", answer="a", kind="k")
    assert [tuple(x)[1:] for x in found] == [
        ("What, now?", "red", (), "color"), ("So?", "yes", (), "y/n"),
    ]  # fmt: skip
    assert found[0].picture == str(folder / "1.png")
    assert found.answer_counts == {"red": 1, "yes": 1}
    expected = "2 questions of 2, 2 pictures, 2 different answers. Kinds: color 1, y/n 1."
    assert found.summary().endswith(expected)
    (folder / "in").mkdir()
    (folder / "in/q.tsv.gz").write_bytes(gzip.compress(b"1.png\tSo?\tno\n"))
    found = read_question_table(folder / "in/q.tsv.gz", 0, 1, 2, image_dir=folder)
    assert [x.answer for x in found] == ["no"]


def test_bad_lines_are_named_or_left_out(folder):
    lines = [
        "image,question,answer", "1.png,So?,yes", "none.png,So?,yes", "broken.png,So?,yes",
        "broken.png,And?,no", "1.png, ,yes", "1.png,So?", "2.png,So?,",
    ]  # fmt: skip
    (folder / "q.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="6 of 7 that are not") as error:
        read_question_table(folder / "q.csv")
    for part in (
        "line 3, none.png: there is no such file",
        "line 4, broken.png: expected a",
        "line 5, broken.png",
        "line 6: the question is empty",
        "line 7",
        "line 8: the answer is empty",
        "--on-error skip",
    ):
        assert part in str(error.value), part
    found = read_question_table(folder / "q.csv", on_error="skip")
    assert [x.question for x in found] == ["So?"]
    assert (found.entries, len(found.problems)) == (7, 6)
    assert "Left out: 1 of pictures that are not there (line 3, none.png" in found.summary()
    assert len(read_question_table(folder / "q.csv", on_error="skip", check_pictures=False)) == 4
    (folder / "q.csv").write_bytes(b"image,question,answer\n1.png,So?,yes\n1.png,\xff,\xff\n")
    assert read_question_table(folder / "q.csv", on_error="skip").entries == 2
    (folder / "q.csv").write_text("\n".join([lines[0], lines[2]]))
    with pytest.raises(ValueError, match="at least one question about a picture"):
        read_question_table(folder / "q.csv", on_error="skip")


def test_easy_vqa(folder):
    (folder / "images").mkdir()
    (folder / "1.png").rename(folder / "images/1.png")
    data = [["what color is the shape?", "red", 1], ["is there a circle?", "no", 1]]
    (folder / "questions.json").write_text(json.dumps(data))
    for place in (folder, folder / "questions.json"):
        found = read_easy_vqa(place)
        assert [x[1:3] for x in found] == [tuple(x[:2]) for x in data]
    assert found[1].picture == str(folder / "images/1.png")
    (folder / "questions.json").write_text(json.dumps([*data, ["so?", "no", "1"], ["so?", "a", 7]]))
    with pytest.raises(ValueError, match=r"entry 3: no \[question.*entry 4, 7\.png|entry 4, 7"):
        read_easy_vqa(folder)
    assert len(read_easy_vqa(folder, on_error="skip")) == 2
    (folder / "questions.json").write_text("{}")
    with pytest.raises(ValueError, match="expected a JSON list"):
        read_easy_vqa(folder)


def test_vqa(folder):
    (folder / "COCO_val2014_000000000009.jpg").write_bytes((folder / "1.png").read_bytes())
    asked = [{"question_id": i, "image_id": 9, "question": f"Is it {i}?"} for i in (90, 91, 92)]
    people = [{"answer": text, "answer_id": i} for i, text in enumerate(["yes", "yes", "no"])]
    answered = [
        {"question_id": i, "multiple_choice_answer": "yes", "answers": people,
         "answer_type": "yes/no"}
        for i in (91, 90)
    ]  # fmt: skip
    files = folder / "q.json", folder / "a.json"
    files[0].write_text(json.dumps({"data_subtype": "val2014", "questions": [*asked, {"a": 1}]}))
    files[1].write_text(json.dumps({"annotations": answered}))
    with pytest.raises(ValueError, match="2 of 4") as error:
        read_vqa(*files)
    assert "entry 3 (question 92): it has no annotation" in str(error.value)
    assert "entry 4: no 'question_id'" in str(error.value)
    found = read_vqa(*files, on_error="skip")
    assert [x.question for x in found] == ["Is it 90?", "Is it 91?"]
    assert (found[0].answers, found[0].kind) == (("yes", "yes", "no"), "yes/no")
    other = read_vqa(*files, image_name="{id:d}.png", on_error="skip", check_pictures=False)
    assert other[0].picture.endswith("9.png")
    with pytest.raises(ValueError, match=r"a file name with \{id\}"):
        read_vqa(*files, image_name="{number}.png", on_error="skip")
    with pytest.raises(ValueError, match="a list 'annotations'"):
        read_vqa(files[0], files[0])

"""Readers of questions about images: easy-VQA, VQA v2, and tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

from keras_attn.images.image_reading import list_of, lists_of, load_json
from keras_attn.images.picture_questions import PictureQuestions, QuestionChecks, QuestionReading
from keras_attn.records.reading import LineReading, Location, find_file
from keras_attn.records.tables import Column

COCO_NAME = "COCO_{split}_{id:012d}.jpg"
"""File name of a COCO image; VQA v2 contains only ids."""


def read_question_table(
    path: Location,
    image: Column = "image",
    question: Column = "question",
    answer: Column = "answer",
    kind: Column | None = None,
    image_dir: Location | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    **checks: Unpack[QuestionChecks],
) -> PictureQuestions:
    r"""Reads a table, JSON lines or Parquet with an image, a question and an answer in each row.

    Cells may be in double quotes, except in `*.tsv` files and with `delimiter="\t"`.

    Args:
        path: The table, plain or gzipped: JSON lines if its name ends in `.jsonl`, `.ndjson` or
            `.json`, Parquet if it ends in `.parquet` or `.pq`, otherwise cells with a delimiter.
        image: Name or number (from 0) of the column of the images. Its cells are paths, relative to
            `image_dir` unless they are absolute.
        question: Name or number of the column of the questions.
        answer: Name or number of the column of the answers.
        kind: Name or number of a column with the kind of each question; None if there is none.
        image_dir: Folder of the images. Default: the folder of the table.
        delimiter: The character between cells. By default, one of `,`, `;`, `|` and tab is inferred
            from the header; without a header, it is a tab in `*.tsv` and a comma in other files.
        header: Whether the first row names the columns. Default: True if a column is given by name.
        **checks: Settings of all readers of questions.
            `on_error`: `"error"` (default) raises one ValueError that lists all bad lines and
                images. `"skip"` leaves their questions out, and lists the problems in `problems` of
                the result.
            `check_pictures`: Whether each image is read in order to find broken images (default
                True).

    Returns:
        A `PictureQuestions`, a sequence of `PictureQuestion` with `problems`, `answer_counts` and
        `summary()`.

    Raises:
        ImportError: If images are read, and Pillow is not installed; or if `path` is a Parquet
            file, and `pyarrow` is not installed.
        OSError: If the table or the folder is missing or cannot be read.
        ValueError: If there is no such column, or a quotation mark is never closed; if, with
            `on_error="error"`, a row has a different number of cells, or images or texts are bad;
            or if no question is left.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "questions.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("image,question,answer\n1.png,Is it a cat?,yes\n")
    >>> read_question_table(path, check_pictures=False)[0].question
    'Is it a cat?'
    >>> try:
    ...     read_question_table(path)
    ... except ValueError as error:
    ...     "line 2, 1.png: there is no such file" in str(error)
    True
    """
    reading = QuestionReading(path, image_dir, **checks)
    rows = LineReading(path)
    columns = {"image": image, "question": question, "answer": answer}
    columns |= {} if kind is None else {"kind": kind}
    for number, cells in reading.cells(rows, path, columns, delimiter, header):
        if None not in cells.values():
            found = (cells["image"], cells["question"], cells["answer"])
            reading.add(f"{rows.unit} {number:,}", *found, kind=(cells.get("kind") or "").strip())
    reading.entries += rows.bad_lines
    reading.take_over(rows)
    return reading.finish()


def read_easy_vqa(path: Location, **checks: Unpack[QuestionChecks]) -> PictureQuestions:
    """Reads a part of easy-VQA, questions about drawn shapes.

    The data are in the package `easy-vqa` on PyPI. Its folders `easy_vqa/data/train` and
    `easy_vqa/data/test` each contain `questions.json`, a list of `[question, answer, image
    number]`, and the images `images/NUMBER.png`.

    References:
        - [easy-VQA](https://github.com/vzhou842/easy-VQA): 5,000 pictures, 48,248 questions, 13
          answers.

    Args:
        path: The folder of a part, or its `questions.json`.
        **checks: The settings `on_error` and `check_pictures`, as in `read_question_table`.

    Returns:
        A `PictureQuestions`.

    Raises:
        ImportError: If images are read, and Pillow is not installed.
        OSError: If the folder or a file is missing or cannot be read.
        ValueError: If the JSON is invalid or has another format; if, with `on_error="error"`,
            questions or images are bad; or if no question is left.

    Example:

    >>> import json, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "questions.json"), "w") as file:
    ...     json.dump([["what color is the shape?", "blue", 0]], file)
    >>> read_easy_vqa(folder, check_pictures=False)[0].answer
    'blue'
    """
    path = Path(path)
    if path.is_dir():
        path = find_file(path, ("questions.json",), gzipped=False)
    entries = list_of(path, load_json(path), "[question, answer, number of the picture]")
    reading = QuestionReading(path, path.parent / "images", **checks)
    for number, entry in enumerate(entries, start=1):
        where = f"entry {number:,}"
        if not isinstance(entry, list) or len(entry) != 3 or type(entry[2]) is not int:
            reading.bad_entry(where, "type", f"no [question, answer, number] in {entry!r:.80}")
            continue
        reading.add(where, f"{entry[2]}.png", entry[0], entry[1])
    return reading.finish()


def read_vqa(
    questions: Location,
    annotations: Location,
    image_dir: Location | None = None,
    image_name: str = COCO_NAME,
    **checks: Unpack[QuestionChecks],
) -> PictureQuestions:
    """Reads VQA v2, or other data in the format of its two JSON files.

    The file `questions` has a list `questions` of `{"question_id", "image_id", "question"}`. The
    file `annotations` has a list `annotations` of `{"question_id", "multiple_choice_answer",
    "answers", "answer_type"}`. The training answer is `multiple_choice_answer`, the most frequent
    answer. `answers` are the answers of ten people, which are used for scoring. `kind` is the
    `answer_type`: yes/no, number or other.

    References:
        - [Goyal et al., 2017](https://arxiv.org/abs/1612.00837): Making the V in VQA matter.

    Args:
        questions: The file of questions, such as `v2_OpenEnded_mscoco_train2014_questions.json`,
            plain or gzipped.
        annotations: The file of answers, such as `v2_mscoco_train2014_annotations.json`, plain or
            gzipped.
        image_dir: Folder of the images. Default: the folder of `questions`.
        image_name: Format of the file names of images, with `{id}` for the id of an image and
            `{split}` for the `data_subtype` in `questions`, such as `train2014`.
        **checks: The settings `on_error` and `check_pictures`, as in `read_question_table`.

    Returns:
        A `PictureQuestions`.

    Raises:
        ImportError: If images are read, and Pillow is not installed.
        OSError: If the folder or a file is missing or cannot be read.
        ValueError: If the JSON is invalid or has another format; if `image_name` has other fields;
            if, with `on_error="error"`, a question has no annotation, or questions or images are
            bad; or if no question is left.

    Example:

    >>> import json, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> files = [os.path.join(folder, name) for name in ("questions.json", "annotations.json")]
    >>> asked = {"question_id": 7, "image_id": 9, "question": "Is it a cat?"}
    >>> answered = {"question_id": 7, "multiple_choice_answer": "yes", "answers": []}
    >>> with open(files[0], "w") as file:
    ...     json.dump({"data_subtype": "val2014", "questions": [asked]}, file)
    >>> with open(files[1], "w") as file:
    ...     json.dump({"annotations": [answered]}, file)
    >>> os.path.basename(read_vqa(*files, check_pictures=False)[0].picture)
    'COCO_val2014_000000000009.jpg'
    """
    data, answered = load_json(questions), load_json(annotations)
    (asked,) = lists_of(questions, data, "questions")
    (found,) = lists_of(annotations, answered, "annotations")
    reading = QuestionReading(questions, image_dir, **checks)
    answers = {a["question_id"]: a for a in found if isinstance(a, dict) and "question_id" in a}
    split = str(data.get("data_subtype", ""))
    for number, entry in enumerate(asked, start=1):
        where = f"entry {number:,}"
        entry = entry if isinstance(entry, dict) else {}
        missing = [key for key in ("question_id", "image_id", "question") if key not in entry]
        if missing:
            reading.bad_entry(where, "keys", f"no {missing[0]!r}")
            continue
        where += f" (question {entry['question_id']})"
        annotation = answers.get(entry["question_id"])
        if annotation is None:
            what = f"it has no annotation in {os.fspath(annotations)}"
            reading.bad_entry(where, "unknown", what)
            continue
        reading.add(
            where,
            _picture_name(image_name, entry["image_id"], split),
            entry["question"],
            annotation.get("multiple_choice_answer"),
            [str(a["answer"]) for a in annotation.get("answers", ()) if "answer" in a],
            str(annotation.get("answer_type", "")),
        )
    return reading.finish()


def _picture_name(image_name: str, number: object, split: str) -> str:
    try:
        return image_name.format(id=number, split=split)
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(
            "Expected `image_name` to be a file name with {id} and, if needed, {split}, and "
            f"no other names in braces. Received: {image_name!r} for the id {number!r} "
            f"({error!r})."
        ) from error

"""Files of questions about images of any format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keras_attn.images.picture_questions import PictureQuestions
from keras_attn.images.question_readers import (
    COCO_NAME,
    read_easy_vqa,
    read_question_table,
    read_vqa,
)
from keras_attn.records.encodings import Location, expanded
from keras_attn.records.rows import has_rows


@dataclass(frozen=True)
class QuestionFile:
    """A file of questions about images: path, format and reading options."""

    path: Location
    """A table, a JSON file, or a folder of easy-VQA with one or both parts."""
    annotations: str = ""
    """`"vqa"`: the file of the answers."""
    image_dir: str = ""
    """Folder of the images; the folder of the file if empty."""
    format: str = "auto"
    image: str = "image"
    """`"csv"`: column of the images."""
    question: str = "question"
    """`"csv"`: column of the questions."""
    answer: str = "answer"
    """`"csv"`: column of the answers."""
    question_kind: str = ""
    """`"csv"`: column of the kinds of questions; none if empty."""
    delimiter: str = ""
    """`"csv"`: character between columns; if empty, inferred from the column names."""
    image_name: str = COCO_NAME
    """`"vqa"`: file name of an image, as in `read_vqa`."""
    on_error: str = "error"
    """Treatment of bad lines, as in `read_question_table`."""

    @property
    def kind(self) -> str:
        """The format: `"csv"`, `"vqa"` or `"easy_vqa"`."""
        if self.format != "auto":
            return self.format
        if has_rows(self.path):
            return "csv"
        path = Path(self.path).expanduser()
        if path.is_dir():
            return "easy_vqa"
        if path.name.lower().removesuffix(".gz").endswith(".json"):
            return "vqa" if self.annotations or path.name != "questions.json" else "easy_vqa"
        return "csv"

    def read(self, side: str = "train") -> PictureQuestions:
        """Reads the questions; `side` is the part to read, for a format with parts."""
        given = self.path, self.annotations, self.image_dir
        path, annotations, folder = map(expanded, given)
        if bool(annotations) != (self.kind == "vqa"):
            raise ValueError(
                "Expected a file of answers (`annotations`) for questions in VQA's JSON "
                "format, and for no other format. Received: "
                f"annotations={annotations or 'none'} for {path} in the format {self.kind!r}."
            )
        if self.kind == "easy_vqa":
            if folder:
                raise ValueError(
                    "easy-VQA has its pictures in its folder `images`. Received: "
                    "`image_dir`. Leave `image_dir` out."
                )
            inner = Path(path) / side
            return read_easy_vqa(inner if inner.is_dir() else path, on_error=self.on_error)
        if self.kind == "vqa":
            on_error, name = self.on_error, self.image_name
            return read_vqa(path, annotations, folder or None, name, on_error=on_error)
        return read_question_table(
            path,
            self.image,
            self.question,
            self.answer,
            self.question_kind or None,
            folder or None,
            self.delimiter or None,
            on_error=self.on_error,
        )

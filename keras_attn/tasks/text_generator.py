"""Text generation: the beginning of a text in, its continuation out."""

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.datasets import TextWindows, scoring_windows
from keras_attn.export import export_in_child_process
from keras_attn.fields import checked_texts
from keras_attn.generation import CompiledFunction, Generation, row_seeds, sample
from keras_attn.generation.sampling import check_sampling
from keras_attn.models import (
    RecurrentLanguageModelConfig,
    language_decoder,
    recurrent_language_model,
)
from keras_attn.tasks.compiling import fit_task, jit_compile, make_adam, make_schedule
from keras_attn.tasks.quantizing import Quantizable
from keras_attn.tasks.task_file import load_weights, read_config, save_task
from keras_attn.tasks.text_generation_export import export_text_generation
from keras_attn.text import CharacterTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.training import MaskedCrossEntropy, num_data_shards
from keras_attn.training.losses import token_cross_entropy

Tensor = Any


class TextScore(NamedTuple):
    """How well a model predicts a text.

    Example:

    >>> TextScore(2.25, characters=1000, unknown=0).bits_per_character
    2.25
    """

    bits_per_character: float
    """Mean of `-log2 p(character | those before it)`."""
    characters: int
    """Number of characters, each scored once."""
    unknown: int
    """How many of them the tokenizer does not know: for these it is the bits of `<unknown>`."""


class TextGenerator(Quantizable):
    """A recurrent language model of characters with its tokenizer and its sampling.

    `.model` is the plain Keras model from ids to logits, `.dataset(text)` what its `fit` takes; the
    methods here only join them. Whatever is read, a window of training, a text to score or a
    prompt, begins with the start token, which so means "somewhere in a text".

    Args:
        tokenizer: A `CharacterTokenizer`.
        config: Settings of the model; its vocabulary size is taken from the tokenizer.
            `RecurrentLanguageModelConfig`, a dict of its fields, or None for its defaults.
        sequence_length: Characters of a window in training; of a prompt the last
            `sequence_length - 1` are read.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: For another tokenizer.
        ValueError: For settings that are none, or out of range.

    Example:

    >>> text = "to be, or not to be, " * 20
    >>> generator = TextGenerator(CharacterTokenizer.train([text]), {"units": 32}, 32)
    >>> history = generator.fit(text, epochs=1, batch_size=4, verbose=0)
    >>> len(generator.generate("to be", num_characters=10, seed=7))
    15
    """

    def __init__(
        self,
        tokenizer: CharacterTokenizer,
        config: RecurrentLanguageModelConfig | dict[str, Any] | None = None,
        sequence_length: int = 256,
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
        if isinstance(config, RecurrentLanguageModelConfig):
            config = config.to_dict()
        known = [field.name for field in dataclasses.fields(RecurrentLanguageModelConfig)]
        if not isinstance(config or {}, dict) or set(config or {}) - set(known):
            raise ValueError(
                "`config` must be a RecurrentLanguageModelConfig or a dict of its fields, "
                f"{known}. Received: {config!r}."
            )
        sizes = {"vocabulary_size": tokenizer.vocabulary_size}
        self.config = RecurrentLanguageModelConfig(**{**(config or {}), **sizes})
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.model = recurrent_language_model(self.config, dtype=dtype)
        self._decoder = language_decoder(self.model)
        self._compiled: dict[Any, CompiledFunction] = {}
        self._optimizer: Any = None

    # Training

    def dataset(self, text: str, **settings: Any) -> TextWindows:
        """Cuts a text into batches for `model.fit`.

        Args:
            text: A string. Characters that the tokenizer does not know are counted in a warning.
            **settings: Of `keras_attn.datasets.TextWindows`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `TextWindows`.

        Raises:
            ValueError: For a text that is shorter than a window.
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

    def _encode(self, text: str) -> np.ndarray:
        return np.array(self.tokenizer.encode(*checked_texts([text])), "int32")

    def compile(
        self,
        total_steps: int,
        learning_rate: float = 2e-3,
        warmup_steps: int | None = None,
        weight_decay: float = 0.0,
        clip_norm: float = 1.0,
        ema_momentum: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Compiles `.model` with what suits a recurrent model. `fit` does so where this was not.

        Adam with linear warm-up and cosine decay, the norm of the gradient clipped.
        `generator.model.compile(...)` sets anything else.

        Args:
            total_steps: Number of updates in all.
            learning_rate: The highest learning rate.
            warmup_steps: Steps until it is reached; a twentieth of all, at most 1000, if None.
            weight_decay: Of AdamW; 0: Adam.
            clip_norm: Largest norm of all gradients together; 0: any.
            ema_momentum: Momentum of the moving average of the weights, which becomes the weights
                at the end of `fit` (see `keras_attn.training.averaged_weights`); 0: none.
            **kwargs: Of `keras.Model.compile`.
        """
        schedule = make_schedule(total_steps, learning_rate, warmup_steps)
        policy = self.model.get_layer("decoder").dtype_policy
        settings = {
            "optimizer": make_adam(schedule, policy, weight_decay, clip_norm, ema_momentum),
            "loss": MaskedCrossEntropy(),
            "jit_compile": jit_compile(recurrent=True),
        }
        self.model.compile(**{**settings, **kwargs})
        self._optimizer = None

    def fit(
        self,
        text: str,
        validation_text: str | None = None,
        epochs: int = 10,
        batch_size: int = 64,
        seed: int = 0,
        verbose: Any = "auto",
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **compile_settings: Any,
    ) -> keras.callbacks.History:
        """Trains on a text.

        Args:
            text: Training text.
            validation_text: Text whose loss (in nats a character) is shown after each epoch.
            epochs: Passes over the training text.
            batch_size: Windows of a batch.
            seed: Of the places and the order of the windows. Dropout follows
                `keras.utils.set_random_seed`.
            verbose: Of Keras' progress bar.
            callbacks: Further Keras callbacks.
            **compile_settings: Of `compile`, with which each `fit` starts anew: its learning rate
                rises and falls over the epochs of this call. A model that was compiled by
                `compile` or `.model.compile` is taken as it is, unless settings are given.

        Returns:
            Keras' `History`.
        """
        windows = self.dataset(text, batch_size=batch_size, seed=seed)
        validation = None
        if validation_text is not None:
            validation = self.dataset(validation_text, batch_size=batch_size, shuffle=False)
        return fit_task(self, windows, validation, epochs, verbose, callbacks, compile_settings)

    def evaluate(self, text: str, context: int | None = None, batch_size: int = 64) -> TextScore:
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
            ValueError: For an empty text, or a context or batch size out of range.
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
        num_characters: int = 500,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        seed: int | Sequence[int] = 0,
        batch_size: int = 64,
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
            top_p: Probability of the most probable characters that may come, or None.
            min_p: Least probability of a character, as a share of the greatest, or None.
            repetition_penalty: Above 1: characters that were there come less often. At the level
                of characters that soon spoils the spelling.
            no_repeat_ngram_size: Above 0: so many characters never come twice in the same order.
            seed: Integer, of which each prompt gets a seed of its own; or a list of seeds.
            batch_size: Texts generated at a time.

        Returns:
            The prompt and what follows: a string for a string, a list for a list.

        Raises:
            TypeError: For what is no string.
            ValueError: For settings out of range.
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

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizer and weights to one file, readable on every backend."""
        config = {
            "config": self.config.to_dict(),
            "tokenizer": self.tokenizer.get_config(),
            "sequence_length": self.sequence_length,
            "dtype": self.model.get_layer("decoder").dtype_policy.name,
        }
        save_task(path, "TextGenerator", config, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> "TextGenerator":
        """Loads what `save` wrote.

        Args:
            path: The file.
            dtype: As in the constructor; what was saved if None.

        Returns:
            A `TextGenerator`, not compiled.
        """
        config = read_config(path, "TextGenerator")
        generator = cls(
            CharacterTokenizer.from_config(config["tokenizer"]),
            config["config"],
            config["sequence_length"],
            config["dtype"] if dtype is None else dtype,
        )
        load_weights(path, generator.model)
        return generator

    def export(
        self,
        path: str | os.PathLike,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        overwrite: bool = False,
    ) -> None:
        """Exports a TensorFlow SavedModel from the beginnings of texts to texts.

        Its signature `serving_default` takes `prompt: string (B,)`, `seed: int32 (B,)` and
        `num_characters: int32 ()`, and gives `text: string (B,)`, equal to
        `generate(prompt, num_characters, ..., seed=[...])` with these settings. It loads with
        `import tensorflow` alone. Before it is put in its place it is loaded and compared with this
        object. On JAX and PyTorch a child process with the TensorFlow backend does the work.

        Args:
            path: Folder of the SavedModel.
            temperature: As `generate`.
            top_k: As `generate`.
            top_p: As `generate`.
            min_p: As `generate`.
            repetition_penalty: As `generate`.
            no_repeat_ngram_size: As `generate`.
            overwrite: Whether a SavedModel that is there is replaced, at the end, by the new one.

        Raises:
            FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
                `overwrite` is given.
            PermissionError: If its parent cannot be written to.
            RuntimeError: If what was written does not give what this object gives.
            ValueError: For settings out of range.
        """
        settings = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        check_sampling(**settings)
        if keras.backend.backend() != "tensorflow":
            export_in_child_process(type(self), self.save, path, overwrite=overwrite, **settings)
            return
        export_text_generation(self, path, settings, overwrite)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_count(name: str, value: Any) -> None:
    if not _is_count(value, 1):
        raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")

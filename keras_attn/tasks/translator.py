"""Translation: sentences in, sentences out."""

import dataclasses
import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.datasets import TokenBatches
from keras_attn.export import export_in_child_process, export_text_function
from keras_attn.generation import CompiledFunction, Generation, beam_search
from keras_attn.layers import attention_maps
from keras_attn.models import SequenceDecoder, TransformerConfig, encoder_decoder_transformer
from keras_attn.tasks.alignment import Alignment
from keras_attn.tasks.checks import Pairs, check_decoding, checked_pairs, checked_texts
from keras_attn.tasks.task_file import load_weights, read_config, save_task
from keras_attn.text import BytePairTokenizer
from keras_attn.training import MaskedCrossEntropy, WarmupCosineSchedule


class TranslationScores(NamedTuple):
    """Corpus scores of translations, by sacrebleu (Post, 2018)."""

    bleu: float
    """BLEU (Papineni et al., 2002), 0 to 100."""
    chrf: float
    """chrF (Popovic, 2015), 0 to 100."""
    bleu_signature: str
    chrf_signature: str
    translations: list[str]


class Translator:
    """A Transformer with its tokenizer and its decoding: strings in, strings out.

    `.model` is the plain Keras model from ids to logits, `.dataset(pairs)` what its `fit` takes;
    the methods here only join them.

    Args:
        tokenizer: Tokenizer of the source, and of the target where no other is given.
        config: Settings of the model; its vocabulary sizes are taken from the tokenizers.
            `TransformerConfig`, a dict of its fields, or None for its defaults.
        target_tokenizer: Tokenizer of the target, for two vocabularies.
        max_source_length: Longest source in tokens that is read; what is longer is cut, with a
            warning. A translation has at most `2 * n + 16` tokens for n source tokens.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Example:

    >>> pairs = [("one dog", "ein Hund"), ("one cat", "eine Katze")] * 4
    >>> tokenizer = BytePairTokenizer.train([text for pair in pairs for text in pair], 262)
    >>> translator = Translator(tokenizer, {"dim": 16, "num_layers": 1, "intermediate_dim": 32})
    >>> history = translator.fit(pairs, epochs=1, verbose=0)
    >>> len(translator.translate(["one dog", "one cat"]))
    2
    """

    def __init__(
        self,
        tokenizer: BytePairTokenizer,
        config: TransformerConfig | dict[str, Any] | None = None,
        target_tokenizer: BytePairTokenizer | None = None,
        max_source_length: int = 512,
        dtype: Any = None,
    ):
        if max_source_length < 2:
            raise ValueError(
                f"`max_source_length` must be at least 2. Received: {max_source_length}."
            )
        for name, value in [("tokenizer", tokenizer), ("target_tokenizer", target_tokenizer)]:
            if not isinstance(value, BytePairTokenizer) and (value or name == "tokenizer"):
                raise TypeError(
                    f"`{name}` must be a BytePairTokenizer. Received: {type(value).__name__}. "
                    "Make one with BytePairTokenizer.train(texts, vocabulary_size)."
                )
        if isinstance(config, TransformerConfig):
            config = config.to_dict()
        known = [field.name for field in dataclasses.fields(TransformerConfig)]
        if not isinstance(config or {}, dict) or set(config or {}) - set(known):
            raise ValueError(
                f"`config` must be a TransformerConfig or a dict of its fields, {known}. "
                f"Received: {config!r}."
            )
        sizes = {
            "source_vocabulary_size": tokenizer.vocabulary_size,
            "target_vocabulary_size": target_tokenizer and target_tokenizer.vocabulary_size,
        }
        self.config = TransformerConfig(**{**(config or {}), **sizes})
        self.source_tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer or tokenizer
        self.max_source_length = max_source_length
        self.model = encoder_decoder_transformer(self.config, dtype=dtype)
        self._decoder = SequenceDecoder(self.model)
        self._compiled: dict[tuple, CompiledFunction] = {}
        self._optimizer: Any = None

    # Training

    def dataset(self, pairs: Pairs, **settings: Any) -> TokenBatches:
        """Tokenizes pairs into batches for `model.fit`.

        Args:
            pairs: (source, target) strings.
            **settings: Of `keras_attn.datasets.TokenBatches`: `tokens_per_batch`, `seed`, ...

        Returns:
            `TokenBatches`. Pairs with a side longer than `max_source_length` tokens are left out,
            with a warning that counts them.

        Raises:
            ValueError: For an empty data set, or an element that is no pair of strings.
        """
        pairs = checked_pairs(pairs)
        tokenizer = self.target_tokenizer
        batches = TokenBatches(
            self.source_tokenizer.encode([source for source, _ in pairs], add_end=True),
            tokenizer.encode([target for _, target in pairs]),
            start_id=tokenizer.start_id,
            end_id=tokenizer.end_id,
            pad_id=tokenizer.pad_id,
            **{"max_length": self.max_source_length, **settings},
        )
        if batches.dropped:
            warnings.warn(
                f"{batches.dropped} of {len(pairs)} pairs have a side of more tokens than "
                "`max_length` and are left out. Split them into sentences, or raise `max_length` "
                "(`max_source_length` where it is not given).",
                stacklevel=2,
            )
        return batches

    def compile(
        self,
        total_steps: int,
        learning_rate: float = 2e-3,
        warmup_steps: int | None = None,
        label_smoothing: float = 0.1,
        **kwargs: Any,
    ) -> None:
        """Compiles `.model` with what suits a Transformer. `fit` does so where this was not called.

        Adam (beta_2 0.98) with linear warm-up and cosine decay, label smoothing over real tokens.
        `translator.model.compile(...)` sets anything else.

        Args:
            total_steps: Number of training steps in all.
            learning_rate: The highest learning rate.
            warmup_steps: Steps until it is reached; a tenth of all, at most 4000, if None.
            label_smoothing: Share of the target's probability that is spread over the vocabulary.
            **kwargs: Of `keras.Model.compile`.
        """
        if warmup_steps is None:
            warmup_steps = min(4000, total_steps // 10)
        schedule = WarmupCosineSchedule(learning_rate, max(warmup_steps, 1), max(total_steps, 2))
        settings = {
            "optimizer": keras.optimizers.Adam(schedule, beta_2=0.98, epsilon=1e-9),
            "loss": MaskedCrossEntropy(label_smoothing),
            "jit_compile": False if _tensorflow_on_cpu() else "auto",
        }
        self.model.compile(**{**settings, **kwargs})
        self._optimizer = None

    def fit(
        self,
        pairs: Pairs,
        validation_pairs: Pairs | None = None,
        epochs: int = 10,
        tokens_per_batch: int = 2048,
        seed: int = 0,
        verbose: Any = "auto",
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **compile_settings: Any,
    ) -> keras.callbacks.History:
        """Trains on (source, target) strings.

        Args:
            pairs: Training pairs.
            validation_pairs: Pairs whose loss is shown after each epoch.
            epochs: Passes over the training pairs.
            tokens_per_batch: Size of a batch, padding included, on its longer side.
            seed: Of the order of the batches. Dropout follows `keras.utils.set_random_seed`.
            verbose: Of Keras' progress bar.
            callbacks: Further Keras callbacks.
            **compile_settings: Of `compile`, with which each `fit` starts anew: its learning rate
                rises and falls over the epochs of this call. A model that was compiled by
                `compile` or `.model.compile` is taken as it is, unless settings are given.

        Returns:
            Keras' `History`.
        """
        batches = self.dataset(pairs, tokens_per_batch=tokens_per_batch, seed=seed)
        validation = None
        if validation_pairs is not None:
            validation = self.dataset(
                validation_pairs, tokens_per_batch=tokens_per_batch, shuffle=False
            )
        ours = self.model.compiled and self.model.optimizer is self._optimizer
        if compile_settings or ours or not self.model.compiled:
            self.compile(total_steps=epochs * len(batches), **compile_settings)
            self._optimizer = self.model.optimizer
        return self.model.fit(
            batches,
            validation_data=validation,
            epochs=epochs,
            shuffle=False,  # TokenBatches shuffles
            verbose=verbose,
            callbacks=list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks],
        )

    # Decoding

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = 4,
        alpha: float = 1.0,
        batch_size: int = 64,
    ) -> Any:
        """Translates sentences.

        Args:
            texts: A string or a list of strings.
            beams: Width of the beam search; 1 is greedy search.
            alpha: Exponent of the length penalty.
            batch_size: Sentences decoded at a time, those of like length together.

        Returns:
            A string for a string, a list for a list, in the order of `texts`.

        Raises:
            TypeError: For what is no string.
            ValueError: For settings that are no numbers or out of range.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        one = isinstance(texts, str)
        tokens = self._generate(
            self._source_ids([texts] if one else texts), beams, alpha, batch_size
        )
        translations = self.target_tokenizer.decode(tokens) if tokens else []
        return translations[0] if one else translations

    def _source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        texts = checked_texts(texts)
        if not texts:
            return []
        ids = self.source_tokenizer.encode(texts)
        most = self.max_source_length - 1
        long = sum(len(row) > most for row in ids)
        if long:
            warnings.warn(
                f"{long} of {len(texts)} texts are longer than `max_source_length`="
                f"{self.max_source_length} tokens and were cut. Translate sentence by sentence.",
                stacklevel=3,
            )
        return [[*row[:most], self.source_tokenizer.end_id] for row in ids]

    def _generate(
        self, sources: list[list[int]], beams: int, alpha: float, batch_size: int
    ) -> list[list[int]]:
        """Decodes rows of source ids in batches of like length."""
        key = (beams, alpha)
        if key not in self._compiled:
            self._compiled[key] = CompiledFunction(
                lambda ids, max_length: self._search(ids, max_length, beams, alpha),
                self.model.variables,
            )
        static = keras.backend.backend() == "jax"  # it compiles for each shape
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        results: list[list[int]] = [[] for _ in sources]
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            length = max(len(sources[i]) for i in rows)
            length = -(-length // 16) * 16 if static else length
            ids = np.zeros((batch_size if static else len(rows), length), "int32")
            ids[len(rows) :, 0] = self.source_tokenizer.end_id
            for r, i in enumerate(rows):
                ids[r, : len(sources[i])] = sources[i]
            found = self._compiled[key](ids, _most_tokens(length))
            for r, i in enumerate(rows):
                results[i] = found.tokens[r, 0, : found.lengths[r, 0]].tolist()
        return results

    def _search(self, ids: Any, max_length: Any, beams: int, alpha: float) -> Generation:
        """Beam search from source ids `(B, S)`, for any backend and for the export."""
        tokenizer = self.target_tokenizer
        memory, mask = self._decoder.encode(ids)
        start = ops.zeros_like(ids[:, :1]) + ops.cast(tokenizer.start_id, ids.dtype)
        lengths = ops.sum(ops.cast(mask, "int32"), axis=1)
        return beam_search(
            self._decoder.decoder,
            start,
            None,
            memory,
            mask,
            num_beams=beams,
            max_length=max_length,
            max_lengths=_most_tokens(lengths),
            alpha=alpha,
            end_id=tokenizer.end_id,
            pad_id=tokenizer.pad_id,
            suppressed_ids=(tokenizer.pad_id, tokenizer.start_id),
        )

    def align(self, source: str, target: str | None = None, layer: int = -1) -> Alignment:
        """Shows which source tokens each target token attended to.

        Args:
            source: A sentence.
            target: Its translation; the model's own if None.
            layer: Number of the decoder block.

        Returns:
            `Alignment` of readable tokens and weights `(T, S)`; each target token, and the end, is
            aligned as it is predicted.
        """
        source_ids = self._source_ids([source])[0]
        tokenizer = self.target_tokenizer
        target_ids = tokenizer.encode(self.translate(source) if target is None else target)
        inputs = {
            "source_ids": np.array([source_ids], "int32"),
            "target_ids": np.array([[tokenizer.start_id, *target_ids]], "int32"),
        }
        weights = attention_maps(self.model, inputs).select(role="cross")[layer][0].mean(axis=0)
        return Alignment(
            [*self.source_tokenizer.tokens(source_ids[:-1]), "</s>"],
            [*tokenizer.tokens(target_ids), "</s>"],
            weights,
        )

    def evaluate(
        self, pairs: Pairs, beams: int = 4, alpha: float = 1.0, batch_size: int = 64
    ) -> TranslationScores:
        """Translates the sources and scores them against the targets.

        The scores are sacrebleu's, which is of the extra `examples`.

        Args:
            pairs: (source, target) strings.
            beams: As `translate`.
            alpha: As `translate`.
            batch_size: As `translate`.

        Returns:
            `TranslationScores`: cased BLEU and chrF, their signatures, and the translations.

        Raises:
            ValueError: For an empty data set.
        """
        import sacrebleu

        pairs = checked_pairs(pairs)
        translations = self.translate([source for source, _ in pairs], beams, alpha, batch_size)
        references = [[target for _, target in pairs]]
        bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
        return TranslationScores(
            bleu.corpus_score(translations, references).score,
            chrf.corpus_score(translations, references).score,
            str(bleu.get_signature()),
            str(chrf.get_signature()),
            translations,
        )

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizers and weights to one file, readable on every backend."""
        two = self.target_tokenizer is not self.source_tokenizer
        config = {
            "config": self.config.to_dict(),
            "tokenizer": self.source_tokenizer.get_config(),
            "target_tokenizer": self.target_tokenizer.get_config() if two else None,
            "max_source_length": self.max_source_length,
            "dtype": self.model.get_layer("encoder").dtype_policy.name,
        }
        save_task(path, "Translator", config, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> "Translator":
        """Loads what `save` wrote.

        Args:
            path: The file.
            dtype: As in the constructor; what was saved if None.

        Returns:
            A `Translator`, not compiled.
        """
        config = read_config(path, "Translator")
        target = config["target_tokenizer"]
        translator = cls(
            BytePairTokenizer.from_config(config["tokenizer"]),
            config["config"],
            target and BytePairTokenizer.from_config(target),
            config["max_source_length"],
            config["dtype"] if dtype is None else dtype,
        )
        load_weights(path, translator.model)
        return translator

    def export(self, path: str | os.PathLike, beams: int = 4, alpha: float = 1.0) -> None:
        """Exports a TensorFlow SavedModel from strings to strings.

        Its signature `serving_default` takes `text: string[batch]` and gives
        `translation: string[batch]`, equal to `translate`; sources longer than
        `max_source_length` are cut. It loads with `import tensorflow` alone. Before this returns it
        is loaded and compared with this object. On JAX and PyTorch a child process with the
        TensorFlow backend does the work.

        Args:
            path: Folder of the SavedModel.
            beams: Width of its beam search.
            alpha: Exponent of its length penalty.

        Raises:
            FileExistsError: If the folder is there and not empty.
            RuntimeError: If what was written does not give what this object gives.
        """
        if keras.backend.backend() != "tensorflow":
            export_in_child_process("Translator", self.save, path, beams=beams, alpha=alpha)
            return

        def make_serve(tf):
            source = self.source_tokenizer.to_graph()
            target = source if self.target_tokenizer is self.source_tokenizer else None
            target = target or self.target_tokenizer.to_graph()

            def serve(text):
                rows = tf.shape(text)[0]
                # Loops want a row: an empty batch gets one, which is dropped.
                text = tf.concat([text, tf.fill([tf.cast(rows == 0, tf.int32)], "")], axis=0)
                ids = source.encode(text)[:, : self.max_source_length - 1]
                end = tf.fill([tf.shape(text)[0], 1], self.source_tokenizer.end_id)
                ids = tf.concat([ids, end], axis=1).to_tensor(self.source_tokenizer.pad_id)
                found = self._search(ids, _most_tokens(tf.shape(ids)[1]), beams, alpha)
                return {"translation": target.decode(found.tokens[:rows, 0])}

            return serve, [source, target]

        examples = ["", "Hello, world!", "A second, somewhat longer sentence: 42."]
        export_text_function(
            path,
            make_serve,
            self.model.variables,
            examples,
            {"translation": self.translate(examples, beams, alpha)},
        )


def _most_tokens(length: Any) -> Any:
    """The greatest length of a translation of `length` source tokens."""
    return 2 * length + 16


def _tensorflow_on_cpu() -> bool:
    """There, training is faster without XLA."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_physical_devices("GPU")

"""Translation: sentences in, sentences out."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from keras_attn.datasets import TokenBatches
from keras_attn.export import export_in_child_process
from keras_attn.fields import checked_texts
from keras_attn.models import RecurrentConfig, TransformerConfig, encoder_decoder, model_kind
from keras_attn.tasks.alignment import Alignment
from keras_attn.tasks.checks import (
    Pairs,
    check_decoding,
    check_n_best,
    checked_pairs,
)
from keras_attn.tasks.compiling import fit_task, jit_compile, make_adam
from keras_attn.tasks.configs import encoder_decoder_config
from keras_attn.tasks.quantizing import Quantizable
from keras_attn.tasks.task_file import load_weights, read_config, save_task
from keras_attn.tasks.translation_decoding import TranslationSearch
from keras_attn.tasks.translation_export import export_translation
from keras_attn.text import BytePairTokenizer
from keras_attn.training import MaskedCrossEntropy, WarmupCosineSchedule, num_data_shards


class TranslationScores(NamedTuple):
    """Corpus scores of translations, by sacrebleu (Post, 2018)."""

    bleu: float
    """BLEU (Papineni et al., 2002), 0 to 100."""
    chrf: float
    """chrF (Popovic, 2015), 0 to 100."""
    bleu_signature: str
    chrf_signature: str
    translations: list[str]
    bleu_lowercase: float
    """BLEU of lower-cased translations and targets, 0 to 100."""
    bleu_lowercase_signature: str


class Translator(Quantizable):
    """An encoder-decoder with its tokenizer and its decoding: strings in, strings out.

    `.model` is the plain Keras model from ids to logits, `.dataset(pairs)` what its `fit` takes;
    the methods here only join them.

    Args:
        tokenizer: Tokenizer of the source, and of the target where no other is given.
        config: Settings of the model; its vocabulary sizes are taken from the tokenizers.
            `TransformerConfig`, `RecurrentConfig`, a dict of the fields of one of them, which
            `"model"`, `"transformer"` (if missing) or `"rnn"`, names; None: a Transformer.
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
        config: TransformerConfig | RecurrentConfig | dict[str, Any] | None = None,
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
        self.config = encoder_decoder_config(
            config,
            tokenizer.vocabulary_size,
            target_tokenizer and target_tokenizer.vocabulary_size,
        )
        self.source_tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer or tokenizer
        self.max_source_length = max_source_length
        self.model = encoder_decoder(self.config, dtype=dtype)
        self._search = TranslationSearch(
            self.model, tokenizer, self.target_tokenizer, max_source_length
        )
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
            **{
                "max_length": self.max_source_length,
                "rows_multiple_of": num_data_shards(),
                **settings,
            },
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
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
        ema_momentum: float = 0.0,
        gradient_accumulation: int = 1,
        **kwargs: Any,
    ) -> None:
        """Compiles `.model` as suits translation. `fit` does so where this was not called.

        Adam (beta_2 0.98) with linear warm-up and cosine decay, label smoothing over real tokens.
        `translator.model.compile(...)` sets anything else.

        Args:
            total_steps: Number of updates in all.
            learning_rate: The highest learning rate.
            warmup_steps: Steps until it is reached; a tenth of all, at most 4000, if None.
            label_smoothing: Share of the target's probability that is spread over the vocabulary.
            weight_decay: Of AdamW; 0: Adam.
            clip_norm: Largest norm of all gradients together; 0: any.
            ema_momentum: Momentum of the moving average of the weights, which becomes the weights
                at the end of `fit` (see `keras_attn.training.averaged_weights`); 0: none.
            gradient_accumulation: Batches whose mean gradient makes one update.
            **kwargs: Of `keras.Model.compile`.
        """
        if warmup_steps is None:
            warmup_steps = min(4000, total_steps // 10)
        schedule = WarmupCosineSchedule(learning_rate, max(warmup_steps, 1), max(total_steps, 2))
        optimizer = make_adam(
            schedule,
            self.model.get_layer("encoder").dtype_policy,
            weight_decay,
            clip_norm,
            ema_momentum,
            gradient_accumulation,
            beta_2=0.98,
            epsilon=1e-9,
        )
        settings = {
            "optimizer": optimizer,
            "loss": MaskedCrossEntropy(label_smoothing),
            "jit_compile": jit_compile(recurrent=isinstance(self.config, RecurrentConfig)),
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
        return fit_task(self, batches, validation, epochs, verbose, callbacks, compile_settings)

    # Decoding

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = 4,
        alpha: float = 1.0,
        batch_size: int = 64,
        jit_compile: bool | None = None,
    ) -> Any:
        """Translates sentences.

        Args:
            texts: A string or a list of strings.
            beams: Width of the beam search; 1 is greedy search.
            alpha: Exponent of the length penalty.
            batch_size: Sentences decoded at a time, those of like length together.
            jit_compile: Whether TensorFlow uses XLA, which takes seconds for each shape of batches
                and is faster then. None: where it pays, see docs/speed.md. JAX always uses it,
                PyTorch never.

        Returns:
            A string for a string, a list for a list, in the order of `texts`.

        Raises:
            TypeError: For what is no string.
            ValueError: For settings that are no numbers or out of range.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        one = isinstance(texts, str)
        sources = self._read([texts] if one else texts)
        tokens = self._search.best(sources, beams, alpha, batch_size, jit_compile)
        translations = self.target_tokenizer.decode(tokens) if tokens else []
        return translations[0] if one else translations

    def translate_n_best(
        self,
        texts: str | Sequence[str],
        num_return_sequences: int | None = None,
        beams: int = 4,
        alpha: float = 1.0,
        batch_size: int = 64,
        jit_compile: bool | None = None,
    ) -> Any:
        """Finds several translations of each sentence, with scores and alignments.

        Args:
            texts: A string or a list of strings.
            num_return_sequences: Number R of translations of each, at most `beams`; `beams` if
                None.
            beams: Width of the beam search.
            alpha: Exponent of the length penalty.
            batch_size: Sentences decoded at a time, those of like length together.
            jit_compile: As `translate`.

        Returns:
            `NBestTranslations` for a string, a list of them for a list, in the order of `texts`.
            The first translation is that of `translate`. What was cut is told by its fields, not
            by a warning.

        Raises:
            TypeError: For what is no string.
            ValueError: For settings that are no numbers or out of range.

        Example:

        >>> tokenizer = BytePairTokenizer.train(["one dog", "ein Hund"], 259)
        >>> translator = Translator(tokenizer, {"dim": 16, "num_layers": 1})
        >>> found = translator.translate_n_best("one dog", num_return_sequences=2, beams=3)
        >>> len(found.translations), found.source_truncated, found.scores[0] >= found.scores[1]
        (2, False, True)
        """
        count = check_n_best(beams, alpha, num_return_sequences, batch_size=batch_size)
        one = isinstance(texts, str)
        texts = checked_texts([texts] if one else texts)
        found = self._search.n_best(texts, beams, alpha, count, batch_size, jit_compile)
        return found[0] if one else found

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        texts = checked_texts(texts)
        ids, cut = self._search.read(texts)
        if any(cut):
            warnings.warn(
                f"{sum(cut)} of {len(texts)} texts are longer than `max_source_length`="
                f"{self.max_source_length} tokens and were cut. Translate sentence by sentence.",
                stacklevel=3,
            )
        return ids

    def align(self, source: str, target: str | None = None, layer: int = -1) -> Alignment:
        """Shows which source tokens each target token attended to.

        Args:
            source: A sentence.
            target: Its translation; the model's own if None.
            layer: Number of the cross-attention (a Transformer has one a decoder block), counted
                from 0, or from the last one by -1, -2, ...

        Returns:
            `Alignment` of readable tokens and weights `(T, S)`; each target token, and the end, is
            aligned as it is predicted.

        Raises:
            TypeError: For what is no string.
            ValueError: If there is no such attention, or the target is longer than any translation.
        """
        ids = self._read([source])[0]
        if target is not None:
            target = self.target_tokenizer.encode(*checked_texts([target]), add_end=True)
        return self._search.align(source, ids, target, layer)

    def evaluate(
        self,
        pairs: Pairs,
        beams: int = 4,
        alpha: float = 1.0,
        batch_size: int = 64,
        tokenize: str = "13a",
    ) -> TranslationScores:
        """Translates the sources and scores them against the targets, by sacrebleu.

        Args:
            pairs: (source, target) strings.
            beams: As `translate`.
            alpha: As `translate`.
            batch_size: As `translate`.
            tokenize: sacrebleu's tokenizer of BLEU; `"char"` or `"zh"` for scripts without spaces.

        Returns:
            `TranslationScores`: cased BLEU, chrF and lower-cased BLEU, their signatures, and the
            translations.

        Raises:
            ValueError: For an empty data set.
        """
        import sacrebleu

        pairs = checked_pairs(pairs)
        translations = self.translate([source for source, _ in pairs], beams, alpha, batch_size)
        references = [[target for _, target in pairs]]
        bleu, chrf = sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()
        lowercase = sacrebleu.BLEU(lowercase=True, tokenize=tokenize)
        return TranslationScores(
            bleu.corpus_score(translations, references).score,
            chrf.corpus_score(translations, references).score,
            # Signatures are known after scoring.
            str(bleu.get_signature()),
            str(chrf.get_signature()),
            translations,
            lowercase.corpus_score(translations, references).score,
            str(lowercase.get_signature()),
        )

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizers and weights to one file, readable on every backend."""
        two = self.target_tokenizer is not self.source_tokenizer
        config = {
            "config": {"model": model_kind(self.config), **self.config.to_dict()},
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

    def export(
        self,
        path: str | os.PathLike,
        beams: int = 4,
        alpha: float = 1.0,
        num_return_sequences: int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Exports a TensorFlow SavedModel from strings to strings.

        Its signature `serving_default` takes `text: string (B,)` and gives
        `translation: string (B,)`, equal to `translate`. Its signature `details` takes the same and
        gives what `translate_n_best` gives, padded with `""` and zeros:

        - `translations`, `scores`, `truncated` `(B, R)`, the best first;
        - `source_truncated` `(B,)`: sources longer than `max_source_length` are cut;
        - `source_tokens` `(B, S)`, `target_tokens` `(B, R, T)`, `alignments` `(B, R, T, S)`, which
          are zeros for a model without attention.

        It loads with `import tensorflow` alone. Before it is put in its place it is loaded and both
        signatures are compared with this object. On JAX and PyTorch a child process with the
        TensorFlow backend does the work.

        Args:
            path: Folder of the SavedModel.
            beams: Width of its beam search.
            alpha: Exponent of its length penalty.
            num_return_sequences: Number R of translations in `details`, at most `beams`; `beams` if
                None.
            overwrite: Whether a SavedModel that is there is replaced, at the end, by the new one.

        Raises:
            FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
                `overwrite` is given.
            PermissionError: If its parent cannot be written to.
            RuntimeError: If what was written does not give what this object gives.
            ValueError: For settings that are no numbers or out of range.
        """
        count = check_n_best(beams, alpha, num_return_sequences)
        if keras.backend.backend() != "tensorflow":
            export_in_child_process(
                type(self),
                self.save,
                path,
                beams=beams,
                alpha=alpha,
                num_return_sequences=count,
                overwrite=overwrite,
            )
            return
        export_translation(self._search, path, beams, alpha, count, overwrite)

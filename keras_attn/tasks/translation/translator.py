"""Translation: sentences in, sentences out."""

from __future__ import annotations

import os
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras

from keras_attn.batches import PackedBatches, TokenBatches
from keras_attn.models import ENCODER_DECODERS
from keras_attn.records import ParallelText, read_pairs
from keras_attn.records.parallel import ParallelPairs
from keras_attn.settings import Choice, WrongUse
from keras_attn.tasks.base.checks import (
    Pairs,
    checked_pairs,
)
from keras_attn.tasks.base.compiling import trained_form
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.translation.data import (
    PreparedTranslation,
    TranslationLearned,
    columns,
    make_tokenizers,
)
from keras_attn.tasks.translation.predictions import TranslationPredictions
from keras_attn.tasks.translation.settings import (
    TranslationData,
    TranslationTest,
    TranslationTraining,
    TranslationUse,
)
from keras_attn.text.registry import vocabulary_digest
from keras_attn.training import MaskedCrossEntropy, num_data_shards
from keras_attn.training.token_means import token_means


class Translator(TranslationPredictions):
    """An encoder-decoder with its tokenizer and its decoding: strings in, strings out.

    `.model` is the plain Keras model from ids to logits, `.dataset(pairs)` what its `fit` takes.

    Args:
        tokenizer: Tokenizer of the source, and of the target where no other is given.
        target_tokenizer: Tokenizer of the target, for two vocabularies.
        model: Settings of the model: a `TransformerEncoderDecoderConfig`, a
            `RecurrentEncoderDecoderConfig`, or a dict of the settings of one with its name,
            `{"model": "rnn", ...}` (`"transformer"` if none is named); None: a Transformer. The
            vocabulary sizes are taken from the tokenizers.
        data: Settings `TranslationData`, or a dict of some of them. `max_length` is the longest
            source in tokens that is read; what is longer is cut, with a warning. A translation has
            at most `2 * n + 16` tokens for n source tokens. `source` and `target` are names of
            languages, keys or columns, as they stand in the data.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If a tokenizer is of another class.
        ValueError: If a setting is unknown or out of range.

    Example:

    >>> pairs = [("one dog", "ein Hund"), ("one cat", "eine Katze")] * 4
    >>> tokenizer = BytePairTokenizer.train([text for pair in pairs for text in pair], 262)
    >>> sizes = {"dim": 16, "num_layers": 1, "intermediate_dim": 32}
    >>> translator = Translator(tokenizer, model=sizes)
    >>> run = translator.fit(pairs, epochs=1, verbose=0)
    >>> len(translator.translate(["one dog", "one cat"]))
    2
    """

    name = "translation"
    summary = "Translate sentences: a Transformer, or a recurrent network, trained on your pairs."
    kinds = ENCODER_DECODERS
    Data = TranslationData
    Learned = TranslationLearned
    Training = TranslationTraining
    Use = TranslationUse
    Test = TranslationTest
    warmup = (0.1, 4000)
    adam: ClassVar = {"beta_2": 0.98, "epsilon": 1e-9}
    examples_are = "pairs"
    main_layer = "encoder"

    def configured(self, model: Any) -> Any:
        """Returns settings and sizes of the model, whose rows are padded on the right."""
        if isinstance(model, Choice):
            model = {self.kinds.key: model.name, **model.values}
        if model is None or (isinstance(model, Mapping) and "right_padding" not in model):
            model = dict(model or {})
            if model.get(self.kinds.key, self.kinds.default) == "transformer":
                model["right_padding"] = True
        return super().configured(model)

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of the vocabularies."""
        target = self.learned.target_tokenizer
        return {
            "source_vocabulary_size": self.source_tokenizer.vocabulary_size,
            "target_vocabulary_size": target and target.vocabulary_size,
        }

    @property
    def languages(self) -> tuple[str, str]:
        """Names of the source and the target; `""` if they are not known."""
        return self.data.source, self.data.target

    def facts(self) -> list[str]:
        """What tells this translator from others, for its `repr`."""
        direction = " to ".join(self.languages) if all(self.languages) else "source to target"
        sizes = {t.vocabulary_size for t in (self.source_tokenizer, self.target_tokenizer)}
        tokens = " and ".join(f"{size:,}" for size in sizes)
        return [self.kinds.name_of(self.config), direction, f"{tokens} tokens"]

    # Data and training

    @classmethod
    def read(cls, data: TranslationData) -> Examples:
        """Reads the folder that `prepare` made.

        `--model rnn` is a recurrent network, with the attention that `--attention` names; a setting
        of the other kind of model is an error. After each epoch the development set is translated,
        and BLEU chooses the best weights.
        """
        prepared = PreparedTranslation.load(data.data)
        counts = ", ".join(f"{name}: {count:,}" for name, count in prepared.counts.items())
        return Examples(prepared, prepared.dev, counts, prepared.settings)

    def read_test(self, test: TranslationTest, data: None = None) -> ParallelText | Any:
        """Reads pairs, by the names of the languages or columns that the model was trained with.

        Raises:
            WrongUse: If the settings do not go together.
            ValueError: If source and target are the wrong way round.
        """
        if test.data:
            prepared = PreparedTranslation.load(test.data)
            self._check_direction(prepared.settings.source, prepared.settings.target)
            return ParallelPairs(getattr(prepared, test.split or "test"))
        if Path(test.pairs).expanduser().is_dir() != (test.split is not None):
            raise WrongUse("--pairs wants --split where it is a folder, and only there.")
        self._check_direction(test.source, test.target)
        names = test.source, test.target
        if not test.pairs_target:  # two files have no columns
            names = test.source or self.languages[0], test.target or self.languages[1]
        return read_pairs(
            os.path.expanduser(test.pairs),
            os.path.expanduser(test.pairs_target) or None,
            split=test.split,
            **columns(*names, test.delimiter),
        )

    def _check_direction(self, source: str, target: str) -> None:
        if all(self.languages) and (source, target) == self.languages[::-1]:
            raise ValueError(
                f"The model translates {' to '.join(self.languages)}. Received: pairs of {source} "
                f"to {target}, the wrong way round."
            )

    @classmethod
    def learn(
        cls, examples: PreparedTranslation | Pairs, data: TranslationData
    ) -> TranslationLearned:
        """Makes tokenizers of pairs; those of a `PreparedTranslation` are taken."""
        if isinstance(examples, PreparedTranslation):
            source, target = examples.source_tokenizer, examples.target_tokenizer
        else:
            source, target = make_tokenizers(data, checked_pairs(examples))
        return TranslationLearned(source, None if target is source else target)

    @classmethod
    def data_of(cls, examples: Any, data: Any) -> TranslationData:
        """Those of prepared data are their own."""
        if isinstance(examples, PreparedTranslation):
            return examples.settings
        return super().data_of(examples, data)

    def dataset(self, pairs: Pairs, **settings: Any) -> TokenBatches:
        """Tokenizes pairs into batches for `model.fit`.

        Args:
            pairs: (source, target) strings.
            **settings: Of `keras_attn.batches.TokenBatches`: `tokens_per_batch`, `seed`, ...

        Returns:
            `TokenBatches`. Pairs with a side longer than `max_source_length` tokens are left out,
            with a warning that counts them.

        Raises:
            ValueError: If there are no pairs, or an element is not a pair of strings.
        """
        pairs = checked_pairs(pairs)
        settings = {"max_length": self.max_source_length, **settings}
        batches = self._id_batches(TokenBatches, *self._encode(pairs), **settings)
        if batches.dropped:
            warnings.warn(
                f"{batches.dropped} of {len(pairs)} pairs have a side of more tokens than "
                "`max_length` and are left out. Split them into sentences, or raise `max_length`.",
                stacklevel=2,
            )
        return batches

    def _encode(self, pairs: Pairs) -> tuple[list[list[int]], list[list[int]]]:
        return (
            self.source_tokenizer.encode([source for source, *_ in pairs], add_end=True),
            self.target_tokenizer.encode([target for _, target, *_ in pairs]),
        )

    def _id_batches(self, kind: type, sources: Any, targets: Any, **settings: Any) -> Any:
        tokenizer = self.target_tokenizer
        return kind(
            sources,
            targets,
            start_id=tokenizer.start_id,
            end_id=tokenizer.end_id,
            pad_id=tokenizer.pad_id,
            **{"rows_multiple_of": num_data_shards(), **settings},
        )

    def batches(
        self,
        examples: PreparedTranslation | Pairs,
        training: TranslationTraining,
        shuffle: bool = True,
    ) -> TokenBatches | PackedBatches:
        """Makes the batches of a training, of pairs or of prepared ids."""
        settings = {
            "tokens_per_batch": training.tokens_per_batch,
            "seed": training.seed,
            "shuffle": shuffle,
        }
        rows: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
        if isinstance(examples, PreparedTranslation):
            rows = (examples.sources, examples.targets)
        elif training.batching == "bucketed":
            return self.dataset(examples, **settings)
        else:
            rows = self._encode(checked_pairs(examples))
        if training.batching == "packed":
            settings["tokens_per_row"] = training.tokens_per_row
            return self._id_batches(PackedBatches, *rows, **settings)
        return self._id_batches(TokenBatches, *rows, max_length=self.max_source_length, **settings)

    def objective(self, training: TranslationTraining) -> dict[str, Any]:
        """Cross-entropy with label smoothing, over real tokens."""
        return {"loss": MaskedCrossEntropy(training.label_smoothing)}

    def trained_form(self, training: TranslationTraining) -> keras.Model:
        """The model on packed rows, or with its loss in chunks, where these are asked for."""
        packed = training.batching == "packed"
        return trained_form(self.model, packed, training.chunked_loss)

    def scored_by(self, training: TranslationTraining) -> tuple[str, int]:
        """BLEU."""
        return "BLEU", 1

    def scorer(self, dev: Pairs, training: TranslationTraining) -> Callable[[keras.Model], Scored]:
        """Scores development pairs: BLEU of the first ones, and the loss of all.

        Of equal BLEU the lower loss is better: BLEU is 0 where no four words in a row are right.
        """
        import sacrebleu

        pairs = checked_pairs(dev)
        batches = self.batches(pairs, training, shuffle=False)
        some = pairs[: training.score_pairs]
        sources = [source for source, _ in some]
        references = [[unicodedata.normalize("NFC", target) for _, target in some]]

        def score(model: keras.Model) -> Scored:
            loss = token_means(model, batches)["loss"]
            translations = self.translate(sources, beams=training.score_beams)
            metric = sacrebleu.BLEU(tokenize=training.score_tokenize)
            bleu = metric.corpus_score(translations, references).score
            return Scored((bleu, -loss), {"val_loss": loss, "val_bleu": bleu})

        return score

    def describe(self, batches: TokenBatches | PackedBatches) -> list[str]:
        """Says what is trained, and what is left out."""
        lines = super().describe(batches)
        if batches.dropped:
            lines.append(f"{batches.dropped:,} pairs are longer than a row and left out.")
        return lines

    def digest(self, examples: PreparedTranslation | Pairs, dev: Pairs) -> str:
        """Names the pairs of a run."""
        if isinstance(examples, PreparedTranslation):
            return examples.fingerprint
        return super().digest(checked_pairs(examples), checked_pairs(dev) if dev else ())

    @classmethod
    def check_run_dir(cls, run_dir: Path) -> None:
        """Raises a ValueError if the folder holds prepared data."""
        if (run_dir / "prepared.json").exists():
            raise ValueError(f"{run_dir} holds prepared data. Give another folder for the run.")

    # Files and export

    backbone: ClassVar = {
        "source_embedding": ("embedding",),
        "target_embedding": (),
        "encoder": (),
        "decoder": (),
    }

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabularies of the embeddings."""
        names = ("source_embedding", "target_embedding")
        tokenizers = (self.source_tokenizer, self.target_tokenizer)
        return dict(zip(names, map(vocabulary_digest, tokenizers), strict=True))

    # The command

    @classmethod
    @step("prepare", writes="folder", to="new folder of prepared data", model="", before="fit")
    def _prepare_data(cls, to: Path, data: TranslationData, log: Callable[[str], None]) -> str:
        """Read sentence pairs, check and split them, and write ids for `fit`.

        Pairs come from a tab-separated file, two parallel files (--train and --train-target), JSON
        lines, a folder such as Multi30k's (SPLIT.LANGUAGE[.gz]) or an archive of Tatoeba. Files may
        be gzipped. Development and test pairs are drawn from them where none are given, so that
        none of their sentences stands in the training set.
        """
        PreparedTranslation.prepare(data, to, log)
        return f"Prepared data: {to}"

"""Translation: translates sentences."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import keras

from keras_attn.batches import PackedBatches, TokenBatches
from keras_attn.batches.prepared_pairs import PreparedPairs, encode_sources, make_tokenizers
from keras_attn.explain import NBestTranslations
from keras_attn.fields import SourceText
from keras_attn.files import check_output, check_writable, open_output
from keras_attn.interop.marian_files import save_marian
from keras_attn.metrics import TranslationScores
from keras_attn.metrics.translation import score_translations
from keras_attn.packages import needed
from keras_attn.records import ParallelText, read_pairs, split_pairs
from keras_attn.records.parallel import ParallelPairs
from keras_attn.records.readers import pair_columns
from keras_attn.records.reading import Location
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import RunDefault, Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.backbones import (
    Backbone,
    BackboneStart,
    read_encoder_decoder,
    refuse_new_tokenizer,
)
from keras_attn.tasks.base.checks import Pairs, checked_pairs
from keras_attn.tasks.base.compiling import trained_form
from keras_attn.tasks.base.fine_tuning import LoraTraining
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.steps import Note, step, values_for
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families import training_settings
from keras_attn.tasks.families.data_settings import BadLines, Pieces, Tables
from keras_attn.tasks.families.text_to_text import TextToText, WrittenScores
from keras_attn.tasks.families.use_settings import TextSearchUse
from keras_attn.text import CharacterTokenizer
from keras_attn.text.registry import PIECES, TextTokenizer

FORMATS = ("auto", "tsv", "csv", "parallel", "jsonl", "multi30k", "tatoeba")
TOKENIZE = ("13a", "char", "intl", "none", "zh", "ja-mecab", "ko-mecab", "flores200")
BATCHINGS = ("bucketed", "packed")


@dataclass(frozen=True)
@with_defaults(
    steps=dict.fromkeys(("format", "delimiter", "on_error"), ()),
    choices={"format": FORMATS},
    words={"backbones": "translator", "tokens": "tokenizers"},
)
class TranslationData(BackboneStart, Pieces, Tables, BadLines):
    """Settings of the pairs of sentences, and of their tokens."""

    for_steps = ("prepare", "fit")
    data: str = setting(
        "",
        "folder made by `prepare`, instead of --train",
        shapes_result=False,
        steps=("fit",),
        path="folder",
    )
    train: str = setting(
        "", "file, folder or archive of training pairs", shapes_result=False, path="examples"
    )
    train_target: str = setting(
        "",
        "target side, if it is a separate file",
        shapes_result=False,
        path="examples",
    )
    dev: str = setting(
        "",
        "development pairs; if empty, they are drawn from the training pairs",
        shapes_result=False,
        path="examples",
    )
    dev_target: str = setting(
        "", "target side of the development pairs", shapes_result=False, path="examples"
    )
    test: str = setting(
        "",
        "test pairs; if empty, they are drawn from the training pairs",
        shapes_result=False,
        steps=("prepare",),
        path="examples",
    )
    test_target: str = setting(
        "",
        "target side of the test pairs",
        shapes_result=False,
        steps=("prepare",),
        path="examples",
    )
    source: str = setting(
        "",
        "language, JSON key, or column of the sources; a column by its name, or by its "
        "number from 0",
    )
    target: str = setting(
        "",
        "language, JSON key, or column of the targets; a column by its name, or by its "
        "number from 0",
    )
    max_characters: int = setting(
        2000, "largest number of characters of a side; lines with a longer side are bad", at_least=1
    )
    dev_size: int = setting(1000, "pairs drawn for development", at_least=1)
    test_size: int = setting(1000, "pairs drawn for the test", at_least=0, steps=("prepare",))
    vocabulary_size: int = setting(8000, "largest number of tokens", at_least=259)
    separate_vocabularies: bool = setting(False, "make a tokenizer for each side, not one for both")
    max_length: int = setting(
        256, "largest number of tokens of a side; longer pairs are left out", at_least=2
    )
    split_seed: int = setting(0, "seed of the pairs that are drawn", at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_new_tokenizer(self, "tokenizer", "vocabulary_size", "separate_vocabularies")


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(20, backbone=3),
    learning_rate=RunDefault(1e-3, lora=1e-3, backbone=5e-5),
    clip_norm=0.0,
    ema_momentum=None,
    checkpoint_steps=1000,
    help={
        "warmup_steps": "updates until the learning rate peaks; if none, a tenth of all, at most "
        "4000",
        "ema_momentum": "momentum of the moving average of the weights; 0 keeps no average; if "
        "none, by the length of the run",
    },
    words={
        "tokens": "tokens of a batch on its longer side, with padding",
        "written": "translated",
    },
)
class TranslationTraining(LoraTraining, WrittenScores, training_settings.TokenBatches):
    """Settings for training a translator."""

    batching: str = setting(
        "bucketed",
        "pairs of similar lengths in a batch, or (transformer) several pairs packed in a row",
        choices=BATCHINGS,
    )
    tokens_per_row: int = setting(
        128, "packed: number of tokens of a row on each side; longer pairs are left out", at_least=2
    )
    chunked_loss: bool = setting(
        False, "compute the loss in chunks of tokens, which saves memory with large vocabularies"
    )
    gradient_accumulation: int = setting(1, "batches that make one update", at_least=1)
    score_tokenize: str = setting("13a", "sacrebleu's tokenizer of these scores", choices=TOKENIZE)

    def __post_init__(self) -> None:
        super().__post_init__()
        packed = self.batching == "packed"
        if not packed and self.tokens_per_row != 128:
            raise ValueError(
                "`tokens_per_row` is only used with batching='packed'. Received: "
                f"tokens_per_row={self.tokens_per_row} with batching={self.batching!r}."
            )
        if packed and self.tokens_per_row > self.tokens_per_batch:
            raise ValueError(
                "`tokens_per_row` must be at most `tokens_per_batch`. Received: "
                f"tokens_per_row={self.tokens_per_row} and "
                f"tokens_per_batch={self.tokens_per_batch}."
            )


@dataclass(frozen=True)
@with_defaults(words={"rows": "texts"})
class TranslationUse(TextSearchUse):
    """Settings of the search for translations."""

    language: str = setting(
        "", "target language of texts without a mark such as `>>fra<<`, or without a prefix, if "
        "the model has several",
    )  # fmt: skip


@dataclass(frozen=True)
class TranslationTest(Settings):
    """Settings for evaluating a translator."""

    data: str = setting("", "folder made by `prepare`, whose test set is used", path="folder")
    split: str | None = setting(
        None, "test or dev of --data (test if none), or a split of a folder of --pairs", kind=str
    )
    pairs: str = setting("", "file or folder of pairs, instead of --data", path="examples")
    pairs_target: str = setting(
        "", "target side of --pairs, if it is a separate file", path="examples"
    )
    source: str = setting("", "language, key or column of the sources in --pairs")
    target: str = setting("", "language, key or column of the targets in --pairs")
    delimiter: str = setting(
        "", "character between the columns of --pairs; if empty, inferred from their names",
        check=check_delimiter,
    )  # fmt: skip
    tokenize: str = setting(
        "13a", "sacrebleu's tokenizer of BLEU: char or zh for scripts without spaces",
        choices=TOKENIZE,
    )  # fmt: skip

    def check(self, data: Settings | None = None) -> None:
        """Raises a `WrongUse` if the settings name both prepared data and pairs, or neither, or if
        an option does not apply to prepared data."""
        if bool(self.data) == bool(self.pairs):
            both = "both" if self.data else "neither"
            raise WrongUse(f"Give either --data or --pairs. Received: {both}.")
        if self.data and (self.pairs_target or self.source or self.target or self.delimiter):
            raise WrongUse(
                "--pairs-target, --source, --target and --delimiter require --pairs. "
                "Received: --data."
            )
        if self.data and self.split not in (None, "test", "dev"):
            raise WrongUse(
                f"With --data, --split must be 'test' or 'dev'. Received: --split {self.split}."
            )


@dataclass(frozen=True)
class TranslationFiles(Settings):
    """Settings of the files that `predict` writes in addition to the translations."""

    alignments: str = setting(
        "", "file of word alignments, with a line of `i-j` pairs, counted from 0, for each sentence"
    )
    heat_maps: str = setting("", "folder for figures of the alignments (matplotlib)")


def _check_prepared(data: TranslationData, own: TranslationData) -> None:
    """Refuses settings of the data that are not those of a prepared folder."""
    default, prepared = TranslationData().shaping(), own.shaping()
    of_prepare = {option.name for option in data.declared() if option.steps == ("prepare",)}
    for name, value in data.shaping().items():
        if name not in of_prepare and value not in (default[name], prepared[name]):
            raise WrongUse(
                f"The data were prepared with --{name.replace('_', '-')} {prepared[name]!r}. "
                f"Received: {value!r}. Leave it out, or prepare the data again."
            )


def check_translation_files(to: Path | None, predict: TranslationFiles) -> None:
    """Raises an error if the files of translations, alignments or heat maps cannot be written."""
    alignments = Path(predict.alignments) if predict.alignments else None
    check_output(alignments)
    if to is not None and alignments is not None and to.resolve() == alignments.resolve():
        raise WrongUse(f"--to and --alignments must be different files. Received: {to} twice.")
    if predict.heat_maps:
        check_writable(predict.heat_maps)


@dataclass(frozen=True)
class TranslationLearned(Learned):
    """Learned values of a translator: its tokenizers, and the prefixes and end of sources.

    Raises:
        TypeError: If the class of a tokenizer is not supported.
        ValueError: If `prefix_languages` and `prefixes` have different lengths, or the tokenizers
            have different padding ids.
    """

    tokenizers: ClassVar = (*PIECES.values(), CharacterTokenizer)
    tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer | None = None
    """Tokenizer of the target; None if source and target share a tokenizer."""
    source_ends: bool = True
    """Whether sources get the end token; False for imported models of OpenNMT."""
    prefix_languages: tuple[str, ...] = ()
    """Target languages that are selected by a prefix of the text, as in T5."""
    prefixes: tuple[str, ...] = ()
    """The prefix for each of `prefix_languages`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.prefix_languages) != len(self.prefixes):
            raise ValueError(
                "Expected a prefix for each language. Received: prefix_languages="
                f"{self.prefix_languages}, prefixes={self.prefixes}."
            )
        target = self.target_tokenizer or self.tokenizer
        if target.pad_id != self.tokenizer.pad_id:
            raise ValueError(
                "Both tokenizers must have the same `pad_id`, the model's only padding id. "
                f"Received: pad_id={self.tokenizer.pad_id} and pad_id={target.pad_id}."
            )


@dataclass(frozen=True, eq=False)
class PreparedTranslation(PreparedPairs):
    """Tokenized training, development and test pairs of a translation run, in a folder.

    `prepare` writes the folder, and `load` reads it.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"the house of {name}\\tdas Haus von {name}" for name in "Ann Ben Cem Dan".split()]
    >>> _ = (folder / "pairs.tsv").write_text("\\n".join(lines))
    >>> sizes = {"dev_size": 1, "test_size": 1, "vocabulary_size": 280}
    >>> settings = TranslationData(train=str(folder / "pairs.tsv"), **sizes)
    >>> data = PreparedTranslation.prepare(settings, folder / "prepared")
    >>> len(PreparedTranslation.load(folder / "prepared").sources)
    2
    """

    Data = TranslationData

    @classmethod
    def tokenizers(
        cls, settings: TranslationData, pairs: Sequence[Any]
    ) -> tuple[TextTokenizer, TextTokenizer, bool]:
        """Trains the tokenizers on the training pairs, or returns the tokenizers of the backbone.

        Args:
            settings: Settings of the data.
            pairs: The training pairs.

        Returns:
            The tokenizers of source and target, which may be the same object, and whether sources
            get the end token.
        """
        if not settings.backbone:
            return super().tokenizers(settings, pairs)
        start = read_encoder_decoder(settings.backbone)
        source, own = start.tokenizer, start.learned
        return source, own["target_tokenizer"] or source, own["source_ends"]


class Translator(TextToText):
    """A translator from strings to strings: an encoder-decoder with its tokenizers and search.

    `.model` is the plain Keras model from ids to logits, and `.dataset(pairs)` returns the data for
    its `fit`.

    Args:
        tokenizer: Tokenizer of the source, and of the target unless `target_tokenizer` is given: a
            `BytePairTokenizer`, `SentencePieceTokenizer` or `CharacterTokenizer`.
        target_tokenizer: Tokenizer of the target, if it differs from the tokenizer of the source.
        source_ends: Whether sources get the end token.
        prefix_languages: Target languages that are selected by a prefix of the text, as in T5.
        prefixes: The prefix for each of `prefix_languages`.
        model: Settings of the model: a `TransformerEncoderDecoderConfig`, a
            `RecurrentEncoderDecoderConfig` or a `T5Config`, or a dict of some settings with the
            name of the model, `{"model": "rnn", ...}` (`"transformer"` by default). The tokenizers
            determine the vocabulary sizes.
        data: Settings of the data: a `TranslationData`, or a dict of some of its settings.
            `max_length` is the maximum number of source tokens; in predictions, longer sources are
            cut, with a warning. A translation has at most `2 * n + 16` tokens for n source tokens.
            `source` and `target` are the names of languages, keys or columns in the training data.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of a tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If a setting of the model is unknown, a setting is out of range, the tokenizers
            have different padding ids, or `prefix_languages` and `prefixes` have different lengths.

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
    about = "Translate sentences: a Transformer, or a recurrent network, trained on your pairs."
    gives = ("translation", "translations")
    written_by = "BLEU"
    own_tasks = "translation_"
    long_sources = "Translate sentence by sentence."
    Data = TranslationData
    Learned = TranslationLearned
    Training = TranslationTraining
    Use = TranslationUse
    Test = TranslationTest
    warmup = (0.1, 4000)
    adam: ClassVar = {"beta_2": 0.98, "epsilon": 1e-9}

    def field_of(self, use: TranslationUse, graph: Callable[[], Any] | None = None) -> SourceText:
        """Returns the field that converts texts to rows of ids for the language `use.language`.

        Args:
            use: Settings of class `Use`.
            graph: Function that returns the tokenizer in a TensorFlow graph.

        Raises:
            ValueError: If the model selects languages by prefixes, but has none for this language.
        """
        tokenizer, most, learned = self.source_tokenizer, self.max_source_length, self.learned
        prefixes = dict(zip(learned.prefix_languages, learned.prefixes, strict=True))
        if use.language and prefixes and use.language not in prefixes:
            raise ValueError(
                f"`language` must be one of {', '.join(map(repr, prefixes))}, for which the model "
                f"has a prefix. Received: {use.language!r}."
            )
        prefix = prefixes.get(use.language, "")
        language = "" if prefixes else use.language
        ends = learned.source_ends
        return SourceText(tokenizer, most, graph, prefix=prefix, language=language, ends=ends)

    @classmethod
    def learned_of(cls, start: Backbone, data: TranslationData) -> TranslationLearned:
        """Returns the learned values of a translator that starts from a pretrained model: its
        tokenizers, and the prefixes of its target languages.

        Args:
            start: The pretrained model, with its tokenizers.
            data: Settings of class `Data`.
        """
        prefixes: dict[str, str] = {}
        for name, of_task in cls.own(start).items():  # such as translation_en_to_de
            language = name.rpartition("_")[2]
            if language in prefixes:
                language = name.removeprefix(cls.own_tasks)
            prefixes[language] = of_task.prefix
        own = {"prefix_languages": tuple(prefixes), "prefixes": tuple(prefixes.values())}
        return super().learned_of(start._replace(learned={**own, **start.learned}), data)

    def parted(self, use: TranslationUse) -> tuple[Settings, dict[str, Any], dict[str, Any]]:
        """Splits settings for a compiled search. `language` is not among them, because it only
        changes the ids of the source.

        Args:
            use: Settings of class `Use`.

        Returns:
            The settings that are constants of the compiled function; a dict of the numbers that are
            its inputs, such as `alpha`; and an empty dict.
        """
        return super().parted(dataclasses.replace(use, language=""))

    @property
    def languages(self) -> tuple[str, str]:
        """Names of the source and the target language; `""` if the data settings name none."""
        return self.data.source, self.data.target

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the architecture, the languages and vocabulary sizes."""
        direction = " to ".join(self.languages) if all(self.languages) else "source to target"
        sizes = {t.vocabulary_size for t in (self.source_tokenizer, self.target_tokenizer)}
        tokens = " and ".join(f"{size:,}" for size in sizes)
        return [self.kinds.name_of(self.config), direction, f"{tokens} tokens"]

    # Data and training

    input_columns: ClassVar = {"source": "source"}
    predicts: ClassVar = {"translation": str}

    @classmethod
    def table_settings(cls) -> list[str]:
        """Returns the names of the data settings that calls with a table accept as arguments:
        `source`, `target`, `on_error` and `max_characters`."""
        return ["source", "target", "on_error", "max_characters"]

    @classmethod
    def read_file(cls, path: Location, data: TranslationData) -> ParallelText:
        """Reads pairs of sentences from a file or table.

        Args:
            path: The file or folder, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`; `source` and `target` name languages or columns.

        Returns:
            `keras_attn.records.ParallelText`.
        """
        return read_pairs(
            path,
            **pair_columns(data.source, data.target),
            on_error=data.on_error,
            max_characters=data.max_characters,
        )

    @classmethod
    def split(cls, examples: Sequence[Any], data: TranslationData) -> Any:
        """Splits pairs into a list of training pairs and a list of development pairs, so that no
        sentence is in both."""
        sides = split_pairs(examples, 0, data.dev_size, seed=data.split_seed)
        return sides.train, sides.validation

    @classmethod
    def read(cls, data: TranslationData) -> Examples:
        """Reads the folder that `prepare` made, or prepares the pairs of --train in memory. In the
        second case, no test set is held out; use `evaluate --pairs`.

        `--model rnn` is a recurrent network with the attention that `--attention` names. A setting
        of another kind of model raises an error. After each epoch, the development set is
        translated, and BLEU determines the best weights.
        """
        if data.data:
            prepared = PreparedTranslation.load(data.data)
            _check_prepared(data, prepared.settings)
        elif data.train:
            with tempfile.TemporaryDirectory() as folder:
                alone = dataclasses.replace(data, test_size=0)
                prepared = PreparedTranslation.prepare(alone, Path(folder) / "data", print)
        else:
            raise WrongUse("Give --data, a folder made by `prepare`, or --train.")
        counts = ", ".join(f"{name}: {count:,}" for name, count in prepared.counts.items())
        return Examples(prepared, prepared.dev, counts, prepared.settings)

    def read_test(self, test: TranslationTest, data: None = None) -> ParallelText | Any:
        """Reads test pairs from prepared data, or from files of pairs.

        Args:
            test: Settings of class `Test`, which name prepared data or files of pairs. If they do
                not name the languages or columns, the names used in training apply, unless source
                and target are two files.
            data: Unused.

        Returns:
            The list of pairs, with a method `summary()`, which describes them.

        Raises:
            OSError: If a file or folder does not exist or cannot be read.
            WrongUse: If `split` is given for a file, or missing for a folder of pairs.
            ValueError: If source and target are swapped, or a file has the wrong format.
        """
        if test.data:
            prepared = PreparedTranslation.load(test.data)
            self._check_direction(prepared.settings.source, prepared.settings.target)
            return ParallelPairs(getattr(prepared, test.split or "test"))
        if Path(test.pairs).expanduser().is_dir() != (test.split is not None):
            raise WrongUse("--split is required if --pairs is a folder, and only then.")
        self._check_direction(test.source, test.target)
        names = test.source, test.target
        if not test.pairs_target:  # two files have no columns
            names = test.source or self.languages[0], test.target or self.languages[1]
        return read_pairs(
            os.path.expanduser(test.pairs),
            os.path.expanduser(test.pairs_target) or None,
            split=test.split,
            **pair_columns(*names, test.delimiter),
        )

    def _check_direction(self, source: str, target: str) -> None:
        if all(self.languages) and (source, target) == self.languages[::-1]:
            raise ValueError(
                f"The model translates {' to '.join(self.languages)}. Received: pairs of {source} "
                f"to {target}, in the wrong direction."
            )

    @classmethod
    def learn(
        cls, examples: PreparedTranslation | Pairs, data: TranslationData
    ) -> TranslationLearned:
        """Returns a `TranslationLearned` with tokenizers trained on pairs, or with the tokenizers
        of a `PreparedTranslation`."""
        if isinstance(examples, PreparedTranslation):
            source, target = examples.source_tokenizer, examples.target_tokenizer
        else:
            source, target = make_tokenizers(data, checked_pairs(examples))
        return TranslationLearned(source, None if target is source else target)

    @classmethod
    def data_of(cls, examples: Any, data: Any) -> TranslationData:
        """Returns the settings of the data: the settings of a `PreparedTranslation`, which `data`
        does not change, or the argument `data` if the examples are pairs."""
        if isinstance(examples, PreparedTranslation):
            return examples.settings
        return super().data_of(examples, data)

    def dataset(self, pairs: Pairs, **settings: Any) -> TokenBatches:
        """Tokenizes pairs into batches for `model.fit`.

        Args:
            pairs: Tuples (source, target) of strings.
            **settings: Settings of `keras_attn.batches.TokenBatches`: `tokens_per_batch`, `seed`,
                ...

        Returns:
            `TokenBatches`. Pairs with more than `max_source_length` tokens in either text are left
            out, with a warning that counts them.

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
        sources = [source for source, *_ in pairs]
        return (
            encode_sources(self.source_tokenizer, sources, self.learned.source_ends),
            self.target_tokenizer.encode([target for _, target, *_ in pairs]),
        )

    def batches(
        self,
        examples: PreparedTranslation | Pairs,
        training: TranslationTraining,
        shuffle: bool = True,
    ) -> TokenBatches | PackedBatches:
        """Creates the batches of a training run, from pairs or from prepared ids.

        Args:
            examples: Pairs of strings, or a `PreparedTranslation`.
            training: Settings of class `Training`; `batching` selects the kind of batches.
            shuffle: Whether the order is random.
        """
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

    def score_of(
        self, written: list[str], pairs: list[tuple[str, str]], training: TranslationTraining
    ) -> tuple[str, float]:
        """Returns `"bleu"`, and sacrebleu's BLEU of the translations, from 0 to 100.

        Args:
            written: The translations.
            pairs: The development pairs, with the reference translations.
            training: Settings of class `Training`, with sacrebleu's tokenizer `score_tokenize`.

        Raises:
            ImportError: If `sacrebleu` is not installed.
        """
        with needed("BLEU"):
            import sacrebleu

        references = [[unicodedata.normalize("NFC", target) for _, target in pairs]]
        metric = sacrebleu.BLEU(tokenize=training.score_tokenize)
        return "bleu", metric.corpus_score(written, references).score

    def trained_form(self, training: TranslationTraining) -> keras.Model:
        """Returns the compiled model that `fit` trains: `model`, or a model with the layers of
        `model` that reads packed rows or computes the loss in chunks."""
        packed = training.batching == "packed"
        return trained_form(self.model, packed, training.chunked_loss)

    def digest(self, examples: PreparedTranslation | Pairs, dev: Pairs) -> str:
        """Returns a digest of the pairs of a run; prepared data have a stored digest."""
        if isinstance(examples, PreparedTranslation):
            return examples.fingerprint
        return super().digest(checked_pairs(examples), checked_pairs(dev) if dev else ())

    @classmethod
    def check_run_dir(cls, run_dir: Path) -> None:
        """Raises a ValueError if the folder of a run contains prepared data."""
        if (run_dir / "prepared.json").exists():
            raise ValueError(f"{run_dir} holds prepared data. Give another folder for the run.")

    # Measuring

    def report(
        self,
        pairs: list[tuple[str, str]],
        results: tuple[list[str], TranslationUse],
        *,
        tokenize: str,
    ) -> TranslationScores:
        """Translates the sources and compares the results with the targets, using sacrebleu.

        Args:
            pairs: Tuples (source, target) of strings. Targets and translations are compared in
                Unicode form NFC.
            results: A tuple of the translations and settings of class `Use`.
            tokenize: sacrebleu's tokenizer of BLEU; `"char"` or `"zh"` for scripts without spaces.

        Returns:
            `TranslationScores`: cased BLEU, chrF and lower-cased BLEU with sacrebleu's signatures,
            and the translations. `print` shows the scores.

        Raises:
            ImportError: If `sacrebleu` is not installed.
            TypeError: If a setting is unknown.
            ValueError: If there are no pairs, an example is not a pair of strings, or a setting is
                out of range.
        """
        translations, use = results
        search = use.beams, use.alpha, use.length_penalty_kind
        return score_translations(pairs, translations, tokenize, *search)

    # Predictions

    def longest(self, length: Any) -> Any:
        """Returns the maximum number of tokens of a translation, `2 * length + 16`.

        Args:
            length: Number of tokens of the source, an integer or a tensor of integers.
        """
        return 2 * length + 16

    def translate(
        self, texts: str | Sequence[str], beams: int | None = None, **settings: Any
    ) -> Any:
        """Translates sentences, like `predict`.

        Args:
            texts: A string or a list of strings.
            beams: Width of the beam search; 1 is greedy search. None uses the default.
            **settings: Other settings of `predict`: `alpha`, `beginning`, `batch_size`,
                `jit_compile`, ...

        Returns:
            A string for a string, or a list of strings for a list, in the order of `texts`.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If a setting is out of range, or `language` has no prefix although the model
                selects languages by prefixes.
        """
        return self.predict(texts, **self._with_beams(beams, settings))

    @staticmethod
    def _with_beams(beams: int | None, settings: dict[str, Any]) -> dict[str, Any]:
        return settings if beams is None else {"beams": beams, **settings}

    def translate_n_best(
        self,
        texts: str | Sequence[str],
        num_return_sequences: int | None = None,
        beams: int | None = None,
        **settings: Any,
    ) -> Any:
        """Finds several translations of each sentence, with scores and alignments.

        Args:
            texts: A string or a list of strings.
            num_return_sequences: Maximum number of translations of each sentence, at most `beams`;
                `beams` if None.
            beams: Width of the beam search; None uses the default.
            **settings: Other settings of `predict`, such as `alpha`.

        Returns:
            An `NBestTranslations` for a string, or a list of `NBestTranslations` for a list, in the
            order of `texts`. The first translation equals the result of `translate`. There is no
            warning about texts that are cut; fields of the result show them.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown or has the wrong type.
            ValueError: If a setting is out of range, `num_return_sequences` is above `beams`, or
                `language` has no prefix although the model selects languages by prefixes.

        Example:

        >>> tokenizer = BytePairTokenizer.train(["one dog", "ein Hund"], 259)
        >>> translator = Translator(tokenizer, model={"dim": 16, "num_layers": 1})
        >>> found = translator.translate_n_best("one dog", num_return_sequences=2, beams=3)
        >>> len(found.translations), found.source_truncated, found.scores[0] >= found.scores[1]
        (2, False, True)
        """
        use, more = self._parted("predict", self._with_beams(beams, settings))
        count = use.beams if num_return_sequences is None else num_return_sequences
        use = dataclasses.replace(use, num_return_sequences=count)
        one = self.is_one(texts)
        given = self.asked([texts] if one else texts)
        signature = self.signatures(use)["details"]
        rows = signature.field.encode(given)
        rows |= self.computed(rows, use, **more)
        translations = signature.outputs["translations"].decode(rows) if given else []
        columns = (dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True))
        found = [*map(self._n_best, given, translations, columns)]
        return found[0] if one else found

    def _n_best(self, text: str, translations: list[str], row: dict[str, Any]) -> NBestTranslations:
        """Makes the translations of one text; a sequence of length 0 is none."""
        lengths = [n for n in row["lengths"].tolist() if n]
        count = len(lengths)
        alignments = [
            self._alignment(text, row["source_ids"], row["tokens"][r, :n].tolist(), weights[:n])
            for r, (n, weights) in enumerate(zip(lengths, row["weights"], strict=False))
        ]
        scores, truncated = (row[name][:count].tolist() for name in ("scores", "truncated"))
        cut = bool(row["cut"])
        return NBestTranslations(translations[:count], scores, truncated, cut, alignments)

    # Files

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes a folder for `MarianMTModel` and `MarianTokenizer` of transformers.

        The settings in `own_use` are written to `generation_config.json`.

        Args:
            folder: The folder, which must be new or empty.

        Raises:
            FileExistsError: If the folder is not empty.
            TypeError: If a tokenizer is not a `SentencePieceTokenizer`.
            ValueError: If Marian in transformers does not support the model (for example, one with
                pre-norm) or the settings in `own_use`.
        """
        learned = self.learned
        save_marian(
            folder,
            self.model,
            self.config,
            learned.tokenizer,
            learned.target_tokenizer,
            self.own_use,
        )

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

    @step(
        "predict",
        takes=("use",),
        settings=TranslationFiles,
        reads="lines",
        writes="lines",
        to="file of the translations; standard output if none",
        device=True,
        check=check_translation_files,
    )
    def _translate_lines(
        self, inputs: Iterable[list[str]], use: TranslationUse, predict: TranslationFiles
    ) -> Iterator[str | Note]:
        """Translate FILES, a sentence a line, in their order; standard input if there are none.

        A line ends at a line feed, a carriage return, or both. A blank line gives a blank line.
        Bytes that are not UTF-8 are read as U+FFFD, with a warning.
        """
        wants_links = bool(predict.alignments or predict.heat_maps)
        if wants_links and not self.decoding.num_attentions:
            raise ValueError(
                "--alignments and --heat-maps need a model with attention. "
                f"Received: {self!r}, which has none."
            )
        search = values_for(self.predict, use)
        number = cut = 0
        with contextlib.ExitStack() as stack:
            path = Path(predict.alignments) if predict.alignments else None
            links = stack.enter_context(open_output(path)) if path is not None else None
            for lines in inputs:
                stripped = [line.strip() for line in lines]
                real = [line for line in stripped if line]
                if wants_links:
                    found = self.translate_n_best(real, 1, **search)
                    cut += sum(best.source_truncated for best in found)
                    answers = iter([(best.translations[0], best.alignments[0]) for best in found])
                else:
                    answers = iter([(text, None) for text in self.translate(real, **search)])
                for line in stripped:
                    number += 1
                    translated, alignment = next(answers) if line else ("", None)
                    yield " ".join(translated.split())  # a line must stay a line
                    if links is not None:
                        print(alignment.to_pharaoh() if alignment is not None else "", file=links)
                    if predict.heat_maps and alignment is not None:
                        alignment.plot(Path(predict.heat_maps) / f"{number:06d}.png")
        if cut:
            yield Note(f"{cut} lines are longer than the model can read and were cut.")

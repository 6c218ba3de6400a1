"""Settings of translation: data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from keras_attn.files import check_output, check_writable
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import BadLines, Tables
from keras_attn.tasks.families.training_settings import TokenBatches
from keras_attn.tasks.families.use_settings import BeamSearchUse

FORMATS = ("auto", "tsv", "csv", "parallel", "jsonl", "multi30k", "tatoeba")
TOKENIZE = ("13a", "char", "intl", "none", "zh", "ja-mecab", "ko-mecab", "flores200")
BATCHINGS = ("bucketed", "packed")


@dataclass(frozen=True)
@with_defaults(
    steps=dict.fromkeys(("format", "delimiter", "on_error"), ()), choices={"format": FORMATS}
)
class TranslationData(Tables, BadLines):
    """The pairs that are read, and their tokens.

    Example:

    >>> TranslationData(format="tsv").vocabulary_size
    8000
    """

    for_steps = ("prepare",)
    data: str = setting(
        "", "folder made by `prepare`", shapes_result=False, required=True, steps=("fit",)
    )
    train: str = setting("", "file, folder or archive of training pairs", shapes_result=False)
    train_target: str = setting(
        "", "target side, where it is a file of its own", shapes_result=False
    )
    dev: str = setting("", "development pairs; drawn from the rest if empty", shapes_result=False)
    dev_target: str = setting("", "target side of the development pairs", shapes_result=False)
    test: str = setting("", "test pairs; drawn from the rest if empty", shapes_result=False)
    test_target: str = setting("", "target side of the test pairs", shapes_result=False)
    source: str = setting(
        "", "source: language, key of JSON lines, or name or number (from 0) of the column"
    )
    target: str = setting(
        "", "target: language, key of JSON lines, or name or number (from 0) of the column"
    )
    max_characters: int = setting(
        2000, "largest number of characters of a side; longer ones are bad lines", at_least=1
    )
    dev_size: int = setting(1000, "pairs drawn for development", at_least=1)
    test_size: int = setting(1000, "pairs drawn for the test", at_least=1)
    vocabulary_size: int = setting(
        8000, "largest number of byte pairs of the tokenizer", at_least=259
    )
    separate_vocabularies: bool = setting(False, "make a tokenizer for each side, not one for both")
    max_length: int = setting(
        256, "largest number of tokens of a side; longer pairs are left out", at_least=2
    )
    split_seed: int = setting(0, "seed of the pairs that are drawn", at_least=0)


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(20),
    clip_norm=0.0,
    ema_momentum=None,
    checkpoint_steps=1000,
    help={
        "warmup_steps": "updates until the learning rate peaks; if none, a tenth of all, at most "
        "4000",
        "ema_momentum": "momentum of the moving average of the weights; 0 keeps no average; if "
        "none, by the length of the run",
    },
    words={"tokens": "tokens of a batch on its longer side, with padding"},
)
class TranslationTraining(TokenBatches):
    """Settings of the training of a translator.

    Example:

    >>> TranslationTraining(epochs=3).learning_rate
    0.001
    """

    batching: str = setting(
        "bucketed",
        "pairs of like lengths in a batch, or (transformer) several pairs packed in a row",
        choices=BATCHINGS,
    )
    tokens_per_row: int = setting(
        128, "packed: tokens of a row, on each side; longer pairs are left out", at_least=2
    )
    chunked_loss: bool = setting(
        False, "compute the loss for some tokens at a time, to save memory of large vocabularies"
    )
    gradient_accumulation: int = setting(1, "batches that make one update", at_least=1)
    score_epochs: int = setting(1, "epochs between two scores of the development set", at_least=1)
    score_pairs: int = setting(500, "development pairs that are translated then", at_least=1)
    score_beams: int = setting(1, "width of the beam search then; 1 is greedy", at_least=1)
    score_tokenize: str = setting("13a", "sacrebleu's tokenizer of these scores", choices=TOKENIZE)

    def __post_init__(self) -> None:
        super().__post_init__()
        packed = self.batching == "packed"
        if not packed and self.tokens_per_row != 128:
            raise ValueError(
                "`tokens_per_row` belongs to batching='packed'. Received: "
                f"tokens_per_row={self.tokens_per_row} with batching={self.batching!r}."
            )
        if packed and self.tokens_per_row > self.tokens_per_batch:
            raise ValueError(
                "`tokens_per_row` must be at most `tokens_per_batch`. Received: "
                f"{self.tokens_per_row} and {self.tokens_per_batch}."
            )


@dataclass(frozen=True)
@with_defaults(words={"rows": "texts"})
class TranslationUse(BeamSearchUse):
    """Settings of the search for translations.

    Example:

    >>> TranslationUse().batch_size
    64
    """


@dataclass(frozen=True)
class TranslationTest(Settings):
    """Settings of the evaluation of a translator.

    Example:

    >>> TranslationTest(data="prepared").tokenize
    '13a'
    """

    data: str = setting("", "folder made by `prepare`, whose test set is taken")
    split: str | None = setting(
        None, "test or dev of --data (test if none), or a split of a folder of --pairs", kind=str
    )
    pairs: str = setting("", "file or folder of pairs, instead of --data")
    pairs_target: str = setting("", "target side of --pairs, where it is a file of its own")
    source: str = setting("", "language, key or column of the sources in --pairs")
    target: str = setting("", "language, key or column of the targets in --pairs")
    delimiter: str = setting(
        "", "character between the columns of --pairs; if empty, a comma (tab in *.tsv)",
        check=check_delimiter,
    )  # fmt: skip
    tokenize: str = setting(
        "13a", "sacrebleu's tokenizer of BLEU: char or zh for scripts without spaces",
        choices=TOKENIZE,
    )  # fmt: skip

    def check(self, data: Settings | None = None) -> None:
        """Raises a `WrongUse` if the settings do not say what to read."""
        if bool(self.data) == bool(self.pairs):
            raise WrongUse("Give either --data or --pairs.")
        if self.data and (self.pairs_target or self.source or self.target or self.delimiter):
            raise WrongUse("--pairs-target, --source, --target and --delimiter belong to --pairs.")
        if self.data and self.split not in (None, "test", "dev"):
            raise WrongUse("--split of --data is test or dev.")


@dataclass(frozen=True)
class TranslationFiles(Settings):
    """Files that `predict` writes beside the translations."""

    alignments: str = setting("", "file of word alignments, `i-j` from 0, a line each")
    heat_maps: str = setting("", "folder of pictures of the alignments (matplotlib)")


def check_translation_files(to: Path | None, predict: TranslationFiles) -> None:
    """Raises an error if the files cannot be written."""
    alignments = Path(predict.alignments) if predict.alignments else None
    check_output(alignments)
    if to is not None and alignments is not None and to.resolve() == alignments.resolve():
        raise WrongUse("--to and --alignments are one file.")
    if predict.heat_maps:
        check_writable(predict.heat_maps)

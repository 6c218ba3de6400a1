"""Summarization: summarizes long texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from keras_attn.batches import TokenBatches
from keras_attn.fields import SourceText
from keras_attn.hints import Size
from keras_attn.metrics.summaries import WORDS, RougeReport, rouge, score_summaries
from keras_attn.records import ParallelText, read_pairs, split_pairs
from keras_attn.records.readers import pair_columns
from keras_attn.records.reading import Location
from keras_attn.settings import RunDefault, setting, with_defaults
from keras_attn.tasks.base.backbones import Backbone, BackboneStart, refuse_new_tokenizer
from keras_attn.tasks.base.checks import Pairs, check_padding, checked_pairs
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families import training_settings
from keras_attn.tasks.families.data_settings import COLUMN_OR_NUMBER, Files, Pieces, Tables, column
from keras_attn.tasks.families.text_to_text import TextToText, WrittenScores
from keras_attn.tasks.families.use_settings import BootstrapTest, TextSearchUse
from keras_attn.text.registry import PIECES, PieceTokenizer

_FORMATS = {"auto": "auto", "csv": "csv", "tsv": "tsv", "json_lines": "jsonl"}


@dataclass(frozen=True)
@with_defaults(
    words={
        "examples": "pairs of texts and summaries",
        "tokens": "vocabulary",
        "backbones": "T5 or Flan-T5, or a summarizer",
    },
)
class SummarizationData(BackboneStart, Pieces, Tables, Files):
    """Settings of the pairs of texts and summaries, and of their tokens."""

    text: str = column("text", "texts", COLUMN_OR_NUMBER)
    summary: str = column("summary", "summaries", COLUMN_OR_NUMBER)
    vocabulary_size: int = setting(
        8000, "largest number of tokens, without --backbone", at_least=259
    )
    max_length: int = setting(
        512, "largest number of tokens of a text, including its prefix and end; the rest is "
            "not read", at_least=2,
    )  # fmt: skip
    max_summary_length: int = setting(
        64, "largest number of tokens of a summary, including its end; longer summaries are "
            "not learned",
        at_least=2,
    )  # fmt: skip
    prefix: str | None = setting(
        None, "prefix of each text; if none, no prefix, or 'summarize: ' with a T5 as "
        "--backbone", kind=str,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_new_tokenizer(self, "tokenizer", "vocabulary_size")


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(10, backbone=3),
    learning_rate=RunDefault(1e-3, backbone=1e-4),
    words={"tokens": "tokens of a batch on its longer side, with padding", "written": "summarised"},
)
class SummarizationTraining(WrittenScores, training_settings.TokenBatches):
    """Settings for training a summarizer."""


@dataclass(frozen=True)
@with_defaults(words={"rows": "texts"})
class SummarizationUse(TextSearchUse):
    """Settings of the search for summaries."""


@dataclass(frozen=True)
@with_defaults(words={"examples": "pairs of texts and summaries, as for fit"})
class SummarizationTest(BootstrapTest):
    """Settings for evaluating a summarizer."""

    words: str = setting(
        "english", "words of ROUGE: runs of a-z and 0-9, stemmed, or words of any script",
        choices=WORDS,
    )  # fmt: skip


@dataclass(frozen=True)
class SummarizationLearned(Learned):
    """Learned values of a summarizer: its tokenizer, and the prefix and end of texts."""

    tokenizers: ClassVar = tuple(PIECES.values())
    tokenizer: PieceTokenizer
    prefix: str = ""
    """Prefix of each text."""
    source_ends: bool = True
    """Whether texts get the end token; False for imported models of OpenNMT."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.tokenizer)


class Summarizer(TextToText):
    """An encoder-decoder that reads a long text and writes a summary.

    `.model` is the plain Keras model from ids to logits, and `.dataset(pairs)` returns the data for
    its `fit`. Each run of white space in a text, including line breaks, is read as one space. Texts
    that are too long are cut, with a warning.

    Args:
        tokenizer: A `BytePairTokenizer` or a `SentencePieceTokenizer` for texts and summaries.
        prefix: Prefix of each text, such as T5's `"summarize: "`.
        source_ends: Whether texts get the end token.
        model: Settings of the model: a `TransformerEncoderDecoderConfig`, a
            `RecurrentEncoderDecoderConfig` or a `T5Config`, or a dict of some settings with the
            name of the model, `{"model": "t5", ...}` (`"transformer"` by default).
        data: Settings of the data: a `SummarizationData`, or a dict of some of its settings, such
            as `max_length` and `max_summary_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If a setting of the model is unknown, a setting is out of range, or the padding
            id of the tokenizer is not 0.

    Example:

    >>> pairs = [("The dog ran home. It rained.", "dog"), ("The cat slept. It snowed.", "cat")] * 4
    >>> sizes = {"dim": 16, "num_layers": 1, "intermediate_dim": 32}
    >>> summarizer = Summarizer.create(pairs, data={"vocabulary_size": 262}, model=sizes)
    >>> run = summarizer.fit(pairs, epochs=1, verbose=0)
    >>> isinstance(summarizer.predict("The dog slept."), str)
    True
    """

    name = "summarization"
    about = "Summarise texts: T5, or a model of your own, trained on texts with summaries."
    gives = ("summary", "summaries")
    written_by = "ROUGE-L"
    own_tasks = "summarization"
    long_sources = "Summarise their parts, or raise `max_length`."
    Data, Learned, Training = SummarizationData, SummarizationLearned, SummarizationTraining
    Use, Test = SummarizationUse, SummarizationTest
    data: SummarizationData
    learned: SummarizationLearned
    input_columns: ClassVar = {"text": ""}
    predicts: ClassVar = {"summary": str}
    warmup = (0.1, 4000)
    adam: ClassVar = {"beta_2": 0.98, "epsilon": 1e-9}

    def source_field(self, graph: Callable[[], Any] | None = None) -> SourceText:
        """Returns the field that converts texts to rows of ids, each as one line after the prefix.

        Args:
            graph: Function that returns the tokenizer in a TensorFlow graph.
        """
        return SourceText(
            self.source_tokenizer,
            self.max_source_length,
            graph,
            prefix=self.learned.prefix,
            one_line=True,
            ends=self.learned.source_ends,
        )

    @classmethod
    def lengths(cls, longest: Sequence[int | None]) -> dict[str, int]:
        """Returns the setting `max_summary_length` of an imported model in a dict, which is empty
        if no length is known.

        Args:
            longest: Maximum numbers of tokens of a summary from the files of the model, of which
                the first known one is used; unknown numbers are None or 0.
        """
        known = [most for most in longest if most]
        return {"max_summary_length": known[0]} if known else {}

    def longest(self, length: Size) -> int:
        """Returns `max_summary_length`, the maximum number of tokens of a summary, for texts of any
        length."""
        return self.data.max_summary_length

    @classmethod
    def read_file(cls, path: Location, data: SummarizationData) -> ParallelText:
        """Reads pairs of a text and a summary from CSV, TSV, JSON lines or Parquet.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.

        Returns:
            `keras_attn.records.ParallelText`.
        """
        return read_pairs(
            path,
            format=_FORMATS[data.format],
            on_error=data.on_error,
            max_characters=1_000_000,
            **pair_columns(data.text, data.summary, data.delimiter),
        )

    @classmethod
    def split(cls, examples: ParallelText, data: SummarizationData) -> tuple[Any, Any]:
        """Splits pairs into a list of training pairs and a list of development pairs. No text or
        summary is in both parts, ignoring case, digits and punctuation."""
        size = max(1, round(data.dev_share * len(examples)))
        options = {"validation_size": "--dev-share"}
        sides = split_pairs(examples, 0, size, seed=data.split_seed, options=options)
        return sides.train, sides.validation

    @classmethod
    def learned_of(cls, start: Backbone, data: SummarizationData) -> SummarizationLearned:
        """Returns the learned values of a summarizer that starts from a pretrained model.

        Args:
            start: The pretrained model, with its tokenizer.
            data: Settings of class `Data`, whose `prefix` overrides the prefix of the model.
        """
        tasks = cls.own(start).values()
        own = next((x.prefix for x in tasks), "summarize: " if start.model == "t5" else "")
        prefix = start.learned.get("prefix", own) if data.prefix is None else data.prefix
        return SummarizationLearned(start.tokenizer, prefix, start.learned["source_ends"])

    @classmethod
    def learn(cls, examples: Pairs, data: SummarizationData) -> SummarizationLearned:
        """Trains a tokenizer on texts and summaries, and returns it with `data.prefix` as
        `SummarizationLearned`."""
        texts = [side for pair in checked_pairs(examples) for side in pair]
        kind = PIECES[data.tokenizer]
        tokenizer = kind.train(texts, data.vocabulary_size, allow_fewer=True)
        return SummarizationLearned(tokenizer, data.prefix or "")

    def dataset(self, pairs: Pairs, **settings: Any) -> TokenBatches:
        """Tokenizes pairs into batches for `model.fit`.

        Args:
            pairs: Tuples (text, summary) of strings.
            **settings: Settings of `keras_attn.batches.TokenBatches`: `tokens_per_batch`, `seed`,
                ...

        Returns:
            `TokenBatches`. Texts of more than `max_length` tokens are cut, and pairs with a summary
            of more than `max_summary_length` tokens are left out, where the tokens include the end
            token; warnings count them.

        Raises:
            ValueError: If there are no pairs, an element is not a pair of strings, or all summaries
                have more than `max_summary_length` tokens.
        """
        pairs, most = checked_pairs(pairs), self.data.max_summary_length
        targets = self.target_tokenizer.encode([summary for _, summary in pairs])
        kept = [n for n, target in enumerate(targets) if len(target) < most]
        rows = self.field.encode([pairs[n][0] for n in kept])
        if not kept:
            raise ValueError(
                f"Expected a summary of at most `max_summary_length`={most} tokens, "
                f"including its end. Received: {len(pairs):,} pairs, all with longer "
                "summaries. Raise `max_summary_length`."
            )
        told = [
            (int(sum(rows["cut"])), f"texts of more than `max_length`={self.max_source_length} "
             "tokens are cut"),
            (len(pairs) - len(kept), f"pairs with a summary of more than `max_summary_length`="
             f"{most} tokens are left out"),
        ]  # fmt: skip
        for count, what in told:
            if count:
                warnings.warn(f"{count:,} of {len(pairs):,} {what}.", stacklevel=2)
        return self._id_batches(
            TokenBatches, rows["source_ids"], [targets[n] for n in kept], **settings
        )

    def score_of(
        self, written: list[str], pairs: list[tuple[str, str]], training: SummarizationTraining
    ) -> tuple[str, float]:
        """Returns `"rougeL"`, and the mean F1 of ROUGE-L, computed on words of any script.

        Args:
            written: The generated summaries.
            pairs: The development pairs, with the reference summaries.
            training: Settings of class `Training`.

        Raises:
            ImportError: If `rouge-score` is not installed.
        """
        found = rouge([summary for _, summary in pairs], written, "unicode")
        return "rougeL", float(found[:, 2].mean())

    def report(
        self,
        pairs: list[tuple[str, str]],
        results: tuple[list[str], SummarizationUse],
        *,
        words: str,
        num_bootstrap: int,
    ) -> RougeReport:
        """Measures the summaries of texts by ROUGE, and compares them with the first sentence of
        each text.

        Args:
            pairs: Tuples (text, summary) of strings.
            results: A tuple of the summaries and settings of class `Use`.
            words: Words of ROUGE: runs of a-z and 0-9, stemmed, or words of any script.
            num_bootstrap: Bootstrap samples for the confidence intervals; 0 for no intervals.

        Returns:
            A `keras_attn.metrics.RougeReport`, which `print` shows: mean F1 of ROUGE-1, ROUGE-2 and
            ROUGE-L, of the summaries and of the first sentences.

        Raises:
            ImportError: If `rouge-score` is not installed.
            TypeError: If a setting is unknown.
            ValueError: If there are no pairs, an example is not a pair of strings, or a setting is
                out of range.
        """
        return score_summaries(pairs, results[0], words, num_bootstrap)

    @staticmethod
    def readable(result: str) -> str:
        """Returns a summary on one line, as the command writes it."""
        return " ".join(result.split())

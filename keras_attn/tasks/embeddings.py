"""Word embeddings: vectors of words, learned from plain text (word2vec)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_attn.archives import is_archive, open_archive
from keras_attn.arrays import ArrayModule
from keras_attn.batches import WordChoice, WordIds, WordWindows, row_loads
from keras_attn.fields import Names, Numbers, WordSum
from keras_attn.fields.word_sums import signed_words
from keras_attn.files import open_output
from keras_attn.generation.numbers import rounded_count
from keras_attn.hints import Tensor
from keras_attn.interop import WordVectors, read_word_vectors, write_word_vectors
from keras_attn.interop.word_vectors import FORMATS
from keras_attn.metrics import EmbeddingsReport, Neighbour, WordSpace
from keras_attn.models import WORD_MODELS
from keras_attn.records import Documents, WordTests
from keras_attn.records.reading import Location
from keras_attn.records.word_questions import FIRST
from keras_attn.settings import Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.compiling import checked_steps, jit_compile
from keras_attn.tasks.base.constructed import Beginning, made
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task import Examples, Task
from keras_attn.tasks.base.training_settings import RunSettings
from keras_attn.tasks.families.data_settings import BadLines, RunningTexts
from keras_attn.text import WordTokenizer
from keras_attn.text.words import SPECIAL_TOKENS
from keras_attn.training import NegativeSamplingLoss, scale_row_steps
from keras_attn.visualize import word_map_page

Texts = WordIds | Sequence[str]
_SPECIAL = len(SPECIAL_TOKENS)
_MODEL = "the model, such as RUN/best.task; or a file of word vectors"


@dataclass(frozen=True)
@with_defaults(
    words={
        "texts": "text to learn from: a file, a folder or a pattern; several may be joined by ':'"
    },
    steps={"on_error": (), "key": ()},
    required={"text": True},
)
class EmbeddingsData(WordChoice, BadLines, RunningTexts):
    """Settings of the texts, and of the words that get a vector."""

    word_vectors: str = setting(
        "",
        "file of word vectors to start from (GloVe's text, word2vec, .npy, .npz), which "
        "determine dim",
        path="file",
    )


@dataclass(frozen=True)
@with_defaults(
    epochs=5,
    learning_rate=None,
    checkpoint_steps=5000,
    help={
        "epochs": "passes over the text",
        "learning_rate": "step of the gradient of a pair of words, at first; if none, 0.025 (cbow: "
        "0.075)",
        "seed": "seed of the vectors, the windows and the order of the text",
    },
)
class EmbeddingsTraining(RunSettings):
    """Settings for training word embeddings."""

    window: int = setting(5, "largest number of words on each side that are predicted", at_least=1)
    negatives: int = setting(5, "mean number of noise words for each pair of words", at_least=1)
    noise_words: int = setting(
        32, "number of noise words that each group of 16 neighbouring words shares", at_least=1
    )
    noise_power: float = setting(
        0.75, "power of the frequency by which noise words are drawn", at_least=0
    )
    subsample: float = setting(
        1e-3, "share of a word in the text above which some of its occurrences are left out; 0 "
            "keeps all",
        at_least=0,
    )  # fmt: skip
    last_learning_rate: float = setting(
        1e-4, "final learning rate, after a linear decay", at_least=0
    )
    batch_size: int = setting(2048, "words of a batch", at_least=1)
    row_steps: int = setting(
        128, "steps of a word in a batch that count in full; if it has more, they are shorter",
        at_least=1,
    )  # fmt: skip

    devices: ClassVar[str] = "1"
    precision: ClassVar[str] = "float32"


@dataclass(frozen=True)
class EmbeddingsUse(Settings):
    """Settings of the search for neighbours and analogies."""

    top_k: int = setting(
        10, "number of neighbours of a word", at_least=1,
        steps=("predict", "nearest", "analogy", "page", "export"),
    )  # fmt: skip


@dataclass(frozen=True)
class EmbeddingsTest(Settings):
    """Settings for evaluating word embeddings."""

    analogies: str = setting(
        "", "file of analogies, in the form of word2vec's questions-words.txt", path="examples"
    )
    pairs: tuple = setting(
        (),
        "file of pairs of words with a score, such as WordSim353 or SimLex999; may be repeated",
        path="examples",
    )
    first: int = setting(
        FIRST, "analogies: number of most frequent words that may occur; 0 for all",
        at_least=0,
    )  # fmt: skip

    def check(self, data: Settings | None = None) -> None:
        """Raises a `WrongUse` if neither analogies nor pairs are given."""
        if not self.analogies and not self.pairs:
            raise WrongUse(
                "Give --analogies, --pairs or both (`analogies`, `pairs`). Received: neither."
            )


@dataclass(frozen=True)
class VectorsFile(Settings):
    """Settings of the file that `vectors` writes."""

    format: str = setting(
        "auto", "auto chooses by the end of the name: .bin is word2vec's binary form, .npy and "
            ".npz are NumPy's, any other is GloVe's text",
        choices=("auto", *FORMATS),
    )  # fmt: skip


@dataclass(frozen=True)
class WordPage(Settings):
    """Settings of the page that `page` writes."""

    count: int = setting(1000, "number of most frequent words on the map", at_least=5)
    title: str = setting("Words", "title of the page")
    seed: int = setting(0, "seed of the map")


@dataclass(frozen=True)
class EmbeddingsLearned(Learned):
    """Learned values of word embeddings, in addition to the vectors: the words in a tokenizer."""

    tokenizer: WordTokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, WordTokenizer) or self.tokenizer.hash_buckets:
            raise TypeError(
                "`tokenizer` must be a WordTokenizer without hash buckets. Received: "
                f"{type(self.tokenizer).__name__}."
            )


class WordEmbedder(Task[Texts]):
    """Word vectors, learned from plain text by skip-gram or CBOW with negative sampling.

    `.model` is the plain Keras model from words and their context words to logits,
    `.dataset(texts)` returns the data for its `fit`, and `.vectors` contains the words with their
    vectors. The examples of `fit` are texts, or a table with a text in each row.

    References:
        - [Mikolov et al., 2013](https://arxiv.org/abs/1301.3781): skip-gram and CBOW.
        - [Mikolov et al., 2013](https://arxiv.org/abs/1310.4546): negative sampling, subsampling.

    Args:
        tokenizer: A `WordTokenizer` without hash buckets; its words have vectors.
        model: Settings of the model: an instance of one of `kinds`, a dict of some settings, such
            as `{"model": "cbow", "dim": 50}`, or None for skip-gram.
        data: Settings of the data: an `EmbeddingsData`, or a dict of some of its settings.
        dtype: Dtype of the vectors. With TensorFlow, only float32 can be trained.

    Raises:
        TypeError: If `tokenizer` is not a `WordTokenizer` without hash buckets, or a setting of the
            data is unknown.
        ValueError: If a setting of the model is unknown, or a setting is out of range.

    Example:

    >>> texts = ["the cat sat on the mat", "the dog sat on the log"] * 20
    >>> embedder = WordEmbedder.create(texts, model={"dim": 8})
    >>> run = embedder.fit(texts, epochs=2, batch_size=64, verbose=0)
    >>> len(embedder.nearest("cat", top_k=3)), embedder.vectors
    (3, <WordVectors of 7 words, 8 wide>)
    """

    name = "embeddings"
    learns_labels = False
    about = "Learn vectors of words (word2vec), and look at them: neighbours, analogies, a map."
    kinds = WORD_MODELS
    Data, Learned, Training = EmbeddingsData, EmbeddingsLearned, EmbeddingsTraining
    Use, Test = EmbeddingsUse, EmbeddingsTest
    data: EmbeddingsData
    learned: EmbeddingsLearned
    steps = ("fit", "evaluate", "predict", "export")
    examples_are, inputs_are = "texts", "words"
    input_columns: ClassVar = {"word": "word"}
    predicts: ClassVar = {"words": list[str], "similarities": list[float]}
    batched_by = ("window", "noise_words", "noise_power", "subsample", "batch_size", "seed")
    decide_nothing = ("started",)
    main_layer = "embedding"
    signature_inputs: ClassVar = {"serving_default": ("words",)}
    comparable_losses: ClassVar[bool] = False
    """The loss of an epoch depends on the number of words that subsampling leaves in a batch."""

    started = ""
    """A line for the log about the initial vectors; empty if they are random."""
    _counts: np.ndarray | None = None

    @property
    def tokenizer(self) -> WordTokenizer:
        """The tokenizer, whose words have vectors."""
        return self.learned.tokenizer

    @property
    def table(self) -> keras.Variable:
        """The variable with the vectors of all ids, including special tokens."""
        return self.model.get_layer("embedding").embeddings

    @property
    def vectors(self) -> WordVectors:
        """The words with their vectors, as `WordVectors`, the most frequent words first."""
        return WordVectors(*self._words())

    def space(self) -> WordSpace:
        """Returns a `WordSpace` of the words, with vectors scaled to length 1, for repeated
        searches."""
        return WordSpace(*self._words())

    def _words(self) -> tuple[list[str], np.ndarray]:
        vectors = np.array(ops.convert_to_numpy(self.table), "float32")
        return list(self.tokenizer.vocabulary[_SPECIAL:]), vectors[_SPECIAL:]

    def model_sizes(self) -> dict[str, Any]:
        """Returns a dict with the `vocabulary_size`."""
        return {"vocabulary_size": self.tokenizer.vocabulary_size}

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the model, the number of words and their width."""
        words = len(self.tokenizer.vocabulary) - _SPECIAL
        return [self.kinds.name_of(self.config), f"{words:,} words, {self.config.dim} wide"]

    # Data and training

    @classmethod
    def read(cls, data: EmbeddingsData) -> Examples:
        """Reads text files: plain text, JSON lines with a text under --key, or Parquet.

        In plain text, blank lines separate the texts. The context of a word never extends into
        another text. Words that occur less than --min-frequency times are left out.
        """
        documents = Documents(data.text, data.key, data.on_error)
        ids = WordIds.counted((" ".join(document) for document in documents), data)
        return Examples(ids, None, ids.summary())

    @classmethod
    def read_file(cls, path: Location, data: EmbeddingsData) -> list[str]:
        """Reads the texts of files as a list of strings."""
        return [" ".join(document) for document in Documents(path, data.key, data.on_error)]

    @classmethod
    def table_settings(cls) -> list[str]:
        """Returns the names of the data settings that calls with a table accept as arguments: `key`
        and `on_error`."""
        return ["key", "on_error"]

    @classmethod
    def column_helps(cls, inputs: bool) -> dict[str, str]:
        """Returns the help texts of the arguments that name columns of a table, keyed by argument.

        Args:
            inputs: Whether the arguments name columns of inputs. If False, as for `evaluate`, which
                does not read tables, the dict is empty.
        """
        return super().column_helps(inputs) if inputs else {}

    def read_own(self, given: object, columns: Mapping[str, object]) -> Any:
        """Returns the texts of a table as a list. Other texts, and dicts of settings of class
        `Test`, are returned unchanged.

        Args:
            given: A table with a text in each row, texts, or a dict of settings of class `Test`.
            columns: Data settings that were given as arguments of a call, such as `key`, keyed by
                name.
        """
        of_test = {option.name for option in EmbeddingsTest.declared()}
        is_test = isinstance(given, Mapping) and of_test.issuperset(given)
        return given if is_test else super().read_own(given, columns)

    def read_test(self, test: EmbeddingsTest, data: Any = None) -> WordTests:
        """Reads the files of analogies and word pairs that the settings `test` name, and returns
        them as `WordTests`; `data` is not used."""
        return self.checked(test)

    @classmethod
    def begin(
        cls, examples: Texts, data: EmbeddingsData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new embedder: the words of the texts, and the model."""
        ids = examples if isinstance(examples, WordIds) else WordIds.counted(examples, data)
        return Beginning(EmbeddingsLearned(ids.tokenizer), cls.model_of(data, model))

    @classmethod
    def begun(cls, start: Beginning, data: EmbeddingsData, dtype: Any = None) -> Self:
        """Creates an embedder. If `data.word_vectors` is given, the words that occur in this file
        start from its vectors.

        Args:
            start: The result of `begin`.
            data: Settings of class `Data`.
            dtype: Dtype of the vectors.

        Raises:
            ValueError: If the file has no vector for any of the words.
        """
        embedder = super().begun(start, data, dtype)
        if data.word_vectors:
            embedder._start(data.word_vectors)
        return embedder

    def _start(self, place: str) -> None:
        words = self.tokenizer.vocabulary
        vectors = read_word_vectors(place, words[_SPECIAL:])
        count = len(words) - _SPECIAL
        if not len(vectors):
            raise ValueError(
                f"Expected a file with vectors for words of the texts. Received: {place}, which "
                f"has none of their {count:,} words. Check that the file has the right language "
                "and case."
            )
        table = np.array(ops.convert_to_numpy(self.table))
        rows = [i for i, word in enumerate(words) if i >= _SPECIAL and word in vectors]
        table[rows] = np.stack([vectors[words[i]] for i in rows])
        self.table.assign(table)
        self.started = (
            f"Word vectors of {place}: {len(rows):,} of {count:,} words start from theirs"
        )

    @classmethod
    def from_vectors(cls, vectors: WordVectors, dtype: Any = None) -> Self:
        """Creates an embedder from given word vectors.

        Args:
            vectors: A `WordVectors` of the words and their vectors, the most frequent first.
            dtype: Dtype of the vectors. With TensorFlow, only float32 can be trained.

        Returns:
            A `WordEmbedder`. Its tokenizer lower-cases texts if no word in `vectors` has a capital
            letter.

        Example:

        >>> vectors = WordVectors(["cat", "dog", "sun"], [[1, 0], [0.9, 0.1], [0, 1]])
        >>> WordEmbedder.from_vectors(vectors).nearest("cat")[0].word
        'dog'
        """
        kept = [i for i, word in enumerate(vectors.words) if word not in SPECIAL_TOKENS]
        words = [vectors.words[i] for i in kept]
        lowercase = all(word == word.lower() for word in words)
        tokenizer = WordTokenizer([*SPECIAL_TOKENS, *words], lowercase)
        embedder = cls(tokenizer, model={"dim": vectors.dim}, dtype=dtype)
        table = np.concatenate(
            [np.zeros((_SPECIAL, vectors.dim), "float32"), vectors.vectors[kept]]
        )
        embedder.table.assign(table)
        return embedder

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> Self:
        """Loads a file written by `save`, or a file of word vectors.

        Args:
            path: A file written by `save`, or a file of word vectors that
                `keras_attn.interop.read_word_vectors` reads.
            dtype: Dtype of the vectors. If None, the saved dtype or, for a file of word vectors,
                the default dtype of Keras.

        Returns:
            The embedder, not compiled.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file has another format or is damaged.
        """
        place = Path(path).expanduser()
        if place.is_file() and not _is_task(place):
            return cls.from_vectors(read_word_vectors(place), dtype)
        return super().load(path, dtype)

    def word_ids(self, texts: Texts) -> WordIds:
        """Encodes texts with the tokenizer of this task; returns `WordIds` unchanged.

        Raises:
            ValueError: If `WordIds` have another vocabulary.
        """
        if not isinstance(texts, WordIds):
            return WordIds.encoded(texts, self.tokenizer)
        if texts.tokenizer.vocabulary != self.tokenizer.vocabulary:
            raise ValueError(
                "Expected ids of this task's words. Received: ids of another vocabulary, with "
                f"{texts.tokenizer.vocabulary_size:,} words."
            )
        return texts

    def dataset(self, texts: Texts, **settings: Any) -> WordWindows:
        """Creates batches for `model.fit`.

        Args:
            texts: Strings, or `WordIds`.
            **settings: Settings of `keras_attn.batches.WordWindows`: `window`, `batch_size`,
                `seed`, ...

        Returns:
            `WordWindows` of words, context words and noise words.

        Raises:
            ValueError: If the texts contain fewer than two known words, or `WordIds` have another
                vocabulary.
        """
        ids = self.word_ids(texts)
        self._counts = ids.counts
        return WordWindows(
            ids.ids, ids.lengths, ids.counts, **{"cbow": self.config.cbow, **settings}
        )

    def objective(self, training: EmbeddingsTraining) -> dict[str, Any]:
        """Returns a dict with the `loss`, a `NegativeSamplingLoss` as in word2vec."""
        return {"loss": NegativeSamplingLoss(training.negatives)}

    def _compile_model(self, total_steps: int, training: Any, more: Mapping[str, Any]) -> None:
        """Compiles with plain SGD, which updates only the rows of a batch.

        The loss is a mean over places; the rate is that of a single pair of words, as in word2vec.
        A word that is in more than `row_steps` steps of a batch takes so many in all; with a rate
        above the default, as many less.
        """
        places = WordWindows.places(training.batch_size)
        rate = training.learning_rate or self.config.learning_rate
        schedule = keras.optimizers.schedules.PolynomialDecay(
            rate * places, max(1, total_steps), min(rate, training.last_learning_rate) * places
        )
        optimizer = keras.optimizers.SGD(schedule)
        if self._counts is not None:
            names = ("window", "negatives", "subsample", "noise_power")
            loads = row_loads(
                self._counts,
                batch_size=places,
                cbow=self.config.cbow,
                **{name: getattr(training, name) for name in names},
            )
            tables = [self.model.get_layer(n).embeddings for n in ("embedding", "context")]
            most = training.row_steps * min(1.0, self.config.learning_rate / rate)
            factors = [most / np.maximum(load, most) for load in loads]
            scale_row_steps(optimizer, {id(t): f for t, f in zip(tables, factors, strict=True)})
        settings = {
            "optimizer": optimizer,
            "jit_compile": jit_compile(recurrent=False),
            "steps_per_execution": checked_steps(training.steps_per_execution),
            **self.objective(training),
        }
        self.model.compile(**{**settings, **more})

    def scorer(self, dev: Any, training: EmbeddingsTraining) -> Any:
        """Raises a ValueError, because development texts do not measure the quality of vectors."""
        raise ValueError(
            "Word embeddings do not use development texts. Received: `dev`. Leave it out, "
            "and measure the vectors with `evaluate`, on analogies or pairs of words."
        )

    def describe(self, batches: WordWindows) -> list[str]:
        """Returns lines for the log about the initial vectors, the model and the batches."""
        return [
            *([self.started] if self.started else []),
            f"{batches.num_examples:,} words, {self.model.count_params():,} weights, "
            f"{len(batches):,} batches an epoch, {keras.backend.backend()}",
        ]

    def digest(self, examples: Texts, dev: Texts | tuple[()]) -> str:
        """Returns a digest of the words of a run."""
        names = [self.word_ids(side).fingerprint for side in (examples, dev) if len(side)]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]

    # Questions about words

    def nearest(self, text: str, top_k: int = EmbeddingsUse.top_k) -> list[Neighbour]:
        """Finds the words nearest to a word, or to sums and differences of words.

        Args:
            text: A word, or words with `+` or `-` between them, separated by white space: `"king -
                man + woman"`.
            top_k: Maximum number of words to return.

        Returns:
            A list of `Neighbour`s (word and cosine), the nearest first, without the words of
            `text`.

        Raises:
            ValueError: If a word has no vector, there is no word, or `top_k` is less than 1.
        """
        signed = signed_words(text.split())
        plus, minus = ([word for word, sign in signed if sign == side] for side in (1, -1))
        return self.space().nearest(plus, minus, top_k)

    def analogy(self, a: str, b: str, c: str, top_k: int = EmbeddingsUse.top_k) -> list[Neighbour]:
        """Answers "a is to b as c is to ...?": the words nearest to b - a + c.

        Args:
            a: A word, such as `"man"`.
            b: A word, such as `"woman"`.
            c: A word, such as `"king"`.
            top_k: Maximum number of words to return.

        Returns:
            A list of `Neighbour`s (word and cosine), the nearest first, without a, b and c.

        Raises:
            ValueError: If a word has no vector, or `top_k` is less than 1.
        """
        return self.space().nearest([b, c], [a], top_k)

    def results(
        self, texts: Sequence[str], use: EmbeddingsUse, *, batch_size: int = 64
    ) -> list[dict[str, Any]]:
        """Finds the words nearest to words, or to sums and differences of words.

        Args:
            texts: A string such as `"king"` or `"king - man + woman"`, or a list of such strings.
            use: Settings of class `Use`.
            batch_size: Number of texts that are computed at once.

        Returns:
            A dict with the nearest `words` and their `similarities` (cosines) for a string, or a
            list of dicts for a list. `words` and `similarities` are empty if the string has no
            words, or a word without a vector.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If a setting is out of range.
        """
        rounded = EmbeddingsUse(top_k=rounded_count(use.top_k))
        rows = []
        for i in range(0, len(texts), batch_size):
            outputs = self._computed({"words": texts[i : i + batch_size]}, rounded)
            for words, cosines in zip(outputs["words"], outputs["similarities"], strict=True):
                there = min(use.top_k, words.index("") if "" in words else len(words))
                rows.append({"words": words[:there], "similarities": cosines[:there]})
        return rows

    @property
    def inputs(self) -> dict[str, Any]:
        """The field `words`, which converts strings to the ids of added and subtracted words."""
        return {"words": WordSum(self.tokenizer.vocabulary, self.tokenizer.unknown_id)}

    @property
    def outputs(self) -> dict[str, Any]:
        """The fields `words`, the nearest words, and `similarities`, their cosines."""
        return {
            "words": Names(["", *self.tokenizer.vocabulary[1:]], "ids"),
            "similarities": Numbers("similarities"),
        }

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Tensor], use: EmbeddingsUse
    ) -> dict[str, Tensor]:
        """Finds the words nearest to sums and differences of words.

        Args:
            xp: The array module, `keras.ops`.
            tensors: A dict of `words (B, T)`: ids of added words, negated ids of subtracted words,
                and 0 in padding.
            use: Settings of class `Use`, with the number of words `top_k`.

        Returns:
            A dict of `ids` and `similarities` (cosines) `(B, k)`, the nearest word first, where k
            is `top_k`, or the size of the vocabulary if that is less. Both are 0 in a row that has
            an unknown word or no words, and where fewer than k words are left.
        """
        signed = ops.cast(tensors["words"], "int32")
        table = ops.cast(self.table, "float32")
        lengths = ops.sqrt(ops.sum(ops.square(table), axis=-1, keepdims=True))
        units = table / ops.maximum(lengths, 1e-12)
        ids = ops.abs(signed)  # (B, T)
        # How often each word is added, less how often it is taken away, and how often it is there:
        # (B, V). Neither (B, T, D) nor (B, T, V) is made, which are large for long texts.
        rows = ops.cumsum(ops.ones_like(ids), axis=0) - 1
        at = ops.stack([ops.reshape(rows, (-1,)), ops.reshape(ids, (-1,))], axis=1)
        shape = ops.shape(ids)[0], self.tokenizer.vocabulary_size
        signs = ops.reshape(ops.cast(ops.sign(signed), "float32"), (-1,))
        wanted = ops.matmul(ops.scatter(at, signs, shape), units)  # (B, D)
        given = ops.scatter(at, ops.ones_like(signs), shape) > 0
        far = ops.maximum(ops.sqrt(ops.sum(ops.square(wanted), axis=-1, keepdims=True)), 1e-12)
        cosines = ops.matmul(wanted / far, ops.transpose(units))  # (B, V)
        places = ops.cumsum(ops.ones_like(cosines[:1], dtype="int32"), axis=1) - 1
        cosines = ops.where(ops.logical_or(given, places < _SPECIAL), -2.0, cosines)
        top_k = min(use.top_k, self.tokenizer.vocabulary_size)
        best, nearest = ops.top_k(cosines, top_k)
        unknown = ops.any(ids == self.tokenizer.unknown_id, axis=1, keepdims=True)
        none = ops.logical_or(unknown, ops.all(ids == 0, axis=1, keepdims=True))
        none = ops.logical_or(none, best < -1.5)
        return {
            "ids": ops.where(none, 0, ops.cast(nearest, "int32")),
            "similarities": ops.where(none, 0.0, best),
        }

    # Measuring

    @classmethod
    def checked(cls, examples: Any) -> WordTests:
        """Returns `WordTests`: the argument itself or, if it is a `Test` or a dict of settings of
        class `Test`, the tests in the files that the settings name."""
        if isinstance(examples, WordTests):
            return examples
        test = made(EmbeddingsTest, examples)
        test.check()
        return WordTests.read(test.analogies, test.pairs, test.first)

    def measured(self, examples: WordTests, use: EmbeddingsUse) -> WordSpace:
        """Returns the `WordSpace` of all words, which `report` uses to score the tests."""
        return self.space()

    def report(
        self, tests: WordTests, results: WordSpace, *, first: int | None = None
    ) -> EmbeddingsReport:
        """Measures the vectors on analogies and on pairs of words.

        Args:
            tests: `WordTests`; or settings of class `Test`, or a dict of these settings, with the
                paths of files.
            results: The result of `measured`: a `WordSpace` of all words.
            first: Number of most frequent words that analogies may contain; 0 for all. None for the
                number in `tests`.

        Returns:
            An `EmbeddingsReport`, which `print` shows: the accuracy for analogies, if there are
            any, and Spearman's correlation for each file of word pairs.

        Raises:
            FileNotFoundError: If a file does not exist.
            TypeError: If a setting is unknown or has the wrong type.
            ValueError: If a file has the wrong format, a setting is out of range, or settings name
                no file.
        """
        first = tests.first if first is None else first
        asked = any(tests.analogies.values())
        return EmbeddingsReport(
            results.analogies(tests.analogies, first) if asked else None,
            {name: results.word_pairs(pairs) for name, pairs in tests.pairs.items()},
        )

    # Files

    def save_vectors(self, path: str | os.PathLike[str], format: str = VectorsFile.format) -> None:
        """Writes the words and their vectors to a file for other libraries.

        Args:
            path: Path of the file.
            format: `"glove"`, `"word2vec"`, `"word2vec_binary"`, `"npy"` or `"npz"`, or `"auto"` to
                choose by the end of the file name; see `keras_attn.interop.write_word_vectors`.
        """
        write_word_vectors(path, self.vectors, format)

    def word_page(
        self,
        words: int | Sequence[str] = WordPage.count,
        top_k: int = EmbeddingsUse.top_k,
        title: str = WordPage.title,
        seed: int = WordPage.seed,
    ) -> str:
        """Returns an HTML page with a map of words (t-SNE). Words can be searched, and a click on a
        word shows its neighbours.

        Args:
            words: The words on the map, or the number of most frequent words.
            top_k: Number of neighbours of a word.
            title: Heading of the page.
            seed: Seed of the map.

        Returns:
            The page as an HTML string; write it as UTF-8.

        Raises:
            ImportError: If scikit-learn is not installed.
            ValueError: If a word has no vector, or there are fewer than five words.
        """
        return word_map_page(self.space(), words, top_k=top_k, title=title, seed=seed)

    # The command

    @step("nearest", takes=("use",), reads="WORDS...", model=_MODEL)
    def _show_nearest(self, inputs: Sequence[str], use: EmbeddingsUse) -> Iterator[str]:
        """Show the words nearest to each of WORDS.

        In place of a word there may be a sum and difference, in quotation marks: "king - man +
        woman".
        """
        found = [self.nearest(text, use.top_k) for text in inputs]  # or an error, before any line
        for number, text in enumerate(inputs):
            if number:
                yield ""
            yield text
            yield from _shown(found[number])

    @step("analogy", takes=("use",), reads="A B C", model=_MODEL)
    def _show_analogy(self, inputs: Sequence[str], use: EmbeddingsUse) -> Iterator[str]:
        """Answer: A is to B as C is to which word? The words nearest to B - A + C are shown."""
        a, b, c = inputs
        return _shown(self.analogy(a, b, c, use.top_k))

    @step("vectors", settings=VectorsFile, writes="file", model=_MODEL)
    def _write_vectors(self, to: Path, vectors: VectorsFile) -> str:
        """Write the words and their vectors to a file that other programs read.

        Every task with --word-vectors can start from it, and gensim reads word2vec's two forms.
        """
        self.save_vectors(to, vectors.format)
        return f"{to}: {self.vectors}"

    @step("page", takes=("use",), settings=WordPage, writes="page", model=_MODEL)
    def _write_page(self, to: Path, use: EmbeddingsUse, page: WordPage) -> str:
        """Write a page with a map of words: search, and the neighbours of a word on a click.

        It is one file of HTML that fetches nothing.
        """
        text = self.word_page(page.count, use.top_k, page.title, page.seed)
        with open_output(to) as file:
            file.write(text)
        return str(to)


def _is_task(path: Path) -> bool:
    if not is_archive(path):
        return False
    with open_archive(path, "a saved task, or word vectors") as archive:
        return "task.json" in archive.names


def _shown(neighbours: Iterable[Neighbour]) -> Iterator[str]:
    return (f"{similarity:7.4f}  {word}" for word, similarity in neighbours)

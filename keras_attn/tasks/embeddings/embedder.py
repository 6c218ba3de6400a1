"""Word embeddings: vectors of words, learned from plain text (word2vec)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from keras_attn.archives import is_archive, open_archive
from keras_attn.batches import WordWindows, row_loads
from keras_attn.files import open_output
from keras_attn.interop import WordVectors, read_word_vectors, word_vector_width
from keras_attn.metrics import Neighbour
from keras_attn.models import WORD_MODELS
from keras_attn.settings import Choice
from keras_attn.tasks.base.compiling import checked_steps, jit_compile
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.embeddings.data import WordIds, read_words
from keras_attn.tasks.embeddings.predictions import (
    EmbeddingsLearned,
    EmbeddingsPredictions,
    WordTests,
    tokenizer_of,
)
from keras_attn.tasks.embeddings.settings import (
    EmbeddingsData,
    EmbeddingsTest,
    EmbeddingsTraining,
    EmbeddingsUse,
    VectorsFile,
    WordPage,
)
from keras_attn.text.registry import vocabulary_digest
from keras_attn.training import NegativeSamplingLoss, scale_row_steps

Texts = WordIds | Sequence[str]
_MODEL = "the model, such as RUN/best.task; or a file of word vectors"


class WordEmbedder(EmbeddingsPredictions):
    """Vectors of words, learned from plain text by skip-gram or CBOW with negative sampling.

    `.model` is the plain Keras model from words and those around them to logits, `.dataset(texts)`
    what its `fit` takes, `.vectors` the words with their vectors. The examples of `fit` are texts.

    References:
        - [Mikolov et al., 2013](https://arxiv.org/abs/1301.3781): skip-gram and CBOW.
        - [Mikolov et al., 2013](https://arxiv.org/abs/1310.4546): negative sampling, subsampling.

    Args:
        tokenizer: A `WordTokenizer`; its words have vectors.
        model: Settings of one of `kinds`, a dict of them such as `{"model": "cbow", "dim": 50}`,
            or None for the default, skip-gram.
        data: Settings `EmbeddingsData`, or a dict of some of them.
        dtype: Dtype of the vectors; only float32 can be trained and used.

    Raises:
        TypeError: If the tokenizer is another one.
        ValueError: If a setting is unknown or out of range.

    Example:

    >>> texts = ["the cat sat on the mat", "the dog sat on the log"] * 20
    >>> embedder = WordEmbedder.create(texts, model={"dim": 8})
    >>> run = embedder.fit(texts, epochs=2, batch_size=64, verbose=0)
    >>> len(embedder.nearest("cat", top_k=3)), embedder.vectors
    (3, <WordVectors of 7 words, 8 wide>)
    """

    name = "embeddings"
    summary = "Learn vectors of words (word2vec), and look at them: neighbours, analogies, a map."
    kinds = WORD_MODELS
    Data = EmbeddingsData
    data: EmbeddingsData
    Training = EmbeddingsTraining
    Test = EmbeddingsTest
    steps = ("fit", "evaluate", "predict", "export")
    examples_are = "texts"
    decide_nothing = ("started",)
    main_layer = "embedding"

    started = ""
    """What the vectors started from, in words."""
    _counts: np.ndarray | None = None

    def model_sizes(self) -> dict[str, Any]:
        """Returns the number of words."""
        return {"vocabulary_size": self.tokenizer.vocabulary_size}

    def facts(self) -> list[str]:
        """What tells this embedder from others, for its `repr`."""
        return [
            self.kinds.name_of(self.config),
            f"{len(self.tokenizer.vocabulary) - 4:,} words, {self.config.dim} wide",
        ]

    # Data and training

    @classmethod
    def read(cls, data: EmbeddingsData) -> Examples:
        """Reads text files: plain text, or JSON lines with a text under --key.

        In plain text, blank lines part the texts. The words around a word never belong to another
        text. Words that occur less than --min-frequency times are left out.
        """
        ids = read_words(data)
        return Examples(ids, None, ids.summary())

    def read_test(self, test: EmbeddingsTest, data: Any = None) -> WordTests:
        """Reads the files of questions."""
        return WordTests.read(test)

    @classmethod
    def model_of(cls, data: EmbeddingsData, model: Any) -> Choice:
        """Returns the settings of the model of a run: as wide as `data.word_vectors`, if given."""
        chosen = super().model_of(data, model)
        if not data.word_vectors:
            return chosen
        width = word_vector_width(data.word_vectors)
        if chosen.values.get("dim", width) != width:
            raise ValueError(
                f"`dim` is the width of the word vectors, {width} in {data.word_vectors}. "
                f"Received: dim={chosen.values['dim']}. Leave it out."
            )
        return cls.kinds.made({cls.kinds.key: chosen.name, **chosen.values, "dim": width})

    @classmethod
    def begin(
        cls, examples: Texts, data: EmbeddingsData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Counts the words of texts."""
        ids = examples if isinstance(examples, WordIds) else WordIds.counted(examples, data)
        return Beginning(EmbeddingsLearned(ids.tokenizer), cls.model_of(data, model))

    @classmethod
    def begun(cls, start: Beginning, data: EmbeddingsData, dtype: Any = None) -> Self:
        """Makes an embedder, whose vectors start from those of `data.word_vectors`."""
        embedder = super().begun(start, data, dtype)
        if data.word_vectors:
            embedder._start(data.word_vectors)
        return embedder

    def _start(self, place: str) -> None:
        words = self.tokenizer.vocabulary
        vectors = read_word_vectors(place, words[4:])
        if not len(vectors):
            raise ValueError(
                f"Expected vectors of words in the texts. Received: {place}, which has none of "
                f"{len(words) - 4:,} words. Is it of another language, or in capitals?"
            )
        table = np.array(keras.ops.convert_to_numpy(self.model.get_layer("embedding").embeddings))
        rows = [i for i, word in enumerate(words) if i > 3 and word in vectors]
        table[rows] = np.stack([vectors[words[i]] for i in rows])
        self.model.get_layer("embedding").embeddings.assign(table)
        self.started = (
            f"Word vectors of {place}: {len(rows):,} of {len(words) - 4:,} words start from theirs"
        )

    @classmethod
    def from_vectors(cls, vectors: WordVectors, dtype: Any = None) -> Self:
        """Makes an embedder of vectors that were learned elsewhere.

        Args:
            vectors: The words and their vectors, the commonest first.
            dtype: As in the constructor.

        Returns:
            A `WordEmbedder`.

        Example:

        >>> vectors = WordVectors(["cat", "dog", "sun"], [[1, 0], [0.9, 0.1], [0, 1]])
        >>> WordEmbedder.from_vectors(vectors).nearest("cat")[0].word
        'dog'
        """
        kept = [i for i, word in enumerate(vectors.words) if word not in _SPECIAL]
        if len(kept) < len(vectors):
            vectors = WordVectors([vectors.words[i] for i in kept], vectors.vectors[kept])
        embedder = cls(tokenizer_of(vectors), model={"dim": vectors.dim}, dtype=dtype)
        table = np.concatenate([np.zeros((4, vectors.dim), "float32"), vectors.vectors])
        embedder.model.get_layer("embedding").embeddings.assign(table)
        return embedder

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> Self:
        """Loads what `save` wrote, or a file of word vectors.

        Args:
            path: The file: of `save`, or one that `keras_attn.interop.read_word_vectors` reads.
            dtype: As in the constructor; what was saved if None.

        Returns:
            The embedder, not compiled.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is another file, or damaged.
        """
        place = Path(path).expanduser()
        if place.is_file() and not _is_task(place):
            return cls.from_vectors(read_word_vectors(place), dtype)
        return super().load(path, dtype)

    def word_ids(self, texts: Texts) -> WordIds:
        """Encodes texts, if they are not encoded yet.

        Args:
            texts: Strings; or `WordIds`.

        Returns:
            `WordIds`.

        Raises:
            ValueError: If they were encoded by another tokenizer, or have no two known words.
        """
        if not isinstance(texts, WordIds):
            return WordIds.encoded(texts, self.tokenizer)
        if texts.tokenizer.vocabulary != self.tokenizer.vocabulary:
            raise ValueError(
                "Expected ids of this task's words. Received: those of another vocabulary, with "
                f"{texts.tokenizer.vocabulary_size:,} words."
            )
        return texts

    def dataset(self, texts: Texts, **settings: Any) -> WordWindows:
        """Makes batches for `model.fit`.

        Args:
            texts: Strings; or `WordIds`.
            **settings: Of `keras_attn.batches.WordWindows`: `window`, `batch_size`, `seed`, ...

        Returns:
            `WordWindows`.

        Raises:
            ValueError: If they have no two known words.
        """
        ids = self.word_ids(texts)
        settings = {"cbow": self.config.cbow, **settings}
        self._counts = ids.counts
        return WordWindows(ids.ids, ids.lengths, ids.counts, **settings)

    def batches(
        self, examples: Texts, training: EmbeddingsTraining, shuffle: bool = True
    ) -> WordWindows:
        """Makes the batches of a training, see `dataset`."""
        names = ("window", "noise_words", "noise_power", "subsample", "batch_size", "seed")
        settings = {name: getattr(training, name) for name in names}
        return self.dataset(examples, shuffle=shuffle, **settings)

    def objective(self, training: EmbeddingsTraining) -> dict[str, Any]:
        """The loss of word2vec, see `NegativeSamplingLoss`."""
        return {"loss": NegativeSamplingLoss(training.negatives)}

    def _compile_model(self, total_steps: int, training: Any, more: Mapping[str, Any]) -> None:
        """Compiles with plain SGD, which updates the rows of a batch alone.

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
        """Refuses development texts, which say little of the worth of vectors."""
        raise ValueError(
            "Word embeddings are not chosen by development texts. Received: `dev`. Leave it out, "
            "and measure the vectors by `evaluate`, on analogies or pairs of words."
        )

    def describe(self, batches: WordWindows) -> list[str]:
        """Says what is trained."""
        return [
            *([self.started] if self.started else []),
            f"{batches.num_examples:,} words, {self.model.count_params():,} weights, "
            f"{len(batches):,} batches an epoch, {keras.backend.backend()}",
        ]

    def digest(self, examples: Texts, dev: Sequence[str] = ()) -> str:
        """Names the words of a run."""
        names = [self.word_ids(side).fingerprint for side in (examples, dev) if len(side)]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]

    # Files

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    # The command

    @step("nearest", takes=("use",), reads="WORDS...", model=_MODEL)
    def _show_nearest(self, inputs: Sequence[str], use: EmbeddingsUse) -> Iterator[str]:
        """Show the words nearest to each of WORDS.

        In place of a word there may be a sum and difference, in quotation marks: "king - man +
        woman".
        """
        for number, text in enumerate(inputs):
            if number:
                yield ""
            yield text
            yield from _shown(self.nearest(text, use.top_k))

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


_SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")


def _is_task(path: Path) -> bool:
    if not is_archive(path):
        return False
    with open_archive(path, "a saved task, or word vectors") as archive:
        return "task.json" in archive.names


def _shown(found: Iterable[Neighbour]) -> Iterator[str]:
    return (f"{similarity:7.4f}  {word}" for word, similarity in found)

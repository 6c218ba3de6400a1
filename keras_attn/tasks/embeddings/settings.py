"""Settings of word embeddings: data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keras_attn.interop.word_vectors import FORMATS
from keras_attn.settings import Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.training_settings import RunSettings
from keras_attn.tasks.families.data_settings import BadLines, RunningTexts


@dataclass(frozen=True)
@with_defaults(
    words={
        "texts": "text to learn from: a file, a folder or a pattern; several may be joined by ':'"
    },
    steps={"on_error": (), "key": ()},
    required={"text": True},
)
class EmbeddingsData(BadLines, RunningTexts):
    """The texts that are read, and which words get a vector.

    Example:

    >>> EmbeddingsData(text="corpus.txt").min_frequency
    5
    """

    min_frequency: int = setting(
        5, "smallest number of occurrences of a word that gets a vector", at_least=1
    )
    vocabulary_size: int | None = setting(
        None, "largest number of words with 4 special tokens; no limit if none", kind=int,
        at_least=6,
    )  # fmt: skip
    lowercase: bool = setting(True, "lower-case all letters")
    word_vectors: str = setting(
        "", "file of word vectors to start from (GloVe's text, word2vec, .npy, .npz); dim is theirs"
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
    """Settings of the training of word embeddings.

    Example:

    >>> EmbeddingsTraining(epochs=3).window
    5
    """

    window: int = setting(5, "largest number of words on each side that are predicted", at_least=1)
    negatives: int = setting(5, "noise words for each pair of words, in the mean", at_least=1)
    noise_words: int = setting(
        32, "noise words drawn for each 16 words side by side, which share them", at_least=1
    )
    noise_power: float = setting(
        0.75, "noise words are drawn by their frequency to this power", at_least=0
    )
    subsample: float = setting(
        1e-3, "share of a word in the text above which it is left out now and then; 0 keeps all",
        at_least=0,
    )  # fmt: skip
    last_learning_rate: float = setting(
        1e-4, "what the learning rate falls to, in a straight line", at_least=0
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
    """Settings of neighbours and analogies.

    Example:

    >>> EmbeddingsUse().top_k
    10
    """

    top_k: int = setting(
        10, "number of neighbours of a word", at_least=1,
        steps=("predict", "nearest", "analogy", "page", "export"),
    )  # fmt: skip


@dataclass(frozen=True)
class EmbeddingsTest(Settings):
    """Settings of the evaluation of word embeddings.

    Example:

    >>> EmbeddingsTest(analogies="questions-words.txt").first
    30000
    """

    analogies: str = setting("", "file of analogies, in the form of word2vec's questions-words.txt")
    pairs: tuple = setting(
        (), "file of pairs of words with a score, such as WordSim353 or SimLex999; may be repeated"
    )
    first: int = setting(
        30_000, "analogies: number of the commonest words that may be asked and answered; 0: all",
        at_least=0,
    )  # fmt: skip

    def check(self, data: Settings | None = None) -> None:
        """Raises a ValueError if there is nothing to measure on."""
        if not self.analogies and not self.pairs:
            raise WrongUse("Give --analogies, --pairs or both (`analogies`, `pairs`).")


@dataclass(frozen=True)
class VectorsFile(Settings):
    """The file that `vectors` writes."""

    format: str = setting(
        "auto", "auto goes by the end of the name: .bin is word2vec's binary form, .npy and .npz "
        "are NumPy's, any other is GloVe's text",
        choices=("auto", *FORMATS),
    )  # fmt: skip


@dataclass(frozen=True)
class WordPage(Settings):
    """The page that `page` writes."""

    count: int = setting(1000, "number of words on the map, the commonest", at_least=5)
    title: str = setting("Words", "title of the page")
    seed: int = setting(0, "seed of the map")

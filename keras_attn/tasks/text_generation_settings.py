"""The settings of a text generation run: its data, model, training and sampling."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from keras_attn.generation.sampling import check_sampling
from keras_attn.settings import Settings, setting
from keras_attn.tasks.training_settings import PRECISIONS, devices_setting


@dataclass(frozen=True)
class TextDataSettings(Settings):
    """Which text is read, and how it is split. The help texts say what each setting does.

    Example:

    >>> TextDataSettings().dev_share
    0.05
    """

    text: str = setting(
        "", "text file to learn from; Shakespeare's works if empty", shapes_result=False
    )
    dev: str = setting("", "text file to score after each epoch, instead", shapes_result=False)
    dev_share: float = setting(
        0.05, "share of the text, before the test, that is scored after each epoch", at_least=0,
        below=1,
    )  # fmt: skip
    test_share: float = setting(
        0.1, "share at the end of the text that is not learnt from", at_least=0, below=1
    )
    vocabulary_size: int = setting(
        0, "most characters, the commonest, with 4 special ones; 0: all", at_least=0
    )


@dataclass(frozen=True)
class TextModelSettings(Settings):
    """The recurrent model. The help texts say what each setting does.

    Example:

    >>> TextModelSettings(units=256).cell
    'lstm'
    """

    cell: str = setting("lstm", "kind of cell", choices=("lstm", "gru"))
    num_layers: int = setting(1, "recurrent layers", at_least=1)
    dim: int = setting(64, "width of the embeddings", at_least=1)
    units: int = setting(512, "width of the states", at_least=1)
    dropout: float = setting(
        0.2, "of embeddings, between layers and of the output", at_least=0, below=1
    )
    recurrent_dropout: float = setting(0.0, "of the states", at_least=0, below=1)
    tie_embeddings: bool = setting(False, "output tied to the embedding")


@dataclass(frozen=True)
class TextTrainingSettings(Settings):
    """The training. The help texts say what each setting does.

    Example:

    >>> TextTrainingSettings(epochs=3).learning_rate
    0.002
    """

    epochs: int = setting(10, "passes over the training text", at_least=1)
    sequence_length: int = setting(256, "characters of a window", at_least=2)
    batch_size: int = setting(64, "windows of a batch", at_least=1)
    learning_rate: float = setting(2e-3, "the highest", above=0)
    warmup_steps: int = setting(
        -1, "updates until it is reached; -1: a twentieth, at most 1000", at_least=-1
    )
    weight_decay: float = setting(0.0, "of AdamW; 0: plain Adam", at_least=0)
    clip_norm: float = setting(1.0, "largest norm of the gradient; 0: any", at_least=0)
    ema: float = setting(0.0, "momentum of the weights' average; 0: none", at_least=0, below=1)
    precision: str = setting("float32", "of the computation", choices=PRECISIONS)
    seed: int = setting(0, "of weights, dropout and the order of the data", at_least=0)
    steps_per_execution: int = setting(
        1,
        "batches between two looks at the outside, not on PyTorch; more speed up small models",
        at_least=1,
        shapes_result=False,
    )
    checkpoint_steps: int = setting(
        200, "batches between two checkpoints within an epoch", at_least=1, shapes_result=False
    )
    tensorboard: bool = setting(False, "write TensorBoard's logs too", shapes_result=False)
    device: str = setting(
        "auto", "where to train", choices=("auto", "cpu", "gpu"), shapes_result=False
    )
    devices: str = devices_setting()


@dataclass(frozen=True)
class TextSamplingSettings(Settings):
    """The sampling. The help texts say what each setting does.

    Example:

    >>> TextSamplingSettings(top_k=5).options()["top_k"]
    5
    """

    temperature: float = setting(0.8, "below 1 more sober, above 1 wilder", above=0)
    top_k: int = setting(0, "number of most probable characters; 0: all", at_least=0)
    top_p: float = setting(
        1.0, "probability of the characters that may come; at most 1: all", above=0
    )
    min_p: float = setting(0.0, "least share of the greatest probability", at_least=0, below=1)
    repetition_penalty: float = setting(1.0, "above 1: what was there comes less often", above=0)
    no_repeat_ngram_size: int = setting(
        0, "so many characters never come twice in one order; 0: any may", at_least=0
    )

    def __post_init__(self):
        super().__post_init__()
        check_sampling(**self.options())

    def options(self) -> dict[str, Any]:
        """Returns them as arguments of `TextGenerator.generate`."""
        return {**dataclasses.asdict(self), "top_k": self.top_k or None}


SECTIONS = {
    "data": TextDataSettings,
    "model": TextModelSettings,
    "training": TextTrainingSettings,
    "sampling": TextSamplingSettings,
}

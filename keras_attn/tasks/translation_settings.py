"""The settings of a translation run: its data, model, training and decoding."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from keras_attn.layers.block import NORMALIZATIONS
from keras_attn.layers.recurrent_cells import CELLS
from keras_attn.models import ENCODER_DECODERS
from keras_attn.models.recurrent import ATTENTIONS
from keras_attn.models.transformer import TRANSFORMER_POSITIONS
from keras_attn.ops.attention_kernels import KERNELS
from keras_attn.settings import Settings, setting
from keras_attn.tasks.training_settings import PRECISIONS, devices_setting

FORMATS = ("auto", "tsv", "parallel", "jsonl", "multi30k", "tatoeba")
TOKENIZE = ("13a", "char", "intl", "none", "zh", "ja-mecab", "ko-mecab", "flores200")
BATCHINGS = ("bucketed", "packed")


@dataclass(frozen=True)
class TranslationDataSettings(Settings):
    """How pairs are read and made into ids. The help texts say what each setting does.

    Example:

    >>> TranslationDataSettings(format="tsv").vocabulary_size
    8000
    """

    train: str = setting("", "file, folder or archive of training pairs", shapes_result=False)
    train_target: str = setting(
        "", "target side, where it is a file of its own", shapes_result=False
    )
    dev: str = setting("", "development pairs; drawn from the rest if empty", shapes_result=False)
    dev_target: str = setting("", "their target side", shapes_result=False)
    test: str = setting("", "test pairs; drawn from the rest if empty", shapes_result=False)
    test_target: str = setting("", "their target side", shapes_result=False)
    format: str = setting("auto", "what the files are", choices=FORMATS)
    source: str = setting(
        "", "source: language, key of JSON lines, or number of the column, from 0"
    )
    target: str = setting(
        "", "target: language, key of JSON lines, or number of the column, from 0"
    )
    on_error: str = setting(
        "error", "bad lines: stop, or skip and count them", choices=("error", "skip")
    )
    max_characters: int = setting(2000, "longer sides are bad lines", at_least=1)
    dev_size: int = setting(1000, "pairs drawn for development", at_least=1)
    test_size: int = setting(1000, "pairs drawn for the test", at_least=1)
    vocabulary_size: int = setting(8000, "byte pairs of the tokenizer", at_least=259)
    separate_vocabularies: bool = setting(False, "a tokenizer for each side, not one for both")
    max_length: int = setting(256, "tokens; pairs with a longer side are left out", at_least=2)
    split_seed: int = setting(0, "of the pairs that are drawn", at_least=0)


_BOTH = ("model", "num_layers", "dim", "dropout")
_RNN_ONLY = (
    "attention",
    "cell",
    "units",
    "recurrent_dropout",
    "order",
    "input_feeding",
    "window",
    "window_size",
)


@dataclass(frozen=True)
class TranslationModelSettings(Settings):
    """The model, a Transformer or a recurrent one. The help texts say what each setting does.

    Example:

    >>> TranslationModelSettings(num_layers=4).dim
    256
    >>> TranslationModelSettings(model="rnn", attention="luong-general").num_layers
    1
    """

    model: str = setting("transformer", "kind of the model", choices=tuple(ENCODER_DECODERS))
    num_layers: int = setting(
        0, "of encoder and decoder; 0: 3 of a Transformer, 1 of an rnn", at_least=0
    )
    dim: int = setting(256, "width; of an rnn that of the embeddings", at_least=1)
    num_heads: int = setting(4, "transformer: attention heads", at_least=1)
    intermediate_dim: int = setting(
        1024, "transformer: hidden width of the feed-forward networks", at_least=1
    )
    dropout: float = setting(0.1, "of embeddings, sublayers and outputs", at_least=0, below=1)
    attention_dropout: float = setting(
        0.0, "transformer: of attention weights", at_least=0, below=1
    )
    activation: str = setting("relu", "transformer: of the feed-forward networks")
    normalize_first: bool = setting(True, "transformer: pre-norm, not post-norm")
    normalization: str = setting(
        "layer_norm", "transformer: its norms", choices=tuple(NORMALIZATIONS)
    )
    gated: bool = setting(False, "transformer: gated feed-forward networks")
    use_bias: bool = setting(True, "transformer: biases of the projections")
    positions: str = setting(
        "sinusoidal", "transformer: its positions", choices=TRANSFORMER_POSITIONS
    )
    rematerialize: bool = setting(
        False,
        "transformer: compute blocks again for gradients, to save memory",
        shapes_result=False,
    )
    attention_kernel: str = setting(
        "auto",
        "transformer: what computes its attention",
        choices=KERNELS,
        shapes_result=False,
    )
    attention: str = setting(
        "additive", "rnn: its attention; none: a fixed context", choices=ATTENTIONS
    )
    cell: str = setting("gru", "rnn: its cells", choices=tuple(CELLS))
    units: int = setting(512, "rnn: width of the states, an even number", at_least=2)
    recurrent_dropout: float = setting(0.0, "rnn: of the states", at_least=0, below=1)
    order: str = setting(
        "auto",
        "rnn: attend from the previous state (bahdanau) or the present one (luong)",
        choices=("auto", "bahdanau", "luong"),
    )
    input_feeding: str = setting(
        "auto", "rnn: feed the attention vector to the next step", choices=("auto", "yes", "no")
    )
    window: str = setting(
        "none", "rnn: window of the attention", choices=("none", "monotonic", "predictive")
    )
    window_size: int = setting(10, "rnn: half-width of the window, in tokens", at_least=1)

    def __post_init__(self):
        super().__post_init__()
        if not self.num_layers:
            object.__setattr__(self, "num_layers", 3 if self.model == "transformer" else 1)
        for field in dataclasses.fields(self):
            kind = "rnn" if field.name in _RNN_ONLY else "transformer"
            value = getattr(self, field.name)
            if field.name not in _BOTH and kind != self.model and value != field.default:
                raise ValueError(
                    f"`{field.name}` belongs to model={kind!r}. "
                    f"Received: {field.name}={value!r} with model={self.model!r}."
                )
        if self.window == "none" and self.window_size != 10:
            raise ValueError(
                f"`window_size` belongs to a window. Received: window_size={self.window_size} with "
                "window='none'."
            )
        if self.model == "rnn":
            ENCODER_DECODERS["rnn"][0](source_vocabulary_size=1, **self._fields())  # checks them

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self.config().items() if name != "model"}

    def config(self) -> dict[str, Any]:
        """Returns what `Translator` takes: the settings of this kind of model."""
        values = dataclasses.asdict(self)
        if self.model == "transformer":
            return {name: value for name, value in values.items() if name not in _RNN_ONLY}
        values = {name: values[name] for name in (*_BOTH, *_RNN_ONLY)}
        values["order"] = None if self.order == "auto" else self.order
        values["input_feeding"] = {"auto": None, "yes": True, "no": False}[self.input_feeding]
        values["window"] = None if self.window == "none" else self.window
        values["window_size"] = self.window_size if values["window"] else None
        return values


@dataclass(frozen=True)
class TranslationTrainingSettings(Settings):
    """The training. The help texts say what each setting does.

    Example:

    >>> TranslationTrainingSettings(epochs=3).learning_rate
    0.001
    """

    epochs: int = setting(20, "passes over the training pairs", at_least=1)
    tokens_per_batch: int = setting(
        4096, "tokens of a batch on its longer side, with padding", at_least=1
    )
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
    learning_rate: float = setting(1e-3, "the highest", above=0)
    warmup_steps: int = setting(
        -1, "updates until it is reached; -1: a tenth, at most 4000", at_least=-1
    )
    label_smoothing: float = setting(0.1, "share spread over the vocabulary", at_least=0, below=1)
    weight_decay: float = setting(0.0, "of AdamW; 0: plain Adam", at_least=0)
    clip_norm: float = setting(0.0, "largest norm of the gradient; 0: any", at_least=0)
    ema: float = setting(
        -1.0,
        "momentum of the weights' average; 0: none; -1: by the run's length",
        at_least=-1,
        below=1,
    )
    precision: str = setting("float32", "of the computation", choices=PRECISIONS)
    seed: int = setting(0, "of weights, dropout and the order of the data", at_least=0)
    score_epochs: int = setting(1, "epochs between two scores of the development set", at_least=1)
    score_pairs: int = setting(500, "development pairs that are translated then", at_least=1)
    score_beams: int = setting(1, "width of the beam search then; 1: greedy", at_least=1)
    score_tokenize: str = setting("13a", "sacrebleu's tokenizer of these scores", choices=TOKENIZE)
    steps_per_execution: int = setting(
        1,
        "batches between two looks at the outside, not on PyTorch; more speed up small models",
        at_least=1,
        shapes_result=False,
    )
    checkpoint_steps: int = setting(
        1000, "batches between two checkpoints within an epoch", at_least=1, shapes_result=False
    )
    tensorboard: bool = setting(False, "write TensorBoard's logs too", shapes_result=False)
    device: str = setting(
        "auto", "where to train", choices=("auto", "cpu", "gpu"), shapes_result=False
    )
    devices: str = devices_setting()

    def __post_init__(self):
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
class TranslationDecodingSettings(Settings):
    """The beam search. The help texts say what each setting does.

    Example:

    >>> TranslationDecodingSettings().beams
    4
    """

    beams: int = setting(4, "width of the beam search; 1: greedy", at_least=1)
    alpha: float = setting(1.0, "exponent of the length penalty")
    batch_size: int = setting(64, "sentences decoded at a time", at_least=1)


SECTIONS = {
    "data": TranslationDataSettings,
    "model": TranslationModelSettings,
    "training": TranslationTrainingSettings,
    "decoding": TranslationDecodingSettings,
}

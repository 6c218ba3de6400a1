"""The settings of a captioning run: its data, model, training and decoding."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from keras_attn.models.image_encoders import APPLICATIONS
from keras_attn.settings import Settings, setting
from keras_attn.tasks.training_settings import PRECISIONS, devices_setting

FORMATS = ("auto", "karpathy", "coco", "flickr8k", "csv", "ucm", "emoji")
MODELS = ("soft-attention", "transformer")
SMALL_ENCODERS = ("small-cnn", "patches")
ENCODERS = (*SMALL_ENCODERS, "vgg16-lpips", *APPLICATIONS)
SCORES = ("cider", "bleu_4", "perplexity")
_OF_MODELS = {
    "soft-attention": ("units", "attention_units", "doubly_stochastic", "context_gate"),
    "transformer": ("num_layers", "num_heads", "intermediate_dim", "region_positions"),
}
_OF_ENCODERS = {
    "small-cnn": ("filters", "image_attention"),
    "patches": ("patch_size", "patch_layers", "patch_dim", "patch_heads"),
}


@dataclass(frozen=True)
class CaptioningDataSettings(Settings):
    """Which captioned pictures are read, and how. The help texts say what each setting does.

    Example:

    >>> CaptioningDataSettings(train="captions.csv", image="photo").caption
    'caption'
    """

    train: str = setting(
        "", "file of captions, or folder of UCM-Captions; emoji if empty", shapes_result=False
    )
    dev: str = setting("", "file to choose the best weights by, instead", shapes_result=False)
    format: str = setting("auto", "of the files", choices=FORMATS)
    image_dir: str = setting(
        "", "folder of the pictures, if not that of the file", shapes_result=False
    )
    dev_image_dir: str = setting(
        "", "of --dev, if not the same; train2017 and val2017 of COCO", shapes_result=False
    )
    train_split: str = setting("train", "side or sides, with commas, of karpathy, ucm and emoji")
    dev_split: str = setting("val", "side, likewise, to choose the best weights by")
    train_names: str = setting("", "flickr8k: file with the names of one side", shapes_result=False)
    dev_names: str = setting("", "flickr8k: that of the development side", shapes_result=False)
    image: str = setting("image", "csv: column of the pictures")
    caption: str = setting("caption", "csv: column of the captions")
    delimiter: str = setting("", "csv: what parts the columns, if no comma (tab in *.tsv)")
    emoji_style: str = setting("twitter", "emoji: who drew them", choices=("twitter", "google"))
    on_error: str = setting(
        "error", "at pictures that are missing or broken", choices=("error", "skip")
    )
    dev_share: float = setting(
        0.1, "share of the pictures that is not learnt from, where nothing says which", above=0,
        below=1,
    )  # fmt: skip
    split_seed: int = setting(0, "of that split, and of the limit", at_least=0)
    limit: int = setting(0, "most pictures, drawn at random; 0: all", at_least=0)
    lowercase: bool = setting(True, "captions are learnt in lower case")
    vocabulary_size: int = setting(2000, "most byte pairs of the tokenizer", at_least=259)
    max_length: int = setting(40, "most tokens of a caption; longer ones are left out", at_least=2)

    def __post_init__(self):
        super().__post_init__()
        if len(self.delimiter) > 1:
            raise ValueError(f"`delimiter` must be one character. Received: {self.delimiter!r}.")


@dataclass(frozen=True)
class CaptioningModelSettings(Settings):
    """The encoder and the decoder. The help texts say what each setting does.

    Settings of other models than the chosen ones must be at their defaults.

    Example:

    >>> CaptioningModelSettings(filters="8, 16", model="transformer").filter_numbers
    (8, 16)
    """

    model: str = setting("soft-attention", "decoder of the captions", choices=MODELS)
    encoder: str = setting("small-cnn", "encoder of the pictures", choices=ENCODERS)
    encoder_weights: str = setting(
        "", "of encoders that were trained before: file, archive of vgg16-lpips, or none for "
        "random ones; downloaded if empty", shapes_result=False,
    )  # fmt: skip
    train_encoder: str = setting(
        "auto", "with the decoder; auto: where its weights are random",
        choices=("auto", "yes", "no"),
    )  # fmt: skip
    image_size: int = setting(
        0, "rows and columns to which pictures are resized; 0: the encoder's usual", at_least=0
    )
    encoder_dropout: float = setting(0.0, "small-cnn and patches: dropout", at_least=0, below=1)
    filters: str = setting("32,64,128,256", "small-cnn: channels; each halves the rows")
    image_attention: str = setting(
        "none", "small-cnn: attention within", choices=("none", "channel", "spatial", "cbam")
    )
    patch_size: int = setting(8, "patches: rows and columns of one", at_least=1)
    patch_layers: int = setting(4, "patches: Transformer blocks", at_least=1)
    patch_dim: int = setting(128, "patches: width", at_least=1)
    patch_heads: int = setting(4, "patches: attention heads", at_least=1)
    dim: int = setting(256, "width of the embeddings, and of the Transformer", at_least=1)
    dropout: float = setting(0.3, "of the decoder", at_least=0, below=1)
    units: int = setting(256, "soft-attention: width of the LSTM", at_least=1)
    attention_units: int = setting(
        0, "soft-attention: width of the attention; 0: that of the LSTM", at_least=0
    )
    doubly_stochastic: float = setting(
        1.0, "soft-attention: weight of that loss; 0: none", at_least=0
    )
    context_gate: bool = setting(True, "soft-attention: scale the context")
    num_layers: int = setting(2, "transformer: blocks", at_least=1)
    num_heads: int = setting(4, "transformer: attention heads", at_least=1)
    intermediate_dim: int = setting(1024, "transformer: width of its hidden layers", at_least=1)
    region_positions: str = setting(
        "sinusoidal", "transformer: what says where a region is",
        choices=("none", "sinusoidal", "learned"),
    )  # fmt: skip

    def __post_init__(self):
        super().__post_init__()
        chosen = {"model": self.model, "encoder": self.encoder}
        for what, kinds in (("model", _OF_MODELS), ("encoder", _OF_ENCODERS)):
            for kind, names in kinds.items():
                self._refuse(names, chosen[what] != kind, f"{what}={kind!r}", what)
        small = self.encoder in SMALL_ENCODERS
        self._refuse(("encoder_dropout",), not small, "encoder='small-cnn' or 'patches'", "encoder")
        self._refuse(("encoder_weights",), small, "an encoder that was trained before", "encoder")
        if self.encoder == "vgg16-lpips" and self.encoder_weights == "none":
            raise ValueError(
                "`encoder_weights` of 'vgg16-lpips' is an archive. Received: 'none'. With random "
                "weights the encoder is 'vgg16'."
            )
        if self.train_encoder == "no" and self.has_random_encoder:
            raise ValueError(
                f"train_encoder='no' is for an encoder that was trained before. Received: it, with "
                f"encoder={self.encoder!r} of random weights."
            )
        if self.encoder == "small-cnn":
            _ = self.filter_numbers

    def _refuse(self, names: tuple[str, ...], where: bool, owner: str, what: str) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        given = [name for name in names if where and getattr(self, name) != defaults[name]]
        if given:
            raise ValueError(
                f"{' and '.join(f'`{name}`' for name in given)} belong to {owner}. "
                f"Received: {what}={getattr(self, what)!r}."
            )

    @property
    def filter_numbers(self) -> tuple[int, ...]:
        """`filters` as numbers."""
        parts = [part.strip() for part in self.filters.split(",")]
        if not all(part.isdecimal() and int(part) for part in parts):
            raise ValueError(
                "`filters` must be positive integers with commas between them. Received: "
                f"{self.filters!r}."
            )
        return tuple(map(int, parts))

    @property
    def has_random_encoder(self) -> bool:
        """Whether the encoder is trained from the beginning."""
        return self.encoder in SMALL_ENCODERS or self.encoder_weights == "none"

    @property
    def trains_encoder(self) -> bool:
        """Whether the encoder is trained."""
        return self.has_random_encoder or self.train_encoder == "yes"

    def config(self) -> dict[str, Any]:
        """Returns those of the decoder as `Captioner` takes its config."""
        found = {name: getattr(self, name) for name in ("dim", "dropout", *_OF_MODELS[self.model])}
        if self.model == "soft-attention":
            found["attention_units"] = found["attention_units"] or None
        elif found["region_positions"] == "none":
            found["region_positions"] = None
        return {"kind": self.model, **found}


@dataclass(frozen=True)
class CaptioningTrainingSettings(Settings):
    """The training. The help texts say what each setting does.

    Example:

    >>> CaptioningTrainingSettings(epochs=3).score
    'cider'
    """

    epochs: int = setting(30, "passes over the training captions", at_least=1)
    batch_size: int = setting(64, "captions of a batch", at_least=1)
    learning_rate: float = setting(1e-3, "the highest", above=0)
    warmup_steps: int = setting(
        -1, "updates until it is reached; -1: a twentieth, at most 1000", at_least=-1
    )
    label_smoothing: float = setting(0.1, "share spread over the vocabulary", at_least=0, below=1)
    weight_decay: float = setting(0.0, "of AdamW; 0: plain Adam", at_least=0)
    clip_norm: float = setting(1.0, "largest norm of the gradient; 0: any", at_least=0)
    ema: float = setting(0.0, "momentum of the weights' average; 0: none", at_least=0, below=1)
    score: str = setting(
        "cider",
        "what the best weights are best in; pycocoevalcap has the first two",
        choices=SCORES,
    )
    score_beams: int = setting(3, "of the captions of the development pictures", at_least=1)
    score_pictures: int = setting(500, "most of those pictures", at_least=1)
    precision: str = setting(
        "float32", "of the computation, but for encoders that were trained before",
        choices=PRECISIONS,
    )  # fmt: skip
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
    cache_dir: str = setting(
        "", "folder for what an encoder that is not trained makes of the pictures; one in the "
        "cache if empty", shapes_result=False,
    )  # fmt: skip


@dataclass(frozen=True)
class CaptioningDecodingSettings(Settings):
    """The search for captions. The help texts say what each setting does.

    Example:

    >>> CaptioningDecodingSettings(beams=1).alpha
    1.0
    """

    beams: int = setting(4, "width of the beam search; 1: greedy", at_least=1)
    alpha: float = setting(1.0, "exponent of the length penalty")
    batch_size: int = setting(32, "pictures at a time", at_least=1)


SECTIONS = {
    "data": CaptioningDataSettings,
    "model": CaptioningModelSettings,
    "training": CaptioningTrainingSettings,
    "decoding": CaptioningDecodingSettings,
}

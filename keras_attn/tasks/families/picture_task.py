"""The base of tasks whose models read pictures by an `ImageEncoder`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras

from keras_attn.layers.quantization import float_policy
from keras_attn.models import ImageEncoder, ImageEncoderConfig
from keras_attn.tasks.base.constructed import made
from keras_attn.tasks.captioning.graph import example_files
from keras_attn.tasks.families.picture_regions import PictureRegions
from keras_attn.text.registry import vocabulary_digest


class PictureTask(PictureRegions):
    """A task with two models: an encoder of pictures, and a reader of what it makes of them.

    If the encoder is not trained, `.model` is the reader, whose regions are computed once; else it
    is `.joined`, the model from pictures. A subclass names its `main_layer`, a layer of the reader.
    """

    parts: ClassVar = {"encoder": ImageEncoderConfig}

    reader: keras.Model
    """The model from regions and tokens to logits."""
    joined: keras.Model
    """The model from pictures and tokens to logits."""
    _notes: Sequence[str] = ()

    @property
    def max_length(self) -> int:
        """Largest number of tokens of a text."""
        return self.data.max_length

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of vocabulary and regions, and the grid."""
        return {
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "region_dim": self.encoder.region_dim,
            "grid": self.encoder.grid,
        }

    def build(self, dtype: Any) -> None:
        """Builds the reader, and joins it to the encoder."""
        self.reader = self.config.build(dtype)
        self.joined = self.join(self.encoder, self.reader)

    @staticmethod
    @abstractmethod
    def join(encoder: ImageEncoder, reader: keras.Model, /) -> keras.Model:
        """Makes the model from pictures and tokens to logits, with the layers of two models.

        Args:
            encoder: The encoder.
            reader: The model from regions and tokens to logits.
        """

    @property
    def model(self) -> keras.Model:
        """The model that is trained; another one of the same kind may be assigned."""
        return self.joined if self.train_encoder else self.reader

    @model.setter
    def model(self, model: keras.Model) -> None:
        if self.train_encoder:
            self.reader, self.joined = model.get_layer(self.reader.name), model
            self.relearn(encoder=model.get_layer(self.encoder.name))
        else:
            self.reader, self.joined = model, self.join(self.encoder, model)

    @staticmethod
    def encoder_of(encoder: Any, dtype: Any) -> tuple[ImageEncoder, bool, dict[str, Any]]:
        """Makes the encoder of a new task.

        Args:
            encoder: Settings of an encoder, or an `ImageEncoder`, which is not trained.
            dtype: Dtype or policy of an encoder with random weights.

        Returns:
            The encoder, whether it is trained, and the settings of parts of the task.
        """
        if isinstance(encoder, ImageEncoder):
            return encoder, False, {}
        settings = made(ImageEncoderConfig, encoder)
        return settings.build(dtype), settings.is_trained, {"encoder": settings}

    @property
    def whole(self) -> keras.Model:
        """The model from pictures and tokens to logits."""
        return self.joined

    @property
    def policy(self) -> keras.DTypePolicy:
        """Dtype policy of the layers of the reader, as it was before the model was quantized."""
        return float_policy(self.reader.get_layer(self.main_layer))

    def facts(self) -> list[str]:
        """What tells this object from others, for its `repr`."""
        rows, columns = self.encoder.grid
        frozen = "" if self.train_encoder else " (not trained)"
        return [
            self.kinds.name_of(self.config),
            f"{self.encoder.name}{frozen} with {rows} x {columns} regions",
        ]

    def weights_digest(self) -> str:
        """Names the weights of an encoder that is not trained; empty if it is."""
        return "" if self.train_encoder else self.encoder.fingerprint()["weights"]

    def _models(self) -> tuple[keras.Model, ...]:
        return (self.joined, self.reader, self.encoder)

    @property
    def backbone(self) -> Mapping[str, tuple[str, ...]]:
        """The encoder and the reader, which are models within the whole one."""
        return {self.encoder.name: (), self.reader.name: ()}

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the reader."""
        return {self.reader.name: vocabulary_digest(self.tokenizer)}

    @property
    def export_tolerance(self) -> float:
        """How far figures of the SavedModel may be from those of this object."""
        return 1e-4 if self.encoder.output.dtype == "float32" == self.policy.compute_dtype else 3e-2

    @property
    def spare_row(self) -> Mapping[str, Any]:
        """A picture that an empty batch gets."""
        return {"image": example_files((1, 1))[0]}

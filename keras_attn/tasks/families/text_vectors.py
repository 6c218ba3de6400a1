"""Vectors of texts, for tasks that read each text alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_attn.fields import checked_texts
from keras_attn.models.sentence_encoder import unit_length
from keras_attn.tasks.families.encoder_task import EncoderTask

Tensor = Any


class TextVectors(EncoderTask):
    """Vectors of texts: a base class of tasks whose model is a `sentence_encoder`."""

    def vectors(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes vectors of texts, on every backend.

        Args:
            inputs: What `encoded` returns.
        """
        return {"vectors": self.logits(inputs)["vectors"]}

    def unit_vectors(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes vectors of length 1 of texts, on every backend.

        Args:
            inputs: What `encoded` returns.
        """
        return {"vectors": unit_length(self.logits(inputs)["vectors"])}

    def embed(
        self,
        texts: str | Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
    ) -> np.ndarray:
        """Computes vectors of texts.

        Args:
            texts: Strings; one string is a list of one.
            batch_size: Texts computed at a time.
            normalize: Whether the vectors have the length 1, so that their products are cosines.

        Returns:
            float32 `(n, D)`.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the task has no vectors of single texts.
        """
        self.check_embeds()
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        rows = self.field.rows(self.tokenizer.encode(texts))
        function = self.unit_vectors if normalize else self.vectors
        found = [row["vectors"] for row in self.compute(rows, batch_size, function)]
        width = self.model.output["vectors"].shape[-1]
        return np.asarray(found, "float32").reshape(-1, width)

    def check_embeds(self) -> None:
        """Raises a ValueError if the task has no vectors of single texts."""

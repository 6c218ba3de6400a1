"""Vectors of texts, for tasks that read each text alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from keras_attn.arrays import unit_length
from keras_attn.fields import Numbers, Signature, TextRows, checked_texts
from keras_attn.tasks.families.encoder_task import EncoderTask


class TextVectors(EncoderTask):
    """Vectors of texts: a base class of tasks whose model is a `sentence_encoder`."""

    @property
    def embed_signature(self) -> Signature:
        """The signature that gives vectors of texts."""
        return Signature(("text",), TextRows(self.field), {"vectors": Numbers("vectors")})

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
        vectors = self.outputs_of(rows, batch_size)["vectors"]
        return unit_length(np, vectors) if normalize else vectors

    def check_embeds(self) -> None:
        """Raises a ValueError if the task has no vectors of single texts."""

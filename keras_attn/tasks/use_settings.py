"""Settings of predictions and exports that several tasks have."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.images.loading import MAX_PIXELS
from keras_attn.settings import Settings, setting


@dataclass(frozen=True)
class PictureUse(Settings):
    """The limit of pictures in a SavedModel.

    Example:

    >>> PictureUse().max_pixels
    50000000
    """

    max_pixels: int = setting(
        MAX_PIXELS, "largest number of pixels of a picture that the SavedModel decodes",
        at_least=1, steps=("export",),
    )  # fmt: skip


@dataclass(frozen=True)
class BeamSearchUse(Settings):
    """A beam search. The help texts say what each setting does.

    Example:

    >>> BeamSearchUse().beams
    4
    """

    beams: int = setting(4, "width of the beam search; 1 is greedy", at_least=1)
    alpha: float = setting(1.0, "exponent of the length penalty")
    batch_size: int = setting(
        64, "inputs decoded at a time", at_least=1, steps=("predict", "evaluate", "export")
    )
    num_return_sequences: int | None = setting(
        None, "results in the signature `details`; as many as beams if none", kind=int,
        at_least=1, steps=("export",),
    )  # fmt: skip

    def __post_init__(self):
        super().__post_init__()
        if (self.num_return_sequences or 1) > self.beams:
            raise ValueError(
                "`num_return_sequences` must be at most `beams`. Received: "
                f"num_return_sequences={self.num_return_sequences}, beams={self.beams}."
            )

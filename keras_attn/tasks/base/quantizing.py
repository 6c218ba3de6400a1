"""Tasks whose models can be quantized."""

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.adapt import quantize


class Quantizable:
    """A task with a method `quantize`: a base class of tasks.

    Subclasses whose weights are not all in `model` override `_models`.
    """

    model: keras.Model

    def _models(self) -> tuple[keras.Model, ...]:
        """The models, the first one with all weights."""
        return (self.model,)

    def quantize(
        self, mode: str = "int8", filters: Callable[[Any], bool] | None = None
    ) -> "Quantizable":
        """Makes the model smaller, in place: kernels and embeddings of 8 bits instead of 32.

            x8 = round(x * sx),  sx = 127 / max |x| of each row
            W8 = round(W * sw),  sw = 127 / max |W| of each column
            y = (x8 W8) / (sx sw) + b                    the product in integers

        That is the int8 of `keras.layers.Dense.quantize`; embeddings have a scale for each token,
        in their tied output product too. Norms, biases, convolutions and the cells of
        recurrent networks stay floats: Keras has no int8 for them. docs/speed.md says where it is
        faster, and where slower. Do it after training: int8 weights are not trained any more.
        `save`, `load`, `export` and all that decodes go on as before, with outputs near those of
        the floats.

        Args:
            mode: `"int8"`; also `"int4"` and `"float8"`, as Keras has them.
            filters: Called with a layer that could be quantized: whether it is to be; all if None.

        Returns:
            This object.

        Raises:
            ValueError: For another mode, a model that is quantized already, or where there is
                nothing to quantize.

        Example:

        >>> generator = TextGenerator(CharacterTokenizer.train(["abc"]), model={"units": 8})
        >>> len(generator.quantize("int8").generate("ab", num_characters=3))
        5
        """
        whole, *others = self._models()
        quantize(whole, mode, filters, others)
        return self

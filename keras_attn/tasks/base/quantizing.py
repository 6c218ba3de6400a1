"""Quantization of tasks."""

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.adapt import quantize
from keras_attn.adapt.lora import with_lora
from keras_attn.layers.quantization import quantized_sublayers, sublayers


class Quantizable:
    """Base class of tasks with a method `quantize`.

    Subclasses whose weights are not all in `model` override `_models`.
    """

    model: keras.Model

    def _models(self) -> tuple[keras.Model, ...]:
        """The models, the first one with all weights."""
        return (self.model,)

    def quantize(
        self, mode: str = "int8", filters: Callable[[Any], bool] | None = None
    ) -> "Quantizable":
        """Quantizes the model in place: kernels and embeddings get 8 bits instead of 32.

            x8 = round(x * sx),  sx = 127 / max |x| of each row
            W8 = round(W * sw),  sw = 127 / max |W| of each column
            y = (x8 W8) / (sx sw) + b                    the product in integers

        Here x and y are the input and output of a dense layer, W its kernel and b its bias. This is
        the int8 mode of `keras.layers.Dense.quantize`. Embeddings have a scale for each
        token, which is also used in a tied output product. Norms, biases, convolutions and
        recurrent cells remain floats, because Keras has no int8 for them. docs/speed.md lists the
        effects on speed. Quantize after training, because int8 weights cannot be trained: `fit`
        refuses them, except with LoRA. `save`, `load`, `export` and decoding work as before, with
        similar outputs.

        Args:
            mode: `"int8"`, or Keras' `"int4"` or `"float8"`.
            filters: Function that returns whether a layer is quantized; all layers if None.

        Returns:
            This object.

        Raises:
            ValueError: If the mode is unknown, the model is already quantized, or there is nothing
                to quantize.

        Example:

        >>> generator = TextGenerator(CharacterTokenizer.train(["abc"]), model={"units": 8})
        >>> len(generator.quantize("int8").generate("ab", num_characters=3))
        5
        """
        whole, *others = self._models()
        quantize(whole, mode, filters, others)
        return self


def refuse_quantized(model: keras.Model, training: Any) -> None:
    """Raises a ValueError if a training would change integer weights, which cannot be trained.

    With LoRA, such weights do not change; `tune="head"` changes only the head.
    """
    tune = getattr(training, "tune", "all")
    only_head = tune == "head" or getattr(training, "lora_rank", 0) or with_lora(model)
    modes = {path: how["mode"] for path, how in quantized_sublayers(model).items()}
    refused = [
        path
        for path, layer in sublayers(model)
        if modes.get(path, "float8") != "float8"
        and layer.trainable
        and (not only_head or (path == "head" and tune != "all"))
    ]
    if refused:
        raise ValueError(
            "Expected a task with float weights, because weights in "
            f"{modes[refused[0]]} cannot be trained. Received: {model.name!r}, whose layers "
            f"{refused[:5]} are quantized. Train the task that is not quantized, and quantize it "
            "again afterwards. If the task has the setting `lora_rank`, you can train LoRA "
            "weights instead, but no quantized head."
        )

"""Training model whose loss is computed in chunks of tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Nest, Tensor
from keras_attn.layers import TokenEmbedding
from keras_attn.ops.masks import dtypes_are_guessed
from keras_attn.ops.replicas import replicas, sum_over_replicas
from keras_attn.ops.token_losses import token_weights
from keras_attn.training.chunked_loss import linear_cross_entropy
from keras_attn.training.losses import MaskedCrossEntropy


@keras.saving.register_keras_serializable(package="keras_attn")
class ChunkedLossModel(keras.Model):
    """Trains a model with a large vocabulary without storing all logits at once.

        loss = MaskedCrossEntropy()(labels, head(hidden)),   by `linear_cross_entropy`

    This model consists of all layers of `model` except the last one. The loss applies the last
    layer to a chunk of tokens at a time, and computes the gradient at the same time. Both models
    share their layers, so training this model also trains `model`. If the `B T V` logits dominate
    the memory, a training step needs several times less memory.

    Shapes: the inputs are the inputs of `model`; the output is `(B, T, D)`, the input of its last
    layer. Labels are integers `(B, T)`.

    Masking: the labels and `sample_weight` determine which tokens count, as in
    `MaskedCrossEntropy`; Keras masks are not used.

    Args:
        model: A functional model with one output, logits `(B, T, V)` of a `TokenEmbedding` called
            with `reverse=True` and without `logit_softcap`, or of a `Dense` without activation. The
            layer must not be quantized or have LoRA.
        chunk_size: Maximum number of tokens at a time. If None, as many as have about 4 million
            logits, but at least 128.
        **kwargs: Arguments of `keras.Model`, such as `name`.

    Raises:
        TypeError: If the model is not functional.
        ValueError: If the last layer is not supported, or `chunk_size` is below 1; in `fit` and
            `evaluate`, if the model was compiled with a loss other than `MaskedCrossEntropy`, or
            with metrics, which would need logits.

    Example:

    >>> model = TransformerEncoderDecoderConfig(50, num_layers=1, dim=16).build()
    >>> training = ChunkedLossModel(model)
    >>> training.compile("adam", MaskedCrossEntropy(label_smoothing=0.1), jit_compile=False)
    >>> batches = TokenBatches([[5, 6, 7]], [[8, 9]], start_id=1, end_id=2)
    >>> history = training.fit(batches, verbose=0)  # and `model` has learned
    """

    def __init__(self, model: keras.Model, chunk_size: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        if chunk_size is not None and (
            isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1
        ):
            raise ValueError(
                f"`chunk_size` must be an integer of at least 1, or None. Received: {chunk_size!r}."
            )
        self.chunk_size = chunk_size
        self.model = model
        self.head, hidden = _last_layer(model)
        self.body = keras.Model(model.input, hidden, name="body")
        self.built = True

    def call(self, inputs: Nest, training: bool | None = None):
        """Computes the input of the model's last layer, `(B, T, D)`."""
        return self.body(inputs, training=training)

    def compute_loss(
        self,
        x: Nest | None = None,
        y: Nest | None = None,
        y_pred: Any = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
        **kwargs,
    ):
        """Computes the loss of a batch, including the losses of layers; called by Keras.

        Args:
            x: The inputs of the model, which are not used.
            y: Integer labels `(B, T)`.
            y_pred: The result of `call`, the inputs `(B, T, D)` of the last layer.
            sample_weight: Weights `(B,)`, `(B, 1)` or `(B, T)`, or None.
            training: Whether the gradient is computed together with the loss.

        Returns:
            The loss, a float32 scalar.

        Raises:
            ValueError: If the model was compiled with another loss, with `loss_weights` or with
                metrics, or if the labels are not integers or have the wrong shape.
        """
        if not isinstance(self.loss, MaskedCrossEntropy):
            raise ValueError(
                "The loss of a ChunkedLossModel must be a MaskedCrossEntropy. Received: "
                f"compile(loss={self.loss!r})."
            )
        if self._compile_metrics is not None:
            raise ValueError(
                "A ChunkedLossModel does not support metrics, because they would need all "
                "logits. Compile it without `metrics` and `weighted_metrics`, and evaluate "
                "the original model."
            )
        if self._compile_loss._user_loss_weights is not None:
            raise ValueError(
                "A ChunkedLossModel does not support loss_weights. Received: "
                f"compile(loss_weights={self._compile_loss._user_loss_weights!r}). Compile it "
                "without them, and scale the learning rate or `sample_weight` instead."
            )
        labels = ops.convert_to_tensor(y)
        if "int" not in ops.dtype(labels) and dtypes_are_guessed():
            labels = ops.cast(labels, "int32")
        dtype = keras.backend.standardize_dtype(labels.dtype)
        if "int" not in dtype or tuple(labels.shape[1:]) != tuple(y_pred.shape[1:-1]):
            known = None not in (*labels.shape[1:], *y_pred.shape[1:-1])
            if "int" not in dtype or known:
                raise ValueError(
                    "Expected integer labels (B, T), one label for each position of the "
                    f"model's output. Received: {dtype} labels of shape "
                    f"{tuple(labels.shape)}, for hidden vectors of shape "
                    f"{tuple(y_pred.shape)}."
                )
        loss = self.loss
        weights = token_weights(labels, loss.ignore_id, sample_weight, "float32")
        if isinstance(self.head, keras.layers.Dense):
            kernel, bias = ops.transpose(self.head.kernel), self.head.bias
        else:
            kernel, bias = self.head.embedding.embeddings, self.head.bias
        width = y_pred.shape[-1]
        total = linear_cross_entropy(
            ops.reshape(ops.cast(y_pred, self.head.compute_dtype), (-1, width)),
            ops.copy(kernel),  # TensorFlow's custom gradients refuse variables when eager
            ops.reshape(labels, (-1,)),
            ops.reshape(weights, (-1,)),
            loss.label_smoothing,
            None if bias is None else ops.copy(bias),
            self.chunk_size,
            gradient=bool(training),
        )
        here = ops.sum(weights)
        total = total * ops.divide_no_nan(here, sum_over_replicas(here))
        for other in self.losses:
            total = total + ops.sum(ops.cast(other, total.dtype)) / replicas()
        return total

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as a dict, with `model` serialized by Keras."""
        model = keras.saving.serialize_keras_object(self.model)
        return {"model": model, "chunk_size": self.chunk_size, "name": self.name}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> ChunkedLossModel:
        """Creates the model from its config."""
        model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
        return cls(model, config["chunk_size"], name=config["name"])


def _is_quantized(layer: keras.layers.Layer) -> bool:
    return any(getattr(part, "quantization_mode", None) for part in layer._flatten_layers())


def _last_layer(model: keras.Model) -> tuple[Any, Any]:
    """The layer that computes the logits of a model, and its symbolic input."""
    if not isinstance(model, keras.Model) or not hasattr(model, "operations"):
        raise TypeError(
            "`model` must be a functional keras.Model, so that its last layer can be left "
            f"out. Received: {type(model).__name__}."
        )
    if len(model.outputs) != 1:
        raise ValueError(
            f"`model` must have one output, logits (B, T, V). Received: {len(model.outputs)} "
            "outputs."
        )
    layer, node, _ = model.outputs[0]._keras_history
    arguments = layer._inbound_nodes[node].arguments
    backwards = arguments.kwargs.get("reverse", len(arguments.args) > 1 and arguments.args[1])
    is_embedding = isinstance(layer, TokenEmbedding) and backwards and layer.logit_softcap is None
    is_dense = isinstance(layer, keras.layers.Dense) and (
        layer.activation is keras.activations.linear and not layer.lora_enabled
    )
    left_out = _is_quantized(layer) or layer.activity_regularizer is not None
    if not (is_embedding or is_dense) or left_out:
        raise ValueError(
            "The logits of `model` must come from a TokenEmbedding with `reverse=True` and "
            "without `logit_softcap`, or from a Dense without activation. The layer must not "
            "be quantized, have LoRA or have an activity regularizer. Received: "
            f"{type(layer).__name__} {layer.name!r}."
        )
    return layer, arguments.keras_tensors[0]

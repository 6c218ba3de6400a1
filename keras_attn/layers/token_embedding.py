"""Scaled token embedding, tied to the output."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.flattening import flat
from keras_attn.layers.masked_layer import MaskedLayer, check_mask, check_positive
from keras_attn.ops.compilers import compiler
from keras_attn.ops.masks import dtypes_are_guessed
from keras_attn.ops.padding import known_value
from keras_attn.ops.positions import no_negative
from keras_attn.ops.score_options import check_softcap, softcap


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenEmbedding(MaskedLayer):
    """Embeds token ids, and projects vectors to logits with the same matrix.

        embed:    output[b, t] = E[ids[b, t]] * sqrt(D)       (B, T, D); the factor with `scale`
        reverse:  logits = x E^T + b                          (..., V); b with `output_bias`
                  logits = c tanh(logits / c)                 with `logit_softcap` c

    The scale follows Vaswani et al., 2017, section 3.4; the tied output follows Press and Wolf,
    2017. By default, the initial embeddings are normal with standard deviation `1 / sqrt(D)`, so
    that both directions start with unit scale.

    Shapes: ids `(B, T)` to `(B, T, D)`; with `reverse=True`, x `(..., D)` to `(..., V)`.

    Masking: the mask of the output is the explicit `mask`, else `ids != pad_id` if `mask_zero` is
    True, else None. With `reverse=True`, it is the explicit `mask`, else the mask of `x`.

    Args:
        vocabulary_size: Number V of tokens.
        dim: Width D.
        scale: Whether embeddings are multiplied by `sqrt(D)`.
        mask_zero: Whether the id `pad_id`, 0 by default, is padding.
        embeddings_initializer: Initializer of E; normal with deviation `1 / sqrt(D)` if None.
        pad_id: Id of padding.
        output_bias: Whether logits have a bias b `(V,)`, as in BERT and Marian.
        logit_softcap: Limit c of the logits (Gemma Team, 2024); none if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Integer ids `(B, T)`, or floats `(..., D)` if `reverse` is True. float32 ids, which a
            `Sequential` model without an `Input` passes, are also accepted. An id outside of the
            vocabulary raises an error in eager calls on CPUs. In compiled calls and on
            accelerators, it may give NaN or an undefined row instead.
        reverse: Whether to project `x` to logits.
        mask: Mask of the output, `(B, T)` or, if `reverse` is True, `(...)`.

    Returns:
        Embeddings `(B, T, D)` or, if `reverse` is True, logits `(..., V)`, in the compute dtype of
        the layer.

    Raises:
        ValueError: If a setting is out of range; if ids are 16-bit floats; if vectors are passed
            without `reverse`, or have the wrong width; or if a mask has the wrong shape or floats.
            In a graph, float32 `x` of rank 2 are always read as ids.

    Example:

    >>> layer = TokenEmbedding(vocabulary_size=100, dim=16)
    >>> x = layer(ops.array([[5, 7, 0]]))
    >>> tuple(x.shape), tuple(layer(x, reverse=True).shape)
    ((1, 3, 16), (1, 3, 100))
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        *,
        scale: bool = True,
        mask_zero: bool = True,
        embeddings_initializer: Initializer | None = None,
        pad_id: int = 0,
        output_bias: bool = False,
        logit_softcap: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_softcap(logit_softcap, "logit_softcap")
        self.logit_softcap = logit_softcap
        self.output_bias = output_bias
        self.bias = None
        check_positive("TokenEmbedding", vocabulary_size=vocabulary_size, dim=dim)
        self.vocabulary_size = vocabulary_size
        self.dim = dim
        self.scale = scale
        self.mask_zero = mask_zero
        self.pad_id = pad_id
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomNormal(stddev=dim**-0.5)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            dim,
            embeddings_initializer=self.embeddings_initializer,
            reverse_dtype=self.compute_dtype,  # Keras would take that of the variable
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embedding.supports_masking = True  # this layer handles the masks

    def build(self, x_shape: Shape | None = None):
        """Creates the embedding matrix E, `(V, D)`."""
        self.embedding.build()
        if self.output_bias:
            self.bias = self.add_weight(
                shape=(self.vocabulary_size,), initializer="zeros", name="bias"
            )

    def __call__(self, x: Tensor, *, reverse: bool = False, mask: Tensor | None = None, **kwargs):
        """Converts ids to integers, then calls the layer."""
        x = x if reverse else ids_as_integers(x)
        return super().__call__(x, reverse=reverse, mask=mask, **kwargs)

    def call(self, x: Tensor, *, reverse: bool = False, mask: Tensor | None = None):
        """Embeds ids `(B, T)`, or if `reverse` is True, computes logits from `x` `(..., D)`."""
        dtype = keras.backend.standardize_dtype(x.dtype)
        if mask is not None:
            check_mask(mask, x, axes=len(x.shape) - bool(reverse))
            x = ops.copy(x)  # else the sublayer passes on the mask of `x`, not the explicit one
        if reverse:
            if x.shape[-1] != self.dim:
                raise ValueError(
                    f"With reverse=True, {self.name} takes vectors of width {self.dim}. "
                    f"Received: shape {tuple(x.shape)}."
                )
            return self.as_logits(flat(self.embedding, x, reverse=True))
        if "int" not in dtype:
            raise ValueError(
                f"{self.name} takes integer ids. Received: dtype {dtype}, shape {tuple(x.shape)}. "
                "Use keras.Input(shape, dtype='int32'), as first layer of a Sequential model too; "
                "pass `reverse=True` for logits."
            )
        x = self.embedding(no_negative(x, self.vocabulary_size))
        return x * ops.convert_to_tensor(self.dim**0.5, x.dtype) if self.scale else x

    def as_logits(self, products: Tensor) -> Any:
        """Returns logits `(..., V)`: adds the bias to products `(..., V)`, and limits them.

        The products are `x @ output_kernel()`. The bias requires `output_bias=True`, and the limit
        requires `logit_softcap`.
        """
        logits = products
        if self.bias is not None:
            bias = ops.cast(self.bias, logits.dtype)
            # On CPUs the XLA of TensorFlow joins the product of one row with a sum that follows:
            # one loop, which takes eight times as long.
            logits = logits - (-bias) if compiler() == "xla" else logits + bias
        return logits if self.logit_softcap is None else softcap(logits, self.logit_softcap)

    def output_kernel(self) -> Any:
        """Returns a copy of the matrix `(D, V)` with which `reverse=True` computes logits.

        The logits are `as_logits(x @ kernel)`. The copy has the layout that is fastest for the few
        rows of a decoding loop.

        Returns:
            The kernel in the compute dtype of the layer, or None if the embedding is quantized (to
            int8 or int4).
        """
        if self.embedding.quantization_mode is not None:
            return None
        kernel = ops.cast(self.embedding.embeddings, self.compute_dtype)
        return ops.transpose(kernel)

    def compute_output_shape(self, x_shape: Shape):
        """Returns the shape `(B, T, D)` of the embeddings of ids `(B, T)`."""
        return (*x_shape, self.dim)

    def compute_mask(self, x: Tensor, previous_mask: Tensor | None = None):
        """Returns the mask of the output: `previous_mask`, unless it is None.

        Otherwise, the mask is `x != pad_id` for integer ids `x` if `mask_zero` is True, else None.
        """
        if previous_mask is not None or not self.mask_zero:
            return previous_mask
        if "int" not in keras.backend.standardize_dtype(x.dtype):
            return None
        return ops.not_equal(x, self.pad_id)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dim": self.dim,
            "scale": self.scale,
            "output_bias": self.output_bias,
            "logit_softcap": self.logit_softcap,
            "mask_zero": self.mask_zero,
            "pad_id": self.pad_id,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


def ids_as_integers(x: Tensor) -> Any:
    """Returns ids `(B, T)` that Keras has cast to floats as integers, and other tensors unchanged.

    Keras casts ids to float32 in a `Sequential` model without an `Input`, and to float64 when it
    builds a model across replicas. Both dtypes represent ids exactly. 16-bit floats do not, and are
    accepted only while Keras builds a loaded model. Vectors raise an error if their values are
    known.
    """
    dtype = keras.backend.standardize_dtype(getattr(x, "dtype", "int32"))
    exact = dtype in ("float32", "float64")
    if len(x.shape) <= 2 and (exact or ("float" in dtype and dtypes_are_guessed())):
        known = known_value(x)
        if known is not None and not np.array_equal(known, np.floor(known)):
            raise ValueError(
                f"Expected integer ids. Received: vectors of shape {tuple(x.shape)} and "
                f"dtype {dtype}. To project vectors to logits, call `layer(x, reverse=True)`."
            )
        return ops.cast(x, "int32")
    return x

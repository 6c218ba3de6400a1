"""Hashed ids of pairs of neighbouring tokens."""

import hashlib
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers.masked_layer import MaskedLayer, check_positive, sequence_mask
from keras_attn.layers.token_weighting import integer_ids

# The square of this prime is below 2 ** 31, and x ** 3 is a permutation of its residues.
_PRIME = 46337
_DIGIT = 2**15


@keras.saving.register_keras_serializable(package="keras_attn")
class HashedTokenPairs(MaskedLayer):
    """Hashes pairs of adjacent tokens to ids (Weinberger et al., 2009; fastText).

        output[b, s] = 1 + hash(token_ids[b, s], token_ids[b, s + 1]) mod (num_buckets - 1)

    The id is 0 if either token is padding, and for the last token of a row. Use the ids with an
    embedding of `num_buckets` rows. The ids are the same on all backends, in eager and compiled
    calls and in SavedModels. The hash is `h1 p + h2` for the prime p = 46337. h1 and h2 are
    computed by the formula of h, each with its own multiplier k and start c, which `seed`
    determines:

        h = c;  for each of the two tokens:  h = (h k + id mod 2^15) k + id div 2^15;  h = h^3 mod p

    All numbers are below 2^31, so int32 is enough.

    Shapes: token_ids `(B, S)` to `(B, S)`, int32.

    Masking: ids of 0, and positions that `mask` `(B, S)` or the Keras mask of the ids hides, are
    padding. The output has no mask; its padding has id 0.

    Args:
        num_buckets: Number of ids, including 0; from 2 to 2^30.
        seed: Seed of the hash; another seed gives other collisions.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Integers `(B, S)`, from 0 to 2^31 - 1; 0 is padding.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the Keras mask of `token_ids` if None.

    Returns:
        Ids, int32 `(B, S)`, from 0 to `num_buckets - 1`.

    Raises:
        ValueError: If `num_buckets` is out of range; if an input or a mask has the wrong shape; if
            the ids are not integers; or if the mask has floats.

    Example:

    >>> pairs = HashedTokenPairs(num_buckets=1000)
    >>> ops.convert_to_numpy(pairs(ops.array([[5, 7, 5, 7, 0]])))[0].tolist()
    [348, 966, 348, 0, 0]
    """

    def __init__(self, num_buckets: int, *, seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        check_positive("HashedTokenPairs", num_buckets=num_buckets)
        if num_buckets < 2 or num_buckets > 2**30:
            raise ValueError(
                "`num_buckets` of HashedTokenPairs must be from 2 to 2 ** 30, as id 0 is "
                f"padding. Received: {num_buckets}."
            )
        self.num_buckets = num_buckets
        self.seed = seed

    def compute_mask(self, token_ids: Tensor, previous_mask: Tensor | None = None):
        """Returns None, because padding in the output has id 0."""
        return None

    def call(self, token_ids: Tensor, *, mask: Tensor | None = None):
        """Hashes each token of ids `(B, S)` and the next token to an id."""
        token_ids = integer_ids(token_ids, self.name)
        mask = sequence_mask(token_ids, mask, name="mask")
        if mask is not None:
            token_ids = token_ids * ops.cast(mask, "int32")
        after = ops.concatenate([token_ids[:, 1:], ops.zeros_like(token_ids[:, :1])], axis=1)
        high, low = (self._residue(token_ids, after, lane) for lane in range(2))
        bucket = ops.mod(high * _PRIME + low, self.num_buckets - 1) + 1
        is_pair = ops.logical_and(token_ids > 0, after > 0)
        return ops.where(is_pair, bucket, ops.zeros_like(bucket))

    def _residue(self, first: Tensor, second: Tensor, lane: int) -> Tensor:
        digest = hashlib.sha256(f"{self.seed} {lane}".encode()).digest()
        factor = 2 + int.from_bytes(digest[:4], "big") % (_PRIME - 2)
        residue = ops.zeros_like(first) + int.from_bytes(digest[4:8], "big") % _PRIME
        for ids in (first, second):
            for digit in (ops.mod(ids, _DIGIT), ops.floor_divide(ids, _DIGIT)):
                residue = ops.mod(residue * factor + digit, _PRIME)
            residue = ops.mod(ops.mod(residue * residue, _PRIME) * residue, _PRIME)
        return residue

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "num_buckets": self.num_buckets, "seed": self.seed}

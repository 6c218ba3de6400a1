"""Prints how far training on packed rows is from training on rows of their own."""

import json
import sys

import keras
import numpy as np

from keras_attn.batches import PackedBatches, TokenBatches
from keras_attn.layers import (
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from keras_attn.models import TransformerEncoderDecoderConfig, packed_transformer
from keras_attn.ops import segment_mask, segment_positions
from keras_attn.training import ChunkedLossModel, MaskedCrossEntropy

SETTINGS = {"start_id": 1, "end_id": 2, "tokens_per_batch": 10_000, "shuffle": False}


def pairs():
    rng = np.random.default_rng(0)
    return [[rng.integers(3, 40, n).tolist() for n in rng.integers(1, 12, 25)] for _ in range(2)]


def updates(model, batch):
    """The loss, and the changes of the weights by a step of SGD: the gradients."""
    compiles = {"jit_compile": True} if keras.backend.backend() == "jax" else {"run_eagerly": True}
    model.compile(keras.optimizers.SGD(1.0), MaskedCrossEntropy(0.1), **compiles)
    before = [keras.ops.convert_to_numpy(v).copy() for v in model.trainable_variables]
    loss = float(model.train_on_batch(*batch))
    after = [keras.ops.convert_to_numpy(v).copy() for v in model.trainable_variables]
    for variable, value in zip(model.trainable_variables, before, strict=True):
        variable.assign(value)
    return loss, {
        v.path: b - a for v, b, a in zip(model.trainable_variables, before, after, strict=True)
    }


def differences(one, other):
    """Of the losses, and the greatest of the gradients; and the size of these."""
    (loss, gradients), (other_loss, others) = one, other
    assert gradients.keys() == others.keys()
    return {
        "loss": abs(loss - other_loss),
        "gradient": max(float(np.abs(gradients[k] - others[k]).max()) for k in gradients),
        "size": max(float(np.abs(gradients[k]).max()) for k in gradients),
    }


def batch_of(cls, *sides, **settings):
    (batch,) = list(cls(*sides, **SETTINGS, **settings))
    return batch


def encoder_decoder(positions, chunked=False):
    keras.utils.set_random_seed(1)
    config = TransformerEncoderDecoderConfig(
        40,
        num_layers=1,
        dim=16,
        num_heads=2,
        intermediate_dim=32,
        dropout=0.0,
        activation="gelu",  # a rounding error may change the side of relu's corner
        positions=positions,
    )
    model = config.build()
    packed = packed_transformer(model)
    packed = ChunkedLossModel(packed, 16) if chunked else packed
    return differences(
        updates(packed, batch_of(PackedBatches, *pairs(), tokens_per_row=30)),
        updates(model, batch_of(TokenBatches, *pairs(), max_shapes=1)),
    )


def language_model(decoder, positions):
    """One written by hand, as a decoder or as an encoder with a causal mask."""
    embedding = TokenEmbedding(40, 16)
    places = PositionalEncoding() if positions is None else None
    kind = TransformerDecoder if decoder else TransformerEncoder
    stack = kind(1, 2, intermediate_dim=32, positions=positions, activation="gelu")
    causal = {} if decoder else {"use_causal_mask": True}

    def make(packed):
        ids = keras.Input((None,), dtype="int32", name="target_ids")
        inputs, told, x = {"target_ids": ids}, {}, embedding(ids)
        at = None
        if packed:
            segments = keras.Input((None,), dtype="int32", name="target_segments")
            inputs["target_segments"] = segments
            at, told = segment_positions(segments), {"attention_mask": segment_mask(segments)}
        x = x if places is None else places(x, positions=at)
        if positions is not None:
            told["positions"] = at
        return keras.Model(inputs, embedding(stack(x, **causal, **told), reverse=True))

    keras.utils.set_random_seed(2)
    texts = pairs()[0]
    plain, packed = make(False), make(True)
    inputs, *rest = batch_of(TokenBatches, [[9]] * len(texts), texts, max_shapes=1)
    alone = ({"target_ids": inputs["target_ids"]}, *rest)
    together = batch_of(PackedBatches, None, texts, tokens_per_row=30)
    return differences(updates(packed, together), updates(plain, alone))


CASES = {
    "encoder-decoder": lambda: encoder_decoder("sinusoidal"),
    "rotary, chunked loss": lambda: encoder_decoder("rotary", chunked=True),
    "language model": lambda: language_model(decoder=True, positions="alibi"),
    "causal encoder": lambda: language_model(decoder=False, positions=None),
}


def everything(names):
    return {name: CASES[name]() for name in names}


if __name__ == "__main__":
    print(json.dumps(everything(sys.argv[1:])))

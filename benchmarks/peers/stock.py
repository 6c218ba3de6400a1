"""Stock Keras layers."""

import keras

from benchmarks.peers import Job, keras_jobs


def encoder_block(case: dict, activation: str = "relu"):
    """A function that applies one new post-norm block."""
    dim, heads, rate = case["dim"], case["heads"], case["dropout"]

    def apply(x, memory=None):
        attention = keras.layers.MultiHeadAttention(heads, dim // heads, dropout=rate)
        h = keras.layers.Dropout(rate)(attention(x, x))
        x = keras.layers.LayerNormalization(epsilon=1e-5)(keras.layers.Add()([x, h]))
        h = keras.layers.Dense(case["intermediate"], activation=activation)(x)
        h = keras.layers.Dropout(rate)(keras.layers.Dense(dim)(h))
        return keras.layers.LayerNormalization(epsilon=1e-5)(keras.layers.Add()([x, h]))

    return apply


def encoder_stack(case: dict, jit: bool) -> Job:
    """Steps of encoder blocks."""
    return keras_jobs.stack(encoder_block(case), case, jit)


def bert_encoder(case: dict, jit: bool) -> Job:
    """Steps of `fit` of blocks of BERT's kind."""
    return keras_jobs.fitted(encoder_block(case, "gelu"), case, jit)


def rnn_decoder(case: dict, jit: bool, attention: str | None) -> Job:
    """Steps of a GRU, with attention to the memory after it or without."""

    def decoder(x, memory):
        x = keras.layers.RNN(keras.layers.GRUCell(case["dim"]), return_sequences=True)(x)
        if attention is None:
            return x
        layer = keras.layers.Attention()
        x = keras.layers.Concatenate()([x, layer([x, memory])])
        return keras.layers.Dense(case["dim"], activation="tanh")(x)

    return keras_jobs.recurrent(decoder, case, jit)


def attention(case: dict, jit: bool, flash: bool | None = None) -> Job:
    """A step of one layer of self-attention."""
    layer = keras.layers.MultiHeadAttention(
        case["heads"], case["dim"] // case["heads"], flash_attention=flash
    )
    return keras_jobs.long(lambda x: layer(x, x), case, jit)

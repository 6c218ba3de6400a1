"""What the tests of encoder-decoder models share."""

import numpy as np
from keras import ops, tree

from keras_attn.generation import beam_search, greedy_search
from keras_attn.models import SequenceDecoder

PAD, START, END = 0, 1, 2


def numpy(x):
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))


def randomize(model, seed=0):
    """Random biases and norms too, so that a mistake in any of them shows."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        value = rng.normal(scale=0.4, size=weight.shape) + (weight.name == "gamma")
        weight.assign(value.astype("float32"))
    return model


def batch(rows=3, source=5, target=4, vocabulary=11, seed=0):
    """Right-padded ids; the first row is full."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, [[source], [target]], size=(2, rows), endpoint=True)
    lengths[:, 0] = source, target
    ids = {}
    for name, own, width in zip(
        ("source_ids", "target_ids"), lengths, (source, target), strict=True
    ):
        tokens = rng.integers(1, vocabulary, size=(rows, width))
        ids[name] = np.where(np.arange(width) < own[:, None], tokens, 0).astype("int32")
    return ids


def compiled(model):
    """The model in one TensorFlow function of inputs of any shape, which follows its weights.

    Eager loops over positions take longer than tracing them once.
    """
    import tensorflow as tf

    specs = tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), model.input)
    return tf.function(model, input_signature=[specs], autograph=False)


def compile_for(model, optimizer, loss, **settings):
    """`model.compile`, with the optimizer's variables: made in `fit`, they are traced twice."""
    model.compile(optimizer, loss, **{"jit_compile": False, **settings})
    model.optimizer.build(model.trainable_variables)


def search(model, source_ids, num_beams=None, **settings):
    """Greedy search, or beam search where a width is given, by the model's own layers."""
    sequences = SequenceDecoder(model)
    memory, mask = sequences.encode(source_ids)
    prompt = ops.zeros_like(source_ids[:, :1]) + START
    settings = {"max_length": 5, "end_id": END, **settings}
    if num_beams:
        settings = {"num_return_sequences": num_beams, "num_beams": num_beams, **settings}
    found = beam_search if num_beams else greedy_search
    return found(sequences.decoder, prompt, None, memory, mask, **settings)

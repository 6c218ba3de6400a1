"""keras_attn's BERT."""

import keras
import numpy as np
from keras import ops

from benchmarks import encoder
from benchmarks.peers import Job, keras_jobs
from keras_attn.batches import TextBatches
from keras_attn.generation import CompiledFunction
from keras_attn.models import BertConfig, with_heads
from keras_attn.training import MaskedCrossEntropy


def config_of(case: dict) -> BertConfig:
    """The settings of all contenders."""
    rate = case.get("dropout", 0.0)
    return BertConfig(
        case["vocabulary"],
        dim=case["dim"],
        num_layers=case["layers"],
        num_heads=case["heads"],
        intermediate_dim=case["intermediate"],
        dropout=rate,
        attention_dropout=rate,
        sequence_length=case["longest"],
    )


def load(model: keras.Model, case: dict, head: bool) -> None:
    """Gives a model the weights of all contenders."""
    weights = encoder.make_weights(case, head)
    layers = {layer.name: layer for layer in model.layers}

    def dense(layer, *names):
        for part in ("kernel", "bias"):
            values = [weights[f"{name}.{part}"] for name in names]
            getattr(layer, part).assign(np.concatenate(values, axis=-1))

    def norm(layer, name):
        layer.gamma.assign(weights[f"{name}.gamma"])
        layer.beta.assign(weights[f"{name}.beta"])

    embedding = layers["embedding"]
    embedding.token_embedding.embedding.embeddings.assign(weights["tokens"])
    embedding.position_layer.embedding.embeddings.assign(weights["positions"])
    embedding.segment_embedding.embeddings.assign(weights["segments"])
    norm(embedding.norm, "embedding.norm")
    for prefix, block in zip(encoder.blocks(case), layers["encoder"].blocks, strict=True):
        dense(block.self_attention.qkv_dense, *(f"{prefix}.{n}" for n in ("query", "key", "value")))
        dense(block.self_attention.output_dense, f"{prefix}.output")
        norm(block.self_attention_norm, f"{prefix}.attention.norm")
        dense(block.feed_forward.hidden_dense, f"{prefix}.hidden")
        dense(block.feed_forward.output_dense, f"{prefix}.back")
        norm(block.feed_forward_norm, f"{prefix}.norm")
    if head:
        dense(layers["masked_words"], "head")
        norm(layers["masked_words_norm"], "head.norm")
        embedding.token_embedding.bias.assign(weights["head.bias.tokens"])


def masked_words_model(case: dict) -> tuple[keras.Model, keras.losses.Loss, dict]:
    """The model, its loss, and the names of its inputs where they differ from ours."""
    keras.config.set_dtype_policy(case.get("policy", "float32"))
    model = with_heads(config_of(case), ("masked_words",), at_positions=True)
    load(model, case, head=True)
    logits = keras.Model(model.inputs, model.output["masked_words"])
    return logits, MaskedCrossEntropy(ignore_id=None), {}


def masked_words(case: dict, jit: bool) -> Job:
    """Steps of `fit` on masked words."""
    return keras_jobs.masked_words(*masked_words_model(case), case, jit)


def read_texts(case: dict, jit: bool) -> Job:
    """Mean vectors of texts, by a compiled function; the texts of a batch go by their lengths."""
    model = config_of(case).build()
    load(model, case, head=False)
    model = keras.Model(model.input, model.output["sequence"])  # without the pooler

    def vectors(ids, length):
        mask = ids != 0
        inputs = {"token_ids": ids, "segment_ids": ops.zeros_like(ids), "padding_mask": mask}
        return keras_jobs.mean_vectors(model(inputs, training=False), mask)

    compiled = CompiledFunction(vectors, model, jit)
    if case["batch"] == 1:
        return keras_jobs.reading(lambda ids: compiled(ids, 1), case, jit)
    settings = {
        "batch_size": case["batch"],
        "max_length": case["longest"],
        "multiple": case["multiple"],
        "max_shapes": case["shapes"],
        "rows_multiple_of": case["rows"] if keras_jobs.compiles_shapes(jit) else 1,
        "shuffle": False,
    }

    def read(texts):
        batches = TextBatches(texts, **settings)
        return batches.restore(np.concatenate([compiled(ids, 1) for (ids,) in batches]))

    requests = [[row[row != 0] for row in ids] for ids in encoder.read_batches(case)]
    return Job(lambda: [read(texts) for texts in requests], case["texts"])

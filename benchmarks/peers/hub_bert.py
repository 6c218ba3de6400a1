"""KerasHub's BERT.

Its blocks have GELU approximated with a hyperbolic tangent, whatever a checkpoint says. Here they
get the exact one, as the other contenders have.
"""

import keras
import keras_hub
import numpy as np
from keras import ops

from benchmarks import encoder
from benchmarks.peers import Job, keras_jobs


def make_backbone(case: dict) -> keras.Model:
    """With the sizes of all contenders, and exact GELU."""
    backbone = keras_hub.models.BertBackbone(
        case["vocabulary"],
        num_layers=case["layers"],
        num_heads=case["heads"],
        hidden_dim=case["dim"],
        intermediate_dim=case["intermediate"],
        dropout=case.get("dropout", 0.0),
        max_sequence_length=case["longest"],
    )
    for block in backbone.transformer_layers:
        block._feedforward_intermediate_dense.activation = keras.activations.gelu
    return backbone


def load(backbone: keras.Model, case: dict, head: keras.layers.Layer | None = None) -> None:
    """Gives the layers the weights of all contenders."""
    weights = encoder.make_weights(case, head is not None)

    def dense(layer, name):
        for variable, part in ((layer.kernel, "kernel"), (layer.bias, "bias")):
            variable.assign(np.reshape(weights[f"{name}.{part}"], variable.shape))

    def norm(layer, name):
        layer.gamma.assign(weights[f"{name}.gamma"])
        layer.beta.assign(weights[f"{name}.beta"])

    backbone.token_embedding.embeddings.assign(weights["tokens"])
    backbone.position_embedding.position_embeddings.assign(weights["positions"])
    backbone.segment_embedding.embeddings.assign(weights["segments"])
    norm(backbone.embeddings_layer_norm, "embedding.norm")
    for prefix, block in zip(encoder.blocks(case), backbone.transformer_layers, strict=True):
        for part in ("query", "key", "value", "output"):
            dense(getattr(block._self_attention_layer, f"_{part}_dense"), f"{prefix}.{part}")
        norm(block._self_attention_layer_norm, f"{prefix}.attention.norm")
        dense(block._feedforward_intermediate_dense, f"{prefix}.hidden")
        dense(block._feedforward_output_dense, f"{prefix}.back")
        norm(block._feedforward_layer_norm, f"{prefix}.norm")
    if head is not None:
        dense(head._intermediate_dense, "head")
        norm(head._intermediate_layer_norm, "head.norm")
        head._bias.assign(weights["head.bias.tokens"])


def masked_words_model(case: dict) -> tuple[keras.Model, keras.losses.Loss, dict]:
    """The model, Keras' loss of the same value as ours, and its names of inputs."""
    keras.config.set_dtype_policy(case.get("policy", "float32"))
    backbone = make_backbone(case)
    model = keras_hub.models.BertMaskedLM(backbone)
    model.masked_lm_head._intermediate_layer_norm.epsilon = 1e-12  # as in its backbone
    load(backbone, case, model.masked_lm_head)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    # A plain model: the task's own `fit` has another input pipeline than Keras'.
    model = keras.Model(model.input, model.output)
    return model, loss, {"masked_positions": "mask_positions"}


def masked_words(case: dict, jit: bool) -> Job:
    """Steps of `fit` on masked words."""
    return keras_jobs.masked_words(*masked_words_model(case), case, jit)


def read_texts(case: dict, jit: bool) -> Job:
    """Mean vectors of texts, by `predict_on_batch`."""
    backbone = make_backbone(case)
    load(backbone, case)
    mask = ops.not_equal(backbone.input["padding_mask"], 0)
    vectors = keras_jobs.mean_vectors(backbone.output["sequence_output"], mask)
    model = keras.Model(backbone.input, vectors)
    model.compile(jit_compile=jit)

    def read(ids):
        mask = (ids != 0).astype("int32")
        inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}
        return model.predict_on_batch(inputs)

    return keras_jobs.reading(read, case, jit)

"""KerasHub: its layers and its cached samplers."""

import keras
import keras_hub
import numpy as np
from keras import ops

from benchmarks import translator
from benchmarks.peers import Job, keras_jobs
from benchmarks.translator import PAD, START
from keras_attn.generation import CompiledFunction
from keras_attn.training import MaskedCrossEntropy

BACKEND = keras.backend.backend()


class Translator:
    """An encoder-decoder with the weights of all contenders; positions are a table."""

    def __init__(self, case: dict):
        self.case = case
        self.heads, self.width = case["heads"], case["dim"] // case["heads"]
        rate, blocks = case.get("dropout", 0.0), range(case["layers"])
        settings = {
            "intermediate_dim": case["intermediate"],
            "num_heads": case["heads"],
            "dropout": rate,
        }
        self.embedding = keras.layers.ReversibleEmbedding(case["vocabulary"], case["dim"])
        longest = max(case.get(k, 0) for k in ("source", "target", "longest")) + 16
        self.positions = keras_hub.layers.PositionEmbedding(longest, trainable=False)
        self.dropout = keras.layers.Dropout(rate)
        self.encoders = [keras_hub.layers.TransformerEncoder(**settings) for _ in blocks]
        self.decoders = [keras_hub.layers.TransformerDecoder(**settings) for _ in blocks]

        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        memory, mask = self.encode(source_ids)
        x = self.dropout(self.embed(target_ids))
        own_mask = ops.not_equal(target_ids, PAD)
        for layer in self.decoders:
            x = layer(x, memory, decoder_padding_mask=own_mask, encoder_padding_mask=mask)
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        self.model = keras.Model(inputs, self.embedding(x, reverse=True))
        self._load(longest)

    def _load(self, longest: int) -> None:
        weights = translator.make_weights(self.case)

        def dense(layer, name):
            for variable, part in ((layer.kernel, "kernel"), (layer.bias, "bias")):
                variable.assign(np.reshape(weights[f"{name}.{part}"], variable.shape))

        def norm(layer, name):
            layer.gamma.assign(weights[f"{name}.gamma"])
            layer.beta.assign(weights[f"{name}.beta"])

        self.embedding.embeddings.assign(weights["embedding"])
        table = translator.sinusoids(longest, self.case["dim"])
        self.positions.position_embeddings.assign(table)
        for side, prefix, attentions in translator.sublayers(self.case):
            layers = self.encoders if side == "encoder" else self.decoders
            block = layers[int(prefix.split(".")[1])]
            for name in attentions:
                attention = getattr(block, f"_{name}_attention_layer")
                for part in ("query", "key", "value", "output"):
                    dense(getattr(attention, f"_{part}_dense"), f"{prefix}.{name}.{part}")
                norm(getattr(block, f"_{name}_attention_layer_norm"), f"{prefix}.{name}.norm")
            dense(block._feedforward_intermediate_dense, f"{prefix}.hidden")
            dense(block._feedforward_output_dense, f"{prefix}.output")
            norm(block._feedforward_layer_norm, f"{prefix}.norm")

    def embed(self, ids, start_index=0):
        """Scaled embeddings with positions."""
        x = self.embedding(ids) * self.case["dim"] ** 0.5
        return x + self.positions(x, start_index=start_index)

    def encode(self, ids):
        """The memory and its mask."""
        mask = ops.not_equal(ids, PAD)
        x = self.dropout(self.embed(ids))
        for layer in self.encoders:
            x = layer(x, padding_mask=mask)
        return x, mask

    def search(self, ids, steps):
        """A cached search with one of its samplers, from ids to ids."""
        beams = self.case["beams"]
        memory, mask = self.encode(ids)
        rows, length = ops.shape(ids)[0], ops.shape(ids)[1]
        prompt = ops.zeros((rows, steps + 1), "int32")
        prompt = ops.slice_update(prompt, [0, 0], ops.zeros((rows, 1), "int32") + START)
        empty = ops.zeros((rows, 2, steps + 1, self.heads, self.width))
        cross = ops.zeros((rows, 2, length, self.heads, self.width))
        start, crosses = self.embed(prompt[:, :1]), []
        for layer in self.decoders:  # the cross-attention's keys and values, once
            start, _, cache = layer(
                start,
                memory,
                encoder_padding_mask=mask,
                self_attention_cache=empty,
                self_attention_cache_update_index=0,
                cross_attention_cache=cross,
                cross_attention_cache_update_index=0,
            )
            crosses.append(cache)
        # The same for all beams of a sentence, so they need not be gathered at each step.
        memory, mask, *crosses = (ops.repeat(t, beams, axis=0) for t in (memory, mask, *crosses))

        def following(prompt, caches, index):
            token = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
            x = self.embed(token, start_index=index - 1)
            updated = []
            for layer, cache, cross in zip(self.decoders, caches, crosses, strict=True):
                x, cache, _ = layer(
                    x,
                    memory,
                    encoder_padding_mask=mask,
                    self_attention_cache=cache,
                    self_attention_cache_update_index=index - 1,
                    cross_attention_cache=cross,
                )
                updated.append(cache)
            return self.embedding(x, reverse=True)[:, 0], None, updated

        caches = [empty for _ in self.decoders]
        sampler = keras_hub.samplers.GreedySampler()
        if beams > 1:
            sampler = keras_hub.samplers.BeamSampler(num_beams=beams)
        model = self.model if BACKEND == "jax" else None
        return sampler(following, prompt, caches, index=1, model=model)[:, 1:]


def decoding(case: dict, jit: bool) -> Job:
    """Greedy or beam search with caches, from ids to ids."""
    built = Translator(case)
    ids, steps = translator.sources(case), case["target"]
    if BACKEND == "tensorflow":
        import tensorflow as tf

        # A trace for each shape, as its models' `generate` does: static shapes suit it best.
        compiled = tf.function(built.search, autograph=False, jit_compile=jit)
        run = lambda: compiled(tf.constant(ids), steps).numpy()  # noqa: E731
    else:
        compiled = CompiledFunction(built.search, built.model.variables)
        run = lambda: compiled(ids, steps)  # noqa: E731
    return Job(run, len(ids), lambda found: found.tolist())


def encoder_decoder(case: dict, jit: bool) -> Job:
    """The same pairs once, in shuffled batches of equally many; the amount is target tokens."""
    batches = list(translator.plain_batches(case))
    amount = sum(float(weight.sum()) for *_, weight in batches)
    return keras_jobs.training(Translator(case).model, MaskedCrossEntropy(), batches, jit, amount)


def _settings(case: dict) -> dict:
    return {key: case[old] for key, old in (("num_heads", "heads"), ("dropout", "dropout"))}


def encoder_stack(case: dict, jit: bool) -> Job:
    """Steps of encoder blocks."""

    def block(x, memory):
        return keras_hub.layers.TransformerEncoder(case["intermediate"], **_settings(case))(x)

    return keras_jobs.stack(block, case, jit)


def bert_encoder(case: dict, jit: bool) -> Job:
    """Steps of `fit` of blocks of BERT's kind."""

    def block(x, memory):
        layer = keras_hub.layers.TransformerEncoder(
            case["intermediate"], activation="gelu", **_settings(case)
        )
        return layer(x)

    return keras_jobs.fitted(block, case, jit)


def decoder_stack(case: dict, jit: bool) -> Job:
    """Steps of decoder blocks with cross-attention."""

    def block(x, memory):
        layer = keras_hub.layers.TransformerDecoder(case["intermediate"], **_settings(case))
        return layer(x, memory)

    return keras_jobs.stack(block, case, jit, memory=True)

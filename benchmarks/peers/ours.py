"""keras_attn."""

import keras
import numpy as np
from keras import ops

from benchmarks import translator
from benchmarks.peers import Job, keras_jobs
from benchmarks.translator import END, START
from keras_attn.batches import PackedBatches, TokenBatches
from keras_attn.generation import CompiledFunction, beam_search, greedy_search
from keras_attn.layers import (
    AdditiveAttention,
    AttentionDecoder,
    DecoderBlock,
    LuongAttention,
    MultiHeadSelfAttention,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from keras_attn.models import (
    SequenceDecoder,
    TransformerEncoderDecoderConfig,
    packed_transformer,
)
from keras_attn.training import ChunkedLossModel, MaskedCrossEntropy, without_autotuning


def make_translator(case: dict) -> keras.Model:
    """With the weights of all contenders."""
    dropout = case.get("dropout", 0.0)
    config = TransformerEncoderDecoderConfig(
        case["vocabulary"],
        num_layers=case["layers"],
        dim=case["dim"],
        num_heads=case["heads"],
        intermediate_dim=case["intermediate"],
        dropout=dropout,
        attention_dropout=dropout,
        normalize_first=False,
    )
    model = config.build()
    weights = translator.make_weights(case)

    def dense(layer, *names):
        for part in ("kernel", "bias"):
            values = [weights[f"{name}.{part}"] for name in names]
            getattr(layer, part).assign(ops.concatenate(values, axis=-1))

    def norm(layer, name):
        layer.gamma.assign(weights[f"{name}.gamma"])
        layer.beta.assign(weights[f"{name}.beta"])

    model.get_layer("source_embedding").embedding.embeddings.assign(weights["embedding"])
    for side, prefix, attentions in translator.sublayers(case):
        block = model.get_layer(side).blocks[int(prefix.split(".")[1])]
        fused = [f"{prefix}.self.{part}" for part in ("query", "key", "value")]
        dense(block.self_attention.qkv_dense, *fused)
        if "cross" in attentions:
            for part in ("query", "key", "value"):
                layer = getattr(block.cross_attention, f"{part}_dense")
                dense(layer, f"{prefix}.cross.{part}")
        for name in attentions:
            dense(getattr(block, f"{name}_attention").output_dense, f"{prefix}.{name}.output")
            norm(getattr(block, f"{name}_attention_norm"), f"{prefix}.{name}.norm")
        dense(block.feed_forward.hidden_dense, f"{prefix}.hidden")
        dense(block.feed_forward.output_dense, f"{prefix}.output")
        norm(block.feed_forward_norm, f"{prefix}.norm")
    return model


def decoding(case: dict, jit: bool) -> Job:
    """Greedy or beam search with caches, from ids to ids."""
    return decoding_of(make_translator(case), case, jit)


def decoding_of(model: keras.Model, case: dict, jit: bool) -> Job:
    """The same of a model that is made."""
    decoder = SequenceDecoder(model)

    def search(ids, steps):
        memory, mask = decoder.encode(ids)
        start = ops.zeros_like(ids[:, :1]) + START
        inputs = (decoder.decoder, start, None, memory, mask)
        settings = {"max_length": steps, "end_id": END}
        if case["beams"] == 1:
            return greedy_search(*inputs, **settings).tokens
        return beam_search(*inputs, num_beams=case["beams"], **settings).tokens[:, 0]

    compiled = CompiledFunction(search, model.variables, jit)
    ids = translator.sources(case)
    return Job(lambda: compiled(ids, case["target"]), len(ids), lambda found: found.tolist())


def token_batches(case: dict) -> TokenBatches:
    """Batches of about equally many tokens, in few shapes."""
    sources, targets = translator.make_pairs(case)
    return TokenBatches(
        [[*ids, END] for ids in sources],
        targets,
        start_id=START,
        end_id=END,
        tokens_per_batch=case["batch_tokens"],
        multiple=case["multiple"],
        max_shapes=case["shapes"],
    )


def packed_batches(case: dict) -> PackedBatches:
    """The same pairs, several in a row of `row` tokens."""
    sources, targets = translator.make_pairs(case)
    return PackedBatches(
        [[*ids, END] for ids in sources],
        targets,
        start_id=START,
        end_id=END,
        tokens_per_row=case["row"],
        tokens_per_batch=case["batch_tokens"],
    )


def encoder_decoder(case: dict, jit: bool) -> Job:
    """An epoch; the amount is target tokens."""
    batches, amount = _pairs(case)

    class Epoch:
        def __iter__(self):
            return (batches[i] for i in range(len(batches)))

    return keras_jobs.training(make_translator(case), MaskedCrossEntropy(), Epoch(), jit, amount)


def _block(cls: type, case: dict):
    rate = case["dropout"]
    settings = {"dropout": rate, "attention_dropout": rate}
    return cls(case["heads"], intermediate_dim=case["intermediate"], **settings)


def encoder_stack(case: dict, jit: bool) -> Job:
    """Steps of encoder blocks."""
    return keras_jobs.stack(lambda x, m: _block(TransformerEncoderBlock, case)(x), case, jit)


def bert_encoder(case: dict, jit: bool, attention_dropout: bool = True) -> Job:
    """Steps of `fit` of blocks of BERT's kind; dropout of the attention weights is an option."""

    def block(x, memory):
        return TransformerEncoderBlock(
            case["heads"],
            intermediate_dim=case["intermediate"],
            dropout=case["dropout"],
            attention_dropout=case["dropout"] if attention_dropout else 0.0,
            activation="gelu",
        )(x)

    return keras_jobs.fitted(block, case, jit)


def decoder_stack(case: dict, jit: bool) -> Job:
    """Steps of decoder blocks with cross-attention."""
    return keras_jobs.stack(lambda x, m: _block(DecoderBlock, case)(x, m), case, jit, memory=True)


def deep_stack(
    case: dict, jit: bool, rematerialize: bool = False, policy: str | None = None
) -> Job:
    """A step of a stack of many blocks; the amount is tokens."""
    x = keras.Input((None, case["dim"]))
    stack = TransformerEncoder(
        case["layers"],
        case["heads"],
        intermediate_dim=case["intermediate"],
        rematerialize=rematerialize,
        normalize_first=True,
        dtype=policy,
    )
    given, wanted = (v.astype("float32") for v in keras_jobs.vectors(case, *["length"] * 2))
    amount = case["batch"] * case["length"]
    return keras_jobs.training(keras.Model(x, stack(x)), "mse", [(given, wanted)], jit, amount)


def small_batches(case: dict, jit: bool, at_once: int) -> Job:
    """An epoch of `fit` over batches that are held; the amount is batches."""
    x = keras.Input((None, case["dim"]))
    block = TransformerEncoderBlock(case["heads"], intermediate_dim=case["intermediate"])
    model = keras.Model(x, block(x))
    model.compile("adam", "mse", jit_compile=jit, steps_per_execution=at_once)
    given = keras_jobs.vectors(case, "length")[0].astype("float32")
    data = without_autotuning(keras_jobs.Held([(given, given)] * case["batches"]))
    return Job(lambda: model.fit(data, shuffle=False, verbose=0), case["batches"])


def rnn_decoder(case: dict, jit: bool, attention: str) -> Job:
    """Steps of a GRU that attends at each step."""

    def decoder(x, memory):
        if attention == "additive":
            layer, order = AdditiveAttention(case["dim"]), "bahdanau"
        else:
            layer, order = LuongAttention(score="dot"), "luong"
        cell = keras.layers.GRUCell(case["dim"])
        return AttentionDecoder(cell, layer, order=order, attention_units=case["dim"])(x, memory)

    return keras_jobs.recurrent(decoder, case, jit)


def attention(case: dict, jit: bool, kernel: str) -> Job:
    """A step of one layer of self-attention."""
    layer = MultiHeadSelfAttention(case["heads"], attention_kernel=kernel)
    return keras_jobs.long(layer, case, jit)


def loss(case: dict, jit: bool, chunked: bool) -> Job:
    """A step of two layers, the last one over a large vocabulary."""
    x = keras.Input((None, case["dim"]))
    logits = keras.layers.Dense(case["vocabulary"])(keras.layers.Dense(case["dim"])(x))
    model = keras.Model(x, logits)
    model = ChunkedLossModel(model) if chunked else model
    given = keras_jobs.vectors(case, "length")[0].astype("float32")
    labels = np.random.default_rng(1).integers(1, case["vocabulary"], given.shape[:2])
    return keras_jobs.training(model, MaskedCrossEntropy(0.1), [(given, labels)], jit)


def packing(case: dict, jit: bool, packed: bool) -> Job:
    """An epoch of steps over bucketed batches or packed rows; the amount is target tokens."""
    model = make_translator(case)
    made = packed_batches(case) if packed else token_batches(case)
    batches = [made[i] for i in range(len(made))]
    amount = sum(float(weights.sum()) for _, _, weights in batches)
    model = packed_transformer(model) if packed else model
    return keras_jobs.training(model, MaskedCrossEntropy(), batches, jit, amount)


def _pairs(case: dict) -> tuple[TokenBatches, float]:
    batches = token_batches(case)
    amount = sum(float(batches[i][2].sum()) for i in range(len(batches)))
    return batches, amount


def batches(case: dict) -> Job:
    """An epoch of batches, made and thrown away; the amount is target tokens."""
    made, amount = _pairs(case)

    def run():
        for i in range(len(made)):
            made[i]
        made.set_epoch(made.epoch + 1)

    return Job(run, amount)


def fitting(case: dict, jit: bool, held: bool) -> Job:
    """An epoch of `fit`, from `TokenBatches` or from batches that are held."""
    made, amount = _pairs(case)
    model = make_translator(case)
    model.compile("adam", MaskedCrossEntropy(), jit_compile=jit)
    data = keras_jobs.Held([made[i] for i in range(len(made))]) if held else made
    data = without_autotuning(data)
    return Job(lambda: model.fit(data, shuffle=False, verbose=0), amount)

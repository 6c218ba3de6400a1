"""CTranslate2, float32, with the weights of all contenders."""

import tempfile

import ctranslate2
import numpy as np
from ctranslate2.converters import utils
from ctranslate2.specs import common_spec, transformer_spec

from benchmarks import translator
from benchmarks.machine import available_cores
from benchmarks.peers import Job
from benchmarks.translator import END, PAD, START


def names(vocabulary: int) -> list[str]:
    """Of the tokens: it takes and gives strings."""
    special = {PAD: "<pad>", START: "<s>", END: "</s>"}
    return [special.get(i, f"t{i}") for i in range(vocabulary)]


def make_spec(case: dict) -> transformer_spec.TransformerSpec:
    """The model in its format."""
    spec = transformer_spec.TransformerSpec.from_config(
        case["layers"], case["heads"], pre_norm=False, activation=common_spec.Activation.RELU
    )
    weights = translator.make_weights(case)

    def dense(into, name):
        into.weight = np.ascontiguousarray(weights[f"{name}.kernel"].T)
        into.bias = weights[f"{name}.bias"]

    def fused(into, prefix, parts):
        layers = [common_spec.LinearSpec() for _ in parts]
        for layer, part in zip(layers, parts, strict=True):
            dense(layer, f"{prefix}.{part}")
        utils.fuse_linear(into, layers)

    def norm(into, name):
        into.gamma, into.beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]

    table = translator.sinusoids(max(case["source"], case["target"]) + 16, case["dim"])
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if side is spec.encoder else side.embeddings
        embeddings.weight = weights["embedding"]
        side.scale_embeddings = float(np.sqrt(case["dim"]))
        side.position_encodings.encodings = table
    spec.decoder.projection.weight = weights["embedding"]
    for side, prefix, attentions in translator.sublayers(case):
        block = getattr(spec, side).layer[int(prefix.split(".")[1])]
        for name in attentions:
            into = block.self_attention if name == "self" else block.attention
            if name == "self":
                fused(into.linear[0], f"{prefix}.self", ("query", "key", "value"))
            else:
                fused(into.linear[0], f"{prefix}.cross", ("query",))
                fused(into.linear[1], f"{prefix}.cross", ("key", "value"))
            dense(into.linear[-1], f"{prefix}.{name}.output")
            norm(into.layer_norm, f"{prefix}.{name}.norm")
        dense(block.ffn.linear_0, f"{prefix}.hidden")
        dense(block.ffn.linear_1, f"{prefix}.output")
        norm(block.ffn.layer_norm, f"{prefix}.norm")
    tokens = names(case["vocabulary"])
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<pad>"
    spec.config.decoder_start_token = "<s>"
    return spec


def decoding(case: dict) -> Job:
    """`translate_batch`, from tokens to tokens."""
    spec = make_spec(case)
    spec.validate()
    spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        model = ctranslate2.Translator(
            folder,
            device="cuda" if ctranslate2.get_cuda_device_count() else "cpu",
            compute_type="float32",
            inter_threads=1,
            intra_threads=available_cores(),
        )
    tokens = names(case["vocabulary"])
    batch = [[tokens[i] for i in row if i != PAD] for row in translator.sources(case)]
    index = {name: i for i, name in enumerate(tokens)}
    settings = {"beam_size": case["beams"], "max_decoding_length": case["target"]}

    def run():
        found = model.translate_batch(batch, **settings)
        return [[index[token] for token in each.hypotheses[0]] for each in found]

    return Job(run, len(batch), lambda found: found)

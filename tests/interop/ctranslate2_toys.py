"""Random translators in the folders of CTranslate2, written by its own specifications."""

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

LETTERS = "abcdefgh"
SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]


def sinusoids(rows, dim, halves):
    """As OpenNMT-py and Marian write them."""
    waves = np.arange(rows)[:, None] / 10000 ** (2 * (np.arange(dim) // 2) / dim)
    table = np.where(np.arange(dim) % 2 == 0, np.sin(waves), np.cos(waves))
    return np.concatenate([table[:, ::2], table[:, 1::2]], axis=1) if halves else table


def folder_of(
    folder, source=None, target=None, *, dim=12, heads=3, layers=(2, 1), tied=True, halves=None,
    quantization=None, zero_start=False, scale=True, rng=0, bias=True, config=None, end=None,
    **settings,
):  # fmt: skip
    """Writes a translator; `settings` are those of `TransformerSpec.from_config`.

    With an `end`, the logit of the end is so much greater, and neither a blank nor a start comes.
    """
    source = [*SPECIAL, *LETTERS] if source is None else source
    target = [*SPECIAL, *LETTERS[::-1]] if target is None else target
    rng = np.random.default_rng(rng)
    spec = transformer_spec.TransformerSpec.from_config(layers, heads, **settings)
    sizes = {"encoder": len(source), "decoder": len(target)}
    hidden = 2 * dim

    def linear(layer, out, into):
        layer.weight = rng.normal(scale=0.4, size=(out, into)).astype("float32")
        if bias:
            layer.bias = rng.normal(scale=0.4, size=out).astype("float32")

    def norm(layer):
        layer.gamma = (1 + rng.normal(scale=0.3, size=dim)).astype("float32")
        if hasattr(layer, "beta"):
            layer.beta = rng.normal(scale=0.3, size=dim).astype("float32")

    for name, size in sizes.items():
        stack = getattr(spec, name)
        table = rng.normal(scale=0.3, size=(size, dim)).astype("float32")
        (stack.embeddings[0] if name == "encoder" else stack.embeddings).weight = table
        stack.scale_embeddings = scale
        if halves is not None:
            stack.position_encodings.encodings = sinusoids(40, dim, halves).astype("float32")
        for extra in ("layer_norm", "layernorm_embedding"):
            if hasattr(stack, extra):
                norm(getattr(stack, extra))
        for layer in stack.layer:
            linear(layer.self_attention.linear[0], 3 * dim, dim)
            linear(layer.self_attention.linear[1], dim, dim)
            linear(layer.ffn.linear_0, hidden, dim)
            linear(layer.ffn.linear_1, dim, hidden)
            norms = [layer.self_attention.layer_norm, layer.ffn.layer_norm]
            if hasattr(layer.ffn, "linear_0_noact"):
                linear(layer.ffn.linear_0_noact, hidden, dim)
            if name == "decoder":
                linear(layer.attention.linear[0], dim, dim)
                linear(layer.attention.linear[1], 2 * dim, dim)
                linear(layer.attention.linear[2], dim, dim)
                norms.append(layer.attention.layer_norm)
            for some in norms:
                norm(some)
    linear(spec.decoder.projection, len(target), dim)
    if end is not None:
        more = {"</s>": end, "<blank>": -99.0, "<s>": -99.0}
        for i, token in enumerate(target):
            spec.decoder.projection.bias[i] += more.get(token, 0.0)
    if source == target:
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
    if tied:
        spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.decoder.start_from_zero_embedding = zero_start
    for name, value in (config or {}).items():
        setattr(spec.config, name, value)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))
    return folder


def log_probabilities(folder, sources, targets):
    """What CTranslate2 says of each token of each target and of its end, in float32."""
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    found = translator.score_batch([*map(list, sources)], [*map(list, targets)])
    return [x.log_probs for x in found]


ACTIVATIONS = common_spec.Activation

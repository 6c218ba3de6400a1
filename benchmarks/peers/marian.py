"""Hugging Face's MarianMT on PyTorch, with the weights of all contenders."""

import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from benchmarks import translator
from benchmarks.peers import Job
from benchmarks.translator import END, PAD, START

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_translator(case: dict) -> MarianMTModel:
    """An evaluated model."""
    longest = max(case["source"], case["target"]) + 16
    config = MarianConfig(
        vocab_size=case["vocabulary"],
        max_position_embeddings=longest,
        d_model=case["dim"],
        **{f"{side}_layers": case["layers"] for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": case["heads"] for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": case["intermediate"] for side in ("encoder", "decoder")},
        activation_function="relu",
        dropout=0.0,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    model = MarianMTModel(config)
    weights = {k: torch.from_numpy(v) for k, v in translator.make_weights(case).items()}

    @torch.no_grad()
    def dense(layer, name):
        layer.weight.copy_(weights[f"{name}.kernel"].T)
        layer.bias.copy_(weights[f"{name}.bias"])

    @torch.no_grad()
    def norm(layer, name):
        layer.weight.copy_(weights[f"{name}.gamma"])
        layer.bias.copy_(weights[f"{name}.beta"])

    table = torch.from_numpy(translator.sinusoids(longest, case["dim"]))
    with torch.no_grad():
        model.model.shared.weight.copy_(weights["embedding"])
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(table)
    for side, prefix, attentions in translator.sublayers(case):
        block = getattr(model.model, side).layers[int(prefix.split(".")[1])]
        for name in attentions:
            inside = "self_attn" if name == "self" else "encoder_attn"
            for part, theirs in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
                layer = getattr(getattr(block, inside), f"{theirs}_proj")
                dense(layer, f"{prefix}.{name}.{part}")
            norm(getattr(block, f"{inside}_layer_norm"), f"{prefix}.{name}.norm")
        dense(block.fc1, f"{prefix}.hidden")
        dense(block.fc2, f"{prefix}.output")
        norm(block.final_layer_norm, f"{prefix}.norm")
    return model.eval().to(DEVICE)


def decoding(case: dict) -> Job:
    """`generate`, from ids to ids."""
    model = make_translator(case)
    settings = GenerationConfig(
        max_new_tokens=case["target"],
        num_beams=case["beams"],
        do_sample=False,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
    )
    ids = translator.sources(case)

    @torch.inference_mode()
    def run():
        source = torch.from_numpy(ids).long().to(DEVICE)
        mask = (source != PAD).long()
        found = model.generate(source, attention_mask=mask, generation_config=settings)
        return found[:, 1:].cpu().numpy()

    return Job(run, len(ids), lambda found: found.tolist())

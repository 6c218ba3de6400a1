"""Hugging Face's BERT on PyTorch, with the weights of all contenders."""

import torch
from transformers import BertConfig, BertModel

from benchmarks import encoder
from benchmarks.peers import Job

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_model(case: dict) -> BertModel:
    """An evaluated model without a pooler."""
    config = BertConfig(
        vocab_size=case["vocabulary"],
        hidden_size=case["dim"],
        num_hidden_layers=case["layers"],
        num_attention_heads=case["heads"],
        intermediate_size=case["intermediate"],
        max_position_embeddings=case["longest"],
        hidden_act="gelu",
        attn_implementation="sdpa",
    )
    model = BertModel(config, add_pooling_layer=False)
    weights = {k: torch.from_numpy(v) for k, v in encoder.make_weights(case).items()}

    def dense(layer, name):
        layer.weight.copy_(weights[f"{name}.kernel"].T)
        layer.bias.copy_(weights[f"{name}.bias"])

    def norm(layer, name):
        layer.weight.copy_(weights[f"{name}.gamma"])
        layer.bias.copy_(weights[f"{name}.beta"])

    with torch.no_grad():
        embeddings = model.embeddings
        embeddings.word_embeddings.weight.copy_(weights["tokens"])
        embeddings.position_embeddings.weight.copy_(weights["positions"])
        embeddings.token_type_embeddings.weight.copy_(weights["segments"])
        norm(embeddings.LayerNorm, "embedding.norm")
        for prefix, block in zip(encoder.blocks(case), model.encoder.layer, strict=True):
            for part in ("query", "key", "value"):
                dense(getattr(block.attention.self, part), f"{prefix}.{part}")
            dense(block.attention.output.dense, f"{prefix}.output")
            norm(block.attention.output.LayerNorm, f"{prefix}.attention.norm")
            dense(block.intermediate.dense, f"{prefix}.hidden")
            dense(block.output.dense, f"{prefix}.back")
            norm(block.output.LayerNorm, f"{prefix}.norm")
    return model.eval().to(DEVICE)


def read_texts(case: dict) -> Job:
    """Mean vectors of texts, in `inference_mode`."""
    model = make_model(case)
    batches = encoder.read_batches(case)

    @torch.inference_mode()
    def read(ids):
        ids = torch.from_numpy(ids).long().to(DEVICE)
        mask = ids != 0
        x = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        weight = mask.unsqueeze(-1).to(x.dtype)
        return ((x * weight).sum(1) / weight.sum(1)).cpu().numpy()

    return Job(lambda: [read(ids) for ids in batches], case["texts"])

"""Hugging Face's GPT-2 on PyTorch, with the weights of all contenders."""

import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

from benchmarks import gpt
from benchmarks.peers import Job

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PARTS = {
    "norm_1": "ln_1", "qkv": "attn.c_attn", "output": "attn.c_proj", "norm_2": "ln_2",
    "hidden": "mlp.c_fc", "back": "mlp.c_proj",
}  # fmt: skip
"""Their names of the parts of a block; their matrices are `(in, out)`."""


def make_model(case: dict) -> GPT2LMHeadModel:
    """An evaluated model."""
    config = GPT2Config(
        vocab_size=case["vocabulary"],
        n_embd=case["dim"],
        n_layer=case["layers"],
        n_head=case["heads"],
        n_positions=case["context"],
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    of = {"tokens": "wte.weight", "positions": "wpe.weight"}
    weights = {}
    for name, value in gpt.make_weights(case).items():
        *where, last = name.split(".")
        last = "bias" if last in ("bias", "beta") else "weight"
        if where and where[0] == "block":
            theirs = f"h.{where[1]}.{PARTS[where[2]]}.{last}"
        else:
            theirs = of.get(name) or f"ln_f.{last}"
        weights[f"transformer.{theirs}"] = torch.from_numpy(value)
    left = model.load_state_dict(weights, strict=False)
    if left.unexpected_keys or set(left.missing_keys) - {"lm_head.weight"}:
        raise ValueError(f"Expected the weights of a GPT-2. Received: {left}.")
    return model.eval().to(DEVICE)


def writing(case: dict) -> Job:
    """`generate`, greedy with a cache, from ids to ids; the amount is new tokens."""
    model = make_model(case)
    settings = GenerationConfig(
        max_new_tokens=case["new"], do_sample=False, use_cache=True, pad_token_id=0
    )
    ids = torch.from_numpy(gpt.prompts(case)).long().to(DEVICE)

    @torch.inference_mode()
    def run():
        found = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        return found[:, case["prompt"] :].cpu().numpy()

    return Job(run, case["batch"] * case["new"], lambda found: found.tolist())

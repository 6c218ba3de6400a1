"""A GPT in plain PyTorch, as nanoGPT has it: SDPA, a tied output, the weights of all contenders."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import gpt
from benchmarks.peers import Job, torch_nn

DEVICE = torch_nn.DEVICE


class Block(nn.Module):
    """Norm and causal attention, norm and two dense layers, each added to its input."""

    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.hidden, self.back = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From `(B, T, D)` to `(B, T, D)`."""
        B, T, D = x.shape
        parts = self.qkv(self.norm_1(x)).view(B, T, 3, self.heads, D // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # (B, N, T, H) each
        rate = self.rate if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        x = x + self.dropout(self.output(y.transpose(1, 2).reshape(B, T, D)))
        return x + self.dropout(self.back(F.gelu(self.hidden(self.norm_2(x)))))


class Gpt(nn.Module):
    """From ids `(B, T)` to logits `(B, T, V)`."""

    def __init__(self, case: dict):
        super().__init__()
        dim = case["dim"]
        self.tokens = nn.Embedding(case["vocabulary"], dim)
        self.positions = nn.Embedding(case["context"], dim)
        self.dropout = nn.Dropout(case["dropout"])
        block = lambda: Block(dim, case["heads"], case["dropout"])  # noqa: E731
        self.block = nn.ModuleList([block() for _ in range(case["layers"])])
        self.norm = nn.LayerNorm(dim)
        with torch.no_grad():
            for name, value in gpt.make_weights(case).items():
                value = torch.from_numpy(value)
                *where, last = name.split(".")
                layer = self.get_submodule(".".join(where) or last)
                if last == "kernel":
                    layer.weight.copy_(value.T)
                else:
                    part = layer.bias if last in ("bias", "beta") else layer.weight
                    part.copy_(value)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns the logits."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(places))
        for block in self.block:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def loss(logits: torch.Tensor, labels: torch.Tensor) -> Any:
    """Mean cross-entropy of the next tokens."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def language_model(case: dict, compiled: bool) -> Job:
    """Steps of a loop over batches that are on the device; the amount is tokens."""
    ids, labels = (torch.from_numpy(x).long().to(DEVICE) for x in gpt.rows(case))
    parts = zip(ids.split(case["batch"]), labels.split(case["batch"]), strict=True)
    batches = [((x,), y) for x, y in parts]
    return torch_nn.training(Gpt(case), batches, loss, ids.numel(), compiled)

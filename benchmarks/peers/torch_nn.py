"""PyTorch's own layers."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import translator
from benchmarks.peers import Job
from benchmarks.translator import PAD

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def training(
    model: nn.Module,
    batches: Any,
    loss: Any,
    amount: float,
    compiled: bool,
    policy: str = "float32",
) -> Job:
    """Adam steps over (inputs, labels) of tensors; `loss` takes the output and the labels."""
    model = model.to(DEVICE).train()
    fused = DEVICE == "cuda"
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, fused=fused)
    step = torch.compile(model) if compiled else model
    half = policy == "mixed_bfloat16"

    def run():
        for inputs, labels in batches:
            adam.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
                output = step(*inputs)
            value = loss(output.float(), labels)
            value.backward()
            adam.step()
        return value.item()  # all is done

    return Job(run, amount)


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random, on the device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def _settings(case: dict) -> dict[str, Any]:
    return {
        "d_model": case["dim"],
        "nhead": case["heads"],
        "dim_feedforward": case["intermediate"],
        "dropout": case["dropout"],
        "batch_first": True,
    }


def encoder_stack(case: dict, compiled: bool) -> Job:
    """Steps of encoder blocks."""
    layer = nn.TransformerEncoderLayer(**_settings(case))
    model = nn.TransformerEncoder(layer, case["layers"], enable_nested_tensor=False)
    shape = case["batch"], case["length"], case["dim"]
    batch = ((tensor(*shape),), tensor(*shape, seed=1))
    amount = case["steps"] * case["batch"] * case["length"]
    return training(model, [batch] * case["steps"], F.mse_loss, amount, compiled)


class BertEncoder(nn.Module):
    """Blocks of BERT's kind between an embedding of ids and two classes of their mean."""

    def __init__(self, case: dict):
        super().__init__()
        self.embedding = nn.Embedding(case["vocabulary"], case["dim"])
        layer = nn.TransformerEncoderLayer(**_settings(case), activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, case["layers"], enable_nested_tensor=False)
        self.output = nn.Linear(case["dim"], 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.output(self.encoder(self.embedding(ids)).mean(1))


def bert_encoder(case: dict, compiled: bool) -> Job:
    """Steps of a loop over ids that are on the device."""
    rows = case["batch"], case["length"]
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(1, case["vocabulary"], rows, generator=rng).to(DEVICE)
    classes = torch.randint(0, 2, rows[:1], generator=rng).to(DEVICE)
    batches = [((ids,), classes)] * case["steps"]
    amount = case["steps"] * case["batch"] * case["length"]
    loss = F.cross_entropy
    return training(BertEncoder(case), batches, loss, amount, compiled, case["policy"])


class Translator(nn.Module):
    """`nn.Transformer` with embeddings; the sizes of all contenders, its own initial weights."""

    def __init__(self, case: dict):
        super().__init__()
        self.scale = math.sqrt(case["dim"])
        self.embedding = nn.Embedding(case["vocabulary"], case["dim"])
        nn.init.normal_(self.embedding.weight, std=case["dim"] ** -0.5)
        table = torch.from_numpy(translator.sinusoids(case["longest"] + 16, case["dim"]))
        self.register_buffer("positions", table)
        self.dropout = nn.Dropout(case["dropout"])
        self.transformer = nn.Transformer(
            num_encoder_layers=case["layers"], num_decoder_layers=case["layers"], **_settings(case)
        )

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Scaled embeddings with positions."""
        x = self.embedding(ids) * self.scale
        return self.dropout(x + self.positions[: ids.shape[1]])

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Logits."""
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=DEVICE)
        padding = source == PAD
        x = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=later.triu(1),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_key_padding_mask=target == PAD,
            tgt_is_causal=True,
        )
        return F.linear(x, self.embedding.weight)


def encoder_decoder(case: dict, compiled: bool) -> Job:
    """The same pairs once, in shuffled batches of equally many; the amount is target tokens."""
    made = list(translator.plain_batches(case))
    amount = sum(float(weight.sum()) for *_, weight in made)
    batches = [
        (
            [torch.from_numpy(inputs[k]).long().to(DEVICE) for k in ("source_ids", "target_ids")],
            torch.from_numpy(labels).long().to(DEVICE),
        )
        for inputs, labels, _ in made
    ]

    def loss(logits, labels):
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)

    return training(Translator(case), batches, loss, amount, compiled)


class RecurrentDecoder(nn.Module):
    """A GRU that attends at each step by dot products, in Luong's order with input feeding."""

    def __init__(self, dim: int):
        super().__init__()
        self.cell = nn.GRUCell(2 * dim, dim)
        self.output = nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Outputs of all steps."""
        state = fed = torch.zeros_like(x[:, 0])
        found = []
        for t in range(x.shape[1]):
            state = self.cell(torch.cat([x[:, t], fed], 1), state)
            weights = torch.softmax(torch.bmm(memory, state.unsqueeze(2)).squeeze(2), 1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            fed = torch.tanh(self.output(torch.cat([state, context], 1)))
            found.append(fed)
        return torch.stack(found, 1)


def rnn_decoder(case: dict, compiled: bool) -> Job:
    """Steps of a GRU that attends at each step."""
    x = tensor(case["batch"], case["target"], case["dim"])
    memory = tensor(case["batch"], case["source"], case["dim"], seed=1)
    batch = ((x, memory), torch.zeros_like(x))
    amount = case["batch"] * case["target"]
    return training(RecurrentDecoder(case["dim"]), [batch], F.mse_loss, amount, compiled)


class SelfAttention(nn.Module):
    """One layer around `scaled_dot_product_attention`."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.first, self.heads = nn.Linear(dim, dim), heads
        self.qkv, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer."""
        batch, length, dim = x.shape
        split = (batch, length, self.heads, dim // self.heads)
        query, key, value = (
            part.view(split).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1)
        )
        context = F.scaled_dot_product_attention(query, key, value)
        return self.output(context.transpose(1, 2).reshape(batch, length, dim))


def attention(case: dict) -> Job:
    """A step of one layer of self-attention."""
    x = tensor(case["batch"], case["length"], case["dim"])
    model = SelfAttention(case["dim"], case["heads"])
    policy = case.get("policy", "float32")
    return training(model, [((x,), x)], F.mse_loss, 1.0, compiled=False, policy=policy)


def update(case: dict, fused: bool) -> Job:
    """One update by AdamW with clipping, as of `benchmarks.peers.adam`."""
    dim = case["dim"]
    block = [(dim, 3 * dim), (dim, dim), (dim, 4 * dim), (4 * dim, dim)]
    shapes = [(case["vocabulary"], dim), *block * case["layers"]]
    weights = [nn.Parameter(tensor(*shape)) for shape in shapes]
    gradients = [tensor(*shape, seed=1) for shape in shapes]
    adam = torch.optim.AdamW(weights, lr=1e-4, weight_decay=0.01, eps=1e-7, fused=fused)

    def run():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        nn.utils.clip_grad_norm_(weights, 1.0)
        adam.step()
        return weights[0][0, 0].item()

    return Job(run, float(sum(weight.numel() for weight in weights)))

"""Models of `transformers` with our weights, trained on PyTorch as ours are."""

import tempfile
from typing import Any

import numpy as np

from benchmarks.fine_tuning_cases import Case


class Reference:
    """A model of `transformers` with our weights, trained as ours is."""

    def __init__(self, case: Case, task: Any, total_steps: int):
        import torch
        import transformers

        from keras_attn.interop import save_pretrained

        self.torch, self.case = torch, case
        self.pad, self.separator = task.tokenizer.pad_id, task.tokenizer.end_id
        self.folder = tempfile.mkdtemp()
        save_pretrained(
            self.folder, task.model, task.config, task.tokenizer, labels=case.labels(task) or None
        )
        kind = getattr(transformers, case.reference)
        self.model = kind.from_pretrained(self.folder, attn_implementation="sdpa")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.0, weight_decay=0.01)
        from keras_attn.tasks.base.compiling import make_schedule

        schedule = make_schedule(total_steps, case.training["learning_rate"])
        self.rates = [float(np.asarray(schedule(i))) for i in range(total_steps)]
        self.step = 0

    def loss(self, batch: Any) -> Any:
        """The weighted mean of the losses, as ours."""
        torch = self.torch
        inputs, labels, weights = batch
        if self.case.head:
            labels, weights = labels[self.case.head], weights[self.case.head]
        output = self.model(**self.tensors(inputs))
        if self.case.head == "spans":
            return self.span_loss(output, torch.as_tensor(labels).long(), torch.as_tensor(weights))
        logits = output.logits
        if self.case.numbers:
            errors = (logits - torch.as_tensor(labels).float().reshape(-1, 1)) ** 2
            return (errors[:, 0] * torch.as_tensor(weights).flatten()).mean()
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, -2), torch.as_tensor(labels).long().flatten(), reduction="none"
        )
        weights = torch.as_tensor(weights).flatten()
        # Keras' mean is over all rows; of labelled tokens ours is over the tokens that count.
        total = weights.sum() if self.case.head == "tags" else len(weights)
        return (losses * weights).sum() / total

    def span_loss(self, output: Any, labels: Any, weights: Any) -> Any:
        """Cross-entropy of the first and the last token, among the tokens of each row."""
        torch = self.torch
        logits = torch.stack([output.start_logits, output.end_logits], 1)
        there = torch.arange(logits.shape[-1]) < labels[:, 2:]
        logits = logits.masked_fill(~there[:, None], float("-inf"))
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[:, :2].flatten(), reduction="none"
        ).reshape(-1, 2)
        return (losses.mean(1) * weights.flatten()).mean()

    def tensors(self, inputs: Any) -> dict[str, Any]:
        """Our inputs by the names of `transformers`."""
        torch = self.torch
        if isinstance(inputs, dict):
            found = {
                "input_ids": inputs["token_ids"],
                "attention_mask": inputs["padding_mask"],
                "token_type_ids": inputs.get("segment_ids"),
            }
        else:
            there = inputs != self.pad
            ends = np.cumsum(inputs == self.separator, axis=1)
            second = (ends - (inputs == self.separator) > 0) & there
            found = {"input_ids": inputs, "attention_mask": there, "token_type_ids": second}
        return {n: torch.as_tensor(np.asarray(x)).long() for n, x in found.items() if x is not None}

    def train_on(self, batch: Any) -> float:
        """One update; returns the loss before it."""
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[self.step]
            # Keras adds epsilon before it corrects the bias of the second moment.
            group["eps"] = 1e-7 / (1 - 0.999 ** (self.step + 1)) ** 0.5
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())

    def hand_over(self, task: Any) -> None:
        """Puts the trained weights into our task, which is scored then."""
        from keras_attn.interop import read_pretrained
        from keras_attn.models.tensors import load_tensors

        self.model.save_pretrained(self.folder)
        load_tensors(task.model, renamed(task, read_pretrained(self.folder).tensors), strict=False)


def renamed(task: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors of a classifier by the names of its layers: its head is `head` there."""
    own = {layer.name for layer in task.model.layers}
    if "classes" in own or "head" not in own:
        return tensors
    return {name.replace("classes/", "head/"): x for name, x in tensors.items()}


def plain_batches(task: Any, train: list[Any], case: Case, seed: int, epoch: int) -> list[Any]:
    """Batches in random order, each padded to its longest row."""
    size = case.training["batch_size"]
    whole = task.dataset(train, batch_size=1, multiple=1, max_shapes=10**6, shuffle=False)
    order = np.random.default_rng([seed, epoch]).permutation(len(whole))
    batches = []
    for i in range(0, len(order), size):
        batches.append(joined([whole[int(k)] for k in order[i : i + size]], task.tokenizer.pad_id))
    return batches


def joined(rows: list[Any], pad: int) -> Any:
    """Batches of one row as one batch, padded to the longest."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: joined([row[name] for row in rows], pad) for name in first}
    if isinstance(first, tuple):
        return tuple(joined([row[i] for row in rows], pad) for i in range(len(first)))
    if first.ndim < 2:
        return np.concatenate(rows)
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows])

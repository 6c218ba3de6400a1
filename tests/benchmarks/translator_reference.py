"""The benchmarks' translator in NumPy, float64, without caches: logits of whole prefixes."""

import numpy as np

from benchmarks import translator

CASE = {
    "dim": 16, "layers": 2, "heads": 2, "intermediate": 32, "vocabulary": 60,
    "batch": 5, "source": 7, "target": 6,
}  # fmt: skip


class Reference:
    """One sentence at a time, without padding."""

    def __init__(self, case):
        self.case = case
        self.w = {k: v.astype("float64") for k, v in translator.make_weights(case).items()}

    def dense(self, x, name):
        return x @ self.w[f"{name}.kernel"] + self.w[f"{name}.bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        return x * self.w[f"{name}.gamma"] + self.w[f"{name}.beta"]

    def attend(self, x, memory, name, causal=False):
        heads = []
        width = self.case["dim"] // self.case["heads"]
        q, k, v = (self.dense(y, f"{name}.{part}") for y, part in
                   ((x, "query"), (memory, "key"), (memory, "value")))  # fmt: skip
        for n in range(self.case["heads"]):
            part = slice(n * width, (n + 1) * width)
            scores = q[:, part] @ k[:, part].T / np.sqrt(width)
            if causal:
                scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        return self.norm(
            x + self.dense(np.concatenate(heads, -1), f"{name}.output"), f"{name}.norm"
        )

    def embed(self, ids):
        dim = self.case["dim"]
        p, i = np.arange(len(ids))[:, None], np.arange(dim // 2)
        angles = p / 10000 ** (2 * i / dim)
        table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(len(ids), dim)
        return self.w["embedding"][ids] * np.sqrt(dim) + table

    def feed_forward(self, x, prefix):
        hidden = np.maximum(self.dense(x, f"{prefix}.hidden"), 0)
        return self.norm(x + self.dense(hidden, f"{prefix}.output"), f"{prefix}.norm")

    def memory(self, source):
        x = self.embed(source)
        for i in range(self.case["layers"]):
            x = self.attend(x, x, f"encoder.{i}.self")
            x = self.feed_forward(x, f"encoder.{i}")
        return x

    def log_probabilities(self, memory, target):
        """Of the token after `target`."""
        x = self.embed(target)
        for i in range(self.case["layers"]):
            x = self.attend(x, x, f"decoder.{i}.self", causal=True)
            x = self.attend(x, memory, f"decoder.{i}.cross")
            x = self.feed_forward(x, f"decoder.{i}")
        logits = x[-1] @ self.w["embedding"].T
        return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()

    def decode(self, beams):
        """Tokens of all sources, `(batch, target)`."""
        found = []
        for row in translator.sources(self.case):
            memory = self.memory(row[row != 0])
            kept = [(0.0, [translator.START])]
            for _ in range(self.case["target"]):
                grown = []
                for score, ids in kept:
                    logp = self.log_probabilities(memory, np.array(ids))
                    grown += [(score + logp[i], [*ids, i]) for i in np.argsort(-logp)[:beams]]
                kept = sorted(grown, reverse=True, key=lambda pair: pair[0])[:beams]
            found.append([int(i) for i in kept[0][1][1:]])
        return found

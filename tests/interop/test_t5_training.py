"""A small T5 trains as that of transformers: the same losses, without dropout."""

import os
from pathlib import Path

import keras
import numpy as np
import pytest
import torch

from keras_attn.batches import TokenBatches
from keras_attn.interop import load_pretrained
from keras_attn.records import read_multi30k
from keras_attn.text import BytePairTokenizer
from keras_attn.training import MaskedCrossEntropy

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

STEPS, RATE = 20, 0.05
DATA = os.environ.get("KERAS_ATTN_DATA", "")


def made_up():
    """Targets are a part of their sources."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(3, 60, rng.integers(4, 12)).tolist() for _ in range(160)]
    return [[*row, 1] for row in rows], [row[:3] for row in rows], 60


def multi30k():
    """Pairs of German and English, which share byte pairs."""
    if not DATA:
        pytest.skip("KERAS_ATTN_DATA names no folder with multi30k")
    pairs = list(read_multi30k(Path(DATA) / "multi30k"))[:800]
    texts = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    tokenizer = BytePairTokenizer.train([*texts[0], *texts[1]], 1000)
    sources, targets = map(tokenizer.encode, texts)
    # The end of byte pairs is 2; a T5 of random weights may have any.
    return [[*row, 2] for row in sources], targets, tokenizer.vocabulary_size


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("data", [made_up, multi30k], ids=lambda f: f.__name__)
def test_the_first_losses(data, version, tmp_path):
    sources, targets, size = data()
    settings = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = transformers.T5Config(
        vocab_size=size, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        **(settings if version == "1.1" else {}),
    )  # fmt: skip
    torch.manual_seed(0)
    reference = transformers.T5ForConditionalGeneration(config)
    with torch.no_grad():  # logits of deviation 1 in version 1.1 too, whose embedding is not scaled
        reference.shared.weight *= 1 if version == "1.0" else 32**-0.5
    reference.save_pretrained(tmp_path)
    model, _, _ = load_pretrained(tmp_path)
    end = sources[0][-1]
    batches = TokenBatches(
        sources, targets, start_id=0, end_id=end, tokens_per_batch=256, shuffle=False, seed=0
    )
    model.compile(keras.optimizers.SGD(RATE), MaskedCrossEntropy(), jit_compile=False)
    optimizer = torch.optim.SGD(reference.parameters(), RATE)
    reference.train()
    for step in range(STEPS):
        inputs, labels, weights = batches[step % len(batches)]
        ours = float(model.train_on_batch(inputs, labels, weights))
        source, target = (
            torch.tensor(inputs[name].astype("int64")) for name in ("source_ids", "target_ids")
        )
        wanted = torch.tensor(np.where(weights > 0, labels, -100).astype("int64"))
        logits = reference(source, attention_mask=source != 0, decoder_input_ids=target).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert ours == pytest.approx(loss.item(), abs=1e-4), step

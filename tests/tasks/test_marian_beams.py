"""Searches of imported translators beside `generate` of transformers, on the same weights."""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from keras_attn.records import read_multi30k
from keras_attn.tasks import Translator

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

sys.path.append(str(Path(__file__).parents[1] / "interop"))
import marian_toys  # noqa: E402

pytestmark = pytest.mark.slow

BEAMS, PENALTIES = (1, 4), (0.6, 1.0, 2.0)
TRAINING = {"label_smoothing": 0.0, "verbose": 0}


def made_up(folder):
    """Little training: many translations are as probable as the best one."""
    marian_toys.translator(folder, seed=3)
    translator = Translator.from_pretrained(folder)
    pairs = [(f">>deu<< {source}", target) for source, target in marian_toys.PAIRS]
    translator.fit(pairs, epochs=3, learning_rate=1e-2, tokens_per_batch=128, **TRAINING)
    words = " ".join(source for source, _ in marian_toys.PAIRS).split()
    draw = np.random.default_rng(0)
    return translator, [" ".join(draw.choice(words, draw.integers(1, 12))) for _ in range(24)]


def multi30k(folder):
    """The SentencePiece models of an OPUS-MT translator, and English and German captions."""
    data = Path(os.environ.get("KERAS_ATTN_DATA") or "nowhere")
    if not (data / "multi30k").is_dir() or not (data / "opus_mt_en_mg").is_dir():
        pytest.skip("KERAS_ATTN_DATA names no folder with multi30k/ and opus_mt_en_mg/")
    pairs = [(pair.target, pair.source) for pair in read_multi30k(data / "multi30k")][:8000]
    real = data / "opus_mt_en_mg"
    vocabulary = json.loads((real / "vocab.json").read_text("utf-8"))
    models = [(real / f"{side}.spm").read_bytes() for side in ("source", "target")]
    sizes = {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
    marian_toys.write_translator(folder, {"vocab.json": list(vocabulary)}, models, **sizes)
    translator = Translator.from_pretrained(folder)
    translator.fit(
        pairs[200:], epochs=2, learning_rate=3e-3, tokens_per_batch=1024, chunked_loss=True,
        **TRAINING,
    )  # fmt: skip
    return translator, [source for source, _ in pairs[:200]]


@pytest.fixture(scope="module", params=[made_up, multi30k], ids=lambda f: f.__name__)
def case(request, tmp_path_factory):
    """A translator read from a folder, the one of transformers, the folder, and texts."""
    folder = tmp_path_factory.mktemp("random")
    tuned, texts = request.param(folder)
    folder = tmp_path_factory.mktemp("tuned")
    tuned.save_pretrained(folder)
    config = json.loads((folder / "generation_config.json").read_text())
    assert config["forced_eos_token_id"] == 0 and config["bad_words_ids"]
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    return Translator.from_pretrained(folder), model, texts


def generated(model, rows, beams, penalty):
    """What transformers writes for rows of ids, with our limit; rows of a length together."""
    together = defaultdict(list)
    for i, row in enumerate(rows):
        together[len(row)].append(i)
    found = [None] * len(rows)
    settings = {"num_beams": beams, "length_penalty": penalty, "early_stopping": False}
    for length, members in together.items():
        ids = torch.tensor([rows[i] for i in members])
        most = 2 * length + 16 + 1  # and the start
        texts = model.generate(ids, max_length=most, do_sample=False, **settings)
        for i, tokens in zip(members, texts[:, 1:].tolist(), strict=True):
            found[i] = tokens[: tokens.index(0) + 1]
    return found


@torch.no_grad()
def score(model, source, tokens, penalty):
    """The score of a translation in transformers, where the end at the limit is forced."""
    start = model.config.decoder_start_token_id
    given = torch.tensor([[start, *tokens[:-1]]])
    logits = model(torch.tensor([source]), decoder_input_ids=given).logits[0]
    logp = torch.log_softmax(logits.double(), -1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
    if len(tokens) == 2 * len(source) + 16:
        logp = logp[:-1]
    return float(logp.sum()) / len(tokens) ** penalty


@pytest.mark.parametrize("beams", BEAMS)
def test_the_tokens_of_transformers(case, beams, tmp_path):
    """Or others with a better score by its measure; in Python and in the SavedModel."""
    import tensorflow as tf

    translator, model, texts = case
    translator.export(tmp_path / "saved", beams=beams)
    saved = tf.saved_model.load(tmp_path / "saved").signatures["with_settings"]
    rows = translator.field.encode(texts)
    decode = translator.target_tokenizer.decode
    for penalty in PENALTIES:
        use = translator.used({"beams": beams, "alpha": penalty})
        found = translator.computed(rows, use)
        ours = [row.tolist() for row in found["best"]]
        theirs = generated(model, rows["source_ids"], beams, penalty)
        given = {"alpha": tf.fill([len(texts)], penalty)}
        given["min_length"] = tf.zeros([len(texts)], "int32")
        served = saved(text=tf.constant(texts), **given)["translation"].numpy()
        assert [text.decode() for text in served] == [decode(row) for row in ours]
        gains = []
        for i, (source, own, other) in enumerate(
            zip(rows["source_ids"], ours, theirs, strict=True)
        ):
            value = score(model, source, own, penalty)
            if beams > 1:
                np.testing.assert_allclose(found["scores"][i][0], value, rtol=1e-4, atol=1e-5)
            if own != other:
                gains.append(value - score(model, source, other, penalty))
        lengths = [len(row) for row in ours]
        print(
            f"\nbeams {beams}, penalty {penalty}: {len(texts)} texts of {min(lengths)} to "
            f"{max(lengths)} tokens, {len({*map(tuple, ours)})} different, of which "
            f"{len(texts) - len(gains)} have the same tokens; differences of the other scores: "
            f"{[float(f'{gain:.2g}') for gain in gains]}"
        )
        assert not gains if beams == 1 else all(gain > 0 for gain in gains)

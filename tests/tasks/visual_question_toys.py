"""Questions about colors and sides, and what must be the same on all backends. Run: as JSON."""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.images import PictureQuestion
from keras_attn.models import small_cnn_encoder
from keras_attn.tasks import VisualQuestionAnswerer
from keras_attn.text import WordTokenizer

COLORS = {"red": (220, 30, 30), "green": (20, 200, 30), "blue": (30, 30, 220)}
SIDES = ("left", "right")
QUESTIONS = ("what color is it?", "is it on the left?", "is it on the right?")
ENCODER = {"image_size": 8, "filters": "6,8"}
MODEL = {"dim": 16, "num_heads": 2, "num_layers": 2, "intermediate_dim": 16, "dropout": 0.0}
ANSWERS = ("yes", "no", "red", "green", "blue")


def draw(color, side, seed=0):
    """A box of a color on one side, with a little noise."""
    pixels = np.full((8, 8, 3), 230.0)
    pixels[2:6, 0:3] = COLORS[color] if side == "left" else 230
    pixels[2:6, 5:8] = COLORS[color] if side == "right" else 230
    noise = np.random.default_rng(seed).normal(0, 4, (8, 8, 1))
    return np.clip(np.round(pixels + noise), 0, 255).astype("uint8")


def asked(picture, color, side):
    answers = (color, *("yes" if side == of else "no" for of in SIDES))
    kinds = ("color", "side", "side")
    rows = zip(QUESTIONS, answers, kinds, strict=True)
    return [PictureQuestion(picture, q, a, (), kind) for q, a, kind in rows]


EXAMPLES = [
    example
    for seed in range(4)
    for color in COLORS
    for side in SIDES
    for example in asked(draw(color, side, seed), color, side)
]
PICTURES = [draw("red", "left", 9), draw("blue", "right", 9)]
ODD = [
    (PICTURES[0], QUESTIONS[0]),
    (PICTURES[1], "is it on the right, or on the left? who knows"),
    (PICTURES[0], ""),
    (PICTURES[1], "na\u00efve \U0001f600 <b>it</b> \u05e9\u05dc\u05d5\u05dd"),
    (PICTURES[0], "is it"),
]


def make(kind="cross-attention", train_encoder=True, max_length=8, **settings):
    """An untrained one whose weights do not depend on the backend, and are not flat."""
    model = dict(MODEL, model=kind, **settings)
    if kind == "concatenation":
        model = {"model": kind, "dim": 8, "num_heads": 2, "units": 8, **settings}
    tokenizer = WordTokenizer.train([x.question for x in EXAMPLES])
    encoder = small_cnn_encoder(8, (4, 6))
    task = VisualQuestionAnswerer(
        tokenizer,
        encoder,
        answers=ANSWERS,
        train_encoder=train_encoder,
        model=model,
        data={"max_length": max_length},
    )
    rng = np.random.default_rng(3)
    for weight in task.whole.weights:
        if "variance" in weight.path:
            weight.assign(rng.uniform(0.5, 1.5, size=weight.shape))
        elif "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return task


def everything(task):
    found = {"probabilities": task.predict_probabilities(ODD).tolist()}
    if hasattr(task.config, "num_layers"):
        found["maps"] = [x.attention.tolist() for x in task.explain([ODD[0], *ODD[3:]])]
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    found = {p.stem: everything(VisualQuestionAnswerer.load(p)) for p in folder.glob("*.task")}
    task = VisualQuestionAnswerer.load(folder / "transformer.task")
    run = task.fit(EXAMPLES[:12], epochs=1, verbose=0)
    assert np.isfinite(run.history["loss"]).all()
    print(json.dumps({"backend": keras.backend.backend(), "found": found}))

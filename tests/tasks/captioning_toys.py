"""Pictures whose captions are plain, and what must be the same on all backends. Run: as JSON."""

import functools
import io
import json
import sys
from pathlib import Path

import keras
import numpy as np
from kept import kept
from PIL import Image

from keras_attn.models import patch_encoder, small_cnn_encoder
from keras_attn.tasks import Captioner
from keras_attn.text import BytePairTokenizer

COLORS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
GROUNDS = {"dark": 40, "light": 200}
SIZE = 16


def draw(color, ground, seed=0):
    """A box of a colour on grey ground, with a little noise."""
    pixels = np.full((SIZE, SIZE, 3), GROUNDS[ground], "float64")
    pixels[4:12, 3:11] = COLORS[color]
    rng = np.random.default_rng([seed, *f"{color} {ground}".encode()])
    noise = rng.normal(0, 4, (SIZE, SIZE, 1))
    return np.clip(np.round(pixels + noise), 0, 255).astype("uint8")


NAMES = [(color, ground) for color in COLORS for ground in GROUNDS]
# Of some a short caption, of others a long one.
CAPTIONS = [
    "red box" if color == "red" else f"a {color} box on {ground} ground" for color, ground in NAMES
]
PICTURES = [draw(*name) for name in NAMES]
CAPTIONED = list(zip(PICTURES, CAPTIONS, strict=True))
MORE = [(draw(*name, s), text) for s in (1, 2) for name, text in zip(NAMES, CAPTIONS, strict=True)]
TOKENIZER = BytePairTokenizer.train(CAPTIONS, 290, allow_fewer=True)
LENGTH = 14

CNN = {"image_size": SIZE, "filters": (8, 16)}
PATCHES = {
    "image_size": SIZE, "patch_size": 8, "num_layers": 1, "dim": 12, "num_heads": 2,
    "intermediate_dim": 16,
}  # fmt: skip
SOFT = {"model": "soft-attention", "dim": 12, "units": 24, "dropout": 0.0}
TRANSFORMER = {
    "model": "transformer", "dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 24,
    "dropout": 0.0, "region_positions": "sinusoidal",
}  # fmt: skip
# Encoder, decoder, whether the encoder is trained.
CASES = {
    "soft": (small_cnn_encoder, CNN, SOFT, True),
    "transformer": (patch_encoder, PATCHES, TRANSFORMER, False),
}
BEAMS, R = 3, 2


def small(case="soft", train_encoder=None, max_length=LENGTH, **more):
    """A captioner that has learned nothing."""
    keras.utils.set_random_seed(0)
    make, sizes, config, trained = CASES[case]
    dtype = more.get("dtype")
    trained = trained if train_encoder is None else train_encoder
    config = {**config, **more.pop("config", {})}
    return Captioner(
        TOKENIZER,
        make(**sizes, dtype=dtype),
        train_encoder=trained,
        model=config,
        data={"max_length": max_length},
        **more,
    )


def make(case, **more):
    """One with weights that do not depend on the backend, and are not flat."""
    captioner = small(case, **more)
    rng = np.random.default_rng(3)
    for weight in captioner.joined.weights:
        value = rng.normal(scale=0.3, size=weight.shape)
        if "variance" in weight.path:
            value = 1 + np.abs(value)
        if "seed" not in weight.path:
            weight.assign(value)
    return captioner


def file_bytes(pixels, kind="png", mode=None, **settings):
    """The file of a picture."""
    file = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(file, kind, **settings)
    return file.getvalue()


def everything(captioner):
    """What it gives for the pictures, as JSON."""
    found = captioner.caption_n_best(PICTURES, R, beams=BEAMS, batch_size=4)
    return {
        "best": captioner.caption(PICTURES, beams=BEAMS, batch_size=4),
        "n_best": [
            [[c.text, c.score, c.truncated, c.tokens, c.attention.tolist()] for c in captions]
            for captions in found
        ],
    }


@functools.cache
def fitted():
    """One that has learned the captions with its encoder; nobody changes it."""
    return kept(Captioner, _train)


def _train():
    captioner = small("soft")
    # As many steps as the moving means of the encoder take.
    settings = {"batch_size": 3, "learning_rate": 0.02, "label_smoothing": 0.0}
    captioner.fit([*CAPTIONED, *MORE], epochs=15, verbose=0, **settings)
    return captioner


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    results = {case: everything(Captioner.load(folder / f"{case}.task")) for case in CASES}
    captioner = Captioner.load(folder / "soft.task")
    history = captioner.fit(CAPTIONED, epochs=3, batch_size=4, learning_rate=0.01, verbose=0)
    if len(sys.argv) > 2:
        Captioner.load(folder / "transformer.task").export(
            sys.argv[2], beams=BEAMS, num_return_sequences=R
        )
    print(
        json.dumps(
            {
                "backend": keras.backend.backend(),
                "found": results,
                "losses": history.history["loss"],
                "tensorflow": "tensorflow" in sys.modules,
            }
        )
    )

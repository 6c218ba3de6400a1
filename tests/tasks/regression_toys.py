"""Texts with a number that follows from their words, and regressors with given weights."""

import numpy as np
from text_classification_toys import NOUNS, TOKENIZERS

from keras_attn.tasks import TextRegressor

STARS = {"dull": 2.0, "poor": 1.5, "awful": 1.0, "great": 4.5, "fine": 3.5, "superb": 5.0}
EXAMPLES = [(f"the {noun} was {word}", n) for noun in NOUNS for word, n in STARS.items()]
BAG = {"model": "bag", "dim": 8, "pair_buckets": 0}


def make(model=BAG, **learned):
    """A regressor with weights that do not depend on the backend, and are not flat."""
    settings = {"mean": 3.0, "deviation": 2.0, "median": 2.5, "margin": 0.5, **learned}
    regressor = TextRegressor(
        TOKENIZERS["word_piece"], model=model, data={"max_length": 12}, **settings
    )
    rng = np.random.default_rng(3)
    for weight in regressor.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return regressor


if __name__ == "__main__":
    import json
    import sys

    import keras

    regressor = TextRegressor.load(sys.argv[1])
    texts = ["the film was great", "", "a dull and a poor dish with a fine song and more words"]
    found = regressor.predict(texts)
    run = regressor.fit(EXAMPLES, epochs=4, learning_rate=0.02, verbose=0)
    result = {"backend": keras.backend.backend(), "found": found, "loss": run.history["loss"]}
    print(json.dumps(result))

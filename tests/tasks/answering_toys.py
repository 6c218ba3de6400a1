"""Questions where somebody lives, for question answering. Run: what a file answers, as JSON."""

import json
import random
import sys

import keras
import numpy as np

from keras_attn.tasks import QuestionAnswerer

NAMES = "Ada Bob Carl Dora Emil Fay".split()
PLACES = "Rome Paris Oslo Bern Kiel Linz".split()
SIZES = {
    "dim": 32, "num_layers": 2, "num_heads": 2, "intermediate_dim": 64, "dropout": 0.0,
    "attention_dropout": 0.0,
}  # fmt: skip
DATA = {"vocabulary_size": 120, "max_length": 32, "max_question_length": 10, "overlap": 8}


def questions(count=60, seed=0, sentences=3):
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        some = [rng.choice(NAMES) for _ in range(sentences)]
        places = [rng.choice(PLACES) for _ in some]
        text = " ".join(f"{n} lives in {p}." for n, p in zip(some, places, strict=True))
        k = rng.randrange(sentences)
        start = sum(len(f"{n} lives in {p}. ") for n, p in zip(some[:k], places, strict=False))
        start += len(f"{some[k]} lives in ")
        found.append((f"Where does {some[k]} live?", text, [(places[k], start)]))
    return found


LONG = " ".join(text for _, text, _ in questions(12, seed=5))
PAIRS = [
    *((question, text) for question, text, _ in questions(4, seed=3)),
    ("Where does Ada live?", LONG),
    ("Where does Ada live now and where did all of her many sisters live before?", LONG[:90]),
    ("", "Bob lives in Rome."),
    ("Where?", ""),
]


def trained():
    """It has learned to find the one place in a sentence."""
    keras.utils.set_random_seed(0)
    examples = questions(48, sentences=1)
    answerer = QuestionAnswerer.create(examples, data=DATA, model={**SIZES, "num_layers": 1})
    answerer.fit(examples, epochs=8, batch_size=16, learning_rate=1e-2, verbose=0)
    return answerer


def untrained(path, unanswerable=False):
    """Weights that do not depend on the backend, and are not flat."""
    keras.utils.set_random_seed(0)
    none = [("Where does Zoe live?", "Bob lives in Rome.", [])] * unanswerable
    answerer = QuestionAnswerer.create(questions() + none, data=DATA, model=SIZES)
    rng = np.random.default_rng(0)
    for weight in answerer.model.weights:
        if "seed" not in weight.path:
            value = rng.normal(scale=0.3, size=weight.shape) + (weight.name == "gamma")
            weight.assign(value.astype("float32"))
    answerer.save(path)
    return answerer


def everything(answerer):
    found = answerer.predict(PAIRS)
    return {
        "spans": [[list(span[:3]) for span in answer.candidates] for answer in found],
        "probabilities": [span.probability for answer in found for span in answer.candidates],
        "none": [answer.no_answer for answer in found],
    }


if __name__ == "__main__":
    answerer = QuestionAnswerer.load(sys.argv[1])
    print(json.dumps({"backend": keras.backend.backend(), **everything(answerer)}))

"""Learns to answer questions about images, and shows where each word of a question looked.

    pip install easy-vqa==1.0
    python examples/visual_questions.py

trains a small convolutional network and two blocks of cross-attention, from scratch, on easy-VQA:
4,000 pictures of one shape and 38,575 questions. It compares the score on the test questions with
the score of the most frequent answer to each question, draws where each word looked (`maps_*.png`,
and `viewer.html`, a page to explore), and exports a SavedModel that takes the bytes of a picture
and a question and needs only TensorFlow.

    python examples/visual_questions.py --data sort-of-clevr

draws scenes of six objects instead (after Sort-of-CLEVR, with its questions in words). Half of the
questions are about one object, the other half about how objects relate. This training takes over
an hour on 2 cores. Since it is known where an object was drawn, the example also measures the share
of the attention on the object that a question is about: the attention of the word of its color, in
the last block, averaged over the heads. `--model concatenation` trains the same network without
attention, for comparison.
"""

import argparse
import importlib.util
import json
import random
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

SETTINGS = {
    "easy-vqa": {
        "encoder": {"image_size": 64, "filters": "24,48,96"},
        "model": {"dim": 64, "num_heads": 4, "intermediate_dim": 128, "num_layers": 2},
        "epochs": 20,
        "questions": 16,
    },
    "sort-of-clevr": {
        "encoder": {"image_size": 64, "filters": "24,48,96"},
        "model": {
            "dim": 96,
            "num_heads": 4,
            "intermediate_dim": 192,
            "num_layers": 2,
            "region_layers": 1,  # where objects find each other, once for all questions
        },
        "epochs": 30,
        "questions": 20,
    },
}
"""What is trained on each: the encoder of the pictures, the model with attention, the epochs, and
the largest number of questions that a picture has in a batch."""
COMPARED = {"dim": 64, "units": 256}
"""The model without attention."""
SHOWN, VIEWED = 4, 24


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", choices=list(SETTINGS), default="easy-vqa", help="default: %(default)s")
    add("--easy-vqa", type=Path, help="folder easy_vqa/data, if the package is not installed")
    add("--run-dir", type=Path, help="default: runs/visual_questions/DATA-MODEL")
    add("--model", choices=["cross-attention", "concatenation"], default="cross-attention")
    add("--question", choices=["transformer", "rnn"], default="transformer", help="its encoder")
    add("--pictures", type=int, default=10_000, help="sort-of-clevr: to learn from (%(default)s)")
    add("--test-pictures", type=int, default=500, help="sort-of-clevr: for the test (%(default)s)")
    add("--dim", type=int, help="width of the model; that of the data if not given")
    add("--filters", help="of the network's stages, such as 16,32,64")
    add("--epochs", type=int, help="passes over the questions; those of the data if not given")
    add("--batch-size", type=int, default=32, help="pictures of a batch (%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="the highest (%(default)s)")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()
    folder = args.run_dir or Path(f"runs/visual_questions/{args.data}-{args.model}")

    from keras_attn.metrics import majority_answers, visual_question_scores
    from keras_attn.tasks import VisualQuestionAnswerer
    from keras_attn.tasks.base.measured import Figures

    say("1. Questions")
    train, dev, test, scenes = read_data(args)
    print(f"Questions: train {len(train):,}, development {len(dev):,}, test {len(test):,}")
    for example in random.Random(args.seed).sample(train, 4):
        print(f"  {example.question} {example.answer}")

    say("2. Training")
    began = time.monotonic()
    run = VisualQuestionAnswerer.train(
        train, dev, folder, **settings(args), log=lambda text: print(text, flush=True), verbose=0
    )  # fmt: skip
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    answerer = VisualQuestionAnswerer.load(run.best)
    print(f"{answerer}\nin {(time.monotonic() - began) / 60:.1f} minutes")

    say("3. Test")
    kinds = [example.kind for example in test]
    alone = majority_answers([x[1:3] for x in train], [x.question for x in test])
    figures = answerer.evaluate(test)
    blind = visual_question_scores(alone, [x.answer for x in test], kinds=kinds)
    results = {"model": dict(figures), "question alone": blind}
    print(f"{figures}\nby the questions alone:\n{Figures(blind)}")
    seen = args.model == "cross-attention"
    if scenes and seen:
        results["attention"] = shares = attention_shares(answerer, scenes)
        for name, value in shares.items():
            print(f"{name} {value:.3f}")

    if seen:
        say("4. Where each word looked")
        show(answerer, test, folder, args.seed)

    say("5. A SavedModel: bytes of a picture and a question in, the best answers out")
    answerer.export(folder / "saved_model", overwrite=True, top_k=3)
    print(folder / "saved_model")
    text = json.dumps(results, indent=1)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    say(f"Done. All of it is in {folder}")


def settings(args: argparse.Namespace) -> dict:
    """Returns the settings of the encoder, the model and the training."""
    chosen = SETTINGS[args.data]
    model = chosen["model"] if args.model == "cross-attention" else COMPARED
    encoder = chosen["encoder"]
    return {
        "data": {"train": ""},
        "encoder": {**encoder, **({"filters": args.filters} if args.filters else {})},
        "model": {
            **model,
            "model": args.model,
            "question_encoder": args.question,
            **({"dim": args.dim} if args.dim else {}),
        },
        "training": {
            "epochs": args.epochs or chosen["epochs"],
            "batch_size": args.batch_size,
            "questions_per_picture": chosen["questions"],
            "learning_rate": args.learning_rate,
            "seed": args.seed,
        },
    }


def read_data(args: argparse.Namespace) -> tuple[list, list, list, list]:
    """Returns questions for training, development and test, and the scenes of the test."""
    from sort_of_clevr import questions_of, sort_of_clevr

    from keras_attn.images import read_easy_vqa

    if args.data == "sort-of-clevr":
        few = max(1, args.pictures // 20)
        scenes = sort_of_clevr(args.pictures + few + args.test_pictures, args.seed)
        sides = (
            scenes[: args.pictures],
            scenes[args.pictures : args.pictures + few],
            scenes[args.pictures + few :],
        )
        return (*map(questions_of, sides), sides[2])
    package = importlib.util.find_spec("easy_vqa")
    if args.easy_vqa is None and package is None:
        sys.exit("The data are missing. Install them: pip install easy-vqa==1.0")
    data = args.easy_vqa or Path(package.origin).parent / "data"
    train, test = (read_easy_vqa(data / side) for side in ("train", "test"))
    print(f"{train.summary()}\n{test.summary()}")
    pictures = sorted({example.picture for example in train})
    random.Random(args.seed).shuffle(pictures)
    held = set(pictures[: max(1, len(pictures) // 20)])
    learnt = [example for example in train if example.picture not in held]
    return learnt, [x for x in train if x.picture in held], list(test), []


def attention_shares(answerer, scenes: list) -> dict[str, float]:
    """Returns the mean share of the attention on the object that is asked about, by kind.

    It is that of the word of the object's color, in the map that `explain` gives: the last block,
    the mean of its heads, fixed before anything was measured.
    """
    import numpy as np

    from keras_attn.metrics import attention_share

    found: dict[str, list[tuple[float, float]]] = {}
    for scene in scenes[:100]:
        explained = answerer.explain([(x.picture, x.question) for x in scene.questions])
        for example, explanation in zip(scene.questions, explained, strict=True):
            thing = scene.named(example.question)
            weights = dict(explanation.words())[thing.color]
            share = attention_share(weights, thing.box, scene.picture.shape[:2])
            found.setdefault(example.kind, []).append(share)
    means = {kind: np.mean(pairs, axis=0) for kind, pairs in found.items()}
    return {
        f"attention on the object, {kind}{of}": float(mean[i])
        for kind, mean in means.items()
        for i, of in enumerate(("", ", uniform"))
    }


def show(answerer, test: list, folder: Path, seed: int) -> None:
    """Prints answers, and draws where the words of their questions looked."""
    from keras_attn.tasks import VisualQuestionAnswerer

    chosen = random.Random(seed).sample(test, min(VIEWED, len(test)))
    explained = answerer.explain([(x.picture, x.question) for x in chosen])
    for number, (example, found) in enumerate(zip(chosen, explained, strict=True)):
        right = "" if found.answer.answer == example.answer else f"  (it is {example.answer})"
        print(f"  {found.title}{right}")
        if number < SHOWN:
            found.plot(folder / f"maps_{number}.png")
    page = VisualQuestionAnswerer.page(explained, "Where each word looked")
    (folder / "viewer.html").write_text(page, encoding="utf-8")
    print(f"{folder / 'maps_0.png'}\n{folder / 'viewer.html'}")


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n=== {text}", flush=True)


if __name__ == "__main__":
    main()

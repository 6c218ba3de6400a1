"""Finds answers: which sentence of a text contains the answer, and which of all texts contains it.

    python examples/answer_selection.py --data squad.json --backbone minilm

reads questions in SQuAD's format and holds out whole articles, chosen by their titles. It measures
two searches on the questions of the held-out articles:

    sentence   which sentence of the paragraph contains the answer to a question
    paragraph  which paragraph of all held-out articles contains the answer

| row | search |
|---|---|
| BM25 | by words |
| mean word vectors | with `--word-vectors`: by the mean of the word vectors |
| encoder | by vectors of the backbone, without training |
| both | by the mean of the scores of BM25 and encoder, weighted by `--lexical-weight` |
| trained | with `--epochs`: by vectors of the backbone, trained on the other articles |
| reranked | with `--reranker`: the best results of "both", scored again by a `similarity` model |

A sentence contains an answer if it contains the first character of one of the answers. The table
shows the mean reciprocal rank with its 95 % interval, and the difference from BM25 with its
standard error. Both are computed from samples of the questions; a difference uses the same samples
for both rows.
"""

import argparse
from collections.abc import Sequence

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import numpy as np

from keras_attn.interop import read_word_vectors
from keras_attn.metrics import ranks_of, score_ranks
from keras_attn.records import (
    AnsweredQuestion,
    SelectionQuestion,
    read_questions,
    split_questions,
)
from keras_attn.tasks import AnswerSelector
from keras_attn.text import split_words
from keras_attn.text.sentences import split_sentences
from keras_attn.training import compute_on


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", required=True, help="questions, as for question answering: SQuAD's JSON")
    add("--backbone", required=True, help="task with an encoder, or folder of Hugging Face weights")
    add(
        "--test-share", type=float, default=10 / 48, help="share of the articles to test on (10/48)"
    )
    add("--split-seed", type=int, default=0, help="seed by which they are drawn (0)")
    add("--train-side", action="store_true", help="test on the other articles, to choose settings")
    add("--limit", type=int, help="most questions to test with, the first ones")
    add("--max-length", type=int, default=256, help="most tokens of a text (256)")
    add("--lexical-weight", type=float, default=0.5, help="weight of the words in both (0.5)")
    add("--word-vectors", default="", help="file of vectors of lower-case words, such as GloVe's")
    add("--epochs", type=int, default=0, help="epochs of training on the other articles (0: none)")
    add("--batch-size", type=int, default=32, help="pairs of a batch of the training (32)")
    add("--learning-rate", type=float, default=2e-5, help="of the training (2e-5)")
    add("--reranker", default="", help="file of a model of similarity, such as one of kind cross")
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    sides = split_questions(read_questions(args.data), args.test_share, args.split_seed)
    train, test = sides[::-1] if args.train_side else sides
    test = test[: args.limit]
    for name, side in (("train", train), ("test", test)):
        titles = len({x.title for x in side})
        print(f"{name}: {len(side):,} questions of {titles} articles", flush=True)
    with compute_on(args.device):
        for name, make in (("sentence", sentences), ("paragraph", paragraphs)):
            examples = make(test)
            count = np.mean([len(x.candidates) for x in examples])
            print(f"\n{name}: {len(examples):,} questions, {count:.1f} candidates on average\n")
            print(table(measured(examples, make(train), args)), flush=True)


def sentences(questions: Sequence[AnsweredQuestion]) -> list[SelectionQuestion]:
    """Questions whose candidates are the sentences of their texts."""
    results = []
    for question in questions:
        parts, end, right = split_sentences(question.text), 0, []
        for part in parts:
            start = question.text.index(part, end)
            end = start + len(part)
            if any(start <= answer.start < end for answer in question.answers):
                right.append(part)
        if right:
            results.append(SelectionQuestion(question.question, tuple(right), tuple(parts)))
    return results


def paragraphs(questions: Sequence[AnsweredQuestion]) -> list[SelectionQuestion]:
    """Questions whose candidates are all texts."""
    texts = tuple(dict.fromkeys(question.text for question in questions))
    return [SelectionQuestion(x.question, (x.text,), texts) for x in questions if x.answers]


def measured(
    examples: Sequence[SelectionQuestion],
    train: Sequence[SelectionQuestion],
    args: argparse.Namespace,
) -> dict[str, list[np.ndarray]]:
    """The ranks of right answers by each search."""
    with_candidates = examples
    answers = list(dict.fromkeys(text for x in examples for text in x.candidates))
    selector = AnswerSelector.from_backbone(args.backbone, answers, max_length=args.max_length)
    if all(len(x.candidates) == len(answers) for x in examples):  # the same for all questions
        examples = [SelectionQuestion(x.question, x.answers) for x in examples]
    both = {"by": "both", "lexical_weight": args.lexical_weight}
    results = {"BM25": selector.ranks(examples, by="words")}
    if args.word_vectors:
        results["mean word vectors"] = by_word_vectors(with_candidates, args.word_vectors)
    results |= {"encoder": selector.ranks(examples), "both": selector.ranks(examples, **both)}
    if args.reranker:
        results["both, reranked"] = selector.ranks(examples, reranker=args.reranker, **both)
    if args.epochs:
        selector.fit(
            [(x.question, x.answers) for x in train], epochs=args.epochs,
            batch_size=args.batch_size, learning_rate=args.learning_rate,
        )  # fmt: skip
        results["trained"] = selector.ranks(examples)
        results["trained, both"] = selector.ranks(examples, **both)
    return results


def by_word_vectors(examples: Sequence[SelectionQuestion], path: str) -> list[np.ndarray]:
    """Ranks by the cosine of two means of word vectors; 0 where a text has no known word."""
    texts = {text for x in examples for text in (x.question, *x.candidates)}
    words = {text: [word.text.lower() for word in split_words(text)] for text in texts}
    vectors = read_word_vectors(path, wanted={word for row in words.values() for word in row})

    def mean(text: str) -> np.ndarray:
        known = [vectors[word] for word in words[text] if word in vectors]
        total = np.sum([np.zeros(vectors.dim), *known], axis=0)
        return total / (np.linalg.norm(total) or 1.0)

    means = {text: mean(text) for text in texts}
    stacked: dict[tuple[str, ...], np.ndarray] = {}
    results = []
    for x in examples:
        if x.candidates not in stacked:
            stacked[x.candidates] = np.stack([means[text] for text in x.candidates])
        right = [i for i, text in enumerate(x.candidates) if text in x.answers]
        results.append(ranks_of(stacked[x.candidates] @ means[x.question], right))
    return results


def table(results: dict[str, list[np.ndarray]], samples: int = 2000) -> str:
    """A row of figures for each search."""
    first = {name: np.array([1 / ranks[0] for ranks in rows]) for name, rows in results.items()}
    count = len(first["BM25"])
    drawn = np.random.default_rng(0).integers(count, size=(samples, count))
    rows = ["| search | MRR | recall at 1 | MRR less that of BM25 |", "|---|---|---|---|"]
    for name, ranks in results.items():
        report = score_ranks(ranks, num_bootstrap=samples)
        gain = first[name] - first["BM25"]
        error = gain[drawn].mean(axis=1).std()
        low, high = report.interval
        less = "" if name == "BM25" else f"{gain.mean():+.3f} ± {error:.3f}"
        rows.append(
            f"| {name} | {report.reciprocal_rank:.3f} ({low:.3f} to {high:.3f}) | "
            f"{report.recall[1]:.3f} | {less} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()

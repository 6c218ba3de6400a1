"""Scores of captions: BLEU, ROUGE-L, CIDEr, METEOR and the fraction of copies."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from keras_attn.metrics.caption_tokens import (
    TOKENIZATIONS,
    has_java,
    metrics_folder,
    tokenize_captions,
)
from keras_attn.metrics.reports import Report, json_safe
from keras_attn.records.problems import many

T = TypeVar("T")
Name = Hashable
"""Path, id or number of an image."""


class ImageScores(NamedTuple):
    """Scores of the caption of one image, an element of `CaptionScores.per_image`.

    BLEU-4, ROUGE-L and CIDEr-D are multiplied by 100, as in `CaptionScores`. CIDEr-D is NaN if only
    one image was scored.

    Example:

    >>> ImageScores("a dog runs", ["a dog"], bleu_4=0.0, rouge_l=72.1, cider=110.0).rouge_l
    72.1
    """

    candidate: str
    """The original caption."""
    references: list[str]
    bleu_4: float
    rouge_l: float
    cider: float


@dataclass(frozen=True)
class CaptionScores(Report):
    """The result of `caption_scores`. `print` shows the scores.

    BLEU, ROUGE-L, CIDEr-D and METEOR are multiplied by 100, as in papers.

    Args:
        bleu_1: Corpus BLEU of words (Papineni et al., 2002).
        bleu_2: Corpus BLEU of n-grams up to n = 2.
        bleu_3: Corpus BLEU of n-grams up to n = 3.
        bleu_4: Corpus BLEU of n-grams up to n = 4.
        rouge_l: ROUGE-L with beta 1.2 (Lin, 2004), averaged over images.
        cider: CIDEr-D from 0 to 1,000 (Vedantam et al., 2015), averaged over images. NaN for a
            single image, because words are weighted by their document frequency.
        meteor: METEOR 1.5 (Denkowski and Lavie, 2014); None if it was not requested.
        num_images: Number of images.
        num_references: Total number of references.
        mean_length: Mean number of words of a scored caption.
        distinct: Number of captions that differ in their words.
        copied: Fraction (0 to 1) of captions that have the same words as a training caption; None
            if no training captions were given.
        tokenization: The tokenization, `"ptb"` or `"plain"`. Scores of different tokenizations are
            not comparable.
        per_image: An `ImageScores` for each image, keyed by the id or path of the image, or by its
            index if `caption_scores` was called with lists.

    Example:

    >>> scores = caption_scores(["a dog"], [["a dog", "a brown dog"]], tokenization="plain")
    >>> scores.num_images, scores.num_references, scores.distinct
    (1, 2, 1)
    """

    bleu_1: float
    bleu_2: float
    bleu_3: float
    bleu_4: float
    rouge_l: float
    cider: float
    meteor: float | None
    num_images: int
    num_references: int
    mean_length: float
    distinct: int
    copied: float | None
    tokenization: str
    per_image: dict[Name, ImageScores] = field(repr=False)

    def to_dict(self) -> dict[str, object]:
        """Returns all fields except `per_image`, keyed by name, as a dict for JSON.

        NaN becomes None, and paths become strings. The key `captions` replaces `per_image`: a list
        with a dict for each image, which has the keys `image`, `candidate`, `references`, `bleu_4`,
        `rouge_l` and `cider`.
        """
        figures = {k: json_safe(getattr(self, k)) for k in self.__dataclass_fields__}
        del figures["per_image"]
        # JSON has no NaN, which is the CIDEr of one image.
        rows = [json_safe({"image": k, **x._asdict()}) for k, x in self.per_image.items()]
        return {**figures, "captions": rows}

    def __str__(self) -> str:
        names = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr", "METEOR")
        values = (getattr(self, name.lower().replace("-", "_")) for name in names)
        scores = [f"{n} {v:.1f}" for n, v in zip(names, values, strict=True) if v is not None]
        copied = "" if self.copied is None else f", {self.copied:.1%} copied from training"
        return (
            f"{', '.join(scores)} ({TOKENIZATIONS[self.tokenization]}).\n{self.num_images:,} "
            f"captions against {self.num_references:,} references: {self.mean_length:.1f} words on "
            f"average, {self.distinct:,} distinct{copied}."
        )


def caption_scores(
    candidates: Mapping[Name, str] | Sequence[str],
    references: Mapping[Name, Sequence[str]] | Sequence[Sequence[str]],
    train_captions: Iterable[str] | None = None,
    tokenization: str = "auto",
    meteor: bool = False,
) -> CaptionScores:
    """Scores captions with `pycocoevalcap`, the package that papers use.

    BLEU-1 to BLEU-4 (with the closest reference length), ROUGE-L and CIDEr-D need only Python. The
    package splits captions into words with the Stanford PTB tokenizer, which needs Java. Without
    Java, the rules of `tokenize_captions` give the same words for nearly all English captions. The
    result states which tokenization was used:

    | `tokenization` | how captions are split |
    |---|---|
    | `"ptb"` | Stanford CoreNLP 3.4.1, lower case, without most punctuation; needs Java |
    | `"plain"` | the rules of `tokenize_captions` |
    | `"auto"` | `"ptb"` if there is Java, else `"plain"` |

    Args:
        candidates: A dict with a caption for the id or path of each image, or a list. Empty
            captions are scored too.
        references: A dict with one or more references for each image, with the same keys, or a
            list.
        train_captions: Training captions. The candidates that equal one of them, ignoring white
            space, case and punctuation, are counted. If None, copies are not counted.
        tokenization: `"auto"`, `"ptb"` or `"plain"`.
        meteor: Whether to compute METEOR, which supports only English and needs Java and 2 GB of
            memory.

    Returns:
        A `CaptionScores`.

    Raises:
        ImportError: If `pycocoevalcap`, from the extra `captioning`, is not installed.
        RuntimeError: If `tokenization` is `"ptb"` or `meteor` is True, and Java is not installed;
            or if a Java program fails.
        ValueError: If `tokenization` is unknown, there are no captions, only one of `candidates`
            and `references` is a dict, candidates and references have different images, a caption
            is not a string, an image has no references, or a reference has no words.

    Example:

    >>> references = {"1.jpg": ["A dog runs.", "A brown dog."], "2.jpg": ["Two red boats."]}
    >>> candidates = {"1.jpg": "a dog runs", "2.jpg": "a red boat"}
    >>> scores = caption_scores(candidates, references, ["A dog runs!"], tokenization="plain")
    >>> print(scores)
    BLEU-1 66.7, BLEU-2 57.7, BLEU-3 55.0, BLEU-4 2.0, ROUGE-L 66.7, CIDEr 270.8 (plain ...).
    2 captions against 3 references: 3.0 words on average, 2 distinct, 50.0% copied from training.
    """
    if tokenization not in ("auto", *TOKENIZATIONS):
        raise ValueError(
            f"Expected `tokenization` to be 'auto', {', '.join(map(repr, TOKENIZATIONS))}. "
            f"Received: {tokenization!r}."
        )
    given, of_images = _aligned(candidates, references)
    metrics_folder()
    if tokenization == "auto":
        tokenization = "ptb" if has_java() else "plain"
    flat = [text for texts in of_images.values() for text in texts]
    words = iter(tokenize_captions([*given.values(), *flat], tokenization))
    found = {name: [" ".join(next(words))] for name in given}
    wanted = {name: [" ".join(next(words)) for _ in texts] for name, texts in of_images.items()}
    _check_words(wanted, of_images)
    bleu, bleu_of, rouge, rouge_of, cider, cider_of = _score(found, wanted)
    scores = zip(given, bleu_of, rouge_of, cider_of, strict=True)
    plain = [tuple(words) for words in tokenize_captions(given.values(), "plain")]
    seen = set(map(tuple, tokenize_captions(train_captions or (), "plain")))
    return CaptionScores(
        bleu_1=bleu[0],
        bleu_2=bleu[1],
        bleu_3=bleu[2],
        bleu_4=bleu[3],
        rouge_l=rouge,
        cider=cider,
        meteor=_meteor(found, wanted) if meteor else None,
        num_images=len(given),
        num_references=len(flat),
        mean_length=float(np.mean([len(texts[0].split()) for texts in found.values()])),
        distinct=len(set(plain)),
        copied=None if train_captions is None else sum(x in seen for x in plain) / len(plain),
        tokenization=tokenization,
        per_image={
            name: ImageScores(given[name], of_images[name], *values) for name, *values in scores
        },
    )


_Scores = tuple[list[float], list[float], float, list[float], float, list[float]]


def _score(found: dict[Name, list[str]], wanted: dict[Name, list[str]]) -> _Scores:
    """BLEU, ROUGE-L and CIDEr times 100, each for all images and for each image."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    bleu, bleu_of = Bleu(4).compute_score(wanted, found, verbose=0)
    rouge, rouge_of = Rouge().compute_score(wanted, found)
    cider, cider_of = Cider().compute_score(wanted, found)
    if len(found) == 1:
        cider, cider_of = math.nan, [math.nan]
    return (
        [100.0 * value for value in bleu],
        [100.0 * value for value in bleu_of[3]],
        100.0 * float(rouge),
        [100.0 * float(value) for value in rouge_of],
        100.0 * float(cider),
        [100.0 * float(value) for value in cider_of],
    )


def _meteor(found: dict[Name, list[str]], wanted: dict[Name, list[str]]) -> float:
    if not has_java():
        raise RuntimeError(
            "METEOR needs Java, but there is no command `java`. Install Java 8 or later, or "
            "use meteor=False."
        )
    from pycocoevalcap.meteor.meteor import Meteor

    scorer = Meteor()
    try:
        score, _ = scorer.compute_score(wanted, found)
    except (OSError, ValueError) as error:  # Java has ended
        scorer.lock.release()  # its destructor waits for the lock
        said = scorer.meteor_p.stderr.read().decode("utf-8", "replace").strip()
        raise RuntimeError(f"METEOR's Java program failed: {said[-500:] or error}") from error
    finally:
        with contextlib.suppress(OSError):  # Java has ended before it read all
            scorer.meteor_p.stdin.close()  # else the destructor tries it, and fails
        scorer.meteor_p.stdout.close()
        scorer.meteor_p.stderr.close()
    return 100.0 * score


def check_references(references: Mapping[Name, Sequence[str]]) -> None:
    """Raises a ValueError if a reference has no words."""
    words = iter(tokenize_captions([t for texts in references.values() for t in texts], "plain"))
    found = {name: [" ".join(next(words)) for _ in texts] for name, texts in references.items()}
    _check_words(found, references)


def _check_words(found: Mapping[Name, list[str]], references: Mapping[Name, Sequence[str]]) -> None:
    for name, texts in found.items():
        if not all(texts):
            raise ValueError(
                f"Expected references with words. Received: {references[name]!r} for the "
                f"picture {name!r}."
            )


def _by_name(values: Mapping[Name, T] | Sequence[T]) -> Mapping[Name, T]:
    return values if isinstance(values, Mapping) else dict(enumerate(values))


def _aligned(
    candidates: Mapping[Name, str] | Sequence[str],
    references: Mapping[Name, Sequence[str]] | Sequence[Sequence[str]],
) -> tuple[dict[Name, str], dict[Name, list[str]]]:
    """Checks candidates and references, and returns them in the same order."""
    if isinstance(candidates, Mapping) != isinstance(references, Mapping):
        raise ValueError(
            "Expected candidates and references as two dictionaries or two lists. Received: "
            f"{type(candidates).__name__} and {type(references).__name__}."
        )
    given = dict(_by_name(candidates))
    wanted = dict(_by_name(references))
    for one, other, what in ((given, wanted, "candidates"), (wanted, given, "references")):
        if missing := [name for name in other if name not in one]:
            raise ValueError(
                "Expected the same pictures in candidates and references. Received: "
                f"{many(len(missing), 'picture')} not in the {what}: "
                f"{', '.join(map(repr, missing[:5]))}."
            )
    if not given:
        raise ValueError("Expected at least one caption. Received: none.")
    for name, text in given.items():
        if not isinstance(text, str):
            raise ValueError(f"Expected one string as the caption of {name!r}. Received: {text!r}.")
        texts = wanted[name]
        if isinstance(texts, str) or not texts or not all(isinstance(t, str) for t in texts):
            raise ValueError(
                f"Expected one or more strings as the references of {name!r}. Received: {texts!r}."
            )
    return given, {name: list(wanted[name]) for name in given}

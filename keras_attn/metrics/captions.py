"""Scores of captions: BLEU, ROUGE-L, CIDEr, METEOR, and the share of copies."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from keras_attn.metrics.caption_tokens import (
    TOKENIZATIONS,
    has_java,
    metrics_folder,
    tokenize_captions,
)


class ImageScores(NamedTuple):
    """Scores of the caption of one picture, in `CaptionScores.per_image`.

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
class CaptionScores:
    """The result of `caption_scores`, multiplied by 100 as in papers. `print` shows it in lines.

    Args:
        bleu_1: BLEU of words (Papineni et al., 2002), over all pictures together.
        bleu_2: BLEU of words and pairs of words.
        bleu_3: BLEU of runs of up to three words.
        bleu_4: BLEU of runs of up to four words.
        rouge_l: Longest common subsequence (Lin, 2004), beta 1.2, the mean over the pictures.
        cider: CIDEr-D (Vedantam et al., 2015), the mean over the pictures, 0 to 1,000. NaN for
            one picture, because words are weighted by the number of pictures that have them.
        meteor: METEOR 1.5 (Denkowski and Lavie, 2014); None if it was not requested.
        num_images: Number of pictures.
        num_references: Number of references of all pictures.
        mean_length: Mean number of words of a caption.
        distinct: Number of different captions.
        copied: Share (0 to 1) of captions that are word for word in the training captions; None
            without training captions.
        tokenization: How words were found. Scores of different tokenizations do not compare.
        per_image: An `ImageScores` for each picture.

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
    per_image: dict[Any, ImageScores] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures, and those of each picture, as a JSON-safe dict."""
        figures = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "per_image"}
        rows = [{"image": name, **_finite(x._asdict())} for name, x in self.per_image.items()]
        return {**_finite(figures), "captions": rows}

    def __str__(self) -> str:
        figures = {
            "BLEU-1": self.bleu_1,
            "BLEU-2": self.bleu_2,
            "BLEU-3": self.bleu_3,
            "BLEU-4": self.bleu_4,
            "ROUGE-L": self.rouge_l,
            "CIDEr": self.cider,
            **({} if self.meteor is None else {"METEOR": self.meteor}),
        }
        copied = "" if self.copied is None else f", {self.copied:.1%} copied from training"
        return (
            ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
            + f" ({TOKENIZATIONS[self.tokenization]}).\n{self.num_images:,} captions against "
            f"{self.num_references:,} references: {self.mean_length:.1f} words on average, "
            f"{self.distinct:,} distinct{copied}."
        )


def caption_scores(
    candidates: Mapping[Any, str] | Sequence[str],
    references: Mapping[Any, Sequence[str]] | Sequence[Sequence[str]],
    train_captions: Iterable[str] | None = None,
    tokenization: str = "auto",
    meteor: bool = False,
) -> CaptionScores:
    """Scores captions with `pycocoevalcap`, the package that papers use.

    BLEU-1 to BLEU-4 (closest reference length), ROUGE-L and CIDEr-D need only Python. The package
    finds words with the Stanford PTB tokenizer, which needs Java. Without Java, words are found by
    rules that give the same words for nearly all English captions (`tokenize_captions`). The scores
    name the tokenization:

    | `tokenization` | how words are found |
    |---|---|
    | `"ptb"` | Stanford CoreNLP 3.4.1, lower case, without punctuation; needs Java |
    | `"plain"` | the rules of `tokenize_captions` |
    | `"auto"` | `"ptb"` if there is Java, else `"plain"` |

    Args:
        candidates: A caption for each picture, by the picture's id or path; or a list. Empty
            captions are scored too.
        references: The references of each picture, one or more, with the same ids; or a list.
        train_captions: The captions of the training, to count copies without regard to white
            space, case and punctuation.
        tokenization: `"auto"`, `"ptb"` or `"plain"`.
        meteor: Whether to compute METEOR, for English only, with Java and 2 GB of memory.

    Returns:
        A `CaptionScores`.

    Raises:
        ImportError: If `pycocoevalcap` is not installed (`pip install "keras_attn[captioning]"`).
        RuntimeError: If `"ptb"` or `meteor` need Java and there is none.
        ValueError: If candidates and references have different pictures, or there are no
            references.

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
    candidates, references = _aligned(candidates, references)
    metrics_folder()
    if tokenization == "auto":
        tokenization = "ptb" if has_java() else "plain"
    flat = [text for texts in references.values() for text in texts]
    words = iter(tokenize_captions([*candidates.values(), *flat], tokenization))
    found = {name: [" ".join(next(words))] for name in candidates}
    wanted = {name: [" ".join(next(words)) for _ in texts] for name, texts in references.items()}
    _check_words(wanted, references)
    bleu, bleu_of, rouge, rouge_of, cider, cider_of = _score(found, wanted)
    scores = zip(candidates, bleu_of, rouge_of, cider_of, strict=True)
    own = {tuple(words) for words in tokenize_captions(candidates.values(), "plain")}
    return CaptionScores(
        *bleu,
        rouge_l=rouge,
        cider=cider,
        meteor=_meteor(found, wanted) if meteor else None,
        num_images=len(candidates),
        num_references=len(flat),
        mean_length=float(np.mean([len(texts[0].split()) for texts in found.values()])),
        distinct=len(own),
        copied=None if train_captions is None else _copied(candidates.values(), train_captions),
        tokenization=tokenization,
        per_image={
            name: ImageScores(candidates[name], references[name], *values)
            for name, *values in scores
        },
    )


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN, which is the CIDEr of one picture."""
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in figures.items()}


def _score(found: dict[Any, list[str]], wanted: dict[Any, list[str]]) -> tuple[Any, ...]:
    """BLEU, ROUGE-L and CIDEr times 100, each for all pictures and for each picture."""
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


def _meteor(found: dict[Any, list[str]], wanted: dict[Any, list[str]]) -> float:
    if not has_java():
        raise RuntimeError(
            "METEOR is computed by Java, and there is no command `java`. Install Java 8 or later, "
            "or leave `meteor=False`."
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


def _copied(candidates: Iterable[str], train_captions: Iterable[str]) -> float:
    seen = {tuple(words) for words in tokenize_captions(train_captions, "plain")}
    own = [tuple(words) in seen for words in tokenize_captions(candidates, "plain")]
    return sum(own) / len(own)


def check_references(references: Mapping[Any, Sequence[str]]) -> None:
    """Refuses references of which `caption_scores` would find no words.

    Args:
        references: Captions of each picture.

    Raises:
        ValueError: If one has no words; its picture is named.

    Example:

    >>> check_references({"a.png": ["A dog runs!"]})
    """
    words = iter(tokenize_captions([t for texts in references.values() for t in texts], "plain"))
    found = {name: [" ".join(next(words)) for _ in texts] for name, texts in references.items()}
    _check_words(found, references)


def _check_words(found: Mapping[Any, list[str]], references: Mapping[Any, Sequence[str]]) -> None:
    for name, texts in found.items():
        if not all(texts):
            raise ValueError(
                "Expected references with words. Received for the picture "
                f"{name!r}: {references[name]!r}."
            )


def _aligned(candidates: Any, references: Any) -> tuple[dict[Any, str], dict[Any, list[str]]]:
    """Candidates and references by picture in the same order, after checks."""
    if isinstance(candidates, Mapping) != isinstance(references, Mapping):
        raise ValueError(
            "Expected two dictionaries or two lists. Received: "
            f"{type(candidates).__name__} and {type(references).__name__}."
        )
    if not isinstance(candidates, Mapping):
        candidates, references = dict(enumerate(candidates)), dict(enumerate(references))
    for one, other, what in (
        (candidates, references, "candidates"),
        (references, candidates, "references"),
    ):
        if missing := [name for name in other if name not in one]:
            raise ValueError(
                f"Expected the same pictures in both. Received: {len(missing):,} that are not in "
                f"the {what}: {', '.join(map(repr, missing[:5]))}."
            )
    if not candidates:
        raise ValueError("Expected at least one caption. Received: none.")
    for name, text in candidates.items():
        if not isinstance(text, str):
            raise ValueError(f"Expected one string as the caption of {name!r}. Received: {text!r}.")
        texts = references[name]
        if isinstance(texts, str) or not texts or not all(isinstance(t, str) for t in texts):
            raise ValueError(
                f"Expected one or more strings as the references of {name!r}. Received: {texts!r}."
            )
    return dict(candidates), {name: list(references[name]) for name in candidates}

"""Scores of translations."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_attn.packages import needed


class TranslationScores(NamedTuple):
    """Corpus scores of translations, computed by sacrebleu (Post, 2018).

    The fields `bleu_signature`, `bleu_lowercase_signature` and `chrf_signature` are sacrebleu's
    signatures, which state its version and settings.
    """

    bleu: float
    """BLEU (Papineni et al., 2002), 0 to 100."""
    chrf: float
    """chrF (Popovic, 2015), 0 to 100."""
    bleu_signature: str
    chrf_signature: str
    translations: list[str]
    bleu_lowercase: float
    """BLEU of lower-cased translations and targets, 0 to 100."""
    bleu_lowercase_signature: str
    pairs: list[tuple[str, str]]
    """The sources and their reference translations."""
    beams: int
    alpha: float
    """Exponent of the length penalty."""
    length_penalty_kind: str
    """Kind of the length penalty: `"gnmt"` or `"power"`."""

    def __str__(self) -> str:
        penalty = f", length penalty {self.length_penalty_kind} {self.alpha:g}"
        lines = [
            f"{len(self.pairs):,} pairs, beam of {self.beams}{penalty if self.beams > 1 else ''}"
        ]
        for name in ("bleu", "bleu_lowercase", "chrf"):
            signature = getattr(self, f"{name}_signature")
            lines.append(f"{name:<15}{getattr(self, name):6.2f}  {signature}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields, keyed by name, as a dict for JSON.

        `pairs` becomes the number of pairs, and `translations` becomes a list with a dict of
        `source`, `translation` and `reference` for each pair.
        """
        rows = [
            {"source": source, "translation": translation, "reference": target}
            for (source, target), translation in zip(self.pairs, self.translations, strict=True)
        ]
        figures = {"pairs": len(self.pairs)}
        for name in ("bleu", "bleu_lowercase", "chrf"):
            signature = f"{name}_signature"
            figures |= {name: getattr(self, name), signature: getattr(self, signature)}
        figures |= {n: getattr(self, n) for n in ("beams", "alpha", "length_penalty_kind")}
        return {**figures, "translations": rows}


def score_translations(
    pairs: Sequence[tuple[str, str]],
    translations: Sequence[str],
    tokenize: str,
    beams: int,
    alpha: float,
    length_penalty_kind: str,
) -> TranslationScores:
    """Scores translations against the targets of pairs, after normalizing both to NFC."""
    with needed("BLEU"):
        import sacrebleu

    references = [[unicodedata.normalize("NFC", target) for _, target in pairs]]
    bleu, chrf = sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()
    lowercase = sacrebleu.BLEU(lowercase=True, tokenize=tokenize)
    return TranslationScores(
        bleu.corpus_score(translations, references).score,
        chrf.corpus_score(translations, references).score,
        # Signatures are known after scoring.
        str(bleu.get_signature()),
        str(chrf.get_signature()),
        list(translations),
        lowercase.corpus_score(translations, references).score,
        str(lowercase.get_signature()),
        list(pairs),
        beams,
        alpha,
        length_penalty_kind,
    )

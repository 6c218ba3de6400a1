"""Translations of texts, and how good they are."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attn.explain.alignment import Alignment
from keras_attn.fields import (
    ODD_TEXTS,
    AttentionWeights,
    GeneratedText,
    Numbers,
    ReadableTokens,
    Signature,
    SourceText,
    checked_texts,
)
from keras_attn.fields.signature import OutputField
from keras_attn.files import open_output
from keras_attn.metrics import TranslationScores
from keras_attn.tasks.base.checks import (
    Pairs,
    check_decoding,
    check_n_best,
    checked_pairs,
)
from keras_attn.tasks.base.steps import Note, step, values_for
from keras_attn.tasks.families.sequence_to_sequence import SequenceToSequence
from keras_attn.tasks.translation.data import TranslationLearned
from keras_attn.tasks.translation.settings import (
    TranslationData,
    TranslationFiles,
    TranslationTest,
    TranslationUse,
    check_translation_files,
)
from keras_attn.text import BytePairTokenizer
from keras_attn.text.readable import readable_tokens


class NBestTranslations(NamedTuple):
    """The R best translations of one text, the best first."""

    translations: list[str]
    scores: list[float]
    """Log-probability divided by the length penalty `((5 + length) / 6) ** alpha`."""
    truncated: list[bool]
    """Whether a translation was cut at its greatest length, without an end."""
    source_truncated: bool
    """Whether the text was longer than `max_source_length`: the rest of it was not read."""
    alignments: list[Alignment]
    """Of each: the mean over the heads of the last cross-attention; zeros without attention."""

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        cells = "<td style='text-align:right'>{:.3f}</td><td style='text-align:left'>{}{}</td>"
        rows = [
            cells.format(score, html.escape(text), " <i>(cut)</i>" if cut else "")
            for text, score, cut in zip(self.translations, self.scores, self.truncated, strict=True)
        ]
        note = "<caption>The source was cut.</caption>" if self.source_truncated else ""
        head = "<tr><th>score</th><th style='text-align:left'>translation</th></tr>"
        return f"<table>{note}{head}<tr>{'</tr><tr>'.join(rows)}</tr></table>"


class TranslationPredictions(SequenceToSequence):
    """The predictions of a translator: a base class of `Translator`."""

    data: TranslationData
    learned: TranslationLearned

    @property
    def source_tokenizer(self) -> BytePairTokenizer:
        """Tokenizer of the source."""
        return self.learned.tokenizer

    @property
    def target_tokenizer(self) -> BytePairTokenizer:
        """Tokenizer of the target, which may be that of the source."""
        return self.learned.target_tokenizer or self.learned.tokenizer

    @property
    def max_source_length(self) -> int:
        """Longest source in tokens that is read."""
        return self.data.max_length

    @property
    def field(self) -> SourceText:
        """Reads texts as rows of ids."""
        return SourceText(self.source_tokenizer, self.max_source_length)

    def longest(self, length: Any) -> Any:
        """Returns the largest number of tokens of a translation."""
        return 2 * length + 16

    def signatures(self, use: TranslationUse) -> dict[str, Signature]:
        """Returns what the SavedModel takes and gives, by the names of its signatures.

        The signature `serving_default` takes `text: string (B,)` and gives
        `translation: string (B,)`, equal to `translate`. The signature `details` takes the same and
        gives what `translate_n_best` gives, padded with `""` and zeros:

        - `translations`, `scores`, `truncated` `(B, R)`, the best first;
        - `source_truncated` `(B,)`: sources longer than `max_source_length` are cut;
        - `source_tokens` `(B, S)`, `target_tokens` `(B, R, T)`, `alignments` `(B, R, T, S)`, which
          are zeros for a model without attention.

        The signature `with_settings` takes `alpha: float32 (B,)` too, and gives `translation`.
        """
        source, target = self.source_tokenizer, self.target_tokenizer
        source_graph = functools.cache(source.to_graph)
        graph = source_graph if target is source else functools.cache(target.to_graph)
        text = SourceText(source, self.max_source_length, source_graph)
        best = GeneratedText(target, "best", some="some", graph=graph)
        details: dict[str, OutputField] = {
            "translations": GeneratedText(target, some="some", graph=graph),
            "scores": Numbers("scores"),
            "truncated": Numbers("truncated"),
            "source_truncated": Numbers("cut"),
            "source_tokens": ReadableTokens(source, "source_ids", source_graph),
            "target_tokens": ReadableTokens(target, graph=graph),
            "alignments": AttentionWeights("weights"),
        }
        one = dataclasses.replace(use, num_return_sequences=None)
        count = use.num_return_sequences or use.beams
        several = dataclasses.replace(use, num_return_sequences=count)
        return {
            "serving_default": Signature(("text",), text, {"translation": best}, one),
            "details": Signature(("text",), text, details, several),
        }

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones."""
        return {"text": [text for text in ODD_TEXTS if len(text) < 100]}

    def translate(
        self,
        texts: str | Sequence[str],
        beams: int = TranslationUse.beams,
        alpha: float = TranslationUse.alpha,
        batch_size: int = TranslationUse.batch_size,
        jit_compile: bool | None = None,
    ) -> Any:
        """Translates sentences.

        Args:
            texts: A string or a list of strings.
            beams: Width of the beam search; 1 is greedy search.
            alpha: Exponent of the length penalty.
            batch_size: Sentences decoded at a time, those of like length together.
            jit_compile: Whether TensorFlow uses XLA, which takes seconds for each shape of batches
                and is faster then. None: where it pays, see docs/speed.md. JAX always uses it,
                PyTorch never.

        Returns:
            A string for a string, a list for a list, in the order of `texts`.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If a setting is not a number or out of range.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        one = isinstance(texts, str)
        use = TranslationUse(beams=beams, alpha=alpha, batch_size=batch_size)
        signature = self.signatures(use)["serving_default"]
        rows = signature.field.encode([texts] if one else texts)
        _warn_of_cut(rows["cut"], self.max_source_length)
        rows |= self.computed(rows, signature.use, jit_compile)
        translations = signature.outputs["translation"].decode(rows)
        return translations[0] if one else translations

    def translate_n_best(
        self,
        texts: str | Sequence[str],
        num_return_sequences: int | None = None,
        beams: int = TranslationUse.beams,
        alpha: float = TranslationUse.alpha,
        batch_size: int = TranslationUse.batch_size,
        jit_compile: bool | None = None,
    ) -> Any:
        """Finds several translations of each sentence, with scores and alignments.

        Args:
            texts: A string or a list of strings.
            num_return_sequences: Number R of translations of each, at most `beams`; `beams` if
                None.
            beams: Width of the beam search.
            alpha: Exponent of the length penalty.
            batch_size: Sentences decoded at a time, those of like length together.
            jit_compile: As `translate`.

        Returns:
            `NBestTranslations` for a string, a list of them for a list, in the order of `texts`.
            The first translation is that of `translate`. What was cut is told by its fields, not
            by a warning.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If a setting is not a number or out of range.

        Example:

        >>> tokenizer = BytePairTokenizer.train(["one dog", "ein Hund"], 259)
        >>> translator = Translator(tokenizer, model={"dim": 16, "num_layers": 1})
        >>> found = translator.translate_n_best("one dog", num_return_sequences=2, beams=3)
        >>> len(found.translations), found.source_truncated, found.scores[0] >= found.scores[1]
        (2, False, True)
        """
        count = check_n_best(beams, alpha, num_return_sequences, batch_size=batch_size)
        one = isinstance(texts, str)
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        use = TranslationUse(beams=beams, alpha=alpha, num_return_sequences=count)
        use = dataclasses.replace(use, batch_size=batch_size)
        signature = self.signatures(use)["details"]
        rows = signature.field.encode(texts)
        rows |= self.computed(rows, use, jit_compile)
        names = "source_ids", "tokens", "lengths", "scores", "truncated", "weights", "cut"
        translations = signature.outputs["translations"].decode(rows)
        columns = zip(texts, translations, *(rows[name] for name in names), strict=True)
        found = [self._n_best(*row) for row in columns]
        return found[0] if one else found

    def _n_best(
        self,
        text: str,
        translations: list[str],
        source: list[int],
        tokens: np.ndarray,
        lengths: np.ndarray,
        scores: np.ndarray,
        truncated: np.ndarray,
        weights: np.ndarray,
        cut: bool,
    ) -> NBestTranslations:
        """Makes the translations of one text; a sequence of length 0 is none."""
        count = int((lengths > 0).sum())
        text = self.source_tokenizer.normalized(text)
        return NBestTranslations(
            translations[:count],
            scores[:count].tolist(),
            truncated[:count].tolist(),
            bool(cut),
            [
                self._alignment(text, source, tokens[r, :n].tolist(), weights[r, :n])
                for r, n in enumerate(lengths[:count].tolist())
            ],
        )

    def _alignment(
        self, text: str, source: list[int], target: list[int], weights: np.ndarray
    ) -> Alignment:
        translation = self.target_tokenizer.decode(target)
        return Alignment(
            readable_tokens(self.source_tokenizer, source),
            readable_tokens(self.target_tokenizer, target),
            weights,
            text,
            None if "\ufffd" in translation else translation,  # broken bytes: not its tokens
        )

    def align(self, source: str, target: str | None = None, layer: int = -1) -> Alignment:
        """Shows which source tokens each target token attended to.

        Args:
            source: A sentence.
            target: Its translation; the model's own if None.
            layer: Number of the cross-attention (a Transformer has one a decoder block), counted
                from 0, or from the last one by -1, -2, ...

        Returns:
            `Alignment` of readable tokens and weights `(T, S)`; each target token, and the end, is
            aligned as it is predicted.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If there is no such attention, or the target is longer than any translation.
        """
        use = TranslationUse()
        rows = self.field.encode([source])
        _warn_of_cut(rows["cut"], self.max_source_length)
        if target is None:
            ids = self.computed(rows, use)["tokens"][0][0].tolist()
        else:
            (ids,) = self.target_tokenizer.encode(checked_texts([target]), add_end=True)
        most = self.longest(self.max_source_length)
        if len(ids) > most:
            raise ValueError(
                f"`target` must have at most {most} tokens, the end included, the most of a "
                f"translation with `max_source_length`={self.max_source_length}. Received: "
                f"{len(ids)} tokens."
            )
        (read,) = rows["source_ids"]
        weights = self.source_weights(read, ids, layer)
        return self._alignment(self.source_tokenizer.normalized(source), read, ids, weights)

    predict = translate  # as all tasks call what they are for

    def evaluate(
        self,
        pairs: Pairs,
        beams: int = TranslationUse.beams,
        alpha: float = TranslationUse.alpha,
        batch_size: int = TranslationUse.batch_size,
        tokenize: str = TranslationTest.tokenize,
    ) -> TranslationScores:
        """Translates the sources and scores them against the targets, by sacrebleu.

        Args:
            pairs: (source, target) strings.
            beams: As in `translate`.
            alpha: As in `translate`.
            batch_size: As in `translate`.
            tokenize: sacrebleu's tokenizer of BLEU; `"char"` or `"zh"` for scripts without spaces.

        References are compared in Unicode's form NFC, as translations are written.

        Returns:
            `TranslationScores`: cased BLEU, chrF and lower-cased BLEU, their signatures, and the
            translations. `print` shows the figures.

        Raises:
            ValueError: If there are no pairs.
        """
        import sacrebleu

        pairs = checked_pairs(pairs)
        translations = self.translate([source for source, _ in pairs], beams, alpha, batch_size)
        references = [[unicodedata.normalize("NFC", target) for _, target in pairs]]
        bleu, chrf = sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()
        lowercase = sacrebleu.BLEU(lowercase=True, tokenize=tokenize)
        return TranslationScores(
            bleu.corpus_score(translations, references).score,
            chrf.corpus_score(translations, references).score,
            # Signatures are known after scoring.
            str(bleu.get_signature()),
            str(chrf.get_signature()),
            translations,
            lowercase.corpus_score(translations, references).score,
            str(lowercase.get_signature()),
            pairs,
            beams,
            alpha,
        )

    @step(
        "predict",
        takes=("use",),
        settings=TranslationFiles,
        reads="lines",
        writes="lines",
        to="file of the translations; standard output if none",
        device=True,
        check=check_translation_files,
    )
    def _translate_lines(
        self, inputs: Iterable[list[str]], use: TranslationUse, predict: TranslationFiles
    ) -> Iterator[str | Note]:
        """Translate FILES, a sentence a line, in their order; standard input if there are none.

        A line ends at a line feed, a carriage return, or both. A blank line gives a blank line.
        Bytes that are not UTF-8 are read as U+FFFD, with a warning.
        """
        aligned = bool(predict.alignments or predict.heat_maps)
        if aligned and not self.decoding.num_attentions:
            raise ValueError(
                "--alignments and --heat-maps belong to a model with attention. "
                f"Received: {self!r}, which has none."
            )
        search = values_for(self.translate, use)
        number = cut = 0
        with contextlib.ExitStack() as stack:
            path = Path(predict.alignments) if predict.alignments else None
            links = stack.enter_context(open_output(path)) if path is not None else None
            for lines in inputs:
                stripped = [line.strip() for line in lines]
                real = [line for line in stripped if line]
                if aligned:
                    found = self.translate_n_best(real, 1, **search)
                    cut += sum(best.source_truncated for best in found)
                    answers = iter([(best.translations[0], best.alignments[0]) for best in found])
                else:
                    answers = iter([(text, None) for text in self.translate(real, **search)])
                for line in stripped:
                    number += 1
                    translated, alignment = next(answers) if line else ("", None)
                    yield " ".join(translated.split())  # a line must stay a line
                    if links is not None:
                        print(alignment.to_pharaoh() if alignment is not None else "", file=links)
                    if predict.heat_maps and alignment is not None:
                        alignment.plot(Path(predict.heat_maps) / f"{number:06d}.png")
        if cut:
            yield Note(f"{cut} lines are longer than the model reads, and were cut.")


def _warn_of_cut(cut: Sequence[bool], most: int) -> None:
    if any(cut):
        warnings.warn(
            f"{sum(cut)} of {len(cut)} texts are longer than `max_source_length`={most} tokens and "
            "were cut. Translate sentence by sentence.",
            stacklevel=3,
        )

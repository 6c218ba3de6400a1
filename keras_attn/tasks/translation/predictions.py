"""Translations of texts, and how good they are."""

from __future__ import annotations

import contextlib
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_attn.explain.alignment import Alignment
from keras_attn.fields import checked_texts
from keras_attn.files import open_output
from keras_attn.models import SequenceDecoder
from keras_attn.tasks.base.checks import (
    Pairs,
    check_decoding,
    check_n_best,
    checked_pairs,
)
from keras_attn.tasks.base.steps import Note, step, values_for
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.translation.data import TranslationLearned
from keras_attn.tasks.translation.decoding import TranslationSearch
from keras_attn.tasks.translation.scores import TranslationScores
from keras_attn.tasks.translation.settings import (
    TranslationData,
    TranslationFiles,
    TranslationTest,
    TranslationUse,
    check_translation_files,
)
from keras_attn.text import BytePairTokenizer


class TranslationPredictions(Task):
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
    def _search(self) -> TranslationSearch:
        return self.kept(
            lambda: TranslationSearch(
                self.model, self.source_tokenizer, self.target_tokenizer, self.max_source_length
            ),
            "search",
        )

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
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        tokens = self._search.best(self._read(texts), beams, alpha, batch_size, jit_compile)
        translations = self._translations(texts, tokens)
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
        found = self._search.n_best(texts, beams, alpha, count, batch_size, jit_compile)
        return found[0] if one else found

    def _translations(self, texts: Sequence[str], tokens: Sequence[Sequence[int]]) -> list[str]:
        """Translations of texts: nothing for a text without a word."""
        found = self.target_tokenizer.decode(tokens) if len(tokens) else []
        return [new if text.strip() else "" for text, new in zip(texts, found, strict=True)]

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        texts = checked_texts(texts)
        ids, cut = self._search.read(texts)
        if any(cut):
            warnings.warn(
                f"{sum(cut)} of {len(texts)} texts are longer than `max_source_length`="
                f"{self.max_source_length} tokens and were cut. Translate sentence by sentence.",
                stacklevel=3,
            )
        return ids

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
        ids = self._read([source])[0]
        own = None
        if target is not None:
            (own,) = self.target_tokenizer.encode(checked_texts([target]), add_end=True)
        return self._search.align(self.source_tokenizer.normalized(source), ids, own, layer)

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
        if aligned and not SequenceDecoder(self.model).num_attentions:
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

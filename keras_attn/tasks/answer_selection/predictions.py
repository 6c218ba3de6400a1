"""Answers that are found, how well they are found, and pairs to train rerankers on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn.arrays import Array, ArrayModule, greatest, unit_length
from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.fields import (
    ODD_TEXTS,
    EncoderInput,
    FoundNames,
    Numbers,
    SearchTexts,
    Signature,
)
from keras_attn.fields.signature import OutputField
from keras_attn.metrics import RankingReport, ranks_of, score_ranks
from keras_attn.records import ScoredPair
from keras_attn.records.selection_questions import checked_selection_questions
from keras_attn.tasks.answer_selection.found import (
    FoundAnswer,
    asked_texts,
    checked_candidates,
    reranked,
    search_use,
)
from keras_attn.tasks.answer_selection.index import AnswerIndex
from keras_attn.tasks.answer_selection.settings import AnswerSelectionTest, AnswerSelectionUse
from keras_attn.tasks.families.text_vectors import TextVectors
from keras_attn.tasks.similarity import SimilarityScorer

_SURE = 1e-5  # scores that are this far apart are in the same order on every machine


class AnswerSelectionPredictions(TextVectors):
    """The predictions of answer selection: a base class of `AnswerSelector`."""

    answers: tuple[str, ...]
    _index: tuple[EncoderInput, AnswerIndex] | None = None
    """The index of the answers, and what reads them."""
    _reranker: tuple[Any, Any] = (None, None)

    def predict(
        self,
        questions: str | Iterable[str],
        top_k: int = AnswerSelectionUse.top_k,
        by: str = AnswerSelectionUse.by,
        lexical_weight: float | None = None,
        reranker: SimilarityScorer | str = "",
        rerank_depth: int | None = None,
        candidates: Sequence[Sequence[str]] | None = None,
        batch_size: int = AnswerSelectionUse.batch_size,
    ) -> list[FoundAnswer] | list[list[FoundAnswer]]:
        """Finds the best answers to questions.

        Answers are searched by vectors, by words, or by both; the best of them may then be scored
        anew by a model that reads question and answer at once.

        Args:
            questions: A question, or a list of them.
            top_k: How many answers are found for each; all if there are fewer.
            by: `"vectors"`: cosines. `"words"`: BM25, see `WordScores`. `"both"`: the weighted mean
                of both, each scaled to 0 to 1 over the candidates of the question.
            lexical_weight: Weight w of the words in `w * words + (1 - w) * vectors`, for
                `by="both"`; 0.5 if None.
            reranker: A `SimilarityScorer`, such as one of `kind="cross"`, or its file.
            rerank_depth: How many answers it scores for each question, at least `top_k`; 20 if
                None.
            candidates: For each question the answers to choose from, instead of those of the task.
                How rare a word is, is then counted over all different candidates of the call.
            batch_size: Texts computed at a time.

        Returns:
            A list of `FoundAnswer`s, the best first; a list of lists for a list of questions.

        Raises:
            ImportError: If words are searched and `bm25s` is not installed.
            TypeError: If an input is not a string.
            ValueError: If a setting is unknown or out of range, or candidates are not as many as
                questions.
        """
        one = isinstance(questions, str)
        asked = asked_texts(questions)
        use = search_use(
            top_k=top_k, by=by, lexical_weight=lexical_weight, reranker=reranker,
            rerank_depth=rerank_depth, batch_size=batch_size,
        )  # fmt: skip
        if 0 < use.depth < top_k:
            raise ValueError(
                f"`rerank_depth` must be at least `top_k`. Received: {use.depth} and {top_k}."
            )
        if candidates is not None:
            candidates = checked_candidates([candidates] if one else candidates, len(asked))
        found = self._found(asked, candidates, use, reranker)
        return found[0] if one else found

    def _found(
        self,
        questions: Sequence[str],
        candidates: Sequence[Sequence[str]] | None,
        use: AnswerSelectionUse,
        reranker: Any = None,
    ) -> list[list[FoundAnswer]]:
        """The best answers to each question."""
        found = []
        for own, scores in self._searched(questions, candidates, use, reranker):
            numbers = greatest(np, scores, use.top_k).tolist()
            found.append([FoundAnswer(own[i], float(scores[i]), i) for i in numbers])
        return found

    def _searched(
        self,
        questions: Sequence[str],
        candidates: Sequence[Sequence[str]] | None,
        use: AnswerSelectionUse,
        reranker: Any = None,
    ) -> Iterator[tuple[Sequence[str], np.ndarray]]:
        """The candidates of each question with their scores."""
        if use.depth:
            reranker = self._loaded(reranker)
        embed = self._embedder(use.batch_size)
        members = None
        if candidates is None:
            index = self._answer_index(embed, use.by != "words")
        else:
            index = AnswerIndex(dict.fromkeys(text for own in candidates for text in own), embed)
            members = [np.array([index.places[text] for text in own], int) for own in candidates]
        found = index.scores(questions, use.by, use.weight, members)
        for i, (question, scores) in enumerate(zip(questions, found, strict=True)):
            own = self.answers if candidates is None else candidates[i]
            if use.depth:
                scores = reranked(reranker, question, own, scores, use)
            if not np.isfinite(scores).all():
                raise ValueError(
                    f"The scores of the answers to {question!r:.80} are not finite: the training "
                    "of the model diverged. Train it with a lower learning rate, clip the "
                    "gradients (`clip_norm`), or try another seed."
                )
            yield own, scores

    def _answer_index(self, embed: Callable, with_vectors: bool = True) -> AnswerIndex:
        """The index of the answers; its vectors are of the weights that the model has now."""
        if self._index is None or self._index[0] is not self.field:
            self._index = self.field, AnswerIndex(self.answers, embed)
        index = self._index[1]
        if with_vectors:
            index.read_by(self.model)
        return index

    def _embedder(self, batch_size: int) -> Callable[[Sequence[str]], np.ndarray]:
        return lambda texts: self.embed(texts, batch_size, normalize=True)

    def _loaded(self, reranker: Any) -> SimilarityScorer:
        if isinstance(reranker, SimilarityScorer):
            return reranker
        path = os.path.expanduser(reranker)
        file = os.path.abspath(path), os.path.getmtime(path) if os.path.exists(path) else None
        if self._reranker[0] != file:
            self._reranker = file, SimilarityScorer.load(reranker)
        return self._reranker[1]

    def explain(
        self,
        questions: str | Iterable[str],
        method: str = AnswerSelectionUse.method,
        batch_size: int = AnswerSelectionUse.batch_size,
    ) -> EncoderStudy | Explanation | list[Explanation]:
        """Shows which words of a question and its best answer match, or what the heads look at.

        The best answer is that of the search by vectors.

        Args:
            questions: A question, or a list of them.
            method: `"gradient"` for gradient times input of the cosine; `"attention"` for what the
                heads of the encoder look at in the questions and their answers.
            batch_size: Texts computed at a time.

        Returns:
            For `"gradient"` an `Explanation` of a question, or a list of them: the question and its
            best answer with a weight for each word. A word above 0 makes the cosine greater. For
            `"attention"` an `EncoderStudy`. Its `html()` is a page.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the method is unknown, or the encoder has no attention.
        """
        one = isinstance(questions, str)
        asked = asked_texts(questions)
        use = search_use(method=method, batch_size=batch_size)
        first = [x for (x,) in self._found(asked, None, search_use(top_k=1, batch_size=batch_size))]
        pairs = [(question, x.answer) for question, x in zip(asked, first, strict=True)]
        if use.method == "attention":
            texts = list(dict.fromkeys(text for pair in pairs for text in pair))
            return study_texts(self.model, self.field, texts)
        if not pairs:
            return []
        weights = self.cosine_weights(pairs, batch_size)
        found = self.explanations(pairs, [x.score for x in first], weights)
        return found[0] if one else found

    page = staticmethod(explained_page)

    # Figures

    def ranks(
        self,
        examples: Iterable[Any],
        by: str = AnswerSelectionUse.by,
        lexical_weight: float | None = None,
        reranker: SimilarityScorer | str = "",
        rerank_depth: int | None = None,
        batch_size: int = AnswerSelectionUse.batch_size,
    ) -> list[np.ndarray]:
        """Finds the ranks of the right answers; the others are as in `evaluate`.

        Args:
            examples: As in `evaluate`.
            by: As in `predict`.
            lexical_weight: As in `predict`.
            reranker: As in `predict`.
            rerank_depth: As in `predict`.
            batch_size: As in `predict`.

        Returns:
            For each question the ranks of its right answers from 1, in rising order; equal scores
            share the mean of their ranks.

        Raises:
            ValueError: As in `evaluate`.
        """
        checked = checked_selection_questions(examples)
        own = [x.candidates for x in checked]
        if any(own) != all(own):
            raise ValueError(
                "Expected candidates with each example, or with none. Received: "
                f"{sum(map(bool, own))} of {len(own)} examples with candidates."
            )
        places = {answer: i for i, answer in enumerate(self.answers)}
        for x in [] if all(own) else checked:
            missing = [answer for answer in x.answers if answer not in places]
            if missing:
                raise ValueError(
                    "Expected right answers that are among those to choose from. Received: "
                    f"{missing[0]!r:.80}, which is not, for {x.question!r:.80}. Add it to "
                    "`answers`, or give each question candidates of its own."
                )
        use = search_use(
            by=by, lexical_weight=lexical_weight, reranker=reranker, rerank_depth=rerank_depth,
            batch_size=batch_size,
        )  # fmt: skip
        asked = [x.question for x in checked]
        found = self._searched(asked, own if all(own) else None, use, reranker)
        ranks = []
        for x, (texts, scores) in zip(checked, found, strict=True):
            at = texts.index if x.candidates else places.__getitem__
            ranks.append(ranks_of(scores, [at(answer) for answer in x.answers]))
        return ranks

    def evaluate(
        self,
        examples: Iterable[Any],
        by: str = AnswerSelectionUse.by,
        lexical_weight: float | None = None,
        reranker: SimilarityScorer | str = "",
        rerank_depth: int | None = None,
        batch_size: int = AnswerSelectionUse.batch_size,
        num_bootstrap: int = AnswerSelectionTest.num_bootstrap,
        seed: int = 0,
    ) -> RankingReport:
        """Measures where right answers are ranked.

        Answers that a reranker does not score follow those that it scores, in their order.

        Args:
            examples: `SelectionQuestion`s, or tuples of a question, its right answer or a list of
                them, and perhaps a list of candidates. Without these all answers of the task are
                candidates.
            by: As in `predict`.
            lexical_weight: As in `predict`.
            reranker: As in `predict`.
            rerank_depth: As in `predict`.
            batch_size: As in `predict`.
            num_bootstrap: Samples for the interval; 0 computes none.
            seed: Seed of these samples.

        Returns:
            A `RankingReport`: mean reciprocal rank, average precision and recall. `print` shows it.

        Raises:
            ImportError: As in `predict`.
            ValueError: If an example is something else, there is none, a right answer is not among
                the candidates, or a setting is wrong.
        """
        ranks = self.ranks(examples, by, lexical_weight, reranker, rerank_depth, batch_size)
        return score_ranks(ranks, num_bootstrap=num_bootstrap, seed=seed)

    def pairs(
        self,
        examples: Iterable[Any],
        negatives: int = AnswerSelectionUse.negatives,
        by: str = AnswerSelectionUse.by,
        lexical_weight: float | None = None,
        batch_size: int = AnswerSelectionUse.batch_size,
    ) -> list[ScoredPair]:
        """Makes pairs of questions and answers that a reranker learns from.

        Args:
            examples: As in `evaluate`.
            negatives: Wrong answers for each right one, the best that are found.
            by: As in `predict`.
            lexical_weight: As in `predict`.
            batch_size: As in `predict`.

        Returns:
            For `SimilarityScorer`: right answers with the score 1, wrong ones with 0.

        Raises:
            ValueError: As in `evaluate`.
        """
        checked = checked_selection_questions(examples)
        use = search_use(
            by=by, lexical_weight=lexical_weight, negatives=negatives, batch_size=batch_size
        )
        own = [x.candidates or self.answers for x in checked]
        given = own if any(x.candidates for x in checked) else None
        found = self._searched([x.question for x in checked], given, use)
        right_of: dict[str, set[str]] = {}  # of a question, in several examples too
        for x in checked:
            right_of.setdefault(x.question, set()).update(x.answers)
        pairs = []
        for x, (texts, scores) in zip(checked, found, strict=True):
            pairs += [ScoredPair(x.question, answer, 1.0) for answer in x.answers]
            right = right_of[x.question]
            count = use.negatives * len(x.answers)
            ordered = [texts[i] for i in greatest(np, scores, count + len(right))]
            wrong = [text for text in ordered if text not in right][:count]
            pairs += [ScoredPair(x.question, text, 0.0) for text in wrong]
        return list(dict.fromkeys(pairs))

    # The command and the SavedModel

    @staticmethod
    def readable(result: Sequence[FoundAnswer]) -> str:
        """Returns the answers to a question as the command writes them."""
        rows = [{**found._asdict(), "score": round(found.score, 6)} for found in result]
        return json.dumps(rows, ensure_ascii=False)

    def checked_use(self, use: AnswerSelectionUse) -> AnswerSelectionUse:
        """Returns the settings of an export, which searches by vectors alone."""
        if use.by != "vectors" or use.reranker:
            raise ValueError(
                "A SavedModel searches by vectors, without a reranker. Received: "
                f"by={use.by!r}, reranker={use.reranker!r}. Leave them out, or search in Python."
            )
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones."""
        return {"text": ODD_TEXTS}

    def signatures(self, use: AnswerSelectionUse) -> dict[str, Signature]:
        """Returns what the SavedModel takes and gives, by the names of its signatures.

        Both take `text: string (B,)`. `serving_default` gives `answers: string (B, k)`, their
        `scores: float32 (B, k)` and `numbers: int32 (B, k)`; `embed` gives `vectors: float32
        (B, D)` of length 1.

        Args:
            use: Settings `Use`.
        """

        def vectors() -> np.ndarray:
            return self._answer_index(self._embedder(use.batch_size)).vectors

        search = SearchTexts(self.field, self.answers, vectors)
        outputs: dict[str, OutputField] = {
            "answers": FoundNames("numbers"),
            "scores": Numbers("scores"),
            "numbers": Numbers("numbers"),
        }
        return {
            "serving_default": Signature(("text",), search, outputs),
            "embed": self.embed_signature,
        }

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: AnswerSelectionUse
    ) -> dict[str, Array]:
        """Finds the answers whose vectors are nearest to the vectors of questions."""
        units = unit_length(xp, tensors["vectors"])
        if "index" not in tensors:
            return {"vectors": units}
        cosines = xp.matmul(units, tensors["index"])  # (B, N)
        count = min(use.top_k, len(self.answers))
        # One more than are found, for `unsure`.
        numbers = greatest(xp, cosines, min(count + 1, len(self.answers)))
        scores = xp.take_along_axis(cosines, numbers, axis=1)
        return {
            "numbers": numbers[:, :count],
            "scores": scores[:, :count],
            "steps": scores[:, :-1] - scores[:, 1:],
        }

    def unsure(self, tensors: Mapping[str, Array]) -> tuple[str, ...]:
        """Returns the outputs that depend on the order of the scores, if some are nearly equal."""
        steps = tensors.get("steps", np.ones(1))
        sure = self.policy.compute_dtype == "float32" and (steps > _SURE).all()
        return () if sure else ("answers", "numbers")

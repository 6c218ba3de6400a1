"""Labels of windows: the positions of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from keras_attn.arrays import Array, Windows, window_numbers
from keras_attn.records import AnsweredQuestion

_ACROSS = "answers that reach beyond their window were left out"
_NO_TOKEN = "answers without a token were left out"


class AnswerTargets:
    """Labels windows of texts with the position of the first answer to their question.

    The window from which an answer is read is labelled with the answer's position. If texts may
    have no answer, windows that contain no part of the answer are labelled with the position of
    `[CLS]`. All other windows are left out.
    """

    def __init__(self, max_question_length: int, unanswerable: bool, long_questions: str):
        self.most = max_question_length
        self.unanswerable, self.long_questions = unanswerable, long_questions
        self.left_out: Counter[str] = Counter()

    def labels(
        self,
        questions: Sequence[AnsweredQuestion],
        given: Mapping[str, Array],
        rows: Mapping[str, Array],
        windows: Windows,
    ) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Labels the windows of a batch.

        Returns the indices of the rows to train on, and a tuple for each of them: the indices of
        the first and the last id of the answer (0 and 0 if the window has no answer), and the
        number of ids in the row.
        """
        taken, labels = [], []
        for i, question in enumerate(questions):
            if given["asked"][i] > self.most and not self._cut(question, int(given["asked"][i])):
                continue
            pieces = slice(given["begins"][i], given["begins"][i] + given["pieces"][i])
            span = self._span(question, given["piece_starts"][pieces], given["piece_ends"][pieces])
            if span is None:
                continue
            own = None
            if span:
                cut = given["pieces"][i], rows["rooms"][i], rows["margins"][i]
                own = windows.rows[i] + window_numbers(np, np.array(span[0], "int32"), *cut)
            for row in windows.rows[i] + range(windows.counts[i]):
                first, length = windows.start[row], int(rows["row_sizes"][row])
                behind = first + windows.size[row]
                before = int(rows["row_seconds"][row] - first)
                if row == own and span[1] < behind:
                    label = (span[0] + before, span[1] + before, length)
                elif row == own:
                    self.left_out[_ACROSS] += 1
                    continue
                elif self.unanswerable and not (span and span[0] < behind and span[1] >= first):
                    label = (0, 0, length)
                else:
                    continue
                taken.append(int(row))
                labels.append(label)
        if not taken:
            raise ValueError(
                "Expected questions whose texts have an answer. Received: "
                f"{len(questions):,} questions, none of which can be used: "
                f"{dict(self.left_out) or 'they have no answers'}."
            )
        return taken, labels

    def _cut(self, question: AnsweredQuestion, count: int) -> bool:
        """Whether a question that is too long is trained."""
        if self.long_questions == "error":
            raise ValueError(
                f"Expected questions of at most {self.most} tokens. Received: {count} tokens "
                f"in {question.name!r}, {question.question[:80]!r}. Raise "
                "`max_question_length`, or give long_questions='cut' or 'skip'."
            )
        done = "cut" if self.long_questions == "cut" else "left out"
        self.left_out[f"questions of more than {self.most} tokens were {done}"] += 1
        return done == "cut"

    def _span(
        self, question: AnsweredQuestion, starts: Array, ends: Array
    ) -> tuple[int, ...] | None:
        """First and last piece of the first answer; `()` for no answer, None to leave the question
        out."""
        if not question.answers:
            if self.unanswerable:
                return ()
            raise ValueError(
                "Expected questions with answers, as in the data that this task was created from. "
                f"Received: {question.question[:80]!r} without an answer."
            )
        answer = question.answers[0]
        end = answer.start + len(answer.text)
        inside = np.flatnonzero((ends > answer.start) & (starts < end))
        if not len(inside):
            self.left_out[_NO_TOKEN] += 1
            return None
        return int(inside[0]), int(inside[-1])

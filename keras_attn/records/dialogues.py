"""Dialogues from JSON lines, DailyDialog or chitchat-dataset, and splits of whole dialogues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from keras_attn.inputs import listed
from keras_attn.records.items import Records
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.problems import PROBLEMS, LineProblem, many
from keras_attn.records.reading import (
    LineReading,
    Location,
    chosen_format,
    existing,
    is_blank,
    is_integer,
)
from keras_attn.records.splitting import as_count, check_size, draw, together
from keras_attn.white_space import normalize_white_space

FORMATS = {".jsonl": "json_lines", ".ndjson": "json_lines", ".txt": "dailydialog"}
FORMATS |= {".json": "chitchat"}
_END_OF_TURN = "__eou__"


class Turn(NamedTuple):
    """A turn in a dialogue: a text and the name of its speaker.

    Example:

    >>> Turn("Hello!", "Ann").speaker
    'Ann'
    """

    text: str
    speaker: str


class Exchange(NamedTuple):
    """An answer in a dialogue, and the turns before it.

    Example:

    >>> Exchange(("Hi.",), "Hello!").answer
    'Hello!'
    """

    turns: tuple[str, ...]
    """The turns before the answer. Turns of other speakers alternate with turns of the speaker of
    the answer; another speaker has the last one."""
    answer: str


@dataclass(frozen=True)
class Dialogues(Records[tuple[Turn, ...]]):
    """The dialogues of a file, in their order, and the problems of dialogues that were left out.

    Example:

    >>> print(Dialogues([(Turn("Hi.", "A"), Turn("Hello!", "B"))], "a.jsonl").summary())
    a.jsonl: 1 dialogue of 2 turns.
    """

    kinds = {  # noqa: RUF012
        **{kind: PROBLEMS[kind] for kind in ("encoding", "json", "keys", "type")},
        "empty": "without a word",
        "speaker": "with one speaker alone",
        "long": "with a turn that is too long",
    }

    dialogues: list[tuple[Turn, ...]]
    """The dialogues, each of at least two turns; consecutive turns have different speakers."""
    where: str = "dialogues"
    blank: int = 0
    """Number of messages without a word, which were left out."""
    problems: list[LineProblem] = field(default_factory=list, repr=False)
    """The problems of dialogues that were left out."""

    def summary(self) -> str:
        """Returns the numbers of dialogues, turns and blank messages, and the first problems, as
        text."""
        turns = sum(map(len, self.dialogues))
        text = f"{self.where}: {many(len(self), 'dialogue')} of {many(turns, 'turn')}"
        if self.blank:
            text += f"; {many(self.blank, 'message')} without a word left out"
        return f"{text}{self._left_out()}."


class _Reading(LineReading):
    kinds = Dialogues.kinds

    def __init__(self, where: Location, on_error: str, max_characters: int):
        super().__init__(where, on_error)
        self.max_characters = max_characters
        self.dialogues: list[tuple[Turn, ...]] = []
        self.blank = 0

    def add(self, number: int, messages: Iterable[tuple[object, object]], name: str = "") -> None:
        """Adds a dialogue of messages (text, speaker), or notes a problem."""
        of = f" in dialogue {name}" * bool(name)
        spoken, blank = [], 0
        for place, (text, speaker) in enumerate(messages, start=1):
            words = self.string(number, text, f"text of turn {place}{of}")
            who = self.string(number, speaker, f"speaker of turn {place}{of}")
            if words is None or who is None:
                return
            words = normalize_white_space(words)
            if is_blank(words):
                blank += 1
            else:
                spoken.append(Turn(words, who))
        turns = [
            Turn(_joined(run), speaker)
            for speaker, run in groupby(spoken, key=lambda turn: turn.speaker)
        ]
        longest = max((len(turn.text) for turn in turns), default=0)
        if not turns:
            self.problem(number, "empty", f"there is no turn with a word{of}")
        elif len(turns) == 1:
            self.problem(number, "speaker", f"only {turns[0].speaker!r:.60} speaks{of}")
        elif longest > self.max_characters:
            what = f"a turn{of} has {longest:,} characters, more than {self.max_characters:,}"
            self.problem(number, "long", what)
        else:
            self.dialogues.append(tuple(turns))
            self.blank += blank


def read_dialogues(
    path: Location, format: str = "auto", on_error: str = "error", max_characters: int = 10_000
) -> Dialogues:
    """Reads dialogues from a file.

    | format | file | |
    |---|---|---|
    | `"json_lines"` | `*.jsonl`, `*.ndjson`, Parquet, `Rows` | on each line (or row) an object with `turns`: a list of strings, whose two speakers take turns; or a list of objects with `text` and `speaker` |
    | `"dailydialog"` | `*.txt` | a dialogue on each line; each turn ends in `__eou__`, and two speakers take turns |
    | `"chitchat"` | `*.json` | `dataset.json` of the package chitchat-dataset |

    Messages without a visible character are left out. Consecutive messages of one speaker are
    joined by a space. Runs of white space become one space.

    Args:
        path: The file; a text file is in UTF-8, or in UTF-16 with a byte order mark, plain or
            gzipped (`*.gz`).
        format: One of the formats, or `"auto"` to infer it from the file name.
        on_error: `"error"` raises one ValueError for all bad dialogues; `"skip"` leaves them out,
            and lists them in `problems`.
        max_characters: Maximum number of characters of a turn.

    Returns:
        A `Dialogues`, a sequence with a tuple of `Turn`s for each dialogue.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        ValueError: If a setting is invalid, a file with `format="chitchat"` has another format, or
            no dialogue is left. With `on_error="error"`, also if a line does not have the
            format, or if a dialogue has no turn, only one speaker, or a turn that is too long.

    Example:

    >>> import pathlib
    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "some.jsonl")
    >>> _ = path.write_text('{"turns": ["Hi.", "Hello!", "How are you?"]}')
    >>> [turn.text for turn in read_dialogues(path)[0]]
    ['Hi.', 'Hello!', 'How are you?']
    """  # noqa: E501  a table
    where = existing(path, "a file of dialogues")
    if not is_integer(max_characters, 1):
        raise ValueError(
            f"Expected `max_characters` to be an integer >= 1. Received: {max_characters!r}."
        )
    readers = {"json_lines": _json_lines, "dailydialog": _dailydialog, "chitchat": _chitchat}
    format = chosen_format(format, where, FORMATS, readers, "a file of dialogues")
    reading = _Reading(where, on_error, max_characters)
    with open_lines(path) as lines:
        readers[format](lines, reading)
    reading.refuse(len(reading.dialogues), "dialogues of at least two speakers", "dialogue")
    return Dialogues(reading.dialogues, reading.where, reading.blank, reading.problems)


def _json_lines(lines: Iterator[bytes], reading: _Reading) -> None:
    for number, record in reading.records(lines):
        turns = record.get("turns")
        if "turns" not in record:
            reading.no_key(number, record, "turns")
        elif not isinstance(turns, list):
            reading.problem(number, "type", f"'turns' is of type {type(turns).__name__}, no list")
        elif all(isinstance(turn, str) for turn in turns):
            reading.add(number, _in_turns(turns))
        elif all(isinstance(turn, dict) for turn in turns):
            reading.add(number, [(turn.get("text"), turn.get("speaker")) for turn in turns])
        else:
            what = "'turns' must be strings alone, or objects with text and speaker alone"
            reading.problem(number, "type", what)


def _dailydialog(lines: Iterator[bytes], reading: _Reading) -> None:
    for number, line in reading.texts(lines):
        if line is None or not line.strip():
            reading.passed_over += line is not None
            continue
        reading.add(number, _in_turns(line.strip().removesuffix(_END_OF_TURN).split(_END_OF_TURN)))


def _in_turns(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(text, "AB"[place % 2]) for place, text in enumerate(texts)]


def _chitchat(lines: Iterator[bytes], reading: _Reading) -> None:
    def parse(talks: dict[str, Any]) -> list[tuple[str, list[tuple[Any, Any]]]]:
        if not isinstance(talks, dict):
            raise TypeError(f"a {type(talks).__name__} in the place of an object")
        return [
            (name, [(m["text"], m["sender"]) for part in talk["messages"] for m in part])
            for name, talk in talks.items()
        ]

    expected = (
        "the JSON of chitchat-dataset, conversations by their names with messages, lists of "
        "objects with text and sender"
    )
    every = reading.whole(lines, parse, expected, "conversation", "a dialogue")
    for number, (name, messages) in enumerate(every, start=1):
        reading.add(number, messages, repr(name))


def exchanges(
    dialogues: Iterable[Sequence[Turn]], speaker: str = "", max_turns: int | None = None
) -> list[Exchange]:
    """Creates an `Exchange` from each turn that answers another turn.

    Consecutive turns of one speaker are joined by a space. Before an answer, consecutive turns of
    different other speakers are also joined, so that the speaker of the answer and the others
    alternate.

    Args:
        dialogues: Dialogues, each a sequence of `Turn`s.
        speaker: The speaker whose turns are answers; all speakers if empty.
        max_turns: Number of last turns before an answer that are kept; all if None or 0.

    Returns:
        The exchanges, in the order of the answers.

    Raises:
        ValueError: If there is no exchange: no turn (of `speaker`, if given) answers another turn.

    Example:

    >>> talk = [Turn("Hi.", "A"), Turn("Hello!", "B"), Turn("Hey.", "C"), Turn("So?", "A")]
    >>> exchanges([talk])[-1]
    Exchange(turns=('Hi.', 'Hello! Hey.'), answer='So?')
    >>> len(exchanges([talk], speaker="B"))
    1
    """
    answered = []
    for dialogue in dialogues:
        spoken = [
            Turn(_joined(run), who) for who, run in groupby(dialogue, key=lambda turn: turn.speaker)
        ]
        for place, (answer, own) in enumerate(spoken):
            if place and speaker in ("", own):
                # (whether the turn is by the speaker of the answer, turn)
                before = [(turn.speaker == own, turn) for turn in spoken[:place]]
                runs = groupby(before, key=itemgetter(0))
                turns = [_joined(turn for _, turn in run) for _, run in runs]
                answered.append(Exchange(tuple(turns[-(max_turns or 0) :]), answer))
    if not answered:
        raise ValueError(
            f"Expected turns of the speaker {speaker!r} that answer others. Received: none."
            if speaker
            else "Expected at least one dialogue of two turns. Received: none."
        )
    return answered


class TestExchanges(list):
    """A list of exchanges for evaluation, with the training exchanges that baselines use."""

    __test__ = False  # no test, whatever its name

    def __init__(self, exchanges: Iterable[Exchange], train: Sequence[Exchange], where: str):
        super().__init__(exchanges)
        self.train = train
        self.where = where

    def summary(self) -> str:
        """Returns the numbers of test and training answers as text."""
        return (
            f"{self.where.removesuffix('.')}; {len(self):,} answers to measure on, "
            f"{len(self.train):,} to learn from"
        )


def checked_exchanges(exchanges: Iterable[Any]) -> list[Exchange]:
    """Checks `Exchange`s, or tuples of turns and an answer, where turns are a string or a list."""
    found = []
    given = listed(exchanges, "exchanges of turns and an answer", 2)
    for i, example in enumerate(given):
        parts = list(example) if isinstance(example, tuple | list) else []
        turns = parts[0] if parts else None
        turns = [turns] if isinstance(turns, str) else turns
        if (
            len(parts) != 2
            or not isinstance(turns, tuple | list)
            or not all(isinstance(text, str) for text in (*turns, parts[1]))
        ):
            raise ValueError(
                "Expected (turns, answer) pairs: a string or a list of strings, and a string. "
                f"Received: {example!r:.100} at position {i}."
            )
        found.append(Exchange(tuple(turns), parts[1]))
    if not found:
        raise ValueError("Expected at least one exchange of turns and an answer. Received: none.")
    return found


def _joined(turns: Iterable[Turn]) -> str:
    return " ".join(turn.text for turn in turns)


class DialogueSplits(NamedTuple):
    """Training, development and test dialogues.

    Example:

    >>> DialogueSplits([], [], []).test
    []
    """

    train: list[tuple[Turn, ...]]
    dev: list[tuple[Turn, ...]]
    test: list[tuple[Turn, ...]]


def split_dialogues(
    dialogues: Sequence[tuple[Turn, ...]],
    dev: int | float = 0.05,
    test: int | float = 0.1,
    seed: int = 0,
) -> DialogueSplits:
    """Splits dialogues at random into three sets; equal dialogues stay together.

    Two dialogues are equal if their turns have the same texts, ignoring case.

    Args:
        dialogues: The dialogues.
        dev: Number of development dialogues, or their fraction if it is below 1.
        test: Number of test dialogues, or their fraction if it is below 1.
        seed: Seed of the split, an integer of at least 0. Dialogues are sorted by the SHA-256 of
            the seed and their texts.

    Returns:
        A `DialogueSplits`, a tuple of the lists `train`, `dev` and `test`, each in the order of the
        dialogues.

    Raises:
        ValueError: If a size or the seed is out of range, or a set would have no dialogue although
            its size is not 0.

    Example:

    >>> some = [(Turn(f"{n // 2}?", "A"), Turn("Yes.", "B")) for n in range(40)]
    >>> sides = split_dialogues(some, dev=0.1, test=0.2)
    >>> [len(side) for side in sides], set(sides.train) & set(sides.test)
    ([28, 4, 8], set())
    """
    check_size("seed", seed)

    def words(index: int) -> tuple[str, ...]:
        return _words(dialogues[index])

    def drawn(group: list[int]) -> bytes:
        text = f"{seed}\n{words(group[0])}"
        return hashlib.sha256(text.encode("utf-8", "replace")).digest()

    count = len(dialogues)
    groups = sorted(together(range(count), lambda index: [words(index)]), key=drawn)
    sides = []
    for name, share in (("test", test), ("dev", dev)):
        size = as_count(name, share, count)
        size = max(size, 1) if share else 0
        taken, groups, _ = draw(groups, size, size)
        if size and not taken:
            raise ValueError(
                f"Expected enough dialogues for `{name}`={share}. Received: "
                f"{many(count, 'dialogue')}, none of which is left for `{name}`. Add more "
                "dialogues."
            )
        sides.append(taken)
    if not groups:
        raise ValueError(
            f"Expected dialogues to train on. Received: {many(count, 'dialogue')}, all of "
            f"which go to dev={dev} and test={test}. Lower these shares, or add more "
            "dialogues."
        )
    test_side, dev_side, train_side = (
        [dialogues[index] for index in sorted(chain.from_iterable(side))]
        for side in (*sides, groups)
    )
    return DialogueSplits(train_side, dev_side, test_side)


def without(
    dialogues: Iterable[tuple[Turn, ...]], others: Iterable[tuple[Turn, ...]]
) -> list[tuple[Turn, ...]]:
    """Removes dialogues whose turns have the same texts as a dialogue of another set.

    Case and speakers are ignored.

    Args:
        dialogues: The dialogues, tuples of `Turn`s.
        others: The other set, for example a test set.

    Returns:
        A list of the remaining dialogues, in their order.

    Example:

    >>> without([(Turn("Hi.", "A"), Turn("Yes?", "B"))], [(Turn("hi.", "C"), Turn("yes?", "D"))])
    []
    """
    known = set(map(_words, others))
    return [dialogue for dialogue in dialogues if _words(dialogue) not in known]


def _words(dialogue: Sequence[Turn]) -> tuple[str, ...]:
    return tuple(turn.text.casefold() for turn in dialogue)

"""Pairs from files: formats, splits, and what is wrong with a line."""

import gzip
import json
from types import SimpleNamespace

import pytest

from keras_attn.records.labelled_pairs import (
    LabelledPair,
    checked_labelled_pairs,
    read_labelled_pairs,
)
from keras_attn.tasks import EntailmentClassifier, EntailmentData, EntailmentTest

HEAD = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tentailment_BA\tSemEval_set\n"
SICK = HEAD + (
    "1\tA dog runs.\tIt runs.\tENTAILMENT\tB_neutral_A\tTRAIN\n"
    "2\tA cat sits.\tA cat doesn't sit.\tCONTRADICTION\tB_contradicts_A\tTRAIN\n"
    '3\tA boy sings.\tA boy "sings", loudly.\tNEUTRAL\tB_entails_A\tTRIAL\n'
    "4\tA bird flies.\tA bird moves.\tENTAILMENT\tB_neutral_A\tTEST\n"
)
PARTS = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t3\tNEUTRAL\n"
)
SNLI = [
    {"sentence1": "A dog runs.", "sentence2": "It runs.", "gold_label": "entailment"},
    {"sentence1": "A dog runs.", "sentence2": "It is big.", "gold_label": "-"},
    {"sentence1": "A cat sits.", "sentence2": "It runs.", "gold_label": "contradiction"},
]


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["SICK.txt", "sick.tsv", "SICK.txt.gz"])
def test_sick(write, name):
    path = write(name, gzip.compress(SICK.encode()) if name.endswith("gz") else SICK)
    counts = {None: 4, "train": 2, "dev": 1, "test": 1}
    assert {s: len(read_labelled_pairs(path, split=s)) for s in counts} == counts
    with pytest.raises(ValueError, match="`split` must be one of 'train', 'dev', 'test', or None"):
        read_labelled_pairs(path, split="trial")
    (pair,) = read_labelled_pairs(path, split="dev")
    assert pair == LabelledPair("A boy sings.", 'A boy "sings", loudly.', "NEUTRAL")
    swapped = read_labelled_pairs(path, split="train", swap=True)
    assert [pair.label for pair in swapped] == [
        "ENTAILMENT", "NEUTRAL", "CONTRADICTION", "CONTRADICTION",
    ]  # fmt: skip
    assert swapped[1][:2] == swapped[0][:2][::-1]
    assert swapped.label_counts == {"CONTRADICTION": 2, "ENTAILMENT": 1, "NEUTRAL": 1}


def test_what_a_run_reads(write):
    path = write("SICK.txt", SICK)
    examples = EntailmentClassifier.read(EntailmentData(train=path, reversed_pairs=True))
    assert (len(examples.train), len(examples.dev)) == (4, 1)
    assert not any("bird" in pair.premise for pair in [*examples.train, *examples.dev])
    other = EntailmentClassifier.read(
        EntailmentData(train=path, dev=write("d.csv", "premise,hypothesis,label\na,b,ENTAILMENT\n"))
    )
    assert other.dev == [LabelledPair("a", "b", "ENTAILMENT")]
    assert other.summary.count("\n") == 1
    test = EntailmentTest(data=path)
    classifier = SimpleNamespace(class_names=("CONTRADICTION", "ENTAILMENT", "NEUTRAL"))
    assert len(EntailmentClassifier.read_test(classifier, test, EntailmentData(train=""))) == 1
    assert len(read_labelled_pairs(write("SICK_train.txt", PARTS), split="test")) == 1


def test_a_table_of_ones_own_with_the_parts_of_sick(write):
    rows = ["a\tb\tyes\tTRAIN", "c\td\tyes\tTRIAL", "e\tf\tyes\tTEST"]
    path = write("p.tsv", "\n".join(["premise\thypothesis\tlabel\tSemEval_set", *rows]))
    examples = EntailmentClassifier.read(EntailmentData(train=path))
    assert [[p.premise for p in side] for side in (examples.train, examples.dev)] == [["a"], ["c"]]
    # Of JSON no part is read, so a part of the premises is held out.
    one = '{"premise": "%s", "hypothesis": "h", "label": "a", "SemEval_set": "TRAIN"}\n'
    path = write("p.jsonl", "".join(one % premise for premise in "abcd"))
    examples = EntailmentClassifier.read(EntailmentData(train=path))
    assert (len(examples.train), len(examples.dev)) == (3, 1)


def test_snli(write):
    found = read_labelled_pairs(write("snli.jsonl", lines(SNLI)), split="test")
    assert [pair.label for pair in found] == ["entailment", "contradiction"]
    assert found.unlabelled == 1
    assert "Left out: 1 pair with the label '-'." in found.summary()


def test_tables_and_json_of_ones_own(write):
    expected = [LabelledPair("A, b", "c", "1")]
    columns = {"premise": "first", "hypothesis": "second", "label": "y"}
    for name, content in {
        "p.csv": 'y,second,first\n1,c,"A, b"\n',
        "p.tsv": "first\tsecond\ty\nA, b\tc\t1\n",
        "p.jsonl": '{"first": "A, b", "second": "c", "y": 1}\n',
    }.items():
        assert list(read_labelled_pairs(write(name, content), **columns)) == expected
    path = write("q.csv", "premise;hypothesis;label\nA, b;c;1\n")
    assert list(read_labelled_pairs(path, delimiter=";")) == expected


def test_a_split_by_premises(write):
    rows = [f"p{i // 3}\th{i}\t{'ab'[i % 2]}\n" for i in range(60)]
    path = write("p.tsv", "premise\thypothesis\tlabel\n" + "".join(rows))
    examples = EntailmentClassifier.read(EntailmentData(train=path, dev_share=0.2))
    assert (len(examples.train), len(examples.dev)) == (48, 12)
    assert not {p.premise for p in examples.train} & {p.premise for p in examples.dev}
    again = EntailmentClassifier.read(EntailmentData(train=path, dev_share=0.2))
    assert again.dev == examples.dev
    other = EntailmentClassifier.read(EntailmentData(train=path, dev_share=0.2, split_seed=1))
    assert other.dev != examples.dev
    # Whatever the seed, the only premise of a class is learned from.
    rare = write("rare.tsv", "premise\thypothesis\tlabel\na\tb\tx\nc\td\ty\nd\te\ty\nf\tg\ty\n")
    for seed in range(6):
        data = EntailmentData(train=rare, dev_share=0.5, split_seed=seed)
        assert "x" in {pair.label for pair in EntailmentClassifier.read(data).train}
    one = write("one.tsv", "premise\thypothesis\tlabel\na\tb\tc\n")
    with pytest.raises(ValueError, match="at least two different premises"):
        EntailmentClassifier.read(EntailmentData(train=one))


def test_bad_lines_are_named_or_skipped(write):
    head = "premise\thypothesis\tlabel\n"
    path = write("p.tsv", head.encode() + b"a\tb\tyes\na\t \tyes\na\tb\t\na\tb\n\xff\tb\tno\n")
    with pytest.raises(ValueError, match="4 of 6 lines") as error:
        read_labelled_pairs(path)
    for part in (
        "line 3: the hypothesis is empty",
        "line 4: the label is empty",
        "line 5",
        "line 6",
    ):
        assert part in str(error.value)
    found = read_labelled_pairs(path, on_error="skip")
    assert (len(found), {problem.line for problem in found.problems}) == (1, {3, 4, 5, 6})
    assert "1 with too few or too many columns (line 5" in found.summary()
    path = write("p.jsonl", '{"premise": "a"}\n{"premise": 1.5, "hypothesis": "b", "label": "c"}\n')
    with pytest.raises(ValueError, match="no 'hypothesis' among the keys"):
        read_labelled_pairs(path)
    path = write("q.tsv", head + "a\tb\tyes\na\tc\tmaybe\n")
    with pytest.raises(ValueError, match=r"q\.tsv: .*line 3: 'maybe' is none of 'no', 'yes'"):
        read_labelled_pairs(path, labels=("no", "yes"))
    found = read_labelled_pairs(path, on_error="skip", labels=("no", "yes"))
    assert (len(found), "1 without a label that is known (line 3" in found.summary()) == (1, True)
    wrong = write("SICK.txt", SICK.replace("B_contradicts_A", "B_xxx_A"))
    with pytest.raises(ValueError, match="'B_xxx_A' is none of"):
        read_labelled_pairs(wrong, swap=True)


@pytest.mark.parametrize(
    ("name", "content", "settings", "message"),
    [
        ("p.csv", "a,b,label\n1,2,3\n", {}, "a column 'premise'"),
        ("p.doc", "a\n", {}, "Name the `format`"),
        ("p.tsv", "premise\thypothesis\tlabel\n", {}, "at least one labelled pair"),
        ("s.jsonl", lines(SNLI), {"delimiter": ";"}, "not for JSON"),
    ],
)
def test_wrong_files(write, name, content, settings, message):
    with pytest.raises(ValueError, match=message):
        read_labelled_pairs(write(name, content), **settings)


def test_wrong_use(write):
    with pytest.raises(FileNotFoundError, match="There is none"):
        read_labelled_pairs("nowhere.tsv")
    with pytest.raises(FileNotFoundError, match="which is not an existing file"):
        EntailmentTest(data="nowhere.tsv").check()
    with pytest.raises(ValueError, match=r"`swap` .* is only used with files of SICK"):
        read_labelled_pairs(write("s.jsonl", lines(SNLI)), swap=True)
    for settings, message in [
        ({"freeze_word_vectors": True}, "`freeze_word_vectors` requires `word_vectors`"),
        ({"vector_words": 5}, "`vector_words` requires `word_vectors`"),
    ]:
        with pytest.raises(ValueError, match=message):
            EntailmentData(train="", **settings)
    for pairs, message in [
        (["a b"], "position 0. Is the tab"),
        ([("a", "b", "c"), ("a", "b")], "position 1"),
        ([("a", 1, "c")], "position 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked_labelled_pairs(pairs)
    with pytest.raises(TypeError, match="Received: the path"):
        checked_labelled_pairs("pairs.tsv")

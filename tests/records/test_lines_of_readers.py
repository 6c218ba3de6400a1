"""Line ends of every system, in every reader of text."""

import zipfile

import pytest

from keras_attn.cli.lines import READERS
from keras_attn.images import read_caption_csv, read_flickr8k, read_question_table
from keras_attn.records import (
    Documents,
    read_analogies,
    read_candidates,
    read_dialogues,
    read_imdb,
    read_labelled,
    read_multi30k,
    read_numbered_texts,
    read_pairs,
    read_questions,
    read_scored_pairs,
    read_selection_questions,
    read_sst2,
    read_tagged,
    read_tatoeba,
    read_text,
    read_word_pairs,
)
from keras_attn.records.labelled_pairs import read_labelled_pairs
from keras_attn.settings import read_settings
from keras_attn.tasks import EntailmentClassifier

SKIP = {"on_error": "skip"}
URLS = "http://a/title/tt1/\nhttp://a/title/tt2/\n"


def reviews(path):
    for number, text in enumerate(["Dull.", "Slow."]):
        for side in ("pos", "neg"):
            place = path.parent / "train" / side / f"{number}_1.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    (path.parent / "train" / "urls_neg.txt").write_bytes(path.read_bytes())
    return list(read_imdb(path.parent))


def two_languages(path):
    for language in ("de", "en"):
        (path.parent / f"train.{language}").write_bytes(path.read_bytes())
    return list(read_multi30k(path.parent))


def archive(path):
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as made:
        made.writestr("deu.txt", path.read_bytes())
    return list(read_tatoeba(path.with_suffix(".zip")))


def with_problems(read):
    return [*read], read.problems


def documents(path):
    return list(Documents(path))


def of_command(name):
    return lambda path: [x for chunk in READERS[name].chunks((path,)) for x in chunk]


# What is in the file, its name, and what reads it. Some have a bad line, whose number is compared.
READS = {
    "pairs": ("a\tb\nbad\n\nc\td\n", "a.tsv", lambda p: with_problems(read_pairs(p, **SKIP))),
    "pairs, csv": (
        'a,"b\nb"\nbad\nc,d\n', "a.csv", lambda p: with_problems(read_pairs(p, **SKIP)),
    ),
    "pairs, JSON": (
        '{"source": "a", "target": "b"}\n{}\n', "a.jsonl",
        lambda p: with_problems(read_pairs(p, **SKIP)),
    ),
    "parallel": ("eins\nzwei\n\x85drei", "a.txt", two_languages),
    "archive": ("a\tb\tc\nc\td\n", "a.txt", archive),
    "labelled": (
        'text,label\n"a\n\nb",x\nbad\nc,y\n', "a.csv",
        lambda p: with_problems(read_labelled(p, **SKIP)),
    ),
    "labelled, tabs": ("text\tlabel\na\tx\n", "a.tsv", lambda p: [*read_labelled(p)]),
    "labelled, JSON": (
        '{"text": "a", "label": "x"}\n\n{"text": "b", "label": "y"}', "a.jsonl",
        lambda p: [*read_labelled(p)],
    ),
    "SST-2": ("sentence\tlabel\na\t1\nb\t0\n", "dev.tsv", lambda p: [*read_sst2(p.parent, "dev")]),
    "addresses of IMDB": (URLS, "a.txt", reviews),
    "documents": ("One.\nTwo.\n\nThree.\n\n\nFour.", "a.txt", documents),
    "documents, JSON": ('{"text": "One. Two."}\n{"text": "Three."}\n', "a.jsonl", documents),
    "tagged": (
        "Ada B-PER\ncodes O\n\nbad\n\nTea O\n", "a.txt",
        lambda p: with_problems(read_tagged(p, **SKIP)),
    ),
    "tagged, JSON": (
        '{"words": ["a"], "labels": ["O"]}\n{"words": ["b"], "labels": ["O"]}\n', "a.jsonl",
        lambda p: [*read_tagged(p)],
    ),
    "questions": (
        '{"question": "Where?", "text": "In Oslo.", "answers": ["Oslo"]}\n{}\n', "a.jsonl",
        lambda p: with_problems(read_questions(p, **SKIP)),
    ),
    "SQuAD": (
        '{"data": [{"paragraphs":\n[{"context": "In Oslo.", "qas": [\n{"question": "Where?", '
        '"answers": [{"text": "Oslo", "answer_start": 3}]}]}]}]}\n', "a.json",
        lambda p: [*read_questions(p)],
    ),
    "answers": ("One.\nTwo.\n\nThree.\n", "a.txt", read_candidates),
    "selection": (
        "question,answer\nWhere?,Here.\nWhy?,\n", "a.csv",
        lambda p: with_problems(read_selection_questions(p, **SKIP)),
    ),
    "dialogues": (
        "Hi. __eou__ Hello! __eou__\nalone\nSo? __eou__ So. __eou__\n", "a.txt",
        lambda p: with_problems(read_dialogues(p, **SKIP)),
    ),
    "dialogues, JSON": (
        '{"turns": ["a", "b"]}\n{"turns": ["c", "d"]}\n', "a.jsonl",
        lambda p: [*read_dialogues(p)],
    ),
    "scored": (
        "sentence1,sentence2,score\na,b,1\nc,d,x\n", "a.csv",
        lambda p: with_problems(read_scored_pairs(p, **SKIP)),
    ),
    "numbered": (
        "text,number\na,1\nc,x\n", "a.csv",
        lambda p: with_problems(read_numbered_texts(p, **SKIP)),
    ),
    "entailment": (
        "premise\thypothesis\tlabel\na\tb\tyes\nc\td\tno\n", "a.tsv",
        lambda p: [*read_labelled_pairs(p)],
    ),
    "analogies": (": family\nman woman king queen\n\na b c d\n", "a.txt", read_analogies),
    "pairs of words": ("a,b,score\nold,new,1\nbig,small,2\n", "a.csv", read_word_pairs),
    "text": ("One\x0c\n\ntwo\x85\u2028\n", "a.txt", read_text),
    "captions": (
        "1.jpg#0\tA dog .\nbad\n1.jpg#1\tA cat .\n", "a.txt",
        lambda p: with_problems(read_flickr8k(p, check_files=False, **SKIP)),
    ),
    "captions, csv": (
        "image,caption\n1.jpg,A dog .\n1.jpg,A cat .\n", "a.csv",
        lambda p: [*read_caption_csv(p, check_files=False)],
    ),
    "questions about pictures": (
        "image,question,answer\n1.png,Is it a cat?,yes\n2.png,Is it?,no\n", "a.csv",
        lambda p: [*read_question_table(p, check_pictures=False)],
    ),
    "settings": (
        '[data]\ntrain = "a.tsv" # one\nmax_length = 8\n', "a.toml",
        lambda p: read_settings(p, EntailmentClassifier.sections()),
    ),
    "lines of a command": (
        "\ufeffone\n\ntwo\x1c\x1d\x1e\x0b\x0c\x85\u2029\n", "a", of_command("lines"),
    ),
    "pairs of a command": ("a\tb\nc\n", "a", of_command("pairs")),
    "two texts of a command": ("a\tb\nc\td\n", "a", of_command("only_pairs")),
    "turns of a command": ("a\tb\tc\nd\n", "a", of_command("turns")),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_line_ends(tmp_path, name):
    content, file, read = READS[name]
    (tmp_path / file).write_bytes(content.encode())
    expected = read(tmp_path / file)
    assert expected
    for end in ("\r\n", "\r", "\r\r\n"):
        (tmp_path / file).write_bytes(content.replace("\n", end).encode())
        assert read(tmp_path / file) == expected, repr(end)


def test_a_line_without_a_tab_has_its_number(tmp_path):
    """Before the work, and of a pipe in its turn."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\tb\rc\td\r\nno tab\r")
    with pytest.raises(ValueError, match=r"no tab in line 3 of .*a.txt, 'no tab'"):
        READERS["only_pairs"].check((path,), False)
    with pytest.raises(ValueError, match=r"no tab in line 3 of .*a.txt, 'no tab'"):
        list(READERS["only_pairs"].chunks((path,)))

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.records import (
    TranslationPair,
    read_json_lines,
    read_multi30k,
    read_pairs,
    read_parallel,
    read_tatoeba,
    read_tsv,
)
from keras_attn.white_space import normalize_white_space

BOM = b"\xef\xbb\xbf"
# Line ends for `str.splitlines`, and none for us.
OTHER_LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def write(path: Path, data: bytes | str) -> Path:
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)
    return path


@pytest.fixture
def tsv(tmp_path):
    return lambda data, name="pairs.tsv": write(tmp_path / name, data)


@pytest.fixture
def parallel(tmp_path):
    return lambda source, target, gz="": (
        write(tmp_path / f"text.en{gz}", source),
        write(tmp_path / f"text.de{gz}", target),
    )


def texts(pairs):
    return [pair[:2] for pair in pairs]


class TestTabSeparated:
    @pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "PAIRS.TXT.GZ"])
    def test_plain_and_gzipped(self, tsv, name):
        data = "\ufeffHello  you.\t Hallo du. \tCC\textra\r\n\nBye\tTschüss\nHello you.\tHallo du."
        text = read_tsv(path := tsv(data, name))
        assert text.pairs == [
            TranslationPair("Hello you.", "Hallo du.", ()),
            TranslationPair("Bye", "Tschüss", ()),
            TranslationPair("Hello you.", "Hallo du.", ()),
        ]
        assert text.problems == []
        counts = {"lines": 4, "pairs": 3, "passed_over": 1, "repeated": 1, "bad_lines": 0}
        assert text.counts == counts
        assert text.where == str(path)

    def test_repeated_pairs_once(self, tsv):
        text = read_tsv(tsv("a\tb\nc\td\na \tb\na\td\n"), unique=True)
        assert texts(text) == [("a", "b"), ("c", "d"), ("a", "d")]
        assert text.counts["repeated"] == 1

    def test_columns_and_header(self, tsv):
        path = tsv("id\tde\tid\ten\n1\tHallo\t2\tHello\n")
        text = read_tsv(path, source=3, target=1, header=True)
        assert texts(text) == [("Hello", "Hallo")]
        assert (text.lines, text.passed_over) == (2, 1)

    def test_columns_by_name_and_by_another_delimiter(self, tsv):
        assert texts(read_tsv(tsv("id\tde\ten\n1\tHallo\tHello\n"), "en", "de")) == [
            ("Hello", "Hallo")
        ]
        data = 'de;id;en\n"Ja; ""ja""\nund";1;Yes\nNein;2;No; no\nOh;3;Oh\n'
        text = read_pairs(tsv(data, "a.csv"), source="en", target=0, delimiter=";", on_error="skip")
        assert texts(text) == [("Yes", 'Ja; "ja" und'), ("Oh", "Oh")]
        assert text.problems == [(4, "columns", "3 expected, 4 in 'Nein'")]
        assert (text.lines, text.passed_over) == (5, 2)
        with pytest.raises(ValueError, match=r"row of a table \(line 1: .* is ',' the `delimiter`"):
            read_pairs(tsv('"a";"b"\n', "a.csv"))

    def test_other_columns_may_be_broken(self, tsv):
        assert texts(read_tsv(tsv(b"\xff\ta\tb\t\xc3\n"), 1, 2)) == [("a", "b")]

    def test_what_unicode_calls_line_ends_ends_no_line(self, tsv):
        data = "".join(f"a{c}{i}\tb{c}\r\n" for i, c in enumerate(OTHER_LINE_ENDS))
        text = read_tsv(tsv(data), normalize_spaces=False)
        expected = [(f"a{c}{i}", f"b{c}") for i, c in enumerate(OTHER_LINE_ENDS)]
        assert texts(text) == expected
        assert texts(read_tsv(tsv(data)))[6] == ("a 6", "b")

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (
                b"a\tb\nno tab here\n",
                r"1 of 2 .*too few or too many columns \(line 2: 2 exp.*'no tab here'",
            ),
            (b"a\tb\nc\td\nx\xff\ty\n", r"not valid .*\(line 3: byte 0xff at byte 2 of the source"),
            (b"a\tb\r\n\n\nx\t\xc3\n", r"\(line 4: byte 0xc3 at byte 1 of the target"),
            (b"\tb\n", r"empty side \(line 1: the source is empty"),
            (b"a\t \xc2\xa0\n", r"empty side \(line 1: the target is empty"),
            ("a\t\u200b\ufeff\x00\n", r"empty side \(line 1: the target is empty"),
            (b"\n\n", "at least one pair. Received: none in 2 lines"),
            (b"", "at least one pair. Received: none in 0 lines"),
            ("a\tb\n".encode("utf-16") + b"c", r"in UTF-16, .* other bytes after line 1 \(trunc"),
            (b"\xfe\xff" + b"\xd8\x00" * 2, r"in UTF-16, .* other bytes after line 0 \(illegal"),
        ],
    )
    def test_errors_name_the_line(self, tsv, data, message):
        with pytest.raises(ValueError, match=message):
            read_tsv(tsv(data))

    def test_one_error_tells_everything(self, tsv):
        bad = b"x\n" * 7 + b"ok\tgood\n\xe4\t\xf6\n\t\nlong text\t\nlonger text\tb\n"
        with pytest.raises(ValueError) as error:
            read_tsv(path := tsv(bad), max_characters=8)
        message = str(error.value)
        assert message.startswith(f"{path}: expected a sentence and its translation on each line. ")
        assert "Received: 10 of 12 lines without: 1 not valid Unicode text (line 9: " in message
        assert (
            "; 7 with too few or too many columns (lines 1, 2, 3, 4, 5, ...: 2 expected, 1 in 'x')"
            in message
        )
        assert "; 1 with an empty side (line 11: the target is empty)" in message
        assert "; 2 with a side that is too long (lines 11, 12; the first: the source" in message
        assert "or leave them out with on_error='skip' (--on-error skip)." in message
        assert message.endswith(
            "Save the file as UTF-8 (in Excel: CSV UTF-8), or pass its encoding: "
            "--encoding cp1252; in Python, "
            "keras_attn.records.EncodedFile(path, 'cp1252')."
        )

        text = read_tsv(path, max_characters=8, on_error="skip")
        assert texts(text) == [("ok", "good")]
        assert text.counts == {
            **{"lines": 12, "pairs": 1, "passed_over": 1, "repeated": 0, "bad_lines": 10},
            **{"encoding": 1, "columns": 7, "empty": 1, "long": 2},
        }
        assert [p[:2] for p in text.problems[7:9]] == [(9, "encoding"), (9, "encoding")]
        assert "12 lines. Left out: 1 not valid Unicode" in text.summary()

    def test_nothing_left_is_an_error_with_skip_too(self, tsv):
        with pytest.raises(ValueError, match=r"none in 2 lines: 2 with too few .*lines 1, 2"):
            read_tsv(tsv("a\nb\n"), on_error="skip")

    def test_length_counts_characters_after_normalising(self, tsv):
        path = tsv("ä  ö \tüüü\n")
        assert texts(read_tsv(path, max_characters=3)) == [("ä ö", "üüü")]
        with pytest.raises(ValueError, match="the source has 5 characters, more than 3"):
            read_tsv(path, max_characters=3, normalize_spaces=False)

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            read_tsv(tmp_path / "none.tsv")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"source": 1}, "different columns. Received: 1 twice"),
            (
                {"source": "en"},
                "column 'en' for the source. Received: no such column among 'a', 'b'",
            ),
            ({"source": "a", "header": False}, "Without a `header`, .*source='a', target=1"),
            ({"target": -1}, "`target` to be the name or the number of a column, .* Received: -1"),
            ({"target": True}, "`target` to be the name or the number .* Received: True"),
            ({"delimiter": ""}, "`delimiter` to be one character.* Received: ''"),
            ({"delimiter": r"\t"}, r"Received: '\\\\t'. A shell writes a tab as \$'\\t'\."),
            ({"on_error": "ignore"}, "'error' or 'skip'. Received: 'ignore'"),
            ({"max_characters": 0}, "`max_characters` to be an integer >= 1 .*Received: 0"),
        ],
    )
    def test_settings_are_checked(self, tsv, arguments, message):
        with pytest.raises(ValueError, match=message):
            read_tsv(tsv("a\tb\n"), **arguments)


class TestCompressed:
    LINES = "".join(f"source {i * i}\ttarget {i * i * i}\n" for i in range(4000)).encode()

    @pytest.mark.parametrize("on_error", ["error", "skip"])
    @pytest.mark.parametrize("end", [20, 5000, -1, -8])
    def test_cut_off_files_are_refused(self, tmp_path, end, on_error):
        path = tmp_path / "pairs.tsv.gz"
        path.write_bytes(gzip.compress(self.LINES)[:end])
        with pytest.raises(ValueError, match=r"cut off or damaged after line \d.*skipping does"):
            read_tsv(path, on_error=on_error)

    def test_damaged_files_are_refused(self, tmp_path):
        path = tmp_path / "pairs.tsv.gz"
        data = bytearray(gzip.compress(self.LINES))
        for place in (len(data) // 2, len(data) - 6):
            broken = data.copy()
            broken[place] ^= 0xFF
            path.write_bytes(broken)
            with pytest.raises(ValueError, match="cut off or damaged"):
                read_tsv(path, on_error="skip")

    def test_the_content_decides(self, tmp_path):
        path = tmp_path / "pairs.tsv"
        path.write_bytes(gzip.compress(BOM + b"a\tb\n"))
        assert texts(read_tsv(path)) == [("a", "b")]
        path = tmp_path / "page.tsv.gz"
        path.write_bytes(b"<html>\tNot found\n")
        with pytest.raises(ValueError, match=r"Not a gzipped file"):
            read_tsv(path)

    def test_several_members_are_one_text(self, tmp_path):
        path = tmp_path / "pairs.tsv.gz"
        path.write_bytes(gzip.compress(b"a\tb\nc\t") + gzip.compress(b"d\n"))
        assert texts(read_tsv(path)) == [("a", "b"), ("c", "d")]


class TestParallelFiles:
    @pytest.mark.parametrize("gz", ["", ".gz"])
    def test_line_by_line(self, parallel, gz):
        paths = parallel(BOM + b"One.\r\nTwo,\ttwo.\r\n", "Eins.\n Zwei,\u2028zwei.", gz)
        text = read_parallel(*paths)
        assert texts(text) == [("One.", "Eins."), ("Two, two.", "Zwei, zwei.")]
        assert text.where == f"{paths[0]} and {paths[1]}"
        assert text.lines == 2

    def test_plain_beside_gzipped_and_a_mark_in_the_second(self, tmp_path):
        paths = write(tmp_path / "a.en", "One."), write(tmp_path / "a.de.gz", BOM + b"Eins.")
        assert texts(read_parallel(*paths)) == [("One.", "Eins.")]

    @pytest.mark.parametrize("on_error", ["error", "skip"])
    @pytest.mark.parametrize(
        ("source", "target", "counts"),
        [("a\nb\nc\n", "A\nB\n", (3, 2)), ("a", "A\nB\n\n", (1, 3)), ("", "A\n", (0, 1))],
    )
    def test_unequal_counts_are_always_refused(self, parallel, source, target, counts, on_error):
        message = r"text.en with {} lines, .*text.de with {}\. .*on_error='skip' does not".format(
            *counts
        )
        with pytest.raises(ValueError, match=message):
            read_parallel(*parallel(source, target), on_error=on_error)

    def test_a_last_line_without_its_end_is_a_line(self, parallel):
        assert len(read_parallel(*parallel("a\nb", "A\nB\n"))) == 2

    def test_one_bad_line_does_not_stop_or_shift_the_others(self, parallel):
        paths = parallel(b"a\n\xe4\nc\n\ne\n", b"A\nB\n\xff\nD\nE\n")
        message = r"3 of 5 lines .*2 not valid .*lines 2, 3; the first: byte 0xe4 at byte 1 of .*"
        with pytest.raises(ValueError, match=message + r"1 with an empty side \(line 4: the sou"):
            read_parallel(*paths)
        text = read_parallel(*paths, on_error="skip")
        assert texts(text) == [("a", "A"), ("e", "E")]
        kinds = [(2, "encoding"), (3, "encoding"), (4, "empty")]
        assert [problem[:2] for problem in text.problems] == kinds
        assert "the target" in text.problems[1].what

    def test_both_sides_of_a_line_are_told(self, parallel):
        text = read_parallel(*parallel(b"\xff\nb", b"\nB"), on_error="skip")
        assert [problem[:2] for problem in text.problems] == [(1, "encoding"), (1, "empty")]
        assert text.counts["bad_lines"] == 1

    def test_blank_lines_are_not_passed_over(self, parallel):
        with pytest.raises(ValueError, match=r"1 with an empty side \(line 2"):
            read_parallel(*parallel("a\n\nc\n", "A\n\nC\n"))

    def test_one_file_twice(self, parallel):
        path, _ = parallel("a", "b")
        with pytest.raises(ValueError, match=r"Expected two files.*twice"):
            read_parallel(path, path.parent / "." / path.name)

    def test_missing_file(self, parallel):
        path, _ = parallel("a", "b")
        with pytest.raises(FileNotFoundError):
            read_parallel(path, path.with_name("none"))


class TestJsonLines:
    @pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz"])
    def test_shapes_of_objects(self, tsv, name):
        lines = [
            {"en": "One\nline", "de": "Eins", "more": [1]},
            {"id": 1, "translation": {"en": "Two", "de": "Zwei"}},
            {"en": "Three", "translation": {"de": "Drei", "en": "not this"}},
        ]
        data = "\ufeff" + "\r\n\r\n".join(json.dumps(line) for line in lines)
        text = read_json_lines(tsv(data, name), source="en", target="de")
        assert texts(text) == [("One line", "Eins"), ("Two", "Zwei"), ("Three", "Drei")]
        assert (text.lines, text.passed_over) == (5, 2)

    def test_keys(self, tsv):
        line = {"source": "a", "target": "b", "t": {"x": {"y": "c"}}, "t.x": "d"}
        path = tsv(json.dumps(line), "pairs.jsonl")
        assert texts(read_json_lines(path)) == [("a", "b")]
        assert texts(read_json_lines(path, "t.x.y", "t.x")) == [("c", "d")]
        with pytest.raises(ValueError, match="different columns"):
            read_json_lines(path, "source", "source")
        with pytest.raises(ValueError, match=r"`source` to be a JSON key. Received: 0"):
            read_json_lines(path, source=0)

    @pytest.mark.parametrize(
        ("line", "kind", "what"),
        [
            (b'{"source": "a", "target": "b"', "json", "delimiter at character 30 of '{"),
            (b"[" * 100000, "json", "recursion"),
            (b'{"source": %s}' % (b"9" * 5000), "json", "4300 digits"),
            (b'["a", "b"]', "json", "a list, '["),
            (b"null", "json", "a NoneType, 'null'"),
            (b'{"source": "a"}', "keys", "no 'target' among the keys 'source'"),
            (b"{}", "keys", "no 'source' among the keys none"),
            (b'{"source": "a", "translation": "b"}', "keys", "no 'target'"),
            (b'{"source": "a", "target": 3}', "type", "'target' is of type int"),
            (b'{"source": null, "target": "b"}', "type", "'source' is of type NoneType"),
            (b'{"source": ["a"], "target": "b"}', "type", "'source' is of type list"),
            (b'{"source": "a", "target": "x\\ud83d"}', "encoding", r"surrogate pair, '\ud83d'"),
            (b'{"source": "\xff", "target": "b"}', "encoding", "byte 0xff at byte 13 of the line"),
            (b'{"source": "a", "target": " \\n"}', "empty", "the target is empty"),
            (b'{"source": "aaaaaaa", "target": "b"}', "long", "the source has 7 characters"),
        ],
    )
    def test_bad_lines(self, tsv, line, kind, what):
        good = b'{"source": "a", "target": "b"}'
        path = tsv(b"\n".join([good, line, good]), "pairs.jsonl")
        text = read_json_lines(path, on_error="skip", max_characters=6)
        assert texts(text) == [("a", "b"), ("a", "b")]
        assert text.problems[0][:2] == (2, kind)
        assert what in text.problems[0].what
        with pytest.raises(ValueError, match=r"1 of 3 lines without: 1 .*\(line 2: "):
            read_json_lines(path, max_characters=6)

    def test_all_keys_of_a_line_are_told(self, tsv):
        with pytest.raises(ValueError, match=r"1 without the keys .*; 1 with a value that is not"):
            read_json_lines(tsv('{"target": 1}', "pairs.jsonl"))


class TestMulti30k:
    @pytest.fixture
    def folder(self, tmp_path):
        files = {"train.de.gz": "Hund\nKatze\n", "train.en.gz": "dog\ncat\n", "val.de": "Haus\n"}
        files |= {"val.en.gz": "house\n", "test_2016_flickr.fr": "x", "test_2016_flickr.en": "y"}
        for name, data in files.items():
            write(tmp_path / name, data)
        return tmp_path

    def test_splits_and_languages(self, folder):
        assert texts(read_multi30k(folder)) == [("Hund", "dog"), ("Katze", "cat")]
        assert texts(read_multi30k(folder, "en", "de", "val")) == [("house", "Haus")]
        text = read_multi30k(str(folder), "fr", "en", split="test_2016_flickr")
        assert texts(text) == [("x", "y")]

    @pytest.mark.parametrize("arguments", [{"split": "test"}, {"source": "cs"}])
    def test_missing_files(self, folder, arguments):
        with pytest.raises(
            FileNotFoundError, match=r"Expected (test.de|train.cs) .or .*val.*`split`"
        ):
            read_multi30k(folder, **arguments)

    def test_errors(self, folder, tmp_path):
        with pytest.raises(ValueError, match="'de' twice"):
            read_multi30k(folder, "de", "de")
        with pytest.raises(FileNotFoundError):
            read_multi30k(tmp_path / "none")
        write(folder / "val.de", "Haus\n\nHof\n")
        with pytest.raises(ValueError, match=r"val.de with 3 lines, .*val.en.gz with 1"):
            read_multi30k(folder, split="val", on_error="skip")


class TestTatoeba:
    DATA = "Hi.\tHallo!\tCC-BY 2.0 (France)\nHi.\tGrüß Gott!\tCC-BY\n"

    def archive(self, path, **members):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name.replace("__dot__", ".").replace("__in__", "/"), data)
        return path

    def test_archive(self, tmp_path):
        path = self.archive(
            tmp_path / "deu-eng.zip",
            **{"deu-eng/": "", "deu-eng/_about.txt": "a\nb", "deu-eng/deu.txt": self.DATA},
            **{"__MACOSX/deu-eng/._deu.txt": b"\x00\x05\x16\xff"},
        )
        assert texts(read_tatoeba(path)) == [("Hi.", "Hallo!"), ("Hi.", "Grüß Gott!")]
        assert read_tatoeba(path, source=1, target=0)[0][:2] == ("Hallo!", "Hi.")
        assert read_tatoeba(path, max_characters=6, on_error="skip").problems[0].line == 2

    @pytest.mark.parametrize("name", ["deu.txt", "deu.txt.gz"])
    def test_unpacked(self, tsv, name):
        path = tsv(self.DATA, name)
        assert texts(read_tatoeba(path))[1] == ("Hi.", "Grüß Gott!")

    def test_columns_of_its_own_exports(self, tsv):
        path = tsv("1276\tLet's try.\t77\tLass uns.\n")
        assert texts(read_tatoeba(path, 1, 3)) == [("Let's try.", "Lass uns.")]

    def test_archives_that_do_not_fit(self, tmp_path):
        with pytest.raises(
            ValueError, match=r"one file of sentences .* an archive with a.txt, b.tsv"
        ):
            read_tatoeba(self.archive(tmp_path / "a.zip", **{"a.txt": "x", "b.tsv": "y"}))
        with pytest.raises(ValueError, match="Received: an archive with no files"):
            read_tatoeba(self.archive(tmp_path / "b.zip"))
        path = self.archive(tmp_path / "c.zip", **{"a.txt": self.DATA * 100})
        with pytest.raises(ValueError, match=r"Received: a zip archive. Unpack it"):
            read_tsv(path)
        data = path.read_bytes()
        path.write_bytes(data[:-30])
        with pytest.raises(ValueError, match="cut off or damaged"):
            read_tatoeba(path, on_error="skip")
        broken = bytearray(data)
        broken[60] ^= 0xFF
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="cut off or damaged"):
            read_tatoeba(path, on_error="skip")


class TestAnyFormat:
    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("a.tsv", "a\tb"),
            ("a.TAB.gz", "a\tb"),
            ("a.txt", "a\tb"),
            ("a.jsonl", '{"source": "a", "target": "b"}'),
            ("a.ndjson.gz", '{"source": "a", "target": "b"}'),
            ("a.json", '{"source": "a", "target": "b"}'),
            ("a.csv", 'a,"b"'),
        ],
    )
    def test_guessed_from_the_name(self, tsv, name, data):
        assert texts(read_pairs(tsv(data, name))) == [("a", "b")]
        assert texts(read_pairs(str(tsv(data, name)))) == [("a", "b")]

    def test_others(self, tmp_path, parallel):
        paths = parallel("a\n", "b\n")
        assert texts(read_pairs(*paths)) == [("a", "b")]
        assert texts(read_pairs(tmp_path, source="en", target="de", split="text")) == [("a", "b")]
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("a.txt", "a\tb\n")
        assert texts(read_pairs(tmp_path / "a.zip", source=1, target=0)) == [("b", "a")]
        named = write(tmp_path / "a.data", "h\th\na\tb\n")
        assert texts(read_pairs(named, format="tsv", header=True)) == [("a", "b")]

    def test_checks_reach_the_readers(self, tsv, parallel, tmp_path):
        checks = {"on_error": "skip", "max_characters": 3, "normalize_spaces": False}
        lines = [("a", " b"), ("aaaa", "b"), ("a", " b")]
        columns = "".join("\t".join(line) + "\n" for line in lines)
        sides = ["".join(line[i] + "\n" for line in lines) for i in (0, 1)]
        objects = [json.dumps({"source": a, "target": b}) for a, b in lines]
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("a.txt", columns)
        calls = [
            (tsv(columns),),
            parallel(*sides),
            (tsv("\n".join(objects), "a.jsonl"),),
            (tmp_path / "a.zip",),
        ]
        for call in calls:
            text = read_pairs(*call, **checks, unique=True)
            assert texts(text) == [("a", " b")], call
            assert text.counts["repeated"] == text.counts["long"] == 1

    @pytest.mark.parametrize(
        ("name", "arguments", "message"),
        [
            ("a.doc", {}, r"`target_path`, a folder, or a file with one of .tsv.*a.doc"),
            ("a.tsv", {"format": "xml"}, "'auto' or one of 'tsv', .*Received: 'xml'"),
            ("a.jsonl", {"delimiter": ";"}, "`delimiter` is not a setting of the format 'jsonl'"),
            ("a.tsv", {"split": "val"}, "`split` is not a setting of the format 'tsv'"),
            ("a.jsonl", {"header": True}, "`header` is not a setting of the format 'jsonl'"),
            ("a.tsv", {"format": "parallel"}, "needs a `target_path`"),
            ("a.tsv", {"target_path": "b", "source": 1}, "`source` is not .*'parallel'"),
            ("a.tsv", {"format": "tsv", "target_path": "b"}, "`target_path` is not .*'tsv'"),
        ],
    )
    def test_errors(self, tsv, name, arguments, message):
        with pytest.raises(ValueError, match=message):
            read_pairs(tsv("a\tb\n", name), **arguments)

    def test_missing_and_unknown(self, tmp_path, tsv):
        with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "none"))):
            read_pairs(tmp_path / "none")
        with pytest.raises(TypeError, match="max_chars"):
            read_pairs(tsv("a\tb"), max_chars=3)


hostile = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8)
spiced = st.text(OTHER_LINE_ENDS + "\r\t\ufeff\u200b\x00\"'\\\u00a0 🙂", max_size=6)
parts = st.lists(hostile | spiced, max_size=3).map("".join)
sentences = st.tuples(parts, st.sampled_from("aß中🙂"), parts).map("".join)
some_pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


def normalized(pairs):
    return [tuple(map(normalize_white_space, pair)) for pair in pairs]


@settings(deadline=None, max_examples=60)
@given(some_pairs, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_hostile_characters_in_parallel_files(pairs, end, ended, gz):
    # A carriage return ends a line.
    pairs = [(source.replace("\r", ""), target.replace("\r", "")) for source, target in pairs]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name + ".gz" * gz) for name in ("source", "target")]
        for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
            write(path, BOM + (end.join(side) + end * ended).encode())
        assert texts(read_parallel(*paths, normalize_spaces=False)) == pairs
        assert texts(read_parallel(*paths)) == normalized(pairs)


@settings(deadline=None, max_examples=60)
@given(some_pairs, st.booleans(), st.booleans())
def test_hostile_characters_in_json_lines(pairs, escaped, gz):
    lines = [json.dumps({"en": s, "de": t}, ensure_ascii=escaped) for s, t in pairs]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "pairs.jsonl" + ".gz" * gz), "\n".join(lines))
        assert texts(read_json_lines(path, "en", "de", normalize_spaces=False)) == pairs
        assert texts(read_json_lines(path, "en", "de")) == normalized(pairs)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60) | st.lists(st.sampled_from(b'a\t\n\r\xc3\xa4\xff{}":')).map(bytes))
def test_any_bytes_give_pairs_or_a_value_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "pairs"), data)
        for reader in (read_tsv, read_json_lines):
            try:
                text = reader(path, on_error="skip")
            except ValueError:
                continue
            counts = text.counts
            ends = len(re.findall(rb"\r*\n|\r", data))
            assert counts["lines"] == ends + (data[-1:] not in (b"\n", b"\r"))
            assert counts["lines"] == (
                counts["pairs"] + counts["passed_over"] + counts["bad_lines"]
            )


def test_needs_neither_tensorflow_nor_other_packages(tmp_path):
    write(tmp_path / "a.tsv", "a\tb\n")
    script = (
        "import sys\nfor name in ('tensorflow', 'torch', 'jax'): sys.modules[name] = None\n"
        "import importlib.util as u, types\n"
        "for name in ('keras_attn', 'keras_attn.records'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__path__ = [sys.argv[1] if name.endswith('n') else sys.argv[2]]\n"
        "from keras_attn.records.readers import read_pairs\n"
        "assert read_pairs(sys.argv[3])[0].target == 'b'\nassert 'keras' not in sys.modules\n"
    )
    import keras_attn
    import keras_attn.records

    rooms = [os.path.dirname(room.__file__) for room in (keras_attn, keras_attn.records)]
    command = [sys.executable, "-c", script, *rooms, str(tmp_path / "a.tsv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

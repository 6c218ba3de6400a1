"""Readers of captioned pictures: what they take, what they refuse, and how they say so."""

import gzip
import json

import pytest
from PIL import Image

from keras_attn.corpora.caption_file import CaptionFile
from keras_attn.images import (
    CaptionedImage,
    read_caption_csv,
    read_coco_captions,
    read_flickr8k,
    read_karpathy,
    read_ucm_captions,
)


def write(path, content):
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)
    return path


def pictures(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(folder / name)
    return folder


def karpathy(*entries):
    images = []
    for number, (name, split, captions, *more) in enumerate(entries):
        sentences = [{"raw": text, "tokens": text.split(), "sentid": 0} for text in captions]
        entry = {"filename": name, "imgid": number, "split": split, "sentences": sentences}
        images.append(entry | (more[0] if more else {}))
    return {"dataset": "toy", "images": images}


THREE = karpathy(
    ("1.jpg", "train", ["A dog .", " Two\n dogs . "]),
    ("2.jpg", "restval", ["A cat ."], {"filepath": "val2014", "cocoid": 77}),
    ("3.jpg", "test", ["A bird ."]),
)


@pytest.mark.parametrize("name", ["d.json", "d.json.gz"])
def test_karpathy(tmp_path, name):
    pictures(tmp_path, "1.jpg", "val2014/2.jpg", "3.jpg")
    path = write(tmp_path / name, THREE)
    images = read_karpathy(path)
    assert list(images) == [
        CaptionedImage(str(tmp_path / "1.jpg"), ("A dog .", "Two dogs ."), "0", "train"),
        CaptionedImage(str(tmp_path / "val2014" / "2.jpg"), ("A cat .",), "77", "restval"),
        CaptionedImage(str(tmp_path / "3.jpg"), ("A bird .",), "2", "test"),
    ]
    assert images.counts == {"entries": 3, "images": 3, "captions": 4}
    assert images.captions == ["A dog .", "Two dogs .", "A cat .", "A bird ."]
    assert images[1:][0].id == "77"
    assert images.summary().endswith(
        "3 pictures of 3, 4 captions. Sides: restval 1, test 1, train 1."
    )
    assert [image.id for image in read_karpathy(path, split="test")] == ["2"]
    assert len(read_karpathy(path, tmp_path, ("train", "restval"))) == 2
    with pytest.raises(ValueError, match=r"'restval' \(1\), 'test' \(1\), 'train' \(1\).*'val'"):
        read_karpathy(path, split="val")


def test_karpathy_variants(tmp_path):
    data = karpathy(("1.jpg", "train", ["A dog ."]), ("2.jpg", "train", ["x"]))
    data["images"][0]["sentences"] = [{"tokens": ["a", "dog"]}]
    data["images"][1]["filepath"] = "elsewhere"  # it lies in the folder itself
    del data["images"][1]["split"]
    pictures(tmp_path / "all", "1.jpg", "2.jpg")
    images = read_karpathy(write(tmp_path / "d.json", data), tmp_path / "all")
    assert images[0].captions == ("a dog",)
    assert images[1].path == str(tmp_path / "all" / "2.jpg")
    assert images[1].split == ""


def test_problems_are_named_counted_and_skipped(tmp_path):
    data = karpathy(
        ("1.jpg", "train", ["Good .", " \u200b ", "Fine ."]),
        ("gone.jpg", "train", ["A dog ."]),
        ("2.jpg", "train", []),
        ("1.jpg", "train", ["Again ."]),
        ("3.jpg", "train", ["Half \ud800"]),
        ("4.jpg", "train", ["A cat ."]),
    )
    data["images"][5]["sentences"] = [{"raw": 5}, {"raw": "Kept ."}]
    data["images"] += [{"filename": "x"}, "nonsense", {"filename": 3, "sentences": []}]
    path = write(pictures(tmp_path, "1.jpg", "2.jpg", "3.jpg", "4.jpg") / "d.json", data)
    with pytest.raises(ValueError) as caught:
        read_karpathy(path)
    message = str(caught.value)
    for part in (
        "1 whose file is not there (gone.jpg: there is no",
        "2 without a caption (2.jpg: none of 0 captions is left; 3.jpg: none of 1 caption is left)",
        "1 with an empty caption (1.jpg: caption 2 is empty)",
        "1 given twice (1.jpg: an earlier entry has the same file)",
        "caption 1 has half a surrogate pair",
        "4.jpg: caption 1 is of type int",
        "entry 8: it is of type str",
        "entry 9: the picture's name is of type int",
        "entry 7: no 'captions' among 'image'",
        "on_error='skip' (--on-error skip)",
    ):
        assert part in message, part
    images = read_karpathy(path, on_error="skip")
    assert [(image.id, image.captions) for image in images] == [
        ("0", ("Good .", "Fine .")),
        ("5", ("Kept .",)),
    ]
    assert images.counts == {
        "entries": 9,
        "images": 2,
        "captions": 3,
        "missing": 1,
        "no_caption": 2,
        "empty": 1,
        "type": 3,
        "keys": 1,
        "encoding": 1,
        "twice": 1,
    }
    assert "Left out: 1 whose file is not there (gone.jpg" in images.summary()


def test_nothing_left(tmp_path):
    path = write(tmp_path / "d.json", karpathy(("1.jpg", "train", ["A dog ."])))
    with pytest.raises(ValueError, match=r"at least one picture.*none of 1: 1 whose file"):
        read_karpathy(path, on_error="skip")
    assert read_karpathy(path, check_files=False).paths == [str(tmp_path / "1.jpg")]
    with pytest.raises(NotADirectoryError, match="image_dir"):
        read_karpathy(path, tmp_path / "none")
    with pytest.raises(ValueError, match="on_error"):
        read_karpathy(path, on_error="warn")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"images": [', "one whole JSON value"),
        (b"\xff\xfe{", "one whole JSON value"),
        ("[]", "a list 'images'. Received: a list"),
        ('{"pictures": []}', "one with the keys 'pictures'"),
        ("", "one whole JSON value"),
    ],
)
def test_other_layouts(tmp_path, content, said):
    with pytest.raises(ValueError, match=said) as caught:
        read_karpathy(write(tmp_path / "d.json", content))
    assert "d.json" in str(caught.value)
    with pytest.raises(FileNotFoundError):
        read_karpathy(tmp_path / "none.json")


def test_a_cut_off_gzip(tmp_path):
    raw = gzip.compress(json.dumps(THREE).encode())
    (tmp_path / "d.json.gz").write_bytes(raw[:-20])
    with pytest.raises(ValueError, match="one whole JSON value"):
        read_karpathy(tmp_path / "d.json.gz")


def test_coco(tmp_path):
    data = {
        "images": [{"id": 9, "file_name": "9.jpg"}, {"id": 7, "file_name": "7.jpg"}],
        "annotations": [
            {"id": 1, "image_id": 7, "caption": "A cat."},
            {"id": 2, "image_id": 9, "caption": "A dog."},
            {"id": 3, "image_id": 9, "caption": "A hound."},
        ],
    }
    pictures(tmp_path / "train2017", "9.jpg", "7.jpg")
    images = read_coco_captions(write(tmp_path / "c.json", data), tmp_path / "train2017")
    assert [(image.id, image.captions, image.split) for image in images] == [
        ("9", ("A dog.", "A hound."), ""),
        ("7", ("A cat.",), ""),
    ]
    data["annotations"] += [{"image_id": 5, "caption": "?"}, {"image_id": [], "caption": "?"}]
    data["images"] += [{"id": 8, "file_name": "8.jpg"}, {"id": {}, "file_name": "x"}]
    path = write(tmp_path / "c.json", data)
    with pytest.raises(ValueError, match=r"caption 4: of picture 5"):
        read_coco_captions(path, tmp_path / "train2017")
    images = read_coco_captions(path, tmp_path / "train2017", on_error="skip")
    assert len(images) == 2
    assert {problem.where for problem in images.problems} == {
        *("caption 4", "caption 5", "picture 4", "8.jpg")
    }
    with pytest.raises(ValueError, match="a list 'images' and a list 'annotations'"):
        read_coco_captions(write(tmp_path / "t.json", {"images": []}))


TOKENS = "b.jpg#0\tA dog .\na.jpg#0\tA cat\twith a tab .\nb.jpg#1\tTwo dogs .\n\n"


@pytest.mark.parametrize("name", ["Flickr8k.token.txt", "Flickr8k.token.txt.gz"])
def test_flickr8k(tmp_path, name):
    pictures(tmp_path, "a.jpg", "b.jpg")
    path = write(tmp_path / name, TOKENS.replace("\n", "\r\n"))
    images = read_flickr8k(path)
    assert [(image.id, image.captions, image.split) for image in images] == [
        ("b.jpg", ("A dog .", "Two dogs ."), ""),
        ("a.jpg", ("A cat with a tab .",), ""),
    ]
    sides = write(tmp_path / "Flickr_8k.devImages.txt", "a.jpg\n")
    dev = read_flickr8k(path, tmp_path, sides)
    assert [(image.id, image.split) for image in dev] == [("a.jpg", "dev")]
    assert dev.counts["entries"] == 1
    write(sides, "a.jpg\nc.jpg\n")
    with pytest.raises(ValueError, match=r"1 of 2 .*c\.jpg: none of 0 captions"):
        read_flickr8k(path, tmp_path, sides)


def test_flickr8k_wrong_lines(tmp_path):
    pictures(tmp_path, "a.jpg")
    content = TOKENS.encode() + b"no tab here\na.jpg#1\tbroken \xff\n"
    path = write(tmp_path / "t.txt", content)
    with pytest.raises(ValueError, match=r"line 5: no NAME#NUMBER.*") as caught:
        read_flickr8k(path)
    assert "line 6: byte 0xff" in str(caught.value)
    assert "b.jpg: there is no" in str(caught.value)
    assert read_flickr8k(path, on_error="skip").paths == [str(tmp_path / "a.jpg")]


def test_csv(tmp_path):
    pictures(tmp_path, "a.jpg", "b.jpg")
    path = write(tmp_path / "c.txt", '\ufeffimage,caption\nb.jpg,"A dog, ""big"" ."\na.jpg,Cat\n')
    with open(path, "a") as file:
        file.write("b.jpg,Two dogs\n\n")
    images = read_caption_csv(path)
    assert [(image.id, image.captions) for image in images] == [
        ("b.jpg", ('A dog, "big" .', "Two dogs")),
        ("a.jpg", ("Cat",)),
    ]
    table = "image_name| comment_number| comment\na.jpg| 0| A cat .\n"
    path = write(tmp_path / "results.csv", table)
    images = read_caption_csv(path, "image_name", "comment", tmp_path, "|")
    assert images[0].captions == ("A cat .",)
    path = write(tmp_path / "t.tsv", f'{tmp_path}/a.jpg\t"Quoted" cat\n')
    assert read_caption_csv(path, 0, 1, "/")[0].captions == ('"Quoted" cat',)


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.parquet"])
def test_rows_of_json_and_parquet(tmp_path, name):
    pictures(tmp_path, "a.jpg", "b.jpg")
    rows = [
        {"image": "b.jpg", "caption": ["A dog .", "Two dogs"]},
        {"image": "a.jpg", "caption": ["Cat"]},
        {"image": "b.jpg", "caption": ["Dogs"]},
    ]
    path = tmp_path / name
    if name == "c.parquet":
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        rows[1]["caption"] = "Cat"
        write(path, "".join(json.dumps(row) + "\n" for row in rows))
    expected = [("b.jpg", ("A dog .", "Two dogs", "Dogs")), ("a.jpg", ("Cat",))]
    assert [(x.id, x.captions) for x in read_caption_csv(path)] == expected
    assert [(x.id, x.captions) for x in CaptionFile(path).read()] == expected


def test_wrong_rows_of_json(tmp_path):
    pictures(tmp_path, "a.jpg")
    path = write(
        tmp_path / "c.jsonl",
        '{"image": "a.jpg", "caption": 3}\n{"image": "a.jpg", "caption": []}\n'
        '{"image": "a.jpg", "text": "Cat"}\n{"image": "a.jpg", "caption": ["Cat", 5]}\n',
    )
    with pytest.raises(ValueError) as caught:
        read_caption_csv(path)
    for part in ("line 1: ", "line 2: ", "line 3: ", "a.jpg: caption 2 is of type int"):
        assert part in str(caught.value), part
    assert read_caption_csv(path, on_error="skip")[0].captions == ("Cat",)
    with pytest.raises(ValueError, match="`delimiter` is only used for tables"):
        read_caption_csv(path, delimiter=";")


def test_csv_wrong(tmp_path):
    pictures(tmp_path, "a.jpg")
    content = b"image,caption\na.jpg,Cat\na.jpg,A dog, running\n,Empty\na.jpg,\xff\n"
    path = write(tmp_path / "c.csv", content)
    with pytest.raises(ValueError) as caught:
        read_caption_csv(path)
    for part in (
        "line 3: 2 expected, 3 in 'a.jpg'",
        "line 4: the picture is empty",
        "line 5: byte",
    ):
        assert part in str(caught.value), part
    images = read_caption_csv(path, on_error="skip")
    assert images[0].captions == ("Cat",)
    assert "1 picture of 3, 1 caption" in images.summary()  # line 5 is of a picture that is there
    with pytest.raises(ValueError, match=r"column 'text' .*'image', 'caption'.*caption=\.\.\."):
        read_caption_csv(path, caption="text")
    with pytest.raises(ValueError, match="all different"):
        read_caption_csv(path, 0, 0)
    with pytest.raises(ValueError, match="Without a `header`"):
        read_caption_csv(path, header=False)
    with pytest.raises(ValueError, match="`delimiter`"):
        read_caption_csv(path, delimiter="||")
    with pytest.raises(ValueError, match="`image`"):
        read_caption_csv(path, image=-1)
    write(path, 'image,caption\na.jpg,"never closed\n')
    with pytest.raises(ValueError, match="never closed"):
        read_caption_csv(path, on_error="skip")


def test_ucm(tmp_path):
    pictures(tmp_path / "images", "1.jpg", "2.jpg")
    entries = [
        {"image": "1.jpg", "split": "train", "captions": ["Some trees ."]},
        {"image": "2.jpg", "split": "val", "captions": ["A plane .", "Planes ."]},
    ]
    write(tmp_path / "captions.json", entries)
    assert read_ucm_captions(tmp_path, "val")[0] == CaptionedImage(
        str(tmp_path / "images" / "2.jpg"), ("A plane .", "Planes ."), "2.jpg", "val"
    )
    assert len(read_ucm_captions(tmp_path)) == 2
    other = tmp_path / "other"
    pictures(other / "imgs", "1.jpg")
    write(other / "dataset.json", karpathy(("1.jpg", "test", ["A plane ."])))
    assert read_ucm_captions(other, "test")[0].captions == ("A plane .",)
    write(tmp_path / "captions.json", "5")
    with pytest.raises(ValueError, match=r"a JSON list of pictures\. Received: a int"):
        read_ucm_captions(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"captions\.json or dataset\.json.*1\.jpg"):
        read_ucm_captions(tmp_path / "images")


def test_broken_pictures_are_left_out(tmp_path):
    pictures(tmp_path, "1.jpg", "val2014/2.jpg", "3.jpg")
    (tmp_path / "3.jpg").write_bytes(b"")
    images = read_karpathy(write(tmp_path / "d.json", THREE))
    with pytest.raises(ValueError, match=r"3\.jpg.*an empty file"):
        images.check_images()
    whole = images.check_images(on_error="skip")
    assert [image.id for image in whole] == ["0", "77"]
    assert whole.counts["broken"] == 1 and whole.entries == 3
    assert len(images) == 3

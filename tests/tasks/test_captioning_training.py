"""Runs of the captioning: what they read, keep, refuse and come to."""

import csv
import dataclasses
import json
import re
import sys

import pytest
from captioning_toys import CAPTIONED, CAPTIONS, MORE, PICTURES, small
from PIL import Image
from tracing import eagerly

from keras_attn.corpora import EmojiPicture, emoji_pictures
from keras_attn.images import CaptionedImage
from keras_attn.images.captioned_images import checked_captioned
from keras_attn.models import CAPTIONERS, ImageEncoderConfig, image_encoder_config
from keras_attn.tasks import (
    Captioner,
    CaptioningData,
    CaptioningTest,
    CaptioningTraining,
    CaptioningUse,
)
from keras_attn.tasks.base.task_run import DevelopmentBest
from keras_attn.tasks.families.picture_sources import whole_pictures

DATA = CaptioningData(vocabulary_size=290, max_length=14)
ENCODER = ImageEncoderConfig(image_size=16, filters="8,16")
MODEL = {"dim": 12, "units": 24, "dropout": 0.0}
TRAINING = CaptioningTraining(
    epochs=3, batch_size=4, learning_rate=0.02, label_smoothing=0.0, score_beams=2
)


def train(
    folder, data=DATA, model=MODEL, training=TRAINING, images=MORE, dev=CAPTIONED, log=print,
    encoder=ENCODER,
):  # fmt: skip
    return Captioner.train(
        images, dev, folder, data, model, training, log, verbose=0, encoder=encoder
    )


def read_captioned(path, data, split=None, image_dir="", names="", **test):
    """What `evaluate` measures a model on."""
    test = CaptioningTest(data=path, split=split, names=names, **test)
    return Captioner.read_test(None, test, dataclasses.replace(data, image_dir=image_dir))


def changed(settings, **values):
    return type(settings)(**{**vars(settings), **values})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    lines = []
    return train(folder, log=lines.append), folder, lines


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Pictures in files, and a table of their captions."""
    folder = tmp_path_factory.mktemp("place")
    with open(folder / "captions.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption"])
        for number, (picture, caption) in enumerate([*CAPTIONED, *MORE]):
            Image.fromarray(picture).save(folder / f"{number}.png")
            writer.writerow([f"{number}.png", caption.upper()])
            writer.writerow([f"{number}.png", "some box"])
    return folder


def images_of(place, numbers):
    return [CaptionedImage(str(place / f"{n}.png"), (CAPTIONS[n % 6],)) for n in numbers]


# Runs


@pytest.mark.slow
def test_a_run(run):
    found, folder, lines = run
    assert (found.complete, found.interrupted_by, found.best) == (True, None, folder / "best.task")
    assert {p.name for p in folder.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    assert lines[0].startswith("12 pictures, 12 captions, ")
    assert "4 x 4 regions" in lines[0]
    assert [row["epoch"] for row in found.log] == [1, 2, 3]
    assert {"loss", "val_perplexity", "val_cider", "val_bleu_4"} <= set(found.log[0])
    best = max(found.log, key=lambda row: (row["val_cider"], -row["val_perplexity"]))
    assert found.best_epoch == best["epoch"]
    assert found.best_score == pytest.approx(best["val_cider"])
    captioner = Captioner.load(found.best)
    assert captioner.train_encoder
    assert captioner.max_length == 14
    with eagerly():
        scores = captioner.evaluate(CAPTIONED, beams=2, tokenization="plain")
    assert scores.cider == pytest.approx(found.best_score, abs=1e-4)
    assert scores.bleu_4 == pytest.approx(best["val_bleu_4"], abs=1e-4)  # it is rounded


class Stop(Exception):
    """Ends a run before it trains."""


@pytest.mark.slow
def test_the_vocabulary_is_that_of_the_training_captions(tmp_path, monkeypatch):
    made = []

    def note(captioner, *arguments):
        made.append(captioner)
        raise Stop

    monkeypatch.setattr(Captioner, "scorer", note)
    dev = [(PICTURES[0], "zebra zebra"), (PICTURES[1], "zebra")]
    images = [(picture, "zoo") for picture, _ in MORE]
    with pytest.raises(Stop):
        train(tmp_path, changed(DATA, max_length=32), images=images, dev=dev)
    vocabulary = made[0].tokenizer.get_config()["vocabulary"]
    assert any("zo" in token for token in vocabulary)
    assert not any("ze" in token or "br" in token for token in vocabulary)


@pytest.mark.slow
def test_the_same_call_again_changes_nothing(run, eager):
    found, folder, _ = run
    before = (folder / "checkpoint.npz").read_bytes(), (folder / "log.csv").read_bytes()
    lines = []
    again = train(folder, log=lines.append)
    assert again._replace(log=[], history={}) == found._replace(log=[], history={})
    assert lines[-1] == "All epochs are done."
    assert ((folder / "checkpoint.npz").read_bytes(), (folder / "log.csv").read_bytes()) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model": {**MODEL, "dim": 9}}, "dim is 12 there, 9 here"),
        ({"encoder": changed(ENCODER, filters="8,8")}, "filters is '8,16' there"),
        ({"data": changed(DATA, max_length=15)}, "max_length is 14 there, 15 here"),
        ({"training": changed(TRAINING, score="bleu_4")}, "score is 'cider' there"),
        ({"images": [*MORE[:-1], CAPTIONED[0]]}, "another run"),
        pytest.param(
            {"images": [(MORE[0][0], "another box"), *MORE[1:]]},
            "another run",
            marks=pytest.mark.slow,
        ),
        pytest.param({"dev": CAPTIONED[1:]}, "another run", marks=pytest.mark.slow),
    ],
)
def test_a_folder_of_another_run_is_refused(run, more, message):
    _, folder, _ = run
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        train(folder, **more)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.quick(
    "more0-two development|at least one picture",
    "more1-at least one picture",
    "more2-not empty",
    "more6-not a file",
    "more7-even",
)
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dev": []}, "two development|at least one picture"),
        ({"images": []}, "at least one picture"),
        ({"images": [("a.png", "")]}, "not empty"),
        ({"dev": [*CAPTIONED[:2], (CAPTIONED[0][0], ["?!"])]}, "references with words.*'\\?!'"),
        ({"dev": CAPTIONED[:1]}, "CIDEr.*two development"),
        ({"images": [("nowhere.png", "a")]}, r"nowhere\.png"),
        ({"encoder": ImageEncoderConfig("vgg16", encoder_weights="nowhere")}, "not a file"),
        ({"model": {"model": "transformer", "dim": 7, "num_heads": 1}}, "even"),
        ({"data": changed(DATA, max_length=2)}, "No caption is left"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_leaves_no_run(more, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(tmp_path, **more)
    assert {p.name for p in tmp_path.iterdir()} <= {".lock"}


@pytest.mark.slow
def test_a_score_needs_its_package(tmp_path, monkeypatch, eager):
    """That is said before anything is read or trained."""
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    monkeypatch.setitem(sys.modules, "pycocoevalcap.tokenizer", None)
    with pytest.raises(ImportError, match=r"keras_attn\[captioning\]"):
        train(tmp_path)
    with pytest.raises(ImportError, match=r"keras_attn\[captioning\]"):
        small().fit(CAPTIONED, CAPTIONED)
    once = changed(TRAINING, epochs=1, score="perplexity")
    assert train(tmp_path, training=once, dev=CAPTIONED[:1]).best_score > 0


@pytest.mark.slow
def test_a_frozen_encoder_reads_each_picture_once(place, tmp_path, monkeypatch):
    """From files; broken and missing ones are named and left out; the features are kept."""

    def pretrained(name, weights, size):
        assert (name, weights, size) == ("mobilenetv2", "imagenet", 16)
        return small("transformer").encoder

    monkeypatch.setattr(image_encoder_config, "applications_encoder", pretrained)
    (place / "zero.png").write_bytes(b"")
    images = [*images_of(place, range(6, 18)), CaptionedImage(str(place / "zero.png"), ("no",))]
    images += [CaptionedImage(str(place / "nowhere.png"), ("no",))]
    model = {
        "model": "transformer", "dim": 16, "num_heads": 2, "intermediate_dim": 24, "num_layers": 1,
    }  # fmt: skip
    training = changed(TRAINING, epochs=1, cache_dir=str(tmp_path / "features"), ema_momentum=0.5)
    lines = []
    encoder = {"encoder": ImageEncoderConfig("mobilenetv2", image_size=16)}
    arguments = (tmp_path / "a", changed(DATA, on_error="skip"), model, training, images)
    found = train(*arguments, images_of(place, range(6)), lines.append, **encoder)
    assert found.complete
    assert lines[0].startswith("2 of 14 pictures are left out: ")
    assert "zero.png: " in lines[0]
    assert "nowhere.png: there is no such file" in lines[0]
    assert lines[1].startswith("12 pictures, ")
    captioner = Captioner.load(found.best)
    assert not captioner.train_encoder
    scores = captioner.evaluate(images_of(place, range(6)), beams=2, tokenization="plain")
    assert scores.cider == pytest.approx(found.best_score, rel=1e-3)
    # Another run takes the features from there.
    dev, model = images_of(place, range(6)), {**model, "num_layers": 2}
    with monkeypatch.context() as patch:
        patch.setattr(Captioner, "_regions", None)
        assert train(tmp_path / "b", *arguments[1:2], model, *arguments[3:], dev, **encoder)
    # And another encoder may not.
    monkeypatch.setattr(
        image_encoder_config, "applications_encoder", lambda *a: small("soft").encoder
    )
    with pytest.raises(ValueError, match="features with another key"):
        train(tmp_path / "c", *arguments[1:2], model, *arguments[3:], dev, **encoder)
    training = changed(TRAINING, cache_dir=str(tmp_path / "e"))
    with pytest.raises(ValueError, match=r"zero\.png: expected a picture"):
        train(tmp_path / "d", DATA, model, training, images, dev, **encoder)


@pytest.mark.parametrize(
    ("encoder", "model"),
    [
        (
            changed(ENCODER, image_attention="cbam"),
            {
                "model": "transformer", "dim": 12, "num_heads": 2, "intermediate_dim": 16,
                "num_layers": 1, "region_positions": "none",
            },
        ),
        (
            ImageEncoderConfig(
                "patches", image_size=16, patch_dim=8, patch_layers=1, patch_heads=2,
                encoder_dropout=0.1,
            ),
            {
                "model": "soft-attention", "dim": 12, "units": 16, "attention_units": 8,
                "context_gate": False, "doubly_stochastic": 0.0,
            },
        ),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_all_models(encoder, model, tmp_path):
    settings = {"epochs": 1, "precision": "mixed_bfloat16", "ema_momentum": 0.5, "score": "bleu_4"}
    found = train(tmp_path, model=model, training=changed(TRAINING, **settings), encoder=encoder)
    captioner = Captioner.load(found.best)
    assert captioner.reader.get_layer("decoder").dtype_policy.name == "mixed_bfloat16"
    assert captioner.encoder.fingerprint()["dtype"] == "bfloat16"
    names = {layer.name for layer in captioner.encoder.layers}
    assert ("stage_0_attention" in names) == (encoder.image_attention == "cbam")
    assert ("patches" in names) == (encoder.encoder == "patches")
    assert found.best_score == pytest.approx(found.log[0]["val_bleu_4"])
    assert {**CAPTIONERS.describe(captioner.config), **model} == CAPTIONERS.describe(
        captioner.config
    )


# What is kept


@pytest.mark.slow
def test_the_best_weights_are_kept(tmp_path, monkeypatch):
    captioner = small("transformer")

    def callback_of(score):
        training = changed(TRAINING, score=score, score_beams=1)
        callback = DevelopmentBest(
            captioner, captioner.scorer(CAPTIONED, training), tmp_path / "best.task"
        )
        callback.set_model(captioner.model)
        return callback

    callback = callback_of("cider")
    captioner.compile(total_steps=1)
    wanted = {}
    monkeypatch.setattr(captioner, "caption_source", lambda source, beams: wanted["captions"])
    monkeypatch.setattr(captioner.model, "evaluate", lambda *a, **k: {"perplexity": wanted["loss"]})
    saved = []
    monkeypatch.setattr(captioner, "save", saved.append)
    wrong = ["a dog", *CAPTIONS[1:]]
    # Good; worse; as good with a lower loss; with a higher one.
    for captions, loss in [(CAPTIONS, 3.0), (wrong, 1.0), (CAPTIONS, 2.0), (CAPTIONS, 2.5)]:
        wanted |= {"captions": captions, "loss": loss}
        logs = {}
        callback.on_epoch_end(len(saved), logs)
        assert logs["val_perplexity"] == loss
    assert saved == [tmp_path / "best.task"] * 2
    assert callback.best[1] == -2.0
    # A run that is taken up remembers it.
    other = callback_of("bleu_4")
    other.remember(json.loads(json.dumps(callback.memory())))
    assert (other.best, other.best_epoch) == (callback.best, 2)
    by_loss = callback_of("perplexity")
    for epoch, loss in enumerate([3.0, 2.0, 2.5]):
        wanted["loss"] = loss
        logs = {}
        by_loss.on_epoch_end(epoch, logs)
        assert logs == {"val_perplexity": loss}
    assert (by_loss.best, by_loss.best_epoch) == ((-2.0,), 2)


@pytest.mark.slow
def test_at_most_so_many_pictures_are_scored(tmp_path, monkeypatch):
    seen = []

    def note(captioner, images, *arguments, **settings):
        seen.append([picture.tobytes() for picture, _ in images])
        raise Stop

    monkeypatch.setattr(Captioner, "training_batches", note)
    for seed, most in ((0, 3), (0, 3), (5, 3), (0, 6)):
        settings = {"score": "perplexity", "score_pictures": most, "seed": seed}
        with pytest.raises(Stop):
            train(tmp_path, training=changed(TRAINING, **settings))
    assert [*map(len, seen)] == [3, 3, 3, 6]
    assert seen[0] == seen[1] != seen[2]
    for drawn in seen:  # in their order
        assert drawn == [raw for raw in seen[3] if raw in drawn]
    assert seen[3] == [picture.tobytes() for picture in PICTURES]


def whole_of(captioner, images, on_error):
    """The whole pictures with their captions, and the others."""
    found = checked_captioned(images)
    whole, problems = whole_pictures(captioner, found.pictures, on_error)
    return [(found.pictures[n], found.captions[n]) for n in whole], problems


@pytest.mark.slow
def test_whole_pictures(place):
    (place / "cut.png").write_bytes((place / "0.png").read_bytes()[:50])
    images = [*images_of(place, range(2)), (place / "cut.png", "a")]
    captioner = small("soft")
    whole = [(image.path, [*image.captions]) for image in images[:2]]
    assert whole_of(captioner, images[:2], "error") == (whole, [])
    assert len(whole_of(captioner, CAPTIONED, "error")[0]) == 6
    found, (problem,) = whole_of(captioner, images, "skip")
    assert found == whole
    assert problem.where.endswith("cut.png")
    for on_error in ("error", "skip"):
        with pytest.raises(ValueError, match=r"cut\.png"):
            whole_of(captioner, images[2:], on_error)
    with pytest.warns(UserWarning, match=r"1 of 3 pictures are left out: .*cut\.png"):
        batches = captioner.dataset(images, on_error="skip")
    assert batches.num_examples == 2

    training = captioner.Training()
    with pytest.raises(ValueError, match=r"cut\.png"):
        captioner.batches(images, training)
    captioner.data = dataclasses.replace(captioner.data, on_error="skip")
    assert captioner.batches(images, training).num_examples == 2


@pytest.mark.slow
@pytest.mark.parametrize("case", ["soft", pytest.param("transformer", marks=pytest.mark.slow)])
def test_whole_pictures_in_memory(case, place):
    raw = (place / "1.png").read_bytes()
    images = [*CAPTIONED[:2], (raw[:50], "a"), (raw, "a"), (PICTURES[0].astype(float), "a")]
    captioner = small(case)
    whole, problems = whole_of(captioner, images, "skip")
    assert [id(picture) for picture, _ in whole] == [id(images[n][0]) for n in (0, 1, 3)]
    for problem, number, what in zip(problems, (2, 4), ("Pillow|damaged", "float64"), strict=True):
        assert problem.where == f"picture {number}"
        assert re.search(what, problem.what)
    with pytest.raises(ValueError, match=r"2 of 5 .*picture 2: .*picture 4: "):
        whole_of(captioner, images, "error")
    with pytest.raises(ValueError, match=r"none of which is intact: .*picture 0: "):
        whole_of(captioner, images[2:3], "skip")
    with pytest.raises(ValueError, match="Received: 'ignore'"):
        whole_of(captioner, CAPTIONED, "ignore")


# What is read


def test_training_pictures(place):
    path = str(place / "captions.csv")
    found = Captioner.read(CaptioningData(train=path, dev_share=0.25))
    assert (len(found.train), len(found.dev)) == (14, 4)
    assert found.summary == f"{path}: 18 pictures of 18, 36 captions."
    assert found.train[0].captions[0] in CAPTIONS  # in lower case
    paths = [{image.path for image in side} for side in found[:2]]
    assert not paths[0] & paths[1]
    shouted = Captioner.read(CaptioningData(train=path, lowercase=False))
    assert (
        shouted.train[0].captions[0] == found.train[0].captions[0].upper() or len(shouted.dev) == 2
    )
    some = [
        Captioner.read(CaptioningData(train=path, limit=8, split_seed=seed)) for seed in (0, 0, 1)
    ]
    assert [len(s.train) + len(s.dev) for s in some] == [8, 8, 8]
    assert some[0] == some[1] != some[2]


def test_the_same_file_twice_is_on_one_side(tmp_path):
    lines = ["image,caption"]
    for copy in range(3):
        for number in range(6):
            Image.fromarray(PICTURES[number]).save(tmp_path / f"{copy}_{number}.png")
            lines.append(f"{copy}_{number}.png,{number}")
    (tmp_path / "c.csv").write_text("\n".join(lines))
    for seed in range(4):
        settings = CaptioningData(train=str(tmp_path / "c.csv"), dev_share=0.34, split_seed=seed)
        found = Captioner.read(settings)
        train, dev = ({image.captions[0] for image in side} for side in found[:2])
        assert (len(found.dev), train & dev) == (6, set())


def karpathy(folder, sides):
    images = [
        {"filename": f"{n}.png", "split": side, "sentences": [{"raw": CAPTIONS[n % 6]}]}
        for n, side in enumerate(sides)
    ]
    path = folder / "dataset.json"
    path.write_text(json.dumps({"images": images}))
    return str(path)


def counts(place, **settings):
    found = Captioner.read(CaptioningData(image_dir=str(place), **settings))
    return len(found.train), len(found.dev)


def test_sides_of_a_file(place, tmp_path):
    path = karpathy(tmp_path, ["train"] * 5 + ["restval"] * 2 + ["val"] * 3 + ["test"] * 8)
    assert counts(place, train=path) == (5, 3)
    assert counts(place, train=path, train_split="train, restval") == (7, 3)
    assert counts(place, train=path, dev_split="restval") == (5, 2)
    assert counts(place, train=path, dev=path, dev_split="val") == (5, 3)
    with pytest.raises(ValueError, match=r"'restval' \(2\), 'test' \(8\), 'train' \(5\)"):
        counts(place, train=path, train_split="training")
    with pytest.raises(ValueError, match=r"name splits of the file: .*Received: 'valid'"):
        counts(place, train=path, dev_split="valid")
    with pytest.raises(
        ValueError, match=r"not used for training\. Received: 3 development pictures, 3 of which"
    ):
        counts(place, train=path, train_split="train,val")
    # Without a side for it, a share is taken; the test side is not touched.
    path = karpathy(tmp_path, ["train"] * 10 + ["test"] * 30)
    assert counts(place, train=path) == (9, 1)
    # Without any sides, all of it is there to learn from.
    images = json.loads((tmp_path / "dataset.json").read_text())["images"][:10]
    for image in images:
        del image["split"]
    (tmp_path / "dataset.json").write_text(json.dumps({"images": images}))
    assert counts(place, train=path) == (9, 1)
    # To measure on, it is the test side.
    path = karpathy(tmp_path, ["train"] * 10 + ["test"] * 4)
    settings = CaptioningData()
    assert len(read_captioned(path, settings, image_dir=str(place))) == 4
    assert len(read_captioned(path, settings, "train,test", str(place))) == 14
    learnt = read_captioned(path, settings, image_dir=str(place), train=path).learnt
    assert learnt == [CAPTIONS[n % 6] for n in range(10)]


def test_formats(place, tmp_path):
    settings = CaptioningData
    expected = [(str(place / f"{n}.png"), (CAPTIONS[n],)) for n in range(3)]

    def read(path, image_dir=str(place), names="", **more):
        found = read_captioned(str(path), settings(**more), None, image_dir, names)
        return [(image.path, image.captions) for image in found]

    coco = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(3)],
        "annotations": [{"id": n, "image_id": n, "caption": CAPTIONS[n]} for n in range(3)],
    }
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    assert read(tmp_path / "coco.json") == expected
    lines = "".join(f"{n}.png#0\t{CAPTIONS[n]}\n" for n in range(3))
    (tmp_path / "tokens.txt").write_text(lines)
    assert read(tmp_path / "tokens.txt") == expected
    (tmp_path / "some.txt").write_text("1.png\n")
    assert read(tmp_path / "tokens.txt", names=str(tmp_path / "some.txt")) == expected[1:2]
    assert read(karpathy(tmp_path, ["test"] * 3)) == expected
    odd = "photo|text\n" + "".join(f"{n}.png|{CAPTIONS[n]}\n" for n in range(3))
    (tmp_path / "odd.txt").write_text(odd)
    given = {"image": "photo", "caption": "text", "delimiter": "|"}
    assert read(tmp_path / "odd.txt", **given) == expected
    ucm = tmp_path / "ucm"
    (ucm / "images").mkdir(parents=True)
    entries = []
    for n in range(3):
        Image.fromarray(PICTURES[n]).save(ucm / "images" / f"{n}.png")
        entries.append({"image": f"{n}.png", "split": "test", "captions": [CAPTIONS[n]]})
    (ucm / "captions.json").write_text(json.dumps(entries))
    assert [c for _, c in read(ucm, "")] == [c for _, c in expected]
    # Names of sides of Flickr8k.
    names = {}
    for side, numbers in {"train": range(2), "dev": range(2, 3)}.items():
        path = tmp_path / f"{side}Images.txt"
        path.write_text("".join(f"{n}.png\n" for n in numbers))
        names[f"{side}_names"] = str(path)
    assert counts(place, train=str(tmp_path / "tokens.txt"), **names) == (2, 1)
    for more, message in (
        ({"train": str(tmp_path / "coco.json"), **names}, "'flickr8k'. Received.*'coco'"),
        (
            {"train": str(tmp_path / "coco.json"), "image": "photo"},
            "`image` can only be used with the format 'csv'",
        ),
        ({"train": str(tmp_path / "coco.json"), "train_split": "all"}, "`train_split`"),
        ({"train": str(tmp_path / "coco.json"), "dev_image_dir": "x"}, "`dev_image_dir`"),
        ({"train": str(tmp_path / "coco.json"), "emoji_style": "google"}, "'emoji'"),
    ):
        with pytest.raises(ValueError, match=message):
            counts(place, **more)
    with pytest.raises(ValueError, match="`split` requires captions with splits"):
        read_captioned(str(tmp_path / "coco.json"), settings(), "test", str(place))
    with pytest.raises(ValueError, match="`names` are only used"):
        read_captioned(str(tmp_path / "coco.json"), settings(), None, str(place), "a.txt")


def test_emoji(tmp_path, monkeypatch):
    """Without the network: as if the pictures were drawn so."""
    pictures = []
    for tone in ("red", "green", "blue", "black", "white"):
        for number, thing in enumerate("abcdefgh"):
            name = f"{tone} {thing}"
            raw = tmp_path / "x.png"
            Image.new("RGB", (4, 4), (len(tone) * 40, number * 30, 0)).save(raw)
            pictures.append(EmojiPicture(chr(0x1F600 + len(pictures)), name, raw.read_bytes()))
    asked = []

    def load(style, cache_dir):
        asked.append((style, cache_dir))
        return pictures

    monkeypatch.setattr(emoji_pictures, "load_emoji_pictures", load)
    monkeypatch.setattr(
        emoji_pictures,
        "split_by_concept",
        lambda found, make=emoji_pictures.split_by_concept: make(found, 2, 3),
    )
    monkeypatch.setenv("KERAS_ATTN_CACHE", str(tmp_path / "cache"))
    found = Captioner.read(CaptioningData(emoji_style="google"))
    assert (len(found.train), len(found.dev)) == (35, 2)
    assert found.train[0].path.startswith(str(tmp_path / "cache/emoji/google/train/1f6"))
    test = read_captioned("", CaptioningData(format="emoji"))
    assert len(test) == 3
    sides = [{c for image in side for c in image.captions} for side in (*found[:2], test)]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    wheels = CaptioningData(train=str(tmp_path / "here"), format="emoji")
    assert len(Captioner.read(wheels).dev) == 2
    assert asked[0] == ("google", None)
    assert asked[-1] == ("twitter", str(tmp_path / "here"))
    assert (tmp_path / "here/emoji/twitter/val").is_dir()
    with pytest.raises(ValueError, match=r"'train', 'val', 'test'\. Received: 'validation'"):
        read_captioned("", CaptioningData(format="emoji"), "validation")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"{", "one whole JSON value"),
        ("a.json", b'{"a": 1}', "'images'"),
        ("a.json", b'{"images": []}', "at least one picture"),
        ("a.json", b'{"images": [{"filename": "1.png", "split": "train"}]}', "without the keys"),
        (
            "a.json",
            b'{"images": [{"filename": "nowhere.png", "sentences": [{"raw": "a"}]}]}',
            r"nowhere\.png: there is no",
        ),
        ("a.csv", b"file,caption\n1.png,a\n", "'image'"),
        ("a.csv", b"image,caption\n1.png,\n", "empty"),
        ("a.csv", b"image,caption\n1.png,\xff\n", "not UTF-8|Unicode"),
        ("a.csv", b"image,caption\n1.png,a\n", "at least two different pictures"),
        ("a.csv", b"", "at least one|no"),
        ("a.txt", b"1.png#0\ta\nno line\n", "columns"),
    ],
)
def test_bad_files(place, name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        counts(place, train=str(tmp_path / name))


def test_what_is_not_there(place, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Captioner.read(CaptioningData(train=str(tmp_path / "nowhere.json")))
    with pytest.raises(FileNotFoundError, match=r"captions\.json"):
        Captioner.read(CaptioningData(train=str(tmp_path)))
    with pytest.raises(NotADirectoryError, match="nowhere"):
        counts(tmp_path / "nowhere", train=str(place / "captions.csv"))


# Settings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CAPTIONERS.made({"num_layers": 3}), "`num_layers` is only used with model='t"),
        (lambda: CAPTIONERS.made({"model": "transformer", "units": 9}), "'soft-attention'"),
        (
            lambda: ImageEncoderConfig(encoder="vgg16", filters="8", image_attention="cbam"),
            "`filters` and `image_attention` can only be used with encoder",
        ),
        (lambda: ImageEncoderConfig(patch_size=4), "encoder='patches'"),
        (lambda: ImageEncoderConfig(encoder="vgg16", encoder_dropout=0.1), "'patches'"),
        (lambda: ImageEncoderConfig(encoder_weights="none"), "`encoder_weights`"),
        (lambda: ImageEncoderConfig(train_encoder="no"), "train_encoder='no'"),
        (
            lambda: ImageEncoderConfig(encoder="vgg16", encoder_weights="none", train_encoder="no"),
            "random weights",
        ),
        (lambda: ImageEncoderConfig(filters="8,x"), "`filters`"),
        (lambda: ImageEncoderConfig(filters=""), "`filters`"),
        (lambda: ImageEncoderConfig(filters="8,0"), "`filters`"),
        (lambda: ImageEncoderConfig(encoder="vgg17"), "Did you mean 'vgg1"),
        (lambda: ImageEncoderConfig(image_size=-1), "`image_size`"),
        (lambda: CaptioningData(max_length=1), "`max_length`"),
        (lambda: CaptioningData(dev_share=1.0), "`dev_share`"),
        (lambda: CaptioningData(vocabulary_size=258), "`vocabulary_size`"),
        (lambda: CaptioningData(delimiter="||"), "`delimiter`"),
        (lambda: CaptioningTraining(score="meteor"), "`score`"),
        (lambda: CaptioningTraining(score_beams=0), "`score_beams`"),
        (lambda: CaptioningUse(beams=0), "`beams`"),
    ],
)
def test_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_which_encoders_are_trained():
    def trains(**settings):
        return ImageEncoderConfig(**settings).is_trained

    assert trains()
    assert trains(encoder="patches")
    assert not trains(encoder="vgg16")
    assert not trains(encoder="resnet50", encoder_weights="weights.h5")
    assert trains(encoder="resnet50", train_encoder="yes")
    assert trains(encoder="resnet50", encoder_weights="none")


def make(**settings):
    return ImageEncoderConfig(**settings).build()


@pytest.mark.slow
def test_an_encoder_of_keras():
    found = make(encoder="mobilenetv2", encoder_weights="none", image_size=32)
    assert (found.name, found.grid) == ("mobilenetv2_encoder", (1, 1))


@pytest.mark.slow
def test_encoders(monkeypatch):
    assert (make().image_size, make().grid, make().region_dim) == ((64, 64), (4, 4), 256)
    small_cnn = make(filters="4, 8", image_attention="cbam", image_size=24, encoder_dropout=0.2)
    assert small_cnn.region_dim == 8
    assert small_cnn.get_layer("dropout").rate == 0.2
    patches = make(encoder="patches", patch_size=4, patch_dim=12, patch_heads=2, image_size=16)
    assert (patches.grid, patches.region_dim) == ((4, 4), 12)
    with monkeypatch.context() as patched:
        patched.setattr(image_encoder_config, "applications_encoder", lambda *given: given)
        found = make(encoder="mobilenetv2", encoder_weights="none", image_size=32)
    assert found == ("mobilenetv2", None, 32)
    for settings, error, message in (
        ({"encoder": "vgg16", "encoder_weights": "nowhere.h5"}, ValueError, "is not a file"),
    ):
        with pytest.raises(error, match=message):
            make(**settings)

"""The captioner: learning, captions with scores and attention, pictures of any kind, files."""

from pathlib import Path

import captioning_toys
import keras
import numpy as np
import pytest
from captioning_toys import (
    BEAMS,
    CAPTIONED,
    CAPTIONS,
    CASES,
    CNN,
    LENGTH,
    MORE,
    PICTURES,
    SIZE,
    SOFT,
    TOKENIZER,
    TRANSFORMER,
    R,
    draw,
    everything,
    file_bytes,
    make,
    small,
)
from PIL import Image
from processes import answer
from tracing import eagerly

from keras_attn.images import CaptionedImage, FeatureCache
from keras_attn.metrics import caption_scores
from keras_attn.models import small_cnn_encoder
from keras_attn.tasks import Caption, Captioner, Translator
from keras_attn.tasks.families.attention_views import caption_view
from keras_attn.text import CharacterTokenizer, SentencePieceTokenizer

EACH = pytest.mark.parametrize("case", CASES)
SOFT_FIRST = pytest.mark.parametrize(
    "case", ["soft", pytest.param("transformer", marks=pytest.mark.slow)]
)
NEW = [draw("green", "light", seed) for seed in (8, 9)]


@pytest.fixture(scope="module")
def fitted():
    return captioning_toys.fitted()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Captioners with weights that are not flat, and the folder of their files."""
    folder = tmp_path_factory.mktemp("tasks")
    made = {case: make(case) for case in CASES}
    for case, captioner in made.items():
        captioner.save(folder / f"{case}.task")
    return made, folder


class Expected(dict):
    """What the captioners give, each when it is asked for."""

    def __init__(self, made):
        self.made = made

    def __missing__(self, case):
        self[case] = everything(self.made[case])
        return self[case]


@pytest.fixture(scope="module")
def expected(tasks):
    return Expected(tasks[0])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The pictures as files."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, pixels in enumerate(PICTURES):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return [
        CaptionedImage(str(folder / f"{number}.png"), (caption,))
        for number, caption in enumerate(CAPTIONS)
    ]


# Training


def test_it_learns_with_its_encoder(fitted):
    assert fitted.caption(PICTURES, beams=BEAMS) == CAPTIONS
    assert fitted.caption(NEW, beams=BEAMS) == ["a green box on light ground"] * 2
    assert fitted.model is fitted.joined


@pytest.mark.slow
def test_it_learns_from_regions_of_a_frozen_encoder(files, tmp_path, monkeypatch):
    captioner = small("transformer")
    before = [np.array(w) for w in captioner.encoder.weights]
    history = captioner.fit(
        files, files[:2], epochs=60, batch_size=6, cache_dir=tmp_path, learning_rate=0.02, verbose=0
    )
    assert {"loss", "perplexity", "val_perplexity", "val_cider"} <= set(history.history)
    assert captioner.caption([image.path for image in files], beams=BEAMS) == CAPTIONS
    for weight, old in zip(captioner.encoder.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)
    # The regions are there now, and nothing is computed again.
    assert len(FeatureCache(tmp_path, captioner.encoder.fingerprint())) == len(files)
    monkeypatch.setattr(Captioner, "_regions", None)
    batches = captioner.dataset(files, tmp_path, batch_size=6, shuffle=False)
    monkeypatch.undo()
    np.testing.assert_allclose(
        batches.pictures.read(range(6)), captioner.regions(PICTURES), atol=2e-3
    )
    # Evaluation takes them as well.
    scores = captioner.evaluate(files, beams=BEAMS, cache_dir=tmp_path, train_captions=CAPTIONS)
    assert scores.bleu_1 == pytest.approx(100)
    assert scores.copied == 1.0


@pytest.mark.slow
def test_an_encoder_that_is_trained_changes_all_over(eager):
    captioner = small("soft")
    before = [np.array(w) for w in captioner.joined.weights]
    captioner.fit(CAPTIONED, epochs=1, batch_size=3, verbose=0)
    for weight, old in zip(captioner.joined.weights, before, strict=True):
        changed = np.abs(np.array(weight) - old).max() > 0
        assert changed or "seed" in weight.path, weight.path
    frozen = small("soft", train_encoder=False)
    frozen.fit(CAPTIONED, epochs=1, batch_size=3, verbose=0)
    names = {weight.path for weight in frozen.encoder.weights}
    for weight, old in zip(frozen.joined.weights, before, strict=True):
        if weight.path in names:
            np.testing.assert_array_equal(weight, old)


@pytest.mark.slow
def test_fit_changes_what_was_compiled_and_keeps_a_compiled_model():
    captioner = small("soft", train_encoder=False)
    before = captioner.caption(PICTURES[0], beams=BEAMS, return_attention=True).score
    with eagerly():
        captioner.fit(CAPTIONED, epochs=1, batch_size=6, learning_rate=0.05, verbose=0)
    assert captioner.caption(PICTURES[0], beams=BEAMS, return_attention=True).score != before
    first = captioner.model.optimizer
    with eagerly():
        captioner.fit(CAPTIONED, epochs=1, batch_size=6, verbose=0)
    assert captioner.model.optimizer is not first  # a new schedule
    captioner.compile(total_steps=9, ema_momentum=0.9, weight_decay=0.1, label_smoothing=0.2)
    mine = captioner.model.optimizer
    assert isinstance(mine, keras.optimizers.AdamW)
    assert (mine.use_ema, mine.global_clipnorm) == (True, 1.0)
    with eagerly():
        captioner.fit(iter(CAPTIONED), epochs=1, batch_size=6, verbose=0)
    assert captioner.model.optimizer is mine


@pytest.mark.slow
def test_long_captions_are_left_out_and_counted(files):
    captioner = small("soft", max_length=4)
    with pytest.warns(UserWarning, match=r"4 of 6 captions have more tokens.*max_length=4"):
        batches = captioner.dataset(CAPTIONED)
    assert batches.num_examples == 2
    with pytest.raises(ValueError, match="No caption is left"):
        captioner.dataset(CAPTIONED[2:])


@pytest.mark.slow
def test_several_captions_of_a_picture_and_any_pairs(files):
    captioner = small("soft")
    images = [(Path(files[0].path), ("one", "two")), (files[1].path, "three"), files[2]]
    batches = captioner.dataset(images, batch_size=9)
    assert batches.num_examples == 4
    assert len(captioner.dataset([(file_bytes(PICTURES[0]), "one")])) == 1


# Captions


@pytest.mark.slow
def test_n_best(fitted):
    found = fitted.caption_n_best([*PICTURES, *NEW], R, beams=BEAMS)
    assert [[*map(type, captions)] for captions in found] == [[Caption] * R] * 8
    best = fitted.caption([*PICTURES, *NEW], beams=BEAMS)
    assert [captions[0].text for captions in found] == best
    for captions in found:
        assert captions[0].score > captions[1].score
        assert captions[0].text != captions[1].text
    with eagerly():
        alone = fitted.caption_n_best(PICTURES[0], beams=BEAMS)
    assert len(alone) == BEAMS
    assert [c.text for c in alone[:R]] == [c.text for c in found[0]]


@pytest.mark.slow
@SOFT_FIRST
def test_attention(tasks, case):
    captioner = tasks[0][case]
    rows, columns = captioner.encoder.grid
    for captions in captioner.caption_n_best(PICTURES, R, beams=BEAMS, batch_size=4):
        for caption in captions:
            T = len(caption.tokens)
            assert caption.attention.shape == (T, rows, columns)
            assert caption.attention.dtype == np.float32
            np.testing.assert_allclose(caption.attention.sum((1, 2)), 1, atol=1e-5)
            assert caption.truncated == (T == LENGTH and caption.tokens[-1] != "</s>")
            for _, weights in caption.words():
                assert weights.shape == (rows, columns)


def test_a_split_of_pictures_in_memory(files):
    """The same picture is on one side, whatever it is given as."""
    pictures = [np.full((2, 2, 3), i // 2, "uint8") for i in range(8)]
    for given in (pictures, [x.tobytes() for x in pictures], [x.path for x in files]):
        examples = Captioner.checked([(x, f"number {i}") for i, x in enumerate(given)])
        train, dev = Captioner.split(examples, Captioner.Data(dev_share=0.25))
        assert len(train) + len(dev) == len(given)
        sides = [{x if isinstance(x, str) else bytes(x) for x, _ in side} for side in (train, dev)]
        assert sides[1] and not sides[0] & sides[1]


@pytest.mark.slow
def test_a_beginning_of_each_caption():
    captioner = small("soft")
    given = {"beginning": ("a red", "dark")}
    titles = [view.title for view in captioner.explain(PICTURES[:2], **given)]
    assert titles == captioner.predict(PICTURES[:2], **given)
    assert [title[:4] for title in titles] == ["a re", "dark"]
    for call in (captioner.explain, captioner.predict):
        with pytest.raises(ValueError, match=r"each of the 3 inputs\. Received: 2 strings"):
            call(PICTURES[:3], **given)


@pytest.mark.slow
def test_words_are_those_of_the_caption(fitted, eager):
    caption = fitted.caption(PICTURES[2], beams=BEAMS, return_attention=True)
    words = caption.words()
    assert [word for word, _ in words] == CAPTIONS[2].split()
    assert caption.tokens[-1] == "</s>"
    if len(caption.tokens) == len(words) + 1:  # each word a token
        for (_, weights), own in zip(words, caption.attention, strict=False):
            np.testing.assert_allclose(weights, own, atol=1e-6)
    figure = caption.plot(PICTURES[2])
    assert len(figure.axes) == 1 + len(words)
    view = caption_view(fitted, PICTURES[2], beams=BEAMS)
    assert view.title == caption.text
    np.testing.assert_allclose(
        view.parts[0].weights[0][0], caption.attention.reshape(len(caption.tokens), -1), atol=1e-5
    )


@pytest.mark.slow
@EACH
def test_scores_are_those_of_the_plain_model(tasks, case, eager):
    """Log-probabilities of the model that is trained, added up by hand; the length penalty too."""
    captioner = tasks[0][case]
    found = captioner.caption_n_best(PICTURES[:3], R, beams=BEAMS, alpha=0.7)
    for picture, captions in zip(PICTURES, found, strict=False):
        for caption in captions:
            ids = TOKENIZER.encode(caption.text)
            if [*TOKENIZER.tokens(ids), "</s>"][: len(caption.tokens)] != caption.tokens:
                continue  # not the ids that its text has
            if not caption.truncated:
                ids = [*ids, TOKENIZER.end_id]
            inputs = {
                "images": picture[None].astype("float32"),
                "target_ids": np.array([[TOKENIZER.start_id, *ids[:-1]]]),
            }
            logits = keras.ops.convert_to_numpy(captioner.joined(inputs))[0].astype("float64")
            logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
            # The start and padding are never written; the rest shares what is theirs not.
            total = logits[np.arange(len(ids)), ids].sum()
            assert caption.score == pytest.approx(total / ((5 + len(ids)) / 6) ** 0.7, abs=2e-4)


@pytest.mark.slow
@SOFT_FIRST
def test_neighbours_and_batches_change_nothing(tasks, expected, case):
    captioner = tasks[0][case]
    for number, picture in enumerate(PICTURES):
        alone = captioner.caption_n_best(picture, R, beams=BEAMS)
        for caption, other in zip(alone, expected[case]["n_best"][number], strict=True):
            assert [caption.text, caption.truncated, caption.tokens] == [other[0], *other[2:4]]
            assert caption.score == pytest.approx(other[1], abs=1e-5)
            np.testing.assert_allclose(caption.attention, other[4], atol=1e-5)
    for size in (1, 5, 32):
        assert captioner.caption(PICTURES, beams=BEAMS, batch_size=size) == expected[case]["best"]


@pytest.mark.slow
@EACH
def test_padding_of_captions_changes_nothing(tasks, case):
    captioner = tasks[0][case]
    ids = [TOKENIZER.start_id, *TOKENIZER.encode(CAPTIONS[0])]
    regions = captioner.regions(PICTURES[0])
    short, long = (
        captioner.reader({"regions": regions, "target_ids": np.array([[*ids, *pad]])})
        for pad in ([], [0] * 5)
    )
    np.testing.assert_allclose(short[0], long[0, : len(ids)], atol=1e-5)


def test_no_pictures(fitted):
    assert fitted.caption([]) == []
    assert fitted.caption([], return_attention=True) == []
    assert fitted.caption_n_best([]) == []
    assert fitted.regions([]).shape == (0, 16, 16)


# Pictures


@pytest.mark.slow
def test_pictures_of_any_kind(fitted, files):
    pixels = PICTURES[2]
    ways = [
        pixels,
        files[2].path,
        Path(files[2].path),
        file_bytes(pixels),
        file_bytes(pixels, mode="RGBA"),
        file_bytes(pixels, "bmp"),
        file_bytes(pixels, "gif"),
        file_bytes(pixels, "webp", lossless=True),
        file_bytes(pixels, "gif", save_all=True, append_images=[Image.fromarray(PICTURES[0])]),
        file_bytes(pixels, "jpeg", quality=95),
        file_bytes(pixels, "jpeg", "CMYK", quality=95),
        pixels.repeat(3, axis=0).repeat(2, axis=1),
    ]
    assert fitted.caption(ways, beams=BEAMS) == [CAPTIONS[2]] * len(ways)
    assert [fitted.caption(way, beams=BEAMS) for way in ways[:4]] == [CAPTIONS[2]] * 4
    assert fitted.caption(np.stack(PICTURES), beams=BEAMS) == CAPTIONS
    assert fitted.caption(iter(PICTURES[:2]), beams=BEAMS) == CAPTIONS[:2]
    again = fitted.caption(iter(PICTURES[:2]), beams=BEAMS, return_attention=True)
    assert [caption.text for caption in again] == CAPTIONS[:2]
    grey = pixels[..., 0]
    deep = Image.fromarray(grey.astype("uint16") * 257)
    deep.save(path := files[2].path.replace("2.png", "deep.png"))
    np.testing.assert_array_equal(
        *(fitted.regions(way) for way in (path, np.stack([grey] * 3, axis=-1)))
    )


@pytest.mark.slow
def test_one_broken_picture_is_isolated(fitted, files, tmp_path):
    cut = file_bytes(PICTURES[1])[:60]
    zero = tmp_path / "zero.png"
    zero.write_bytes(b"")
    missing = tmp_path / "nowhere.png"
    given = [PICTURES[0], cut, zero, missing, files[2].path]
    with pytest.warns(UserWarning, match=r"3 of 5 pictures have no caption") as warned:
        found = fitted.caption(given, beams=BEAMS, on_error="skip")
    assert found == [CAPTIONS[0], None, None, None, CAPTIONS[2]]
    assert warned[0].filename == __file__
    for name in ("picture 1", "zero.png", "nowhere.png"):
        assert name in str(warned[0].message)
    with pytest.warns(UserWarning, match="1 of 1"):
        assert fitted.caption(cut, on_error="skip", return_attention=True) is None
    with pytest.warns(UserWarning, match="1 of 2"):
        found = fitted.caption_n_best([zero, PICTURES[0]], R, beams=BEAMS, on_error="skip")
    assert found[0] is None
    assert found[1][0].text == CAPTIONS[0]
    with pytest.raises(ValueError, match="cut off or damaged"):
        fitted.caption(given)
    with pytest.raises(ValueError, match=r"zero\.png: expected a picture. Received: an empty file"):
        fitted.caption([zero])
    with pytest.raises(FileNotFoundError):
        fitted.caption_n_best(missing)


def test_a_picture_that_would_fill_the_memory(fitted, tmp_path):
    path = tmp_path / "huge.png"
    Image.new("1", (10_000, 10_000)).save(path)
    with pytest.raises(ValueError, match=r"huge\.png: expected at most 50,000,000 pixels"):
        fitted.caption(path)


# Evaluation


def test_evaluation_is_that_of_the_captions(fitted, files):
    references = [(picture, [caption, "some box"]) for picture, caption in CAPTIONED]
    scores = fitted.evaluate(
        references, beams=BEAMS, tokenization="plain", train_captions=CAPTIONS[:3]
    )
    found = caption_scores(
        fitted.caption(PICTURES, beams=BEAMS), [r[1] for r in references], CAPTIONS[:3], "plain"
    )
    assert scores == found
    assert scores.tokenization == "plain"
    assert (scores.copied, scores.bleu_1) == (0.5, pytest.approx(100))
    assert fitted.evaluate(files, beams=BEAMS, tokenization="plain").cider == pytest.approx(
        fitted.evaluate(CAPTIONED, beams=BEAMS, tokenization="plain").cider
    )


# Files


@pytest.mark.slow
@SOFT_FIRST
def test_files(tasks, expected, case):
    captioner, path = tasks[0][case], tasks[1] / f"{case}.task"
    loaded = Captioner.load(path)
    for name in ("config", "max_length", "train_encoder"):
        assert getattr(loaded, name) == getattr(captioner, name)
    assert loaded.encoder.fingerprint() == captioner.encoder.fingerprint()
    with eagerly():
        assert loaded.caption(PICTURES, beams=BEAMS) == expected[case]["best"]
    with pytest.raises(ValueError, match="holds a Captioner"):
        Translator.load(path)


@pytest.mark.slow
def test_a_loaded_one_learns_on(fitted, tmp_path, eager):
    fitted.save(tmp_path / "a.task")
    loaded = Captioner.load(tmp_path / "a.task")
    other = [(picture, caption.replace("box", "square")) for picture, caption in CAPTIONED]
    history = loaded.fit(other, epochs=3, batch_size=6, learning_rate=0.01, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


@pytest.mark.slow
def test_mixed_precision(fitted, tmp_path, eager):
    fitted.save(tmp_path / "f.task")
    half = Captioner.load(tmp_path / "f.task", dtype="mixed_bfloat16")
    assert half.reader.get_layer("decoder").dtype_policy.name == "mixed_bfloat16"
    assert half.caption(PICTURES, beams=BEAMS) == CAPTIONS
    found = half.caption(PICTURES[2], beams=BEAMS, return_attention=True)
    np.testing.assert_allclose(found.attention.sum((1, 2)), 1, atol=0.02)
    captioner = small("soft", dtype="mixed_bfloat16")
    assert captioner.encoder.fingerprint()["dtype"] == "bfloat16"
    captioner.fit(CAPTIONED, epochs=2, batch_size=6, verbose=0)
    captioner.save(tmp_path / "h.task")
    again = Captioner.load(tmp_path / "h.task")
    assert again.reader.get_layer("decoder").dtype_policy.name == "mixed_bfloat16"
    assert again.encoder.fingerprint()["dtype"] == "bfloat16"
    np.testing.assert_array_equal(again.regions(PICTURES), captioner.regions(PICTURES))


@pytest.mark.slow
def test_the_cache_of_another_encoder_is_refused(files, tmp_path, eager):
    captioner = small("soft", train_encoder=False)
    captioner.dataset(files, tmp_path, verbose=0)
    other = small("transformer")
    for call in (other.dataset, other.fit, other.evaluate):
        with pytest.raises(ValueError, match="features with another key"):
            call(files, cache_dir=tmp_path)
    # The same encoder with other weights is another one.
    captioner.encoder.set_weights([w + 0.01 for w in captioner.encoder.get_weights()])
    with pytest.raises(ValueError, match="features with another key"):
        captioner.dataset(files, tmp_path)


@pytest.mark.slow
def test_the_cache_has_a_folder_for_each_encoder(files, tmp_path, monkeypatch, eager):
    monkeypatch.setenv("KERAS_ATTN_CACHE", str(tmp_path))
    for case in CASES:
        small(case, train_encoder=False).dataset(files, verbose=0)
    names = sorted(path.name for path in (tmp_path / "regions").iterdir())
    assert [name.rpartition("-")[0] for name in names] == ["patch_encoder", "small_cnn_encoder"]


# Other backends


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_the_same_on_other_backends(tasks, expected, backend):
    result = answer(backend, Path(captioning_toys.__file__), tasks[1])
    assert (result["backend"], result["tensorflow"]) == (backend, False)
    assert result["losses"][-1] < result["losses"][0]
    for case in CASES:
        found = result["found"][case]
        assert found["best"] == expected[case]["best"]
        for mine, other in zip(found["n_best"], expected[case]["n_best"], strict=True):
            for caption, theirs in zip(mine, other, strict=True):
                assert [caption[0], *caption[2:4]] == [theirs[0], *theirs[2:4]]
                assert caption[1] == pytest.approx(theirs[1], abs=1e-4)
                np.testing.assert_allclose(caption[4], theirs[4], atol=1e-4)


# Errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.caption(7), TypeError, "Expected a picture"),
        (lambda c: c.caption([PICTURES[0], 7]), TypeError, "Received: int at position 1"),
        (lambda c: c.caption({"a": 1}), TypeError, "Received: the dict with 1 of type int"),
        (lambda c: c.caption(PICTURES[0].astype("float32")), ValueError, "uint8"),
        (lambda c: c.caption(PICTURES[0], beams=0), ValueError, "`beams`"),
        (lambda c: c.caption(PICTURES[0], alpha="1"), TypeError, "`alpha`"),
        (lambda c: c.caption(PICTURES[0], batch_size=0), ValueError, "`batch_size`"),
        (lambda c: c.caption(PICTURES[0], on_error="warn"), ValueError, "'error' or 'skip'"),
        (lambda c: c.regions(PICTURES[0], batch_size=0), ValueError, "`batch_size`"),
        (lambda c: c.caption_n_best(PICTURES[0], 3, beams=2), ValueError, "at most `beams`"),
        (lambda c: c.export("x", beams=2, num_return_sequences=3), ValueError, "at most `beams`"),
        (lambda c: c.fit([]), ValueError, "at least one picture"),
        (lambda c: c.fit(["a.png"]), ValueError, "pairs. Received: str at position 0"),
        (lambda c: c.fit([("a.png", [])]), ValueError, r"captions.*\[\] at position 0"),
        (lambda c: c.fit([("a.png", " ")]), ValueError, "not empty"),
        (lambda c: c.fit([("a.png", [3])]), ValueError, r"\[3\]"),
        (lambda c: c.fit([(3, "a")]), TypeError, "Received: int at position 0"),
        (lambda c: c.fit([("nowhere.png", "a")]), ValueError, r"nowhere\.png"),
        (lambda c: c.fit([("a.png", "a"), (PICTURES[0], "b")]), ValueError, "2 images, 1 of"),
        (lambda c: c.fit(CAPTIONED, cache_dir="x"), ValueError, "images in memory"),
        (lambda c: c.fit([("a.png", "a")], cache_dir="x"), ValueError, "train_encoder=True"),
        (lambda c: c.evaluate([]), ValueError, "at least one picture"),
        (
            lambda c: c.evaluate(CAPTIONED, beams=BEAMS, tokenization="x"),
            ValueError,
            "tokenization",
        ),
        (lambda c: c.evaluate(CAPTIONED, beams=0), ValueError, "`beams`"),
        (lambda c: caption_view(c, 7), TypeError, "Expected a picture"),
        (lambda c: caption_view(c, PICTURES[0], 7), TypeError, "Expected strings"),
        (lambda c: Captioner("abc", c.encoder), TypeError, "BytePairTokenizer"),
        (lambda c: Captioner(CharacterTokenizer.train(["a"]), c.encoder), TypeError, "Character"),
        (lambda c: Captioner(TOKENIZER, c.reader), TypeError, "ImageEncoder"),
        (
            lambda c: Captioner(TOKENIZER, c.encoder, model={"model": "rnn"}),
            ValueError,
            "'transformer'",
        ),
        (lambda c: Captioner(TOKENIZER, c.encoder, model=7), ValueError, "Received: 7"),
        (lambda c: Captioner(TOKENIZER, c.encoder, model={"heads": 3}), ValueError, "heads"),
        (
            lambda c: Captioner(TOKENIZER, c.encoder, model=None, data={"max_length": 1}),
            ValueError,
            "max_length",
        ),
        (
            lambda c: Captioner(TOKENIZER, c.encoder, model=None, data={"max_length": 9.0}),
            TypeError,
            "max_length",
        ),
    ],
)
def test_errors(fitted, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted)


@pytest.mark.slow
def test_sizes_come_from_the_encoder_and_the_tokenizer():
    encoder = small_cnn_encoder(**CNN)
    captioner = Captioner(TOKENIZER, encoder, model=SOFT)
    assert captioner.config.vocabulary_size == TOKENIZER.vocabulary_size
    assert captioner.config.region_dim == 16
    assert encoder.trainable  # it is the caller's
    encoder.trainable = False
    with pytest.raises(ValueError, match="Set its `trainable` to True"):
        Captioner(TOKENIZER, encoder, train_encoder=True, model=SOFT)


@pytest.mark.slow
def test_sentence_pieces(tmp_path):
    """Captions by a SentencePiece model, in Python, from a file, and in a SavedModel."""
    import tensorflow as tf

    data = {"tokenizer": "sentence_piece", "max_length": 20}
    encoder = {"train_encoder": "yes", "image_size": SIZE, "filters": "8,16"}
    captioner = Captioner.create(CAPTIONED, encoder=encoder, model=SOFT, data=data)
    assert isinstance(captioner.tokenizer, SentencePieceTokenizer)
    settings = {"batch_size": 3, "learning_rate": 0.02, "label_smoothing": 0.0}
    captioner.fit([*CAPTIONED, *MORE], epochs=15, verbose=0, **settings)
    captions = captioner.caption(PICTURES, beams=2)
    assert sum(map(str.__eq__, captions, CAPTIONS)) >= 4
    captioner.save(tmp_path / "task")
    assert Captioner.load(tmp_path / "task").caption(PICTURES, beams=2) == captions
    captioner.export(tmp_path / "model", beams=2)
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    found = serve(image=tf.constant([*map(file_bytes, PICTURES)]))["caption"].numpy()
    assert [caption.decode() for caption in found] == captions


@pytest.mark.slow
def test_sizes_of_a_transformer_come_from_the_encoder():
    encoder = small_cnn_encoder(**CNN)
    for more in ({}, {"grid": (3, 3), "region_dim": 7}):
        made = Captioner(TOKENIZER, encoder, model={**TRANSFORMER, **more})
        assert (made.config.grid, made.config.region_dim) == ((SIZE // 4, SIZE // 4), 16)
    config = {"model": "transformer", "dim": 8, "num_layers": 1, "intermediate_dim": 8}
    assert Captioner(TOKENIZER, encoder, train_encoder=True, model=config).model.name
    encoder.trainable = False
    with pytest.raises(ValueError, match="Set its `trainable` to True"):
        Captioner(TOKENIZER, encoder, train_encoder=True, model=config)

"""Questions about pictures: learns, explains, is saved and exported; the same on all backends."""

import io
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from processes import answer
from visual_question_toys import (
    ANSWERS,
    ENCODER,
    EXAMPLES,
    MODEL,
    ODD,
    PICTURES,
    QUESTIONS,
    everything,
    make,
)

from keras_attn import attention_maps
from keras_attn.fields import TextInput
from keras_attn.images import load_image
from keras_attn.images.picture_questions import checked_questions
from keras_attn.images.pictures import distinct_pictures
from keras_attn.tasks import VisualQuestionAnswerer, VisualQuestionsData, VisualQuestionsTest
from keras_attn.text import BytePairTokenizer, WordTokenizer

HERE = Path(__file__).parent


def png(picture):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = {**MODEL, "num_layers": 1}
    task = VisualQuestionAnswerer.create(EXAMPLES, data={"train": ""}, model=model, encoder=ENCODER)
    task.training = task.fit(
        EXAMPLES, EXAMPLES[::5], epochs=25, batch_size=12, learning_rate=0.01, verbose=0
    )
    return task


@pytest.fixture(scope="module")
def made():
    """One of two layers that has learned nothing; nobody changes it."""
    return make()


@pytest.mark.slow
def test_it_learns(trained):
    assert trained.answers[:2] == ("no", "yes") and trained.train_encoder
    found = trained.evaluate(EXAMPLES)
    assert list(found) == ["accuracy", "accuracy of color", "accuracy of side"]
    assert found["accuracy"] >= 0.95, found
    assert trained.training.best_score >= 0.9
    new = trained.ask(PICTURES[0], list(QUESTIONS), top_k=2)
    assert [x.answer for x in new] == ["red", "yes", "no"]
    assert next(iter(new[0].answers)) == "red" and len(new[0].answers) == 2
    assert new[0].answers["red"] == new[0].probability
    assert trained.predict((png(PICTURES[0]), QUESTIONS[0])).answer == "red"


@pytest.mark.slow
def test_a_picture_is_encoded_once(made, monkeypatch):
    task = made
    seen = []
    encode = task._regions
    monkeypatch.setattr(
        type(task),
        "_regions",
        lambda _, pixels, size: seen.append(len(pixels)) or encode(pixels, size),
    )
    task.ask(PICTURES[0], list(QUESTIONS) * 5)
    raw = png(PICTURES[1])
    task.predict([(raw, q) for q in QUESTIONS] + [(PICTURES[0], QUESTIONS[0])], batch_size=2)
    assert seen == [1, 2]
    assert distinct_pictures([Path("a"), "a", raw, PICTURES[0], raw])[1] == [0, 0, 1, 2, 1]


@pytest.mark.slow
def test_maps_are_those_of_the_last_block(made):
    """The mean of its heads, of each word its own."""
    task = made
    found = task.explain(ODD[1])
    assert found.tokens == "is it on the right , or on".split()
    assert found.attention.shape == (8, 2, 2)
    ids = task.field.encode([ODD[1][1]])["ids"][:, None]
    inputs = {"regions": task.regions(PICTURES[1]), "question_ids": ids}
    last = attention_maps(task.reader, inputs).select("cross", "block_1")[0]
    np.testing.assert_allclose(found.attention, last[0].mean(0).reshape(8, 2, 2), atol=1e-5)
    np.testing.assert_allclose(found.attention.sum((1, 2)), 1, atol=1e-5)
    assert np.ptp(found.attention, axis=0).max() > 1e-3
    cross, own = found.view.parts
    assert [w.shape for w in cross.weights] == [(2, 8, 4)] * 2
    np.testing.assert_allclose(cross.weights[1], last[0], atol=1e-5)
    assert (cross.queries, cross.keys, own.keys) == (tuple(found.tokens), None, own.queries)
    assert len(own.weights) == 3  # one of the question's encoder
    assert found.view.image.shape == (8, 8, 3)
    assert found.title.startswith(ODD[1][1])
    page = VisualQuestionAnswerer.page([found, task.explain(ODD[3]), None], "a < b")
    assert "<title>a &lt; b</title>" in page and "<b>it" not in page
    assert len(found.plot().axes) == 9
    assert task.explain([]) == task.predict([]) == []
    with pytest.raises(ValueError, match="questions with words"):
        task.explain(ODD[2])
    with pytest.raises(ValueError, match="attends to the image"):
        make("concatenation").explain(ODD[0])


@pytest.mark.slow
def test_batches_and_padding_change_nothing():
    task = make(question_encoder="rnn")
    alone = [task.predict_probabilities([pair])[0] for pair in ODD]
    np.testing.assert_allclose(task.predict_probabilities(ODD, batch_size=2), alone, atol=1e-5)
    np.testing.assert_allclose(np.sum(alone, axis=1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["cross-attention", pytest.param("concatenation", marks=pytest.mark.slow)]
)
def test_the_saved_model_is_the_object(kind, unsaved):
    task = make(kind)
    task.export("anywhere", top_k=3)
    (functions,) = unsaved
    given = {"image": tf.constant([*map(png, PICTURES)]), "question": tf.constant(QUESTIONS[:2])}
    found = functions["serving_default"](**given)
    expected = task.predict(list(zip(PICTURES, QUESTIONS, strict=False)), top_k=3)
    said = [[text.decode() for text in row] for row in found["answers"].numpy()]
    assert said == [list(x.answers) for x in expected]
    np.testing.assert_allclose(
        found["probabilities"], [[*x.answers.values()] for x in expected], atol=1e-4
    )
    assert ("attention" in found) == (kind == "cross-attention")
    if kind == "cross-attention":
        maps = task.explain((PICTURES[0], QUESTIONS[0])).attention
        np.testing.assert_allclose(found["attention"][0, : len(maps)], maps, atol=1e-4)
        assert found["words"].numpy()[0, : len(maps)].tolist() == b"what color is it ?".split()
    regions = functions["encode"](image=given["image"])["regions"]
    several = functions["ask"](
        picture=tf.constant([1, 0, 1]), question=tf.constant(QUESTIONS), regions=regions
    )
    pairs = zip([PICTURES[i] for i in (1, 0, 1)], QUESTIONS, strict=True)
    wanted = [x.probability for x in task.predict(list(pairs))]
    np.testing.assert_allclose(several["probabilities"][:, 0], wanted, atol=1e-4)
    # A request that is asked about no picture, or about other arrays, says so.
    ask, one = functions["ask"], tf.constant(QUESTIONS[:1])
    for number in (-1, 2):
        message = rf"indices of rows of `regions`, 0 to 1\. Received: \[{number}\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            ask(picture=tf.constant([number]), question=one, regions=regions)
    turned = tf.transpose(regions, [0, 2, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected `regions` of shape"):
        ask(picture=tf.constant([0]), question=one, regions=turned)
    nothing = tf.constant([], tf.string)
    empty = functions["serving_default"](image=nothing, question=nothing)
    assert {len(value) for value in empty.values()} == {0}


def in_numpy(task, regions, texts, top_k):
    """What the signature `ask` gives of regions, one for each text."""
    ids = TextInput(task.tokenizer, task.max_length).encode(texts)
    inputs = {"regions": regions, "question_ids": ids[:, None]}
    logits = keras.ops.convert_to_numpy(task.reader(inputs))[:, 0].astype("float64")
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    best = np.argsort(-p, axis=1, kind="stable")[:, :top_k]
    cross = attention_maps(task.reader, inputs).select("cross", "block_1")[0]
    words = [row[: task.max_length] for row in task.tokenizer.words(texts)]
    return {
        "answers": [[task.answers[i] for i in row] for row in best],
        "probabilities": np.take_along_axis(p, best, axis=1),
        "words": [[*row, *[""] * (ids.shape[1] - len(row))] for row in words],
        "attention": cross.mean(1).reshape(*ids.shape, 2, 2) * (ids > 0)[..., None, None],
    }


@pytest.mark.slow
def test_outputs_in_numpy(made):
    examples = made.export_examples()
    found = made.expected(examples, made.Use(top_k=3))
    for name, regions in [
        ("serving_default", examples["regions"]),
        ("ask", examples["regions"][examples["picture"]]),
    ]:
        wanted = in_numpy(made, regions, examples["question"], 3)
        assert list(found[name]) == list(wanted)
        for key, values in wanted.items():
            if key in ("answers", "words"):
                assert found[name][key] == values
            else:
                np.testing.assert_allclose(found[name][key], values, atol=1e-5)
    np.testing.assert_allclose(found["encode"]["regions"], examples["regions"], atol=1e-6)
    # Of equal probabilities the first answer is given.
    equal = np.array([[0.2, 0.2, 0.1, 0.3, 0.2]], "float32")
    for xp, table in ((np, equal), (keras.ops, keras.ops.convert_to_tensor(equal))):
        best = made.run(xp, {"probabilities": table}, made.Use(top_k=4))["best"]
        assert np.array(best).tolist() == [[3, 0, 1, 4]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "train_encoder", "settings"),
    [
        pytest.param("cross-attention", True, {"question_encoder": "rnn"}, marks=pytest.mark.slow),
        ("cross-attention", False, {}),
        pytest.param("concatenation", False, {}, marks=pytest.mark.slow),
    ],
)
def test_files(kind, train_encoder, settings, tmp_path):
    task = make(kind, train_encoder, **settings)
    task.save(tmp_path / "a")
    loaded = VisualQuestionAnswerer.load(tmp_path / "a")
    assert everything(loaded) == everything(task)
    assert (loaded.train_encoder, loaded.answers) == (task.train_encoder, ANSWERS)
    assert loaded.max_length == 8


@pytest.mark.slow
def test_broken_pictures(made, tmp_path):
    task = made
    broken = tmp_path / "broken.png"
    broken.write_bytes(png(PICTURES[0])[:60])
    pairs = [(PICTURES[0], QUESTIONS[0]), (str(broken), QUESTIONS[0]), ODD[1]]
    with pytest.raises(ValueError, match=r"broken\.png"):
        task.predict(pairs)
    with pytest.warns(UserWarning, match=r"1 of 3 pictures have no answers.*broken\.png"):
        found = task.predict(pairs, on_error="skip")
    assert found[1] is None and found[2].answer == task.predict(ODD[1]).answer
    assert found[2].question == ODD[1][1]
    task.own_use = {"on_error": "skip"}
    with pytest.warns(UserWarning, match=r"1 of 2 pictures have no answers.*broken\.png"):
        scores = task.evaluate([(*pairs[1], found[0].answer), (*pairs[0], found[0].answer)])
    assert scores["accuracy"] == 0.5
    task.own_use = {}
    with pytest.raises(ValueError, match="whole pictures"):
        task.dataset([(str(broken), "a?", "yes")])
    files = [str(broken)]
    for number, picture in enumerate(PICTURES):
        files.append(str(tmp_path / f"{number}.png"))
        Path(files[-1]).write_bytes(png(picture))
    with pytest.warns(UserWarning, match=r"1 of 3 questions|Left out: .*broken\.png") as warned:
        batches = task.dataset([(f, "a?", "yes") for f in files], on_error="skip", batch_size=4)
    assert len(warned) == 2
    (batch,) = batches
    assert np.array_equal(batch[0]["images"], [load_image(f) for f in files[1:]])


@pytest.mark.slow
def test_an_encoder_that_stays_as_it_is(tmp_path):
    """Its regions are what is trained on; answers that are no class are left out, and wrong."""
    task = make(train_encoder=False)
    before = [w.numpy().copy() for w in task.encoder.weights]
    odd = (PICTURES[0], "what is it?", "a box")
    with pytest.warns(UserWarning, match="1 of 4 questions are left out"):
        (batch,) = task.dataset([*EXAMPLES[:3], odd], shuffle=False)
    np.testing.assert_allclose(batch[0]["regions"], task.regions(EXAMPLES[0][0]), atol=1e-5)
    assert batch[2].tolist() == [[1.0, 1.0, 1.0]]
    run = task.fit(EXAMPLES[:6], [*EXAMPLES[:3], odd], epochs=1, verbose=0, run_eagerly=True)
    assert 0 <= run.best_score <= 0.75
    for weight, old in zip(task.encoder.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)


@pytest.mark.slow
def test_quantized_and_low_precision(unsaved, tmp_path):
    task = make(dim=32, intermediate_dim=32)
    before = task.predict_probabilities(ODD)
    task.quantize("int8")
    assert 0 < np.abs(task.predict_probabilities(ODD) - before).max() < 0.3
    task.export("anywhere")
    low = VisualQuestionAnswerer.create(
        EXAMPLES, data={"train": ""}, model=MODEL, dtype="mixed_bfloat16", encoder=ENCODER
    )
    low.fit(EXAMPLES, epochs=1, verbose=0)
    low.save(tmp_path / "a")
    assert VisualQuestionAnswerer.load(tmp_path / "a").policy.name == "mixed_bfloat16"


def test_questions_about_one_picture_stay_together():
    pictures = [np.full((2, 2, 3), i, "uint8") for i in range(5)]
    files = [f"{i}.png" for i in range(5)]
    for given in (pictures, files, [bytes([i]) for i in range(5)]):
        asked = [((x, f"What {n}?"), "no") for n in range(2) for x in given]
        data = VisualQuestionsData(dev_share=0.4)
        learning, dev = VisualQuestionAnswerer.split(checked_questions(asked), data)
        assert len(learning) == 6 and len(dev) == 4
        held, _ = distinct_pictures([x.picture for x in dev])
        assert len(held) == 2
        assert not {id(x) for x in held} & {id(x.picture) for x in learning}


def test_wrong_use(made):
    task = made
    tokenizer, encoder = WordTokenizer.train(["a?"]), task.encoder
    for arguments, message in [
        ((BytePairTokenizer.train(["a text"], 259), encoder), "must be a WordTokenizer"),
        ((tokenizer, keras.layers.Dense(3)), "must be an ImageEncoder"),
    ]:
        with pytest.raises(TypeError, match=message):
            VisualQuestionAnswerer(*arguments, answers=["a", "b"])
    with pytest.raises(ValueError, match="at least two classes"):
        VisualQuestionAnswerer(tokenizer, encoder, answers=["a"])
    for examples, message in [
        ([("a.png", "a?")], "position 0"),
        ([(PICTURES[0], "a?", "yes"), (PICTURES[0], 3, "yes")], "position 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            task.evaluate(examples)
    with pytest.raises(TypeError, match="position 0"):
        checked_questions([(7, "a?", "yes")])
    with pytest.raises(TypeError, match="Read the file"):
        checked_questions("questions.csv")
    with pytest.raises(ValueError, match="`top_k`"):
        task.predict(ODD[0], top_k=0)
    with pytest.raises(ValueError, match="1 questions with other answers, such as 'seven'"):
        task.dataset([(PICTURES[0], "a?", "seven")])


@pytest.mark.slow
def test_settings_of_another_format(made, tmp_path):
    table, easy = tmp_path / "a.csv", tmp_path / "easy"
    table.write_text("photo,question,answer\na.png,A?,yes\n")
    easy.mkdir()
    for settings, message in [
        ({"train": str(easy), "image": "photo"}, "`image` can only be used with the format 'csv'"),
        ({"train": str(table), "image_name": "{id}.png"}, "'vqa'. Received: questions .*'csv'"),
        ({"train": str(table), "dev_image_dir": "x"}, "Expected `dev` with `dev_image_dir`"),
    ]:
        with pytest.raises(ValueError, match=message):
            VisualQuestionAnswerer.read(VisualQuestionsData(**settings))
    with pytest.raises(ValueError, match="`delimiter` can only be used with the format 'csv'"):
        made.read_test(VisualQuestionsTest(data=str(easy)), VisualQuestionsData(delimiter=";"))
    # What one of two formats has is no mistake: it fails at the folder, which has no questions.
    both = VisualQuestionsData(train=str(easy), dev=str(table), image="photo")
    with pytest.raises(OSError, match=r"questions\.json"):
        VisualQuestionAnswerer.read(both)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends(backend, tmp_path):
    expected = {}
    for question in ("transformer", "rnn"):
        task = make(question_encoder=question)
        task.save(tmp_path / f"{question}.task")
        expected[question] = everything(task)
    result = answer(backend, HERE / "visual_question_toys.py", tmp_path)
    assert result["backend"] == backend
    for question, wanted in expected.items():
        found = result["found"][question]
        np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], atol=1e-5)
        for ours, theirs in zip(found["maps"], wanted["maps"], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)

"""The page on new tasks: its listings are short, and do what it says, by the command."""

import importlib
import json
import random
import shlex
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

sys.path.append(str(Path(__file__).parents[1] / "cli"))
from command_runs import run_command
from integrated_reference import integrated
from processes import answer

from keras_attn.records import LabelledText

PAGE = Path(__file__).parents[2] / "docs/new_task.md"
WORDS = {
    "de": "das haus ist alt und der hund sieht einen kleinen baum am fluss".split(),
    "en": "the house is old and dog sees a small tree near river".split(),
}


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    return [part.split("```")[0] for part in text.split(f"```{language}\n")[1:]]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The listings as files, and the data of the commands."""
    folder = tmp_path_factory.mktemp("new_task")
    names = ("language.py", "counting.py", "architecture.py")
    for name, listing in zip(names, blocks("python"), strict=True):
        (folder / name).write_text(listing, encoding="utf-8")
    rng = random.Random(0)
    for name, count in (("train.csv", 80), ("test.csv", 12)):
        rows = [
            f"{' '.join(rng.sample(WORDS[label], 5))},{label}"
            for label in rng.choices(list(WORDS), k=count)
        ]
        (folder / name).write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    (folder / "lines.txt").write_text("der hund ist alt\nthe small house\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))


@pytest.fixture(scope="module")
def outputs(place, request):
    """What each command of the page printed, by the name of its step."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.syspath_prepend(str(place))
        for line in blocks("bash")[0].replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line)
            assert program == "keras-attn"
            if arguments[1] == "predict":
                arguments += ["--to", "predicted.jsonl"]
            code, out, err = run_command(*arguments)
            assert code == 0, err
            found[arguments[1]] = out
    return found


def test_the_listings_are_short():
    task, steps, architecture = (listing.strip().splitlines() for listing in blocks("python"))
    assert len(task) <= 80
    assert len(steps) <= 30
    assert len(architecture) <= 60


@pytest.mark.slow
def test_its_commands(outputs, place):
    assert "Best on the development examples: accuracy " in outputs["fit"]
    assert outputs["evaluate"].splitlines()[-1] == "accuracy 1.0000"
    rows = [json.loads(row) for row in (place / "predicted.jsonl").read_text().splitlines()]
    assert [row["language"] for row in rows] == ["de", "en"]
    assert all(sum(row["probabilities"]) == pytest.approx(1, abs=1e-5) for row in rows)
    # The same again has nothing left to do; other data are refused.
    fit = shlex.split(blocks("bash")[0].replace("\\\n", " ").splitlines()[0])[1:]
    code, out, _ = run_command(*fit)
    assert (code, "All epochs are done." in out) == (0, True)
    (place / "other.csv").write_text((place / "train.csv").read_text() + "\nder alte hund,de")
    code, _, err = run_command(*fit, "--train", "other.csv")
    assert code == 1
    assert "other settings: train is 'train.csv' there, 'other.csv' here" in err
    code, _, err = run_command("language.py:Nothing", "fit")
    assert (code, "has no class Nothing" in err) == (2, True)


@pytest.mark.slow
def test_its_own_step(outputs, place, tmp_path):
    """In the list of steps, with its settings on the command line and in a file."""
    fit, count = (
        shlex.split(line)[1:] for line in blocks("bash")[1].replace("\\\n", " ").splitlines()
    )
    code, _, err = run_command(*fit)
    assert code == 0, err
    (place / "more.txt").write_text("das haus\n" + (place / "lines.txt").read_text())
    count[-1] = "more.txt"
    code, _, err = run_command(*count, "--to", tmp_path / "out.txt")
    assert code == 0, err
    assert (tmp_path / "out.txt").read_text() == "2 de\n"
    (tmp_path / "settings.toml").write_text("[count]\nleast = 1\n")
    line = [*count[:4], "--config", tmp_path / "settings.toml", "more.txt"]
    assert run_command(*line, "--to", tmp_path / "out.txt")[0] == 0
    assert (tmp_path / "out.txt").read_text() == "2 de\n1 en\n"
    _, shown, _ = run_command(count[0], "--help")
    assert "count     Count the lines of FILES in each language." in shown
    code, _, err = run_command(*count[:4], "--least", 0)
    assert (code, "--least must be at least 1" in err) == (2, True)


@pytest.mark.slow
def test_its_saved_model(outputs, place):
    """Rows as TensorFlow Serving packs them: each output has one for each input."""
    serve = tf.saved_model.load(str(place / "saved_model")).signatures["serving_default"]
    for texts in (["der hund ist alt", "", "  "], []):
        found = serve(text=tf.constant(texts, tf.string))
        assert {name: x.shape[0] for name, x in found.items()} == {
            "language": len(texts), "probabilities": len(texts)
        }  # fmt: skip
    task = importlib.import_module("language").LanguageGuesser.load(place / "run/best.task")
    expected = task.predict("der hund ist alt")
    assert expected["language"] == "de"
    found = serve(text=tf.constant(["der hund ist alt"]))
    assert found["language"].numpy().tolist() == [b"de"]
    assert found["probabilities"].numpy()[0].tolist() == pytest.approx(
        expected["probabilities"], abs=1e-5
    )
    assert repr(task).startswith("LanguageGuesser(bag, ")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_another_backend(outputs, place, backend):
    script = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from language import LanguageGuesser\n"
        "task = LanguageGuesser.load(sys.argv[1] + '/run/best.task')\n"
        "print(json.dumps(task.predict(['der hund ist alt', 'the small house', ''])))\n"
    )
    found = answer(backend, script, place)
    task = importlib.import_module("language").LanguageGuesser.load(place / "run/best.task")
    for mine, other in zip(
        found, task.predict(["der hund ist alt", "the small house", ""]), strict=True
    ):
        assert mine["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


@pytest.fixture
def architecture():
    """The listing of the page, whose kind is forgotten afterwards."""
    from keras_attn.models import TEXT_CLASSIFIERS

    importlib.import_module("architecture")
    yield TEXT_CLASSIFIERS
    TEXT_CLASSIFIERS._kinds.pop("cnn")
    sys.modules.pop("architecture")


@pytest.mark.slow
def test_its_architecture_in_a_task_of_the_package(place, architecture, tmp_path, eager, unsaved):
    """Its layers have no names that this package gives."""
    from keras_attn.tasks import TextClassifier

    texts = [(" ".join(WORDS[label][i : i + 4]), label) for label in WORDS for i in range(4)]
    sizes = {"model": "cnn", "dim": 4, "filters": 6}
    data = {"tokenizer": "words", "max_length": 12}
    TextClassifier.create(texts, data=data, model=sizes)
    made = TextClassifier.create(
        texts, data=data, model=sizes
    )  # whose layers Keras calls `embedding_1`, ...
    made.fit(texts, texts, epochs=1, batch_size=8, verbose=0)
    made.save(tmp_path / "a.task")
    again = TextClassifier.load(tmp_path / "a.task")
    given = ["der hund sieht", "the small house is old and the dog is old"]
    found = again.predict_probabilities(given)
    np.testing.assert_allclose(found, made.predict_probabilities(given), rtol=1e-5)
    again.export(tmp_path / "model")  # compared with what the task says
    assert list(unsaved[0]) == ["serving_default"]
    bag = TextClassifier.create(texts, data=data, model={"model": "bag", "dim": 4})
    assert bag.explain("der hund").method == "attention"  # as without `cnn`

    # By hand: the log-odds are the difference of two logits.
    ids = tf.constant(again.tokenizer.encode(given[:1]))
    layers = again.model.layers
    embedding = next(x for x in layers if isinstance(x, keras.layers.Embedding))
    convolution = next(x for x in layers if isinstance(x, keras.layers.Conv1D))
    head = again.model.get_layer("head")
    vectors, padding = (np.array(embedding(x)) for x in (ids, ids * 0))

    def asked(part, begin=padding):
        with tf.GradientTape() as tape:
            point = tf.constant(begin + np.float32(part) * (vectors - begin))
            tape.watch(point)
            logits = head(tf.reduce_max(convolution(point), axis=1))
            odds = logits[0, 1] - logits[0, 0]
        weights = (vectors - begin) * tape.gradient(odds, point)
        return float(odds), tf.reduce_sum(weights, axis=-1)[0]

    for method in ("gradient", None):
        (explained,) = again.explain(given[:1], label="en", method=method)
        expected = asked(1.0, padding * 0)[1] if method else integrated(asked)
        np.testing.assert_allclose(explained.weights, expected, atol=1e-5)
        assert np.abs(explained.weights).max() > 1e-4
        names = {"gradient": "gradient x input", None: "integrated gradients"}
        assert explained.method == names[method]


def test_what_another_architecture_cannot(place, architecture):
    from keras_attn.tasks import TextClassifier
    from keras_attn.text import WordTokenizer

    tokenizer = WordTokenizer.train(["a b c"])
    TextClassifier(tokenizer, ["x", "y"], model={"model": "cnn"})
    frozen = {"word_vectors": "v.txt", "freeze_word_vectors": True, "tokenizer": "words"}
    with pytest.raises(ValueError, match=r"need a model with a layer named\n? ?'embedding'"):
        TextClassifier(tokenizer, ["x", "y"], model={"model": "cnn"}, data=frozen)


class Bare(keras.utils.PyDataset):
    seed = 0

    def __len__(self):
        return 1


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (Bare(), r"Received: Bare, without 'num_examples', 'padded_share', 'set_epoch'\. See"),
        ([1], "`batches` of LanguageGuesser must return a `keras.utils.PyDataset`"),
    ],
)
def test_batches_that_lack_something(place, batches, message, monkeypatch):
    language = importlib.import_module("language")
    task = language.LanguageGuesser.create([LabelledText("a", "x"), LabelledText("b", "y")])
    monkeypatch.setattr(task, "batches", lambda *given: batches)
    with pytest.raises(TypeError, match=message):
        task.fit([LabelledText("a", "x")])


@pytest.mark.slow
def test_its_architecture(outputs, place, tmp_path):
    """Chosen by its name, in Python and by the command, with its settings."""
    from keras_attn.models import TEXT_CLASSIFIERS

    importlib.import_module("architecture")
    try:
        fit = "language.py:LanguageGuesser fit --train train.csv --epochs 2".split()
        model = ["--model", "cnn", "--filters", 8, "--dim", 8, "--learning-rate", 0.05]
        code, _, err = run_command(*fit, *model, "--run-dir", tmp_path / "run")
        assert code == 0, err
        task = importlib.import_module("language").LanguageGuesser.load(tmp_path / "run/best.task")
        assert (TEXT_CLASSIFIERS.name_of(task.config), task.config.filters) == ("cnn", 8)
        # Padding changes nothing.
        alone = task.predict("der hund ist alt")["probabilities"]
        beside = task.predict(["der hund ist alt", "the house is old and a dog sees"])
        assert beside[0]["probabilities"] == pytest.approx(alone, abs=1e-5)
    finally:
        TEXT_CLASSIFIERS._kinds.pop("cnn")
        sys.modules.pop("architecture")

"""Defaults of a training that depend on the weights it starts from and on how much there is."""

import json
import zipfile

import keras
import numpy as np
import pretraining_toys
import pytest
import text_classification_toys
from text_generation_toys import make as make_generator
from tracing import eagerly

from keras_attn.settings import RunDefault, read_settings
from keras_attn.tasks import (
    EncoderTraining,
    PretrainingTraining,
    TaggingTraining,
    TextClassificationTraining,
    TextClassifier,
    TextGenerationTraining,
)
from keras_attn.tasks.base import training_settings
from keras_attn.tasks.base.doubts import doubt_of_rise

EXAMPLES = [
    (sentence, "ab"[i % 2]) for i, (sentence, *_) in enumerate(pretraining_toys.documents(8))
]
pytestmark = pytest.mark.filterwarnings("ignore:The classes are uneven")
QUICK = {"epochs": 1, "verbose": 0}


@pytest.fixture(autouse=True)
def _eagerly():
    with eagerly():
        yield


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "p.task"
    pretraining_toys.untrained(path).save(path)
    return str(path)


@pytest.fixture
def started(backbone):
    return TextClassifier.create(EXAMPLES, data={"backbone": backbone, "max_length": 32})


def peak_of(task):
    return task.model.optimizer._learning_rate.peak_learning_rate


@pytest.mark.parametrize(
    ("training", "cases", "wanted"),
    [
        (TextClassificationTraining, [], {"learning_rate": 3e-3, "weight_decay": 0.0}),
        (TextClassificationTraining, ["encoder"], {"learning_rate": 5e-4, "weight_decay": 0.0}),
        (TextClassificationTraining, ["backbone"], {"learning_rate": 1e-4, "weight_decay": 0.01}),
        (
            TextClassificationTraining, ["lora", "backbone"],
            {"learning_rate": 1e-3, "weight_decay": 0.01},
        ),
        (TaggingTraining, [], {"learning_rate": 1e-3, "epochs": 10}),
        (EncoderTraining, ["encoder"], {"learning_rate": 5e-4, "epochs": 10}),
        (EncoderTraining, ["backbone"], {"learning_rate": 1e-4, "epochs": 3}),
        (PretrainingTraining, [], {"learning_rate": 5e-4}),
        (PretrainingTraining, ["backbone"], {"learning_rate": 1e-4}),
        (TextGenerationTraining, [], {"learning_rate": 2e-3, "batch_size": 64, "epochs": 10}),
        (
            TextGenerationTraining, ["backbone"],
            {"learning_rate": 1e-4, "batch_size": 8, "epochs": 3},
        ),
    ],
)  # fmt: skip
def test_a_start_has_its_defaults(training, cases, wanted):
    decided = training().decided(cases)
    assert {name: getattr(decided, name) for name in wanted} == wanted
    assert decided.undecided() == {}
    given = training(learning_rate=0.5, epochs=7).decided(cases)
    assert (given.learning_rate, given.epochs) == (0.5, 7)


def test_a_default_names_its_cases():
    default = RunDefault(0.003, lora=0.001, backbone=0.0001)
    assert str(default) == "0.003; 0.001 with LoRA; 0.0001 with a backbone"
    expected = r"cases from \['head', 'lora', 'backbone', 'encoder'\]. Received: "
    with pytest.raises(ValueError, match=expected):
        RunDefault(0.003, backbones=0.0001)


@pytest.mark.slow
def test_fine_tuning_takes_small_steps(started, tmp_path):
    started.fit(EXAMPLES, run_dir=tmp_path / "run", **QUICK)
    assert peak_of(started) == 1e-4
    sections = TextClassifier.sections()
    recorded = read_settings(tmp_path / "run" / "settings.toml", sections)["training"]
    assert (recorded["learning_rate"], recorded["weight_decay"]) == (1e-4, 0.01)
    for settings, peak in (({"lora_rank": 2}, 1e-3), ({"learning_rate": 0.5}, 0.5), ({}, 1e-4)):
        started.compile(10, **settings)
        assert peak_of(started) == peak
    started.compile(10, lora_rank=0)


@pytest.mark.slow
def test_random_weights_take_larger_steps(backbone):
    data = {"backbone": backbone, "max_length": 32, "backbone_weights": False}
    random = TextClassifier.create(EXAMPLES, data=data)
    bag = text_classification_toys.make("bag")
    for task, peak in ((random, 5e-4), (bag, 3e-3)):
        assert not task.pretrained
        task.compile(10)
        assert peak_of(task) == peak


@pytest.mark.slow
def test_weights_that_are_loaded_later_count(backbone, started):
    again = TextClassifier(
        started.tokenizer, ["a", "b"], model=started.config, data={"max_length": 32}
    )
    assert not again.pretrained
    again.load_backbone(backbone)
    assert again.pretrained


@pytest.mark.slow
def test_a_saved_task_knows_its_start(started, tmp_path):
    """Also one of an older file, which does not say: its encoder may be a pretrained one."""
    path = tmp_path / "a.task"
    started.save(path)
    assert TextClassifier.load(path).pretrained
    bag = text_classification_toys.make("bag")
    for task in (bag, make_generator()):
        task.save(path)
        assert not type(task).load(path).pretrained
    for task, wanted in ((started, True), (bag, False)):
        task.save(path)
        older = tmp_path / "older.task"
        with zipfile.ZipFile(path) as new, zipfile.ZipFile(older, "w") as old:
            for name in new.namelist():
                content = new.read(name)
                if name == "config.json":
                    config = json.loads(content)
                    del config["pretrained"]
                    content = json.dumps(config)
                old.writestr(name, content)
        assert TextClassifier.load(older).pretrained == wanted


@pytest.mark.slow
def test_a_run_keeps_the_defaults_it_began_with(tmp_path):
    """Also if they are others now: nobody gives a rate in the second call."""
    examples, folder = text_classification_toys.EXAMPLES, tmp_path / "run"
    data, model = {"max_length": 16}, {"model": "bag", "dim": 4, "pair_buckets": 0}
    first = {"epochs": 2, "learning_rate": 2e-3}
    TextClassifier.train(examples, None, folder, data, model, first, verbose=0)
    before = (folder / "settings.toml").read_text()
    said = []
    run = TextClassifier.train(examples, None, folder, data, model, {}, said.append, verbose=0)
    assert run.complete and len(run.log) == 2 and "All epochs are done." in said
    assert (folder / "settings.toml").read_text() == before
    with pytest.raises(ValueError, match=r"learning_rate is 0.002 there, 0.003 here"):
        TextClassifier.train(examples, None, folder, data, model, {"learning_rate": 3e-3})


@pytest.mark.slow
@pytest.mark.parametrize(("fewest", "epochs"), [(4, 4), (6, 6), (1000, 9)])
def test_few_examples_have_more_epochs(fewest, epochs, monkeypatch):
    monkeypatch.setattr(training_settings, "FEWEST_UPDATES", fewest)
    monkeypatch.setattr(training_settings, "MOST_EPOCHS", 9)
    examples, said = text_classification_toys.EXAMPLES, []
    task = text_classification_toys.make("bag")
    settings = {"batch_size": len(examples), "verbose": 0}
    run = task.fit(examples, log=said.append, **settings)
    assert len(run.log) == epochs
    told = [line for line in said if "the default of 4 would make only 4 upd" in line]
    assert bool(told) == (epochs > 4)
    assert len(task.fit(examples, epochs=2, **settings).log) == 2


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bag", "several"])
def test_one_guess_for_all_is_told(case):
    task = text_classification_toys.make(case)
    examples = text_classification_toys.EXAMPLES
    if case == "several":
        examples = [(text, [label]) for text, label in examples]
    head = task.model.get_layer("head")
    head.kernel.assign(keras.ops.zeros_like(head.kernel))
    head.bias.assign(10.0 * (np.arange(head.bias.shape[0]) == 1) - 5.0)
    run = task.fit(examples, examples[:8], epochs=1, learning_rate=1e-9, verbose=0)
    assert (
        "the model predicts 'good' for all 8 development texts, 4 of which have this label: "
        in run.note
    )
    assert task.doubt_guesses([x for x in examples if "bad" not in x[1]]) == ""
    assert task.doubt_guesses(()) == ""


@pytest.mark.slow
def test_a_loss_that_rises_is_told():
    task, examples = text_classification_toys.make("bag"), text_classification_toys.EXAMPLES
    settings = {"epochs": 2, "batch_size": 2, "verbose": 0}
    assert "rose" not in task.fit(examples, learning_rate=1e-2, **settings).note
    run = task.fit(examples, learning_rate=30.0, warmup_steps=40, **settings)
    assert f"the training loss rose from {run.first_loss:.3f} in the first steps to " in run.note


def test_a_rise_without_the_first_steps():
    assert "rose from 0.500 in the first epoch to 0.600" in doubt_of_rise(None, [0.5, 0.4, 0.6])
    assert doubt_of_rise(None, [0.5, 0.4, 0.5]) == doubt_of_rise(0.7, []) == ""

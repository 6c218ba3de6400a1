"""New tasks that continue from a saved one of their kind."""

import json

import answering_toys
import captioning_toys
import conversation_toys
import entailment_toys
import keras
import numpy as np
import pytest
import tagging_toys
import visual_question_toys
from every_task import CASES
from test_copies import same, shift

from keras_attn.tasks import EntailmentClassifier, TextClassifier, TextRegressor
from keras_attn.tasks.base import task_file
from keras_attn.text import WordPieceTokenizer

# Examples of a new run, and settings that the saved task does not decide.
NEW = {
    "captioning": (captioning_toys.CAPTIONED[:2], {"max_length": 3, "caption": "text"}),
    "captioning, all trained": (captioning_toys.CAPTIONED[:2], {"max_length": 3}),
    "conversation": (conversation_toys.TALKS[:2], {**conversation_toys.DATA, "max_answer": 3}),
    "entailment": (entailment_toys.EXAMPLES[:3], {"max_length": 12}),
    "question answering": (answering_toys.questions(9), {**answering_toys.DATA}),
    "regression": ([("new words", 4), ("film", 2)], {"max_length": 12, "text": "review"}),
    "tagging": (tagging_toys.sentences(4), {"max_length": 24}),
    "text classification": (
        [("new words", "good"), ("film", "bad")], {"max_length": 12, "text": "review"}
    ),
    "visual questions": (visual_question_toys.EXAMPLES[:4], {"max_length": 8}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_a_new_task_gives_what_the_saved_one_gives(tmp_path, name):
    """It has the vocabulary, the labels and all weights, and the given settings of the data."""
    make, ask = CASES[name]
    keras.utils.set_random_seed(0)
    former = make()
    shift(former.whole)
    if name == "regression":
        former.relearn(mean=3.0, deviation=1.0, median=3.0)  # the scale of the new numbers
    former.save(tmp_path / "former.task")
    examples, data = NEW[name]
    data = {k: v for k, v in data.items() if k != "vocabulary_size"}
    data["backbone"] = str(tmp_path / "former.task")
    task = type(former).create(examples, data=data)
    assert {n: getattr(task.data, n) for n in data} == data
    learned, known = task.learned.to_config(), former.learned.to_config()
    assert learned | {"encoder": None} == known | {"encoder": None}
    assert task.pretrained
    assert not (task.loaded.new or task.loaded.left_over)
    assert same(ask(task), ask(former))


@pytest.mark.slow
def test_the_weights_of_the_saved_task_are_read_once(tmp_path, monkeypatch):
    _, data = classifier(tmp_path)
    reads, read = [], task_file._tensors
    monkeypatch.setattr(task_file, "_tensors", lambda archive: reads.append(1) or read(archive))
    data = TextClassifier.Data.made(data)
    model = TextClassifier.model_of(data, None)
    TextClassifier.create([("a film", "good"), ("a book", "bad")], data=data, model=model)
    assert reads == [1]


def classifier(tmp_path, model="bag"):
    made = TextClassifier.create([("a film", "good"), ("a book", "bad")], model=model)
    shift(made.model)
    made.save(tmp_path / "former.task")
    return made, {"backbone": str(tmp_path / "former.task")}


@pytest.mark.slow
def test_a_run_that_continues_a_model_is_resumed(tmp_path):
    """The second call finds a complete run; its learning rate is that of given weights."""
    former, data = classifier(tmp_path)
    examples, lines = [("a film", "good"), ("a book", "bad")] * 2, []
    for _ in range(2):
        run = TextClassifier.train(
            examples, examples, tmp_path / "run", data, training={"epochs": 1}, log=lines.append
        )
    assert (run.complete, lines[-1]) == (True, "All epochs are done.")
    assert lines[0].startswith(f"loaded: {len(former.model.weights)} tensors of embedding")
    settings = (tmp_path / "run/settings.toml").read_text()
    assert "learning_rate = 0.0001" in settings
    kept = TextClassifier.load(run.best)
    assert kept.class_names == former.class_names
    moved = [
        np.abs(a - b).max()
        for a, b in zip(kept.model.get_weights(), former.model.get_weights(), strict=True)
    ]
    assert 0 < max(moved) < 0.01


FILMS = [("a film", "good"), ("a book", "bad")]
SMALL = {"model": "bag", "dim": 4, "pair_buckets": 0}


@pytest.mark.slow
def test_other_labels_need_an_encoder(tmp_path):
    _, data = classifier(tmp_path)
    with pytest.raises(
        ValueError, match=r"like those of the backbone: .*bad, good.* it lacks: 'new'\. Use such"
    ):
        TextClassifier.create([("a film", "good"), ("a book", "new")], data=data)


def test_the_label_of_no_class_is_not_one_that_a_backbone_lacks(tmp_path):
    _, data = classifier(tmp_path, SMALL)
    task = TextClassifier.create([*FILMS, ("zebra", "none")], data={**data, "unknown": "none"})
    assert (task.class_names, task.unknown) == (("bad", "good"), "none")
    assert not task.loaded.new
    with pytest.raises(ValueError, match="Received: its class 'good' as the label `unknown`"):
        TextClassifier.create([*FILMS, ("zebra", "ugly")], data={**data, "unknown": "good"})


SEVERAL = [(text, (label,)) for text, label in FILMS]
PAIRS = [((text, text), label) for text, label in FILMS]


@pytest.mark.parametrize(
    ("former", "examples", "error"),
    [
        (FILMS, SEVERAL, "texts with several labels, or none, instead of texts with one label"),
        (SEVERAL, FILMS, "texts with one label each, instead of texts with several labels, or"),
        (FILMS, PAIRS, "pairs of texts, instead of single texts"),
        (PAIRS, FILMS, "single texts, instead of pairs of texts"),
    ],
    ids=["several labels", "one label", "pairs", "single texts"],
)
def test_other_kinds_of_examples_need_an_encoder(tmp_path, former, examples, error):
    saved = TextClassifier.create(former, model=SMALL)
    saved.save(tmp_path / "former.task")
    data = {"backbone": str(tmp_path / "former.task")}
    with pytest.raises(ValueError, match=rf"backbone: TextClassifier.* Received: {error}"):
        TextClassifier.create(examples, data=data)
    assert not TextClassifier.create(former, data=data).loaded.new


def test_a_regressor_continues_with_pairs_only_from_pairs(tmp_path):
    TextRegressor.create([("film", 4), ("book", 2)], model=SMALL).save(tmp_path / "former.task")
    data = {"backbone": str(tmp_path / "former.task")}
    with pytest.raises(ValueError, match="Received: pairs of texts, instead of single texts"):
        TextRegressor.create([(("film", "film"), 4), (("book", "film"), 2)], data=data)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [SEVERAL, PAIRS], ids=["several labels", "pairs"])
def test_an_encoder_gets_a_new_head_for_other_kinds_of_examples(tmp_path, examples):
    sizes = {"model": "bert", "dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    _, data = classifier(tmp_path, sizes)
    task = TextClassifier.create(examples, data=data)
    assert {name.split("/")[0] for name in task.loaded.new} == {"head"}
    assert (task.multi_label, task.pairs) == (examples is SEVERAL, examples is PAIRS)


@pytest.mark.slow
def test_an_encoder_gets_a_new_head_for_other_labels(tmp_path):
    sizes = {"model": "bert", "dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    _, data = classifier(tmp_path, sizes)
    same_labels = TextClassifier.create([("film", "good"), ("book", "bad")], data=data)
    assert not same_labels.loaded.new
    other = TextClassifier.create([("film", "good"), ("book", "new")], data=data)
    assert {name.split("/")[0] for name in other.loaded.new} == {"head"}
    assert other.class_names == ("good", "new")


@pytest.mark.slow
def test_rows_are_as_long_as_those_of_the_backbone(tmp_path):
    """If the new run says nothing else, with the old labels and with new ones."""
    place = short_encoder(tmp_path)
    for labels in ("good", "bad"), ("good", "new"):
        examples = list(zip(("film", "book"), labels, strict=True))
        assert TextClassifier.create(examples, data={"backbone": place}).data.max_length == 8
    shorter = TextClassifier.create(examples, data={"backbone": place, "max_length": 6})
    assert shorter.data.max_length == 6


def test_rows_longer_than_the_positions_of_the_backbone(tmp_path):
    data = {"backbone": short_encoder(tmp_path), "max_length": 9}
    with pytest.raises(ValueError, match=r"^Expected a `max_length` of at most 8.*Received: 9\. U"):
        TextClassifier.create([("film", "good"), ("book", "bad")], data=data)


def short_encoder(tmp_path):
    """The file of a classifier with 8 positions."""
    sizes = {"model": "bert", "dim": 4, "num_layers": 1, "num_heads": 1, "intermediate_dim": 4}
    made = TextClassifier(
        WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "film"]),
        ["bad", "good"],
        model=sizes,
        data={"max_length": 8},
    )
    made.save(tmp_path / "former.task")
    return str(tmp_path / "former.task")


@pytest.mark.quick("model")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"data": {"vocabulary_size": 30}}, r"`vocabulary_size` is 20000 in the backbone.*30"),
        ({"model": {"dim": 9}}, r"`dim` is 4 in the backbone. Received: 9"),
        ({"data": {"word_vectors": "x.txt"}}, r"word_vectors. and .backbone. both initialize"),
    ],
    ids=["vocabulary", "model", "vectors"],
)
def test_what_the_saved_task_decides(tmp_path, change, error):
    entailment_toys.make().save(tmp_path / "former.task")
    data = {"backbone": str(tmp_path / "former.task"), **change.get("data", {})}
    with pytest.raises(ValueError, match=error):
        EntailmentClassifier.create(
            entailment_toys.EXAMPLES[:3], data=data, model=change.get("model")
        )


def test_a_file_of_another_task(tmp_path):
    classifier(tmp_path)
    data = {"backbone": str(tmp_path / "former.task")}
    with pytest.raises(ValueError, match=r"holds a TextClassifier. Expected: a"):
        EntailmentClassifier.create(entailment_toys.EXAMPLES[:3], data=data)
    (tmp_path / "former.task").write_text(json.dumps({}))
    with pytest.raises(ValueError, match=r"Expected a saved task"):
        EntailmentClassifier.create(entailment_toys.EXAMPLES[:3], data=data)
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        EntailmentClassifier.create(
            entailment_toys.EXAMPLES[:3], data={"backbone": str(tmp_path / "nowhere.task")}
        )

"""Every registered architecture, and one of a user's own, in every task that offers its role."""

import dataclasses
import inspect

import captioning_toys
import conversation_toys
import numpy as np
import pytest
import summarization_toys
import text_classification_toys
import text_generation_toys
import translation_toys
import visual_question_toys
from tracing import eagerly, unsaved  # noqa: F401

from keras_attn import tasks

SMALL = {
    "dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0, "units": 8,
    "encoder_layers": 1, "decoder_layers": 1,
}  # fmt: skip
PAIRS = [("a red dog", "a dog"), ("a cat", "a dog"), ("a red cat", "a cat"), ("no dog", "a dog")]
WORDS = {"vocabulary_size": 60, "max_length": 24}
SENTENCES = [["a red dog", "it sleeps"], ["a cat", "it runs"], ["no dog", "a cat runs"]] * 4


def pairs_with(*labels):
    return list(zip(PAIRS, labels, strict=True)) * 2


# Class, examples, settings of the data, further parts, inputs of `predict`.
CASES = {
    "text classification": (
        tasks.TextClassifier, text_classification_toys.EXAMPLES[:12], {"max_length": 12}, {},
        ["the film was great", "dull"],
    ),
    "regression": (
        tasks.TextRegressor, pairs_with(1.0, 0.0, 0.5, 0.25), {"max_length": 12}, {}, PAIRS,
    ),
    "entailment": (
        tasks.EntailmentClassifier, pairs_with("yes", "no", "yes", "no"), {"max_length": 8}, {},
        PAIRS,
    ),
    "similarity": (
        tasks.SimilarityScorer, pairs_with(1.0, 0.0, 0.5, 0.25), WORDS, {}, PAIRS,
    ),
    "answer selection": (tasks.AnswerSelector, PAIRS, WORDS, {}, ["a red dog", "a cat"]),
    "tagging": (
        tasks.Tagger, [(["Ada", "runs"], ["B-X", "O"]), (["a", "cat"], ["O", "O"])] * 4, WORDS, {},
        ["Ada runs", "a cat"],
    ),
    "question answering": (
        tasks.QuestionAnswerer, pairs_with(["dog"], [], ["cat"], []),
        {**WORDS, "max_question_length": 6}, {}, PAIRS,
    ),
    "pretraining": (tasks.Pretrainer, SENTENCES, WORDS, {}, ["a [MASK] dog"]),
    "embeddings": (tasks.WordEmbedder, ["the dog saw a cat"] * 9, {}, {}, ["dog"]),
    "text generation": (
        tasks.TextGenerator, text_generation_toys.TEXT[:200], {"sequence_length": 8}, {}, ["to be"],
    ),
    "translation": (
        tasks.Translator, translation_toys.PAIRS[:12], {"max_length": 8}, {}, ["the one"],
    ),
    "summarization": (
        tasks.Summarizer, summarization_toys.PAIRS[:12], summarization_toys.DATA, {},
        summarization_toys.TEXTS[:1],
    ),
    "conversation": (
        tasks.Talker, conversation_toys.TALKS, conversation_toys.DATA, {},
        [("Hi.",)],
    ),
    "captioning": (
        tasks.Captioner, captioning_toys.CAPTIONED, {"max_length": 4},
        {"encoder": {"image_size": 16, "filters": "4,8"}}, captioning_toys.PICTURES[:2],
    ),
    "visual questions": (
        tasks.VisualQuestionAnswerer, visual_question_toys.EXAMPLES[:12], {"max_length": 8},
        {"encoder": visual_question_toys.ENCODER}, visual_question_toys.ODD[:1],
    ),
}  # fmt: skip
ARCHITECTURES = [(name, kind) for name, (task, *_) in CASES.items() for kind in task.kinds]
OWN = "own"


def create(name, kind):
    task, examples, data, parts, _ = CASES[name]
    known = {field.name for field in dataclasses.fields(task.kinds[kind])}
    model = {"model": kind, **{key: value for key, value in SMALL.items() if key in known}}
    if name == "translation":
        return task(translation_toys.tokenizer(), model=model, data=data)
    return task.create(examples, data=data, model=model, **parts)


def answers(task, name):
    inputs = CASES[name][-1]
    for method in ("predict", "translate", "answer", "caption"):
        if hasattr(task, method):
            return repr(getattr(task, method)(inputs))
    return task.generate(inputs, 3)


@pytest.fixture(params=[task.kinds for task, *_ in CASES.values()], ids=list(CASES))
def own(request):
    """An architecture of a user's own in the role of a task; its file is run twice."""
    kinds = request.param
    for _ in range(2):

        @kinds.register(OWN)
        @dataclasses.dataclass(frozen=True)
        class Own(kinds[kinds.default]):
            """Settings of an architecture that a user has derived."""

    yield request.node.callspec.id
    del kinds._kinds[OWN]


def explains(task, kind, inputs):
    settings = {}
    if kind == "bilstm":  # it has no attention
        if "method" not in inspect.signature(task.explain).parameters:
            with pytest.raises(ValueError, match="No attention layer"):
                task.explain(inputs)
            return
        settings = {"method": "gradient"}
    page = task.page(task.explain(inputs, **settings), "Explained")
    assert "<title>Explained</title>" in page


def works(name, kind, folder):
    examples = CASES[name][1]
    with eagerly():
        task = create(name, kind)
        assert task.kinds.name_of(task.config) == kind
        run = task.fit(examples, epochs=1, verbose=0)
        assert np.isfinite(run.history["loss"]).all()
        given = answers(task, name)
        task.save(folder / "saved.task")
        assert answers(type(task).load(folder / "saved.task"), name) == given
        if "explain" in task.steps and getattr(task, "attends", True):
            explains(task, kind, CASES[name][-1])
    return task


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There are only", "ignore:The classes are uneven")
@pytest.mark.parametrize("name, kind", ARCHITECTURES)
def test_every_architecture(name, kind, tmp_path, unsaved):  # noqa: F811
    works(name, kind, tmp_path).export(tmp_path / "exported")
    assert unsaved


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There are only", "ignore:The classes are uneven")
def test_an_architecture_of_ones_own(own, tmp_path, unsaved):  # noqa: F811
    works(own, OWN, tmp_path).export(tmp_path / "exported")
    assert unsaved


def test_all_tasks_are_tried():
    kinds = {task for task, *_ in CASES.values()}
    shipped = {x for x in vars(tasks).values() if isinstance(x, type) and issubclass(x, tasks.Task)}
    abstract = {tasks.Task, tasks.EncoderTask}
    assert kinds == shipped - abstract

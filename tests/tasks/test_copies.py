"""What a task gives depends on what it is now, not on what it was when it was last asked."""

import copy
import dataclasses
import inspect
import pickle

import keras
import numpy as np
import pytest
import selection_toys
import tagging_toys
from every_task import CASES

from keras_attn.adapt import enable_lora, merge_lora
from keras_attn.generation import CompiledFunction, CompiledSteps, Keeper


def parts(found):
    """Numbers and strings of an answer, in their order."""
    if isinstance(found, str):
        return [found]
    if isinstance(found, list | tuple):
        return [part for some in found for part in parts(some)]
    return np.asarray(found, "float64").ravel().tolist()


def same(found, expected):
    found, expected = parts(found), parts(expected)
    strings = [[x for x in some if isinstance(x, str)] for some in (found, expected)]
    numbers = [[x for x in some if not isinstance(x, str)] for some in (found, expected)]
    return strings[0] == strings[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=1e-5)


def shift(model, seed=5):
    """Gives a model other weights."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed" not in weight.path and "variance" not in weight.path:
            weight.assign(rng.normal(scale=0.4, size=weight.shape))


@pytest.fixture
def asked(request, eager):
    make, ask = CASES[request.param]
    keras.utils.set_random_seed(0)
    task = make()
    if request.param not in ("tagging", "entailment", "similarity", "visual questions"):
        shift(task.whole, seed=3)
    return task, ask, ask(task)


QUICK = ("tagging", "similarity", "translation", "text generation", "visual questions")


@pytest.mark.quick("similarity")
@pytest.mark.parametrize(
    "asked",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
    indirect=True,
)
def test_a_copy_shares_nothing(asked):
    task, ask, before = asked
    made = copy.deepcopy(task)
    shift(made.model)
    other = ask(made)
    assert not same(other, before)
    own = task.model
    task.model = made.model
    assert same(ask(task), other)
    task.model = own
    assert same(ask(task), before)


@pytest.mark.slow
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("asked", ["visual questions", "answer selection"], indirect=True)
def test_ways_of_copying(asked, how):
    task, ask, before = asked
    task.note = "float32"  # nothing of a file
    made = how(task)
    assert same(ask(made), before) and made.note == "float32"
    shared = {id(weight) for weight in task.whole.variables}
    assert not shared & {id(weight) for weight in made.whole.variables}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["visual questions", "answer selection"], indirect=True)
def test_weights_that_are_assigned(asked):
    task, ask, before = asked
    expected = copy.deepcopy(task)
    for model in (task.whole, expected.whole):
        shift(model)
    found = ask(task)
    assert same(found, ask(expected)) and not same(found, before)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["tagging", "answer selection"], indirect=True)
def test_lora_after_a_call(asked):
    task, ask, before = asked
    enable_lora(task, rank=2)
    assert same(ask(task), before)  # its second factor is zero
    shift_lora(task.model)
    adapted = ask(task)
    assert not same(adapted, before)
    made = copy.deepcopy(task)
    merge_lora(task)
    assert same(ask(task), adapted)
    assert same(ask(made), adapted) and made.model.trainable_weights


def shift_lora(model):
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["tagging", "visual questions"], indirect=True)
def test_layers_that_are_frozen(asked):
    task, ask, before = asked
    layer = task.whole.layers[-1]
    layer.trainable = False
    assert same(ask(task), before)
    made = copy.deepcopy(task)
    paths = [[v.path for v in x.whole.trainable_variables] for x in (task, made)]
    count = len(task.whole.variables)
    assert paths[0] == paths[1] and 0 < len(paths[0]) < count
    layer.trainable = True
    assert same(ask(made), before)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["tagging", "answer selection"], indirect=True)
def test_a_model_that_is_quantized_after_a_call(asked):
    task, ask, before = asked
    task.quantize("int8")
    made = copy.deepcopy(task)
    assert same(ask(task), ask(made)) and not same(ask(task), before)


# What is not the default, of the settings of the data and of what is learned.
CHANGED = {
    "question answering": {"long_questions": "error"},
    "captioning": {"on_error": "skip", "cache_dtype": "float32"},
    "visual questions": {"on_error": "skip", "cache_dtype": "float32"},
    "text classification": {"temperature": 2.0},
    "entailment": {"temperature": 2.0},
    "text generation": {"ends": True},
    "conversation": {"empty_contexts": True, "max_turns": 2},
    "tagging": {"train": "a.txt", "dev_share": 0.5},
    "translation": {"source": "en", "target": "de"},
    "summarization": {"max_summary_length": 9, "prefix": "sum: "},
}


@pytest.mark.quick("tagging")
@pytest.mark.parametrize("name", CASES)
def test_files_hold_what_decides(name, tmp_path):
    task = CASES[name][0]()
    for field, value in CHANGED.get(name, {}).items():
        part = "data" if hasattr(task.data, field) else "learned"
        assert getattr(getattr(task, part), field) != value
        setattr(task, part, dataclasses.replace(getattr(task, part), **{field: value}))
    task.save(tmp_path / "a.task")
    again = type(task).load(tmp_path / "a.task")
    assert (again.data, again.config) == (task.data, task.config)
    found, expected = again.learned.to_config(), task.learned.to_config()
    for name in expected:
        # Keras numbers the layers of an encoder anew; its settings and weights are the same.
        assert name == "encoder" or found[name] == expected[name], name
    # A task has no other attributes that decide.
    plain = (bool, int, float, str, tuple, list, dict)
    decides = [
        attribute
        for attribute, value in vars(task).items()
        if isinstance(value, plain) and attribute[0] != "_"
        if attribute not in task.decide_nothing
    ]
    assert decides in ([], ["reads"])


@pytest.mark.slow
def test_settings_of_a_copy():
    task = selection_toys.make()
    task.data = task.Data(max_length=16, train="a.csv")
    assert pickle.loads(pickle.dumps(task)).data == task.data


def test_compiled_functions_are_not_copied():
    layer = keras.layers.Identity()
    for compiled in (
        CompiledFunction(lambda ids, length: ids, layer),
        CompiledSteps(lambda ids, length: ids, lambda state: (state, state), layer),
    ):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="Compile a new function for the copied model"):
                way(compiled)


@pytest.mark.slow
def test_two_functions_of_one_name(eager):
    """Both are lambdas, and both picks are called `pick`."""
    task = tagging_toys.untrained(num_layers=1)
    rows = [([2, 5, 6, 3], 4)]
    ones, twos = (
        task.compute(rows, 1, lambda inputs, n=n: {"n": inputs["token_ids"] * n})[0]["n"]
        for n in (1, 2)
    )
    assert ones[:4].tolist() == [2, 5, 6, 3] and twos[:4].tolist() == [4, 10, 12, 6]

    def picked(factor):
        def pick(logits, index):
            return factor * logits["tags"][:, 1, 0]

        return task.gradients(rows, pick, [0])[0]

    once = picked(1.0)
    assert np.abs(once).max() > 0.01
    np.testing.assert_allclose(picked(3.0), 3 * once, rtol=1e-4)


@pytest.mark.slow
def test_settings_that_are_changed_after_a_call(eager):
    """What is kept was made of them."""
    tagger = tagging_toys.untrained(num_layers=1)
    text = "Ada meets Bob Lee in New Rome with Tom and Eva Lee of Oslo ."
    tagger.predict(text)
    tagger.data = dataclasses.replace(tagger.data, max_length=12)
    assert tagger.words.room == 10 and tagger.field.max_length == 12
    found = tagger.predict(text).probabilities
    made = type(tagger).from_config(tagger.get_config())
    made.model.set_weights(tagger.model.get_weights())
    assert found == pytest.approx(made.predict(text).probabilities, abs=1e-6)

    translator = CASES["translation"][0]()
    assert translator.field.encode(["the one"])["cut"].tolist() == [False]
    translator.data = dataclasses.replace(translator.data, max_length=2)
    assert translator.field.encode(["the one"])["cut"].tolist() == [True]


class Doubler(Keeper):
    decide_nothing = ("note",)

    def __init__(self, model):
        self.model = model
        self.note = ""

    def run(self, factor):
        self.note = f"asked for {factor}"
        return self.kept(lambda: [factor, self.model], "run", factor)


def test_what_is_kept():
    doubler = Doubler([1])
    first = doubler.run(1)
    assert doubler.run(1) is first
    # Python says 1 == 1.0 == True; a function of an integer is another one than of a float.
    assert [doubler.run(x) is first for x in (1.0, True, 2)] == [False] * 3
    assert doubler.run(1) is first
    for number in range(100, 115):  # 15 more: the one asked last before them stays
        doubler.run(number)
    assert doubler.run(1) is first and doubler.run(2) is not None
    for number in range(200, 216):
        doubler.run(number)
    assert doubler.run(1) is not first and len(doubler._kept[1]) == 16
    first = doubler.run(1)
    doubler.model = [1]  # equal, but another
    assert doubler.run(1) is not first
    for made in (copy.copy(doubler), copy.deepcopy(doubler), pickle.loads(pickle.dumps(doubler))):
        assert made._kept is None and made.model == [1]


@pytest.mark.slow
def test_arguments_of_constructors():
    tagger = tagging_toys.untrained(num_layers=1)
    kind = type(tagger)
    assert str(inspect.signature(kind)).endswith("*, model=None, data=None, dtype=None)")
    with pytest.raises(TypeError, match=r"Expected Tagger\(tokenizer, labels, .*3 arguments"):
        kind(tagger.tokenizer, ["O", "B-X"], {"dim": 8})
    with pytest.raises(TypeError, match=r"`max_length`\. It is a setting of the data: data="):
        kind(tagger.tokenizer, ["O", "B-X"], max_length=8)
    with pytest.raises(TypeError, match=r"Received: `lables`\.$"):
        kind(tagger.tokenizer, lables=["O", "B-X"])
    again = kind(tagger.learned, model=tagger.config, data=tagger.data)
    assert (again.labels, again.data) == (tagger.labels, tagger.data)
    examples = [(["Ada", "codes"], ["B-PER", "O"])]
    with pytest.raises(
        TypeError, match=r"Expected Tagger\.create\(examples, .*`max_length`\. It is"
    ):
        kind.create(examples, max_length=8)
    with pytest.raises(TypeError, match=r"dtype=None\)\. Received: `encoder`\.$"):
        kind.create(examples, encoder={})

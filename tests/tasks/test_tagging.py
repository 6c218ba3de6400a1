"""The tagger: learning, windows, scores, explanations, files, the SavedModel, other libraries."""

import functools
import json
import textwrap
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import keras
import memory
import numpy as np
import pytest
import tagging_toys
import tensorflow as tf
from integrated_reference import integrated
from kept import kept
from processes import answer, run_python
from seqeval.metrics import f1_score
from seqeval.scheme import BILOU, IOBES, Entities
from tagging_toys import DATA, SIZES, TEXTS, everything, sentences, untrained
from tracing import eagerly

from keras_attn.explain import EncoderStudy
from keras_attn.export import check_equal
from keras_attn.fields import ODD_TEXTS
from keras_attn.metrics import entities_of, repair_labels
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import EntityPlace, Pretrainer, Tagger, TextClassifier
from keras_attn.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    WordPieceTokenizer,
    split_words,
)

LONG = " ".join(f"Ada Tom meets Eva in New Oslo, {i} times, said Ida;" for i in range(9))


@pytest.fixture(scope="module")
def tagger():
    return kept(Tagger, tagging_toys.trained)


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "t.task"
    return untrained(path), path


@pytest.mark.slow
def test_it_learns(tagger):
    report = tagger.evaluate(sentences(40, seed=1))
    assert report.f1 > 0.9 and report.accuracy > 0.95
    low, high = report.interval
    assert low <= report.f1 <= high
    assert set(report.of_kinds) == {"PER", "LOC"}
    text = "  Tom Ida meets Eva in New Kyiv ."
    assert tagger.predict(text).entities == [
        EntityPlace("PER", "Tom Ida", 2, 9, 0, 2),
        EntityPlace("PER", "Eva", 16, 19, 3, 4),
        EntityPlace("LOC", "New Kyiv", 23, 31, 5, 7),
    ]
    assert repr(tagger).startswith("Tagger(bert, ") and "5 labels: O, B-LOC, I-LOC" in repr(tagger)


@pytest.mark.slow
def test_long_sentences_are_read_in_windows(random_weights):
    """As a loop of our own over windows, each computed alone, has it."""
    tagger, _ = random_weights
    words = [word.text for word in split_words(LONG)]
    pieces = [tagger.tokenizer.encode(word) for word in words]
    ids = [i for piece in pieces for i in piece]
    room, margin = 22, 2
    step = room - 2 * margin
    assert len(ids) > 4 * room
    expected, at = [], 0
    for piece in pieces:
        begin = min(max(at - margin, 0) // step * step, len(ids) - room)
        row = [tagger.tokenizer.start_id, *ids[begin : begin + room], tagger.tokenizer.end_id]
        (found,) = tagger.compute([(row, len(row))], 1, tagger.scores)
        expected.append(found["tokens"][at - begin + 1])
        at += len(piece)
    (tagged,) = tagger.predict([words])
    assert len(tagged.labels) == len(words)
    best = np.argmax(expected, -1)
    same = [tagger.labels[b] == label for b, label in zip(best, tagged.labels, strict=True)]
    repaired = [label.startswith("B-") for label in tagged.labels]
    assert all(s or r for s, r in zip(same, repaired, strict=True)) and np.mean(same) > 0.5
    shown = [table[tagger.labels.index(label)]
             for table, label in zip(expected, tagged.labels, strict=True)]  # fmt: skip
    np.testing.assert_allclose(tagged.probabilities, shown, atol=1e-5)


def test_texts_and_words(random_weights):
    tagger, _ = random_weights
    for text, tagged in zip(TEXTS, tagger.predict(TEXTS), strict=True):
        words = [word.text for word in split_words(text)]
        (again,) = tagger.predict([words])
        assert tagged.words == again.words == words and tagged.labels == again.labels
        np.testing.assert_allclose(tagged.probabilities, again.probabilities, atol=1e-6)
        assert (tagged.text, again.text) == (text, None)
        for one, other in zip(tagged.entities, again.entities, strict=True):
            assert one.text == text[one.start : one.end]
            assert (other.start, other.end) == (None, None)
            assert other.text == " ".join(words[other.first : other.behind])
            assert (one.kind, one.first, one.behind) == (other.kind, other.first, other.behind)
    assert tagger.predict("don't (go) don't", split=False).words == ["don't", "(go)", "don't"]
    assert tagger.predict([]) == [] and tagger.predict([[]])[0].labels == []
    # A word that the tokenizer removes has a label too.
    assert len(tagger.predict([["Ada", "\u200d", "codes"]])[0].labels) == 3
    for wrong in ([7], [["a", 7]], [b"ab"]):
        with pytest.raises(TypeError, match=r"a string or a list of words.*at position 0"):
            tagger.predict(wrong)


def test_labels_are_read_off_first_pieces(random_weights):
    tagger, _ = random_weights
    words = ["Ada", "Osloin", "codes"]
    batches = tagger.dataset([(words, ["B-PER", "I-PER", "O"])], shuffle=False)
    inputs, labels, weights = batches[0]
    row = inputs["token_ids"][0].tolist()
    places = np.flatnonzero(weights["tags"][0]).tolist()
    sizes = [len(tagger.tokenizer.encode(word)) for word in words]
    assert sizes[1] > 1 and places == [1, 1 + sizes[0], 1 + sizes[0] + sizes[1]]
    assert [tagger.labels[labels["tags"][0][p]] for p in places] == ["B-PER", "I-PER", "O"]
    assert row[0] == tagger.tokenizer.start_id
    # A word of a long sentence is learned in one window alone.
    words = [word.text for word in split_words(LONG)]
    batches = tagger.dataset([(words, ["O"] * len(words))], shuffle=False)
    assert batches.num_examples > 3
    assert sum((batches[i][2]["tags"] > 0).sum() for i in range(len(batches))) == len(words)


@pytest.mark.slow
def test_why_there_are_no_entities():
    """One label is enough; parts of speech are meant so, and nothing is said."""
    texts = [(["Ada", "Lee", "codes"], ["B-PER", "I-PER", "O"])] * 3
    for more, said in (("MISC", "marks with a type, such as B-X: MISC"), (None, "")):
        lines = []
        odd = [(["Foo"], [more])] if more else [(["Foo"], ["O"])]
        with eagerly():
            tagger = Tagger.create([*texts, *odd], data=DATA, model=SIZES)
            tagger.fit([*texts, *odd], epochs=1, verbose=0, log=lines.append)
        assert tagger.scheme == ("" if more else "BIO")
        assert ("no entities" in "\n".join(lines)) == bool(more) and said in "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name, scheme", [("BIOES", IOBES), ("BILOU", BILOU)])
def test_other_schemes(name, scheme, tmp_path, unsaved):
    """What random weights guess is repaired, here and in the SavedModel, which is compared."""
    examples, lines = tagging_toys.by(name, sentences(20, seed=1)), []
    with eagerly():
        tagger = untrained(scheme=name, num_layers=1)
        assert tagger.scheme == name and len(tagger.labels) == 9
        found = tagger.predict([*TEXTS, LONG])
        strict = Entities([tagged.labels for tagged in found], scheme).entities
        for tagged, entities in zip(found, strict, strict=True):
            assert repair_labels(tagged.labels, name)[1] == 0
            places = [(e.kind, e.first, e.behind) for e in tagged.entities]
            assert places == [(e.tag, e.start, e.end) for e in entities]
        assert len({label[0] for tagged in found for label in tagged.labels}) >= 3
        guessed = [x.labels for x in tagger.predict([words for words, _ in examples])]
        right = [[*labels] for _, labels in examples]
        expected = f1_score(right, guessed, mode="strict", scheme=scheme)
        assert tagger.evaluate(examples, num_bootstrap=0).f1 == pytest.approx(expected)
        assert expected > 0
        tagger.save(tmp_path / "saved.task")
        assert Tagger.load(tmp_path / "saved.task").predict(TEXTS) == tagger.predict(TEXTS)
        tagger.export(tmp_path / "exported")
        tagger.fit(examples, epochs=1, verbose=0, log=lines.append)
    assert unsaved and f"entities by the scheme {name}" in lines


@pytest.mark.slow
def test_older_labels_are_repaired():
    lines = []
    older = [(["Ada", "Lee", "codes"], ["I-PER", "I-PER", "O"])] * 3
    with eagerly():
        tagger = Tagger.create(older, data=DATA, model=SIZES)
        run = tagger.fit(older, epochs=1, verbose=0, log=lines.append)
    assert tagger.labels == ("O", "B-PER", "I-PER")
    assert tagger.repaired == 3 and "3 labels that are not valid in this scheme" in "\n".join(lines)
    assert run.score_name == "entity F1"


@pytest.mark.slow
def test_labels_without_entities():
    """Parts of speech are scored by their accuracy."""
    examples = [(["Ada", "codes"], ["NN", "VB"]), (["Tea", "helps"], ["NN", "VB"])] * 4
    keras.utils.set_random_seed(0)
    with eagerly():
        tagger = Tagger.create(examples, data=DATA, model=SIZES)
        run = tagger.fit(examples, examples, epochs=6, batch_size=4, learning_rate=0.02, verbose=0)
    assert run.score_name == "accuracy" and run.best_score == 1.0 and not tagger.scheme
    assert tagger.predict("Ada helps").entities == [] and "val_f1" not in run.log[0]
    assert tagger.evaluate(examples, num_bootstrap=9).f1 is None


@pytest.mark.slow
def test_labels_that_were_never_seen(random_weights, tmp_path, eager):
    tagger, path = random_weights
    strange = [(["Ada", "codes"], ["B-JOB", "X"])]
    unknown = r"2 of 2 words have labels that .* count as errors: B-JOB \(1\), X \(1\)\."
    with pytest.warns(UserWarning, match=unknown) as found:
        report = tagger.evaluate(strange, num_bootstrap=5)
    assert found[0].filename == __file__
    assert report.accuracy == 0.0 and report.of_kinds["JOB"]["entities"] == 1
    with pytest.raises(ValueError, match=r"labels of \['O', .*'B-JOB' in sentence 0, 'Ada codes'"):
        tagger.dataset(strange)
    # Among the development sentences they count as errors, and sentences without entities do not
    # change what is measured.
    for dev in (strange, [(["codes"], ["O"])]):
        fresh = Tagger.load(path)
        told = pytest.warns(UserWarning, match=unknown) if dev == strange else nullcontext()
        with told:
            run = fresh.fit(sentences(8), dev, epochs=1, learning_rate=1e-9, verbose=0)
        assert run.score_name == "entity F1" and run.best_score == 0.0


def test_class_weights(random_weights):
    """Balanced: the words of each label weigh the same together."""
    tagger, _ = random_weights
    some = sentences(30)
    batches = tagger.dataset(some, "balanced", shuffle=False)
    totals = np.zeros(len(tagger.labels))
    for i in range(len(batches)):
        _, labels, weights = batches[i]
        np.add.at(totals, labels["tags"], weights["tags"] / weights["tags"].shape[0])
    plain = tagger.dataset(some, shuffle=False)
    assert len(plain) == len(batches)
    assert totals.max() / totals.min() < 1.2
    assert batches.guessing_loss() == pytest.approx(np.log(len(tagger.labels)))
    batches = tagger.dataset(some, {"O": 0.25, "B-PER": 2}, shuffle=False)
    _, labels, weights = batches[0]
    of_words = weights["tags"] > 0
    wanted = {"O": 0.25, "B-PER": 2.0}
    for number in np.unique(labels["tags"][of_words]):
        found = set(weights["tags"][of_words & (labels["tags"] == number)].tolist())
        assert found == {wanted.get(tagger.labels[number], 1.0)}
    with pytest.raises(ValueError, match=r"classes among \['O', .*Received: 'PER'"):
        tagger.dataset(some, {"PER": 2})


@pytest.mark.slow
def test_a_training_that_learns_nothing_is_named():
    with eagerly():
        tagger = untrained()
        run = tagger.fit(sentences(8), sentences(4), epochs=2, learning_rate=1e-9, verbose=0)
        assert "nothing was learned. Try another seed" in run.note
        shares = np.unique([x for _, labels in sentences(8) for x in labels], return_counts=True)[1]
        shares = shares / shares.sum()
        assert f"is not below {-(shares * np.log(shares)).sum():.3f}, " in run.note
    good = SimpleNamespace(history={"loss": [3.0, 0.8]})
    assert tagger.doubt(tagger.dataset(sentences(8)), good) == ""


@pytest.mark.slow
def test_a_training_that_explodes_is_an_error():
    with eagerly(), pytest.raises(ValueError, match="the training has diverged"):
        untrained().fit(
            sentences(8), epochs=3, learning_rate=1e30, clip_norm=0, warmup_steps=0, verbose=0
        )


def test_what_the_heads_look_at(random_weights):
    tagger, _ = random_weights
    study = tagger.explain(TEXTS[:1])
    assert isinstance(study, EncoderStudy) and "Look" in tagger.page(study, "Look")
    blank = tagger.explain("")
    assert blank.roles is None and repr(blank).startswith("<EncoderStudy of 1 text: ")
    assert "2 special, no word" in tagger.page(blank, "Look")
    assert "no word was read" in tagger.page([tagger.explain("", method="gradient")], "Look")
    assert tagger.explain(["", TEXTS[0]]).roles.texts == 1
    with pytest.raises(ValueError, match="`word` is only used with method='gradient'"):
        tagger.explain("Ada", word=0)
    with pytest.raises(ValueError, match="`method` must be one of"):
        tagger.explain("Ada", method="lime")


@pytest.mark.slow
def test_which_words_speak_for_a_label(tagger):
    explanation = tagger.explain("Tom meets Eva in Oslo .", word="Oslo", method="gradient")
    assert explanation.label == "B-LOC" and explanation.probabilities["B-LOC"] > 0.6
    assert explanation.tokens == ("Tom", "meets", "Eva", "in", "Oslo", ".")
    assert "for the word 'Oslo'" in explanation.method
    text = ". Ada meets Tom in Bonn ."
    first = tagger.explain([text, "", "so it is"], method="gradient")
    named = tagger.predict(text).entities[0]
    assert repr(named.text.split()[0]) in first[0].method
    assert first[0].label == f"B-{named.kind}"
    assert (first[1].tokens, first[1].label) == ((), None)
    assert "'so'" in first[2].method or first[2].label != "O"
    assert "Why" in tagger.page(first, "Why")
    parts = tagger.explain("Tom, Eva meet in Oslo", word="Oslo", method="gradient")
    tagger.own_use = {"split": False}  # the same ids, in fewer words
    whole = tagger.explain("Tom, Eva meet in Oslo", word="Oslo", method="gradient")
    tagger.own_use = {}
    assert whole.tokens == ("Tom,", "Eva", "meet", "in", "Oslo") and whole.label == parts.label
    np.testing.assert_allclose(whole.weights, np.add.reduceat(parts.weights, [0, 2, 3, 4, 5]), 1e-4)
    for word in ("Rome", 6, -1):
        with pytest.raises(ValueError, match=r"its index, 0 to 5. Received"):
            tagger.explain("Tom meets Eva in Oslo .", word=word, method="gradient")


@pytest.mark.slow
def test_words_of_other_windows_have_no_weight(random_weights, eager):
    tagger, _ = random_weights
    words = split_words(LONG)
    for number in (0, len(words) // 2, len(words) - 1):
        explanation = tagger.explain(LONG, word=number, method="gradient")
        assert words[number].text in explanation.tokens
        assert (words[number].start, words[number].end) in explanation.offsets
        assert len(explanation.tokens) < 22 < len(words)
        assert np.isfinite(explanation.weights).all() and explanation.weights.any()


# Other libraries


@pytest.fixture(scope="module")
def theirs(random_weights, tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    from keras_attn.interop import save_pretrained

    tagger, _ = random_weights
    folder = tmp_path_factory.mktemp("theirs") / "bert"
    save_pretrained(folder, tagger.model, tagger.config, tagger.tokenizer, tagger.labels)
    model, info = transformers.BertForTokenClassification.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    return model.eval(), folder


def test_logits_are_those_of_transformers(random_weights, theirs):
    import torch

    tagger, _ = random_weights
    model, _ = theirs
    assert model.config.id2label == dict(enumerate(tagger.labels))
    rows, _ = tagging_toys.rows_of(tagger, TEXTS)
    for (ids, _), found in zip(rows, tagger.compute(rows, 2), strict=True):
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits[0].numpy()
        np.testing.assert_allclose(found["tags"][: len(ids)], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_gradients_are_those_of_autograd(random_weights, theirs):
    """Of transformers' model, on what its embeddings hand to its encoder."""
    import torch

    tagger, _ = random_weights
    model, _ = theirs
    rows, places = tagging_toys.rows_of(tagger, [text for text in TEXTS if text])
    rows, index = rows[:3], [(places[0][0][1], 1), (places[1][2][1], 0), (4, 3)]
    from keras_attn.explain.attributions import label_log_odds

    embeddings, tokenizer = model.bert.embeddings, tagger.tokenizer
    special = (tokenizer.start_id, tokenizer.end_id)

    def asked(ids, column, label, part, blank):
        """The log-odds at a point of the way from the blank text, and the weights there."""
        other = [x if x in special else tokenizer.mask_id for x in ids]
        begin = embeddings(torch.tensor([other])).detach() * blank
        kept = {}

        def moved(module, inputs, output):
            kept["way"] = (output - begin).detach()
            kept["e"] = (begin + part * kept["way"]).requires_grad_(True)
            return kept["e"]

        hook = embeddings.register_forward_hook(moved)
        logits = model(torch.tensor([ids])).logits[0, column].double()
        hook.remove()
        odds = torch.log_softmax(logits, -1)[label]
        odds = odds - torch.log1p(-odds.exp())
        (gradient,) = torch.autograd.grad(odds, kept["e"])
        return odds.item(), (gradient * kept["way"]).sum(-1)[0].detach().numpy()

    for method in ("gradient", "integrated_gradients"):
        computed = tagger.gradients(rows, label_log_odds, index, batch_size=2, method=method)
        for (ids, _), (column, label), found in zip(rows, index, computed, strict=True):
            given = (ids, column, label)
            if method == "gradient":
                expected = asked(*given, 1.0, 0.0)[1]
            else:
                expected = integrated(functools.partial(asked, *given, blank=1.0))
            assert found.shape == (len(ids),) and np.abs(expected).max() > 0.05
            np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
def test_starting_from_an_encoder(random_weights, theirs, tmp_path):
    """A task of pretraining, a tagger, and a folder of Hugging Face weights."""
    tagger, path = random_weights
    config = {name: getattr(tagger.config, name) for name in SIZES}
    pretrainer = Pretrainer(
        WordPieceTokenizer.train(["Ada codes in Rome"], 60, mask_in_text=True, allow_fewer=True),
        model=config,
        data={"max_length": 24},
    )
    pretrainer.save(tmp_path / "p.task")
    for place, task in ((tmp_path / "p.task", pretrainer), (path, tagger), (theirs[1], tagger)):
        again = Tagger.create(sentences(8), data={"backbone": str(place), "max_length": 24})
        # A tagger with the same labels is continued, head included.
        new = set() if place == path else {"tags"}
        assert {name.split("/")[0] for name in again.loaded.new} == new
        vocabulary = again.tokenizer.get_config()["vocabulary"]
        assert vocabulary == task.tokenizer.get_config()["vocabulary"]
        ours, given = model_tensors(again.model), model_tensors(task.model)
        for name, value in ours.items():
            assert name.startswith("tags/") or (value == given[name]).all()
        lines = again.describe(again.dataset(sentences(8)))
        assert ("new and random: 2 tensors of tags" in lines) == bool(new)
    fresh = Tagger.create(
        sentences(8), data={"backbone": str(path), "backbone_weights": False, "max_length": 24}
    )
    assert fresh.loaded is None and fresh.config == tagger.config
    with pytest.raises(ValueError, match="`dim` is 16 in the backbone"):
        Tagger.create(
            sentences(8), data={"backbone": str(path), "max_length": 24}, model={"dim": 8}
        )
    assert Tagger.create(sentences(8), data={"backbone": str(path)}).max_length == 24
    with pytest.raises(ValueError, match=r"`max_length` of at most 24.*Received: 25"):
        Tagger.create(sentences(8), data={"backbone": str(path), "max_length": 25})


# Files, backends, precision


@pytest.mark.slow
def test_files(random_weights, tmp_path, eager):
    tagger, path = random_weights
    again = Tagger.load(path)
    assert everything(again) == everything(tagger)
    assert (again.labels, again.max_length) == (tagger.labels, 24)
    with pytest.raises(ValueError, match="holds a Tagger"):
        TextClassifier.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_another_backend(random_weights, backend):
    tagger, path = random_weights
    found = answer(backend, Path(tagging_toys.__file__), path)
    expected = everything(tagger)
    assert found["backend"] == backend
    assert found["labels"] == expected["labels"] and found["entities"] == expected["entities"]
    for name in ("probabilities", "report"):
        np.testing.assert_allclose(found[name], expected[name], atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_training_without_tensorflow(tmp_path, backend):
    lines = ["\n".join(map(" ".join, zip(*pair, strict=True))) for pair in sentences(40)]
    (tmp_path / "text.txt").write_text("\n\n".join(lines) + "\n")
    script = """
        import sys
        if "tensorflow" in sys.modules:
            sys.exit("TensorFlow was there before")
        from keras_attn.tasks import Tagger
        data = {"train": sys.argv[1] + "/text.txt", "dev_share": 0.3, "max_length": 24}
        examples = Tagger.read(Tagger.Data(**data))
        sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
        run = Tagger.train(examples.train, examples.dev, run_dir=sys.argv[1] + "/run", data=data,
                           model=sizes, training={"epochs": 1}, verbose=0)
        tagger = Tagger.load(run.best)
        tagger.explain("Ada meets Bob", method="gradient")
        print(run.complete, "tensorflow" in sys.modules, tagger)
    """
    done = run_python(backend, textwrap.dedent(script), tmp_path)
    assert done.stdout.startswith("True False Tagger(bert"), done.stderr


@pytest.mark.slow
def test_mixed_precision(tagger, tmp_path):
    tagger.save(tmp_path / "t.task")
    half = Tagger.load(tmp_path / "t.task", dtype="mixed_bfloat16")
    assert half.policy.name == "mixed_bfloat16"
    with eagerly():
        for mine, whole in zip(half.predict(TEXTS), tagger.predict(TEXTS), strict=True):
            np.testing.assert_allclose(mine.probabilities, whole.probabilities, atol=0.1)
        explanation = half.explain("Tom meets Eva in Oslo .", word="Oslo", method="gradient")
        expected = tagger.explain("Tom meets Eva in Oslo .", word="Oslo", method="gradient")
        np.testing.assert_allclose(explanation.weights, expected.weights, atol=0.5)
        half.fit(sentences(8), epochs=1, verbose=0)


@pytest.mark.slow
def test_int8(tagger, tmp_path):
    tagger.save(tmp_path / "t.task")
    small = Tagger.load(tmp_path / "t.task")
    small.quantize()
    small.save(tmp_path / "s.task")
    again = Tagger.load(tmp_path / "s.task")
    assert sum(weight.dtype == "int8" for weight in again.model.weights) >= 4
    f1 = tagger.evaluate(sentences(20, seed=1), num_bootstrap=0).f1
    assert again.evaluate(sentences(20, seed=1), num_bootstrap=0).f1 > f1 - 0.1


# The SavedModel


@pytest.mark.slow
def test_the_saved_model_gives_what_python_gives(random_weights, tmp_path):
    """In a process that has TensorFlow alone, for texts that it was not tried with, one long."""
    tagger, folder = random_weights[0], tmp_path / "saved"
    tagger.export(folder)
    script = """
        import json, sys
        import tensorflow as tf
        loaded = tf.saved_model.load(sys.argv[1]).signatures
        texts, words = json.loads(sys.stdin.read())
        def plain(x):
            x = x.numpy()
            return [[v.decode() if isinstance(v, bytes) else v for v in r] for r in x.tolist()]
        found = loaded["serving_default"](text=tf.constant(texts))
        words = loaded["words"](words=tf.constant(words))
        none = loaded["serving_default"](text=tf.constant([], tf.string))
        print(json.dumps([{k: plain(v) for k, v in found.items()},
                          {k: plain(v) for k, v in words.items()},
                          [len(v) for v in none.values()]]))
    """
    texts = [*TEXTS, LONG, "Ada \U0001f600 in Zürich", "  ", "a\u00a0b\tc\nd", "\u05d0\u05d1 Ada"]
    rows = [["Ada", "codes", ""], ["New", "\u200d", "Rome"], ["", "", ""], ["Ada", "", "Rome"]]
    given = json.dumps([texts, rows])
    done = run_python("alone", textwrap.dedent(script), folder, stdin=given)
    found, of_words, none = json.loads(done.stdout.splitlines()[-1])
    assert not any(none)
    for i, tagged in enumerate(tagger.predict(texts)):
        count, entities = len(tagged.words), tagged.entities
        assert found["words"][i][:count] == tagged.words
        assert found["labels"][i][:count] == tagged.labels
        assert not any(found["labels"][i][count:])
        np.testing.assert_allclose(
            found["probabilities"][i][:count], tagged.probabilities, atol=1e-5
        )
        for name, values in {
            "kinds": [e.kind for e in entities],
            "entities": [e.text for e in entities],
            "first": [e.first for e in entities],
            "behind": [e.behind for e in entities],
            "entity_start_characters": [e.start for e in entities],
            "entity_end_characters": [e.end for e in entities],
            "entity_starts": [len(texts[i][: e.start].encode()) for e in entities],
            "entity_ends": [len(texts[i][: e.end].encode()) for e in entities],
        }.items():
            assert found[name][i][: len(entities)] == values, name
            assert not any(found[name][i][len(entities) :])
        raw = texts[i].encode()
        for k, word in enumerate(tagged.words):
            begin, end = found["word_starts"][i][k], found["word_ends"][i][k]
            assert raw[begin:end].decode() == word
    rows = [["Ada", "codes"], rows[1], [], rows[3]]  # without what fills them up
    for i, tagged in enumerate(tagger.predict(rows)):
        labels = tagged.labels
        assert of_words["labels"][i] == [*labels, *[""] * (3 - len(labels))]


@pytest.mark.slow
def test_odd_texts_and_bytes_in_the_exported_function(random_weights, unsaved):
    tagger, _ = random_weights
    tagger.export("nowhere")
    serve = unsaved[0]["serving_default"]
    found = serve(text=tf.constant([*ODD_TEXTS, LONG]))
    given = {"text": [*ODD_TEXTS, LONG], "words": [["Ada"]]}
    expected = tagger.expected(given, tagger.Use())["serving_default"]
    for name, values in expected.items():
        check_equal(name, found[name].numpy(), values, 1e-4)
    raw = [b"Ada \xff\xfe in Rome\xc3", b"\xf0\x9f\x98 Tom"]
    found = serve(text=tf.constant(raw))
    for i, tagged in enumerate(tagger.predict([x.decode("utf-8", "replace") for x in raw])):
        assert [w.decode() for w in found["words"][i].numpy() if w] == tagged.words
    # Memory grows with the text, also where it has thousands of words and entities.
    for text in ("!?" * 12_000, "Ada Rome " * 4000):
        with memory.grown() as megabytes:
            serve(text=tf.constant([text]))
        assert megabytes() < 200
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received: 6000000\..*max_words"):
        serve(text=tf.constant(["a " * 60_000, *[""] * 99]))
        assert [w.decode() for w in found["labels"][i].numpy() if w] == tagged.labels


def test_labels_of_what_is_exported_are_repaired(random_weights):
    """The random weights give entities, and labels that must be repaired."""
    tagger, _ = random_weights
    rows, places = tagging_toys.rows_of(tagger, [*TEXTS, LONG])
    tables = tagger.compute(rows, 8)
    raw = [[tagger.labels[tables[r]["tags"][c].argmax()] for r, c in at] for at in places]
    found = tagger.predict([*TEXTS, LONG])
    repaired = [repair_labels(labels)[0] for labels in raw]
    assert raw != repaired and [tagged.labels for tagged in found] == repaired
    places = [[(e.kind, e.first, e.behind) for e in tagged.entities] for tagged in found]
    assert places == [[*map(tuple, entities_of(labels))] for labels in repaired]
    assert sum(map(len, places)) > 5


@pytest.mark.slow
def test_labels_that_only_go_on(unsaved):
    """Some pretrained taggers know "I-PER" without "B-PER"."""
    examples = [(["Ada", "codes"], ["B-PER", "O"])]
    with eagerly():
        known = Tagger.create(examples, data=DATA, model={**SIZES, "num_layers": 1})
        tagger = Tagger(
            known.tokenizer,
            ["O", "I-PER", "I-LOC"],
            model=known.config,
            data={"max_length": known.max_length},
        )
        tagger.export("nowhere")
        (functions,) = unsaved
        words = ["Ada", "Lee", "codes", "in", "Rome", "with", "Ben"] * 3
        kinds = set()
        for seed in range(4):
            rng = np.random.default_rng(seed)
            for weight in tagger.model.trainable_weights:
                weight.assign(rng.normal(scale=0.5, size=weight.shape))
            tagged = tagger.predict([words])[0]
            found = functions["words"](words=tf.constant([words]))
            assert [w.decode() for w in found["labels"][0].numpy()] == tagged.labels
            places = zip(*(found[n][0].numpy() for n in ("kinds", "first", "behind")), strict=True)
            assert [(k.decode(), *map(int, at)) for k, *at in places] == [
                (e.kind, e.first, e.behind) for e in tagged.entities
            ]
            kinds |= {e.kind for e in tagged.entities}
    assert kinds == {"PER", "LOC"}


@pytest.mark.slow
def test_export_of_labels_without_entities(unsaved):
    examples = [(["Ada", "codes"], ["NN", "VB"])]
    with eagerly():
        tagger = Tagger.create(examples, data=DATA, model={**SIZES, "num_layers": 1})
    tagger.export("nowhere")
    (functions,) = unsaved
    found = functions["words"](words=tf.constant([["Ada", "codes"]]))
    assert found["kinds"].shape == (1, 0) and found["labels"].shape == (1, 2)
    none = functions["words"](words=tf.constant([["", ""]]))
    assert none["labels"].shape == (1, 0)


@pytest.mark.slow
def test_wrong_settings(random_weights):
    tagger, _ = random_weights
    with pytest.raises(ValueError, match="call the signature `words` with words"):
        tagger.export("nowhere", split=False)
    with pytest.raises(ValueError, match="`tokenizer` must keep texts as they are"):
        Tagger(BytePairTokenizer.train(["a"], 259), ["O", "B-X"])
    with pytest.raises(TypeError, match="`tokenizer` must be a"):
        Tagger(CharacterTokenizer.train(["a"]), ["O", "B-X"])
    for labels in (["O"], ["O", "O"], []):
        with pytest.raises(ValueError, match="at least two labels, and no label twice"):
            Tagger(tagger.tokenizer, labels)
    with pytest.raises(ValueError, match="`max_length` must be at least 5"):
        Tagger(tagger.tokenizer, ["O", "B-X"], model=SIZES, data={"max_length": 4})
    with pytest.raises(ValueError, match="at most 512, the number of positions"):
        Tagger(tagger.tokenizer, ["O", "B-X"], model=SIZES, data={"max_length": 513})
    with pytest.raises(TypeError, match="pairs of a list of words"):
        Tagger.create(["Ada codes"], data=DATA, model=SIZES)
    with pytest.raises(ValueError, match="at least two labels"):
        Tagger.create([(["Ada"], ["O"])], data=DATA, model=SIZES)
    with pytest.raises(ValueError, match="at least one sentence"):
        tagger.evaluate([])
    with pytest.raises(ValueError, match="at least one row"):
        tagger.fit([], epochs=1)

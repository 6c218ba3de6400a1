"""Question answering: spans by exhaustive search, windows, labels, files, backends, SavedModels."""

import json
import textwrap
from pathlib import Path

import answering_toys
import memory
import numpy as np
import pytest
import tensorflow as tf
import torch
from answering_toys import DATA, LONG, PAIRS, SIZES, everything, questions, untrained
from array_references import Windows
from kept import kept
from processes import answer, run_python
from tracing import eagerly
from transformers import BertForQuestionAnswering

from keras_attn.explain import EncoderStudy
from keras_attn.interop import save_pretrained
from keras_attn.tasks import Pretrainer, QuestionAnswerer
from keras_attn.training import SpanCrossEntropy


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "q.task"
    return untrained(path), path


@pytest.fixture(scope="module")
def learned():
    return kept(QuestionAnswerer, answering_toys.trained)


@pytest.fixture(scope="module")
def with_none(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "n.task"
    return untrained(path, unanswerable=True), path


def all_spans(answerer, question, text, longest):
    """Scores of all spans of a text, by loops over windows; and of no answer."""
    tokenizer = answerer.tokenizer
    asked = tokenizer.encode(question)[: answerer.max_question_length]
    ids, places = tokenizer.encode_with_offsets(text)
    room = answerer.max_length - 3 - len(asked)
    windows = Windows(room, min(answerer.data.overlap // 2, room // 4))
    scores, none = {}, []
    for number, first in enumerate(windows.starts(len(ids))):
        part = ids[first : first + room]
        row = [tokenizer.start_id, *asked, tokenizer.end_id, *part, tokenizer.end_id]
        second = [0] * (len(asked) + 2) + [1] * (len(part) + 1)
        inputs = {"token_ids": row, "segment_ids": second, "padding_mask": [True] * len(row)}
        logits = answerer.model({n: np.array([x]) for n, x in inputs.items()}, training=False)
        s, e = np.asarray(logits["spans"], "float64")[0].T
        none.append(s[0] + e[0])
        before = len(asked) + 2
        for i in range(len(part)):
            if windows.number(first + i, len(ids)) != number:
                continue
            for j in range(i, min(i + longest, len(part))):
                key = (places[first + i][0], places[first + j][1], first + i, j - i)
                assert key not in scores
                scores[key] = s[before + i] + e[before + j]
    return scores, min(none)


@pytest.mark.quick("0", "5")
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_the_best_spans_are_those_of_all(random_weights, pair):
    answerer, _ = random_weights
    found = answerer.predict(pair, n_best=7, max_answer_length=6)
    scores, _ = all_spans(answerer, *pair, 6)
    best = sorted(scores, key=scores.get, reverse=True)[:7]
    total = np.logaddexp.reduce([*scores.values()]) if scores else 0
    assert [(span.start, span.end) for span in found.candidates] == [key[:2] for key in best]
    np.testing.assert_allclose(
        [span.probability for span in found.candidates],
        [np.exp(scores[key] - total) for key in best],
        atol=1e-5,
    )
    for span in found.candidates:
        assert span.text == pair[1][span.start : span.end]
    if best:
        assert found[:4] == tuple(found.candidates[0])
    else:
        assert found == ("", 0, 0, 0.0, [], 0.0)


@pytest.mark.slow
def test_no_answer(with_none):
    """Its score is the least of the windows; the threshold decides."""
    answerer, _ = with_none
    assert answerer.unanswerable
    question = "Where does Ada live?"
    scores, none = all_spans(answerer, question, LONG, 30)
    total = np.logaddexp.reduce([*scores.values(), none])
    gap = none - max(scores.values())
    below = answerer.predict((question, LONG), threshold=gap - 0.01)
    above = answerer.predict((question, LONG), threshold=gap + 0.01)
    assert below.no_answer == pytest.approx(np.exp(none - total), abs=1e-5)
    assert below[:4] == ("", 0, 0, below.no_answer)
    assert above.text and above.candidates == below.candidates
    assert answerer.predict(("Where?", "")).text == ""


def test_the_windows_of_a_training(random_weights, with_none):
    """The label of a window is where the answer stands in it."""
    for answerer, keeps_all in ((random_weights[0], False), (with_none[0], True)):
        example = ("Where does Ada live?", LONG, [("Kiel", LONG.rindex("Kiel"))])
        batches = answerer.dataset([example], shuffle=False, batch_size=64, max_shapes=1)
        inputs, labels, weights = batches[0]
        places = answerer.tokenizer.encode_with_offsets(LONG)[1]
        room = DATA["max_length"] - 3 - len(answerer.tokenizer.encode(example[0]))
        starts = Windows(room, min(4, room // 4)).starts(len(places))
        answer = next(i for i, (_, end) in enumerate(places) if end > example[2][0][1])
        without = sum(not first <= answer < first + room for first in starts)
        assert 1 < without < len(starts)
        rows = int((weights["spans"] > 0).sum())
        assert rows == (1 + without if keeps_all else 1)
        right = 0
        table = zip(inputs["token_ids"], inputs["padding_mask"], labels["spans"], strict=True)
        for ids, mask, (first, last, length) in table:
            assert mask.sum() == length
            if (first, last) != (0, 0):
                right += 1
                assert answerer.tokenizer.decode(ids[first : last + 1].tolist()) == "kiel"
        assert right == 1


def test_windows_with_a_part_of_the_answer_teach_nothing(with_none, random_weights):
    answerer = with_none[0]
    ids, places = answerer.tokenizer.encode_with_offsets(LONG)
    room = DATA["max_length"] - 3 - len(answerer.tokenizer.encode("Where?"))
    windows = Windows(room, min(answerer.data.overlap // 2, room // 4))
    starts = windows.starts(len(ids))
    assert len(starts) > 2 and starts[1] < room
    # One piece that two windows have, and a span that no window has as a whole.
    for first, last in ((starts[1], starts[1]), (1, room)):
        start, end = places[first][0], places[last][1]
        batches = answerer.dataset(
            [("Where?", LONG, [(LONG[start:end], start)])], shuffle=False, batch_size=64
        )
        labels = [tuple(row) for i in range(len(batches)) for row in batches[i][1]["spans"][:, :2]]
        labels = labels[: batches.num_examples]
        touching = sum(s <= last and s + room > first for s in starts)
        assert touching > 1 and labels.count((0, 0)) == len(starts) - touching
        whole = last - first < 2
        assert len(labels) == labels.count((0, 0)) + whole
        assert answerer.left_out == (
            {} if whole else {"answers that reach beyond their window were left out": 1}
        )
    with pytest.raises(ValueError, match="answers that reach beyond their window"):
        random_weights[0].dataset([("Where?", LONG, [LONG[: places[room][1]]])])


def test_long_questions(random_weights):
    answerer, _ = random_weights
    long = ("where " * 20, *questions(1)[0][1:])
    for what, count in (("cut", 1), ("skip", 0)):
        found = answerer.dataset([questions(1)[0], long], long_questions=what)
        assert found.num_examples == 1 + count
        assert sum(answerer.left_out.values()) == 1
        assert "more than 10 tokens" in next(iter(answerer.left_out))
    assert "1 questions of more than 10 tokens were left out" in answerer.describe(found)[-1]
    with pytest.raises(ValueError, match="Expected questions of at most 10 tokens"):
        answerer.dataset([long], long_questions="error")
    with pytest.raises(ValueError, match="left out"):
        answerer.dataset([long], long_questions="skip")


@pytest.mark.slow
def test_it_learns(learned):
    report = learned.evaluate(questions(30, seed=9, sentences=1))
    assert report.f1 > 0.8


@pytest.mark.slow
def test_the_best_weights_are_kept(random_weights, tmp_path):
    """A run in a folder ends with them."""
    examples = questions(8, sentences=1)
    with eagerly():
        answerer = QuestionAnswerer.load(random_weights[1])
        run = answerer.fit(
            examples, examples[:3], run_dir=tmp_path / "run", epochs=2, batch_size=8,
            learning_rate=5e-3, verbose=0,
        )  # fmt: skip
        assert run.score_name == "F1"
        assert QuestionAnswerer.load(run.best).evaluate(examples[:3], num_bootstrap=0).f1 == (
            pytest.approx(run.best_score)
        )


def theirs_of(answerer, folder):
    save_pretrained(folder, answerer.model, answerer.config, answerer.tokenizer)
    return BertForQuestionAnswering.from_pretrained(folder).eval()


@pytest.mark.slow
def test_weights_are_the_gradients_of_autograd(with_none, tmp_path):
    """Of transformers' model, on what its embeddings hand to its encoder; summed over words."""
    answerer, _ = with_none
    theirs = theirs_of(answerer, tmp_path / "hf")
    pairs = [("Where does Ada live?", LONG), ("Where?", "Ada lives in Oslo."), *PAIRS[-3:]]
    explanations = answerer.explain(pairs, method="gradient", threshold=1e9)
    none = answerer.explain(pairs[0], method="gradient", threshold=-1e9)
    for (question, text), found in zip([*pairs, pairs[0]], [*explanations, none], strict=True):
        asked = answerer.tokenizer.encode_with_offsets(question)
        ids, places = answerer.tokenizer.encode_with_offsets(text)
        asked = [x[:10] for x in asked]
        if found.marked is None:
            starts = Windows(DATA["max_length"] - 3 - len(asked[0]), 4).starts(len(ids))
        else:
            first = [p[0] for p in places].index(found.marked[0])
            last = [p[1] for p in places].index(found.marked[1])
            windows = Windows(DATA["max_length"] - 3 - len(asked[0]), 4)
            starts = [windows.starts(len(ids))[windows.number(first, len(ids))]]
        scores = []
        for begin in starts:
            part = slice(begin, begin + DATA["max_length"] - 3 - len(asked[0]))
            special = answerer.tokenizer
            row = [special.start_id, *asked[0], special.end_id, *ids[part], special.end_id]
            before = len(asked[0]) + 2
            kept = []
            hook = theirs.bert.embeddings.register_forward_hook(
                lambda module, inputs, output, kept=kept: kept.append(output)
            )
            types = [0] * before + [1] * (len(row) - before)
            out = theirs(torch.tensor([row]), token_type_ids=torch.tensor([types]))
            hook.remove()
            at = (0, 0) if found.marked is None else [x - begin + before for x in (first, last)]
            score = out.start_logits[0, at[0]] + out.end_logits[0, at[1]]
            scores.append((score.item(), score, kept[0], part))
        _, score, embedded, part = min(scores, key=lambda x: x[0])
        (gradient,) = torch.autograd.grad(score, embedded)
        weights = (gradient * embedded).sum(-1)[0].detach().numpy()
        expected = []
        for number, text_places, values in (
            (0, asked[1], weights[1:]), (1, places[part], weights[before:]),
        ):  # fmt: skip
            for (start, end), segment in zip(found.offsets, found.segments, strict=True):
                if segment == number:
                    some = zip(text_places, values, strict=False)
                    expected.append(sum(w for (a, b), w in some if start <= a and b <= end))
        np.testing.assert_allclose(found.weights, expected, atol=1e-4)
        if found.marked is None:
            assert found.label == "no answer"
        else:
            assert found.label == text[slice(*found.marked)]
            assert found.second == text and found.text == question
    assert explanations[-1].marked is None  # the empty text
    assert np.abs(explanations[0].weights).max() > 0.05


@pytest.mark.slow
def test_explanations_and_pages(learned):
    pair = ("Where does Ada live?", "Ada lives in Oslo.")
    found = learned.explain(pair, n_best=3)
    assert found.tokens == ("Where", "does", "Ada", "live", "?", "Ada", "lives", "in", "Oslo", ".")
    assert found.segments == (0,) * 5 + (1,) * 5
    answer = learned.predict(pair, n_best=3)
    assert found.marked == (answer.start, answer.end) and found.label == answer.text
    assert [*found.probabilities.values()] == [span.probability for span in answer.candidates]
    page = learned.page([found, *learned.explain([pair, ("", "")])], "Why <b>")
    assert page.count("<mark>") == 2 and "Why &lt;b&gt;" in page and "no answer" in page
    twice = learned.explain(("Where?", "Oslo. Oslo."), n_best=30)
    assert any(" (at " in name for name in twice.probabilities)
    assert learned.explain([]) == []
    study = learned.explain(pair, method="attention")
    assert isinstance(study, EncoderStudy) and "Look" in learned.page(study, "Look")
    with pytest.raises(ValueError, match="`method` must be one of"):
        learned.explain(pair, method="lime")


@pytest.mark.slow
def test_int8_and_half_precision(learned, tmp_path):
    some = questions(12, seed=9, sentences=1)
    learned.save(tmp_path / "q.task")
    small = QuestionAnswerer.load(tmp_path / "q.task").quantize()
    small.save(tmp_path / "s.task")
    again = QuestionAnswerer.load(tmp_path / "s.task")
    assert sum(weight.dtype == "int8" for weight in again.model.weights) >= 4
    exact = learned.evaluate(some, num_bootstrap=0).exact
    assert again.evaluate(some, num_bootstrap=0).exact > exact - 0.2
    half = QuestionAnswerer.load(tmp_path / "q.task", dtype="mixed_bfloat16")
    with eagerly():
        assert half.evaluate(some, num_bootstrap=0).exact > exact - 0.2
        half.fit(some, epochs=1, verbose=0)
        found = half.explain(some[0][:2])
    assert np.isfinite(found.weights).all() and found.weights.any()


@pytest.mark.slow
def test_the_export_of_an_int8_model(learned, tmp_path, unsaved):
    """It gives what the quantized object gives."""
    learned.save(tmp_path / "q.task")
    QuestionAnswerer.load(tmp_path / "q.task").quantize().export("nowhere")
    assert [*unsaved[0]] == ["serving_default"]


def test_evaluation_with_and_without_answers(with_none):
    answerer, _ = with_none
    some = [*questions(6), *(("Where does Zoe live?", text, []) for _, text, _ in questions(6))]
    report = answerer.evaluate(some, num_bootstrap=0, threshold=-1.0)
    assert report.without == 6 and report.with_f1 is not None
    again = answerer.evaluate(some, num_bootstrap=0, threshold=report.best_threshold + 1e-4)
    assert again.f1 == pytest.approx(report.best_f1) and again.best_f1 == report.best_f1
    assert answerer.evaluate(questions(3), num_bootstrap=0).best_f1 is None


def test_the_logits_and_the_loss_are_those_of_transformers(random_weights, tmp_path):
    answerer, _ = random_weights
    theirs = theirs_of(answerer, tmp_path / "hf")
    inputs, labels, _ = answerer.dataset(questions(8), batch_size=8, max_shapes=1, shuffle=False)[0]
    names = {
        "input_ids": "token_ids", "token_type_ids": "segment_ids", "attention_mask": "padding_mask",
    }  # fmt: skip
    with torch.no_grad():
        given = {n: torch.as_tensor(inputs[x]).long() for n, x in names.items()}
        out = theirs(**given)
    both = np.stack([out.start_logits.numpy(), out.end_logits.numpy()], -1)
    found = np.asarray(answerer.model(inputs, training=False)["spans"])
    real = inputs["padding_mask"]
    np.testing.assert_allclose(found[real], both[real], atol=1e-5)
    # Theirs counts padding; without it, row by row, the losses are equal.
    expected = []
    for i, (first, last, length) in enumerate(labels["spans"].tolist()):
        alone = {n: x[i : i + 1, :length] for n, x in given.items()}
        with torch.no_grad():
            alone |= {
                "start_positions": torch.tensor([first]),
                "end_positions": torch.tensor([last]),
            }
            expected.append(float(theirs(**alone).loss))
    ours = SpanCrossEntropy(reduction=None)(labels["spans"], found)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_another_backend(with_none, backend):
    answerer, path = with_none
    found = answer(backend, Path(answering_toys.__file__), path)
    expected = everything(answerer)
    assert found["backend"] == backend and found["spans"] == expected["spans"]
    for name in ("probabilities", "none"):
        np.testing.assert_allclose(found[name], expected[name], atol=2e-4)


@pytest.mark.slow
def test_files(random_weights, with_none):
    for answerer, path in (random_weights, with_none):
        again = QuestionAnswerer.load(path)
        assert everything(again) == everything(answerer)
        assert again.get_config() == answerer.get_config()
    half = QuestionAnswerer.load(path, dtype="mixed_bfloat16")
    assert half.policy.name == "mixed_bfloat16"
    assert len(everything(half)["spans"]) == len(PAIRS)


SERVED = [*PAIRS, ("Where?", "¡Ada 😀 lives in Oslo!")]


def check_served(answerer, found):
    """What a SavedModel gives for `SERVED`, as lists."""
    expected = answerer.predict(SERVED, n_best=3, threshold=-1.0)
    assert found["answer"] == [a.text for a in expected]
    np.testing.assert_allclose(found["probability"], [a.probability for a in expected], atol=1e-4)
    for i, ((_, text), ours) in enumerate(zip(SERVED, expected, strict=True)):
        raw = text.encode()
        for k, span in enumerate(ours.candidates):
            assert found["answers"][i][k] == span.text
            assert found["start_characters"][i][k] == span.start
            assert raw[found["starts"][i][k] : found["ends"][i][k]].decode() == span.text
        assert not any(found["answers"][i][len(ours.candidates) :])


def plain(values):
    """Tensors of strings or numbers as lists."""
    if isinstance(values, list):
        return [*map(plain, values)]
    return values.decode() if isinstance(values, bytes) else values


@pytest.mark.slow
def test_the_exported_function_gives_what_the_task_gives(with_none, unsaved):
    answerer, _ = with_none
    answerer.export("nowhere", n_best=3, threshold=-1.0)
    serve = unsaved[0]["serving_default"]
    asked, texts = (tf.constant([pair[i] for pair in SERVED]) for i in (0, 1))
    found = serve(question=asked, text=texts)
    check_served(answerer, {name: plain(x.numpy().tolist()) for name, x in found.items()})
    # Memory grows with the texts, and not with the number of texts times the longest one.
    texts = ["Ada lives in Oslo. " * 4000, *[""] * 1999]
    with memory.grown() as megabytes:
        serve(question=tf.fill([2000], "Who?"), text=tf.constant(texts))
    assert megabytes() < 200


@pytest.mark.slow
def test_the_saved_model_gives_what_the_task_gives(with_none, tmp_path):
    answerer, _ = with_none
    answerer.export(tmp_path / "saved", n_best=3, threshold=-1.0)
    script = """
        import json, sys
        import tensorflow as tf
        serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
        questions, texts = map(tf.constant, json.loads(sys.stdin.read()))
        found = serve(question=questions, text=texts)
        def plain(x):
            return [*map(plain, x)] if isinstance(x, list) else getattr(x, "decode", lambda: x)()
        print(json.dumps({name: plain(x.numpy().tolist()) for name, x in found.items()}))
    """
    done = run_python(
        "alone", textwrap.dedent(script), tmp_path / "saved",
        stdin=json.dumps(list(zip(*SERVED, strict=True))),
    )  # fmt: skip
    check_served(answerer, json.loads(done.stdout))


@pytest.mark.slow
def test_it_starts_from_an_encoder(tmp_path):
    texts = [[text for _, text, _ in questions(6, seed=k)] for k in range(4)]
    pretrainer = Pretrainer.create(
        texts, data={"vocabulary_size": 120, "max_length": 48}, model=SIZES
    )
    pretrainer.save(tmp_path / "p.task")
    data = {**DATA, "vocabulary_size": 8000, "backbone": str(tmp_path / "p.task")}
    answerer = QuestionAnswerer.create(questions(9), data=data)
    assert {name.split("/")[0] for name in answerer.loaded.new} == {"spans"}
    assert answerer.tokenizer.get_config() == pretrainer.tokenizer.get_config()


@pytest.mark.slow
def test_wrong_settings(random_weights):
    answerer, _ = random_weights
    with pytest.raises(ValueError, match="room for 8 tokens of a text"):
        QuestionAnswerer(
            answerer.tokenizer, model=SIZES, data={"max_length": 64, "max_question_length": 60}
        )
    for wrong in ("text", ("one",), [("a", 5)], [5]):
        with pytest.raises(TypeError, match="Expected"):
            answerer.predict(wrong)
    with pytest.raises(ValueError, match="n_best"):
        answerer.predict(PAIRS[0], n_best=0)
    with pytest.raises(ValueError, match="as in the data that this task"):
        answerer.fit([("Where?", "In Oslo.", [])], epochs=1)
    assert answerer.predict([]) == []

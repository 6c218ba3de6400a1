"""Conversation: what is read and learnt, answers, scores, files, backends and SavedModels."""

import json
from pathlib import Path

import conversation_toys as toys
import numpy as np
import pytest
from conversation_toys import DATA, HOSTILE, KINDS, TALKS, USES
from keras import ops
from processes import answer
from scipy.special import log_softmax

from keras_attn.fields import TurnRows, spoken
from keras_attn.generation import beam_search, prompt_seeds
from keras_attn.records import Exchange
from keras_attn.records.dialogues import TestExchanges
from keras_attn.tasks import ConversationUse, Talker
from keras_attn.text import BytePairTokenizer, SentencePieceTokenizer


class Talkers(dict):
    def __missing__(self, kind):
        self[kind] = toys.untrained(kind)
        return self[kind]


@pytest.fixture(scope="module")
def talkers():
    return Talkers()


def quick(*kinds):
    return [pytest.param(k, marks=() if k in kinds else pytest.mark.slow) for k in KINDS]


def ids_by_hand(talker, turns, most=DATA["max_context"]):
    """Each token, old to new, then cut from the left; the first is the mark of its turn."""
    tokenizer, marks = talker.tokenizer, {}
    marks = dict(
        zip(("other", "self"), map(tokenizer.vocabulary.index, ("<other>", "<self>")), strict=True)
    )
    row, owner = [], []
    turns = [t for t in turns if t.strip()][-talker.data.max_turns :]
    for back, turn in zip(range(len(turns) - 1, -1, -1), turns, strict=True):
        ids = [marks["self" if back % 2 else "other"], *tokenizer.encode(turn)]
        row, owner = row + ids, owner + ids[:1] * len(ids)
    room = most - 1
    row, owner = row[-room:], owner[-room:]
    return [*owner[:1], *row[1:], marks["self"]]


def test_what_is_read(talkers):
    talker = talkers["gpt"]
    for turns in HOSTILE:
        assert talker.field.encode([turns])["source_ids"][0] == ids_by_hand(talker, turns)
    for size in range(2, 40):  # each place of the cut, at the border of a turn too
        cut = TurnRows(talker.tokenizer, 3, size)
        for turns in (TALKS[0][0], ("I am Ann.", "Hi.")):
            row = cut.encode([turns])["source_ids"][0]
            assert row == ids_by_hand(talker, turns, size) and len(row) <= size
    assert spoken(("a", "b", " ", "c"), 2) == ["b", "c"]


def test_marks_in_a_text_are_text(talkers):
    talker = talkers["transformer"]
    (row,) = talker.field.encode([("<self> <end> <start> <pad>",)])["source_ids"]
    special = {i for i in row if not talker.tokenizer.token_bytes[i]}
    assert special == {row[0], row[-1]} and len(row) > 10
    tokens = talker.tokenizer.tokens(row)
    assert (tokens[0], tokens[-1]) == ("<other>", "<self>")


def test_digits_are_tokens():
    talks = [("Ticket 4711?", "Ticket 4711 it is, 4711.")] * 3
    for split, whole in ((True, False), (False, True)):
        data = Talker.Data(vocabulary_size=300, split_digits=split)
        tokenizer = Talker.learn(talks, data).tokenizer
        pieces = tokenizer.tokens(tokenizer.encode("Ticket 4711"))
        assert (len(pieces) < 6) == whole and (pieces[-4:] == [*"4711"]) == split
    digits = Talker.learn([("1111", "1111")] * 3, Talker.Data(vocabulary_size=300)).tokenizer
    assert digits.tokens(digits.encode("11")) == ["1", "1"]


@pytest.mark.quick("gpt")
@pytest.mark.parametrize("kind", quick("transformer", "gpt"))
def test_the_answer_alone_is_learnt(talkers, kind, eager):
    """The loss of a batch is that of the answers' tokens, each predicted from what is before it."""
    talker = talkers[kind]
    batches = talker.dataset(TALKS, shuffle=False, tokens_per_batch=4096, max_shapes=1)
    inputs, labels, weights = batches[0]
    tokens = [talker.tokenizer.encode(a, add_end=True) for _, a in TALKS]
    assert weights.sum() == sum(map(len, tokens))
    for row, weight, ids in zip(labels, weights, tokens, strict=True):
        assert row[weight > 0].tolist() == ids and not row[weight == 0].any()
    logits = np.asarray(talker.model(inputs, training=False), "float64")
    logp = np.take_along_axis(log_softmax(logits, -1), labels[..., None], -1)[..., 0] * weights
    # Together, padded, and in one row with more padding: the same.
    rows = talker.field.encode([turns for turns, _ in TALKS])["source_ids"]
    found = talker.log_probabilities(rows, tokens, 64)
    np.testing.assert_allclose(found, logp.sum(axis=1), atol=1e-4)
    assert talker.perplexity(TALKS) == pytest.approx(np.exp(-logp.sum() / weights.sum()), rel=1e-4)
    one = talker.log_probabilities(rows[:1], tokens[:1], 1)
    np.testing.assert_allclose(one, found[:1], atol=1e-4)


def test_which_answers_are_learnt(talkers):
    talker = talkers["transformer"]
    long = [*TALKS, ("So?", "x" * 50), ("Why?", " ")]
    found = talker.dataset(long)
    assert (found.num_examples, found.dropped) == (len(TALKS), 2)
    assert "2 answers are empty or longer than 8 tokens" in talker.describe(found)[-1]
    more = talker.dataset(TALKS, empty_contexts=0.5, max_shapes=1, shuffle=False)
    sources = more[0][0]["source_ids"]
    assert more.num_examples == 9 and ((sources != 0).sum(axis=1) == 1).sum() == 3
    training = talker.Training(empty_contexts=0.5)
    assert talker.batches(TALKS, training).num_examples == 9
    assert talker.batches(TALKS, training, shuffle=False).num_examples == 6
    with pytest.raises(ValueError, match="answers of 1 to 7 tokens"):
        talker.dataset([("So?", "x" * 50)])
    with pytest.raises(ValueError, match="position 1"):
        talker.dataset([TALKS[0], ("a", 7)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick("transformer"))
def test_mutual_information_by_hand(talkers, kind, eager):
    """The beams, ranked anew by log p(T | S) - weight * log p(T)."""
    talker, (turns, _) = talkers[kind], TALKS[1]
    field = talker.field
    ids = np.array(field.encode([turns])["source_ids"], "int32")
    changed = 0
    for weight, alpha in ((0.5, 1.0), (2.0, 0.5)):
        use = ConversationUse(beams=4, mutual_information=weight, alpha=alpha)
        found = talker.run(ops, {"source_ids": ids}, use)
        decoder, *given = talker.prompt(ids)
        best = beam_search(
            decoder, *given, num_beams=4, num_return_sequences=4, alpha=alpha, max_length=8,
            end_id=2, suppressed_ids=(0, 1, field.other_id, field.self_id),
        )  # fmt: skip
        lengths = np.asarray(best.lengths)[0]
        rows = [
            row[:n].tolist() for row, n in zip(np.asarray(best.tokens)[0], lengths, strict=True)
        ]
        with_turns = talker.log_probabilities([ids[0].tolist()] * 4, rows, 4)
        without = talker.log_probabilities([[field.self_id]] * 4, rows, 4)
        scores = (with_turns - weight * without) / ((5 + lengths) / 6) ** alpha
        wanted = int(np.argmax(scores))
        changed += wanted > 0
        assert np.asarray(found["tokens"])[0, 0, : lengths[wanted]].tolist() == rows[wanted]
    assert changed


@pytest.mark.slow
def test_mutual_information_needs_answers_without_turns(tmp_path):
    talker = toys.make("gpt")
    talker.dataset(TALKS)
    for use in (talker.answer, lambda _, **given: talker.export(tmp_path / "model", **given)):
        with pytest.raises(ValueError, match=r"--empty-contexts 0\.1"):
            use("Hi.", mutual_information=0.3)
    talker.own_use = {"mutual_information": 0.3}
    with pytest.raises(ValueError, match=r"--empty-contexts 0\.1"):
        talker.align("Hi.")
    assert not Talker.from_config(talker.get_config()).empty_contexts
    talker.dataset(TALKS, empty_contexts=0.5)
    talker = Talker.from_config(talker.get_config())
    assert talker.empty_contexts and talker.answer([], mutual_information=0.3) == []


@pytest.mark.slow
def test_samples_follow_seed_and_turns_alone(talkers, eager):
    talker = talkers["gpt"]
    use = USES["sample"]
    given = [*HOSTILE[:3], HOSTILE[0], ("Ho.",)]
    together = talker.answer(given, **use)
    assert talker.answer(given[::-1], **use, batch_size=3)[::-1] == together
    functions = len(talker._kept[1])
    assert talker.answer(given, **{**use, "seed": 6}) != together
    assert len(talker._kept[1]) == functions  # nothing is traced for a seed
    assert together[0] == together[3] != together[4]
    rows = np.array([[5, 6, 0], [6, 5, 0], [5, 6, 0], [5, 6, 7]], "int32")
    seeds = np.asarray(prompt_seeds(rows, 1)).tolist()
    assert len({*seeds}) == 3 and seeds[0] == seeds[2]
    assert np.asarray(prompt_seeds(rows[:1, :2], 1)).tolist() == seeds[:1]
    assert not {*seeds} & {*np.asarray(prompt_seeds(rows, 2)).tolist()}


@pytest.mark.slow
def test_a_prompt_that_fills_the_context(talkers, eager):
    """There is room for an answer of the greatest length behind it."""
    for talker in (talkers["transformer"], talkers["gpt"]):
        rows = talker.field.encode([("word " * 400,)])
        assert len(rows["source_ids"][0]) == DATA["max_context"]
        ids = talker.computed(rows, ConversationUse(beams=1))["tokens"][0][0].tolist()
        assert len(ids) == DATA["max_answer"] or ids[-1] == talker.tokenizer.end_id


@pytest.mark.slow
def test_inputs(talkers, eager):
    talker = talkers["transformer"]
    assert talker.answer([]) == [] and talker.answer("") == talker.answer(()) == ""
    assert talker.answer(["Hi.", ("Hi.",), ["Hi."]]) == [talker.answer("Hi.")] * 3
    with pytest.raises(TypeError, match="Expected strings"):
        talker.answer(("Hi.", 7))
    with pytest.raises(
        TypeError, match=r"columns, lists of values.*the dict with 'Hi.' of type str"
    ):
        talker.answer({"a": "Hi."})
    for other in (None, 5, b"Hi."):
        with pytest.raises(
            TypeError, match=f"a tuple of strings.*Received: .*{type(other).__name__}"
        ):
            talker.answer(other)
    for wrong, message in (
        ({"beams": 3, "search": "sample"}, "`beams` is only used with search='beam'"),
        ({"top_k": 3}, "`top_k` is only used with search='sample'"),
        ({"mutual_information": 0.5, "beams": 1}, "several beams"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": 2**31, "search": "sample"}, "seed"),
        ({"temperature": 0.0, "search": "sample"}, "temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            talker.answer("Hi.", **wrong)
    with pytest.raises(ValueError, match="special tokens"):
        Talker(BytePairTokenizer.train(["a"], 259))
    with pytest.raises(TypeError, match="BytePairTokenizer"):
        Talker("a")
    with pytest.raises(ValueError, match="max_answer"):
        Talker(talker.tokenizer, model=KINDS["gpt"], data={"max_answer": 1})


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick("gpt"))
def test_where_an_answer_looked(talkers, kind, eager):
    talker, (turns, text) = talkers[kind], TALKS[0]
    if kind == "fixed":
        with pytest.raises(ValueError, match="Expected a model with attention"):
            talker.align(turns, text)
        return
    found = talker.align(turns, text)
    (source,) = talker.field.encode([turns])["source_ids"]
    assert found.source_tokens == talker.tokenizer.tokens(source)
    assert (
        found.target_tokens[-1] == "</s>" and "".join(found.target_tokens[:-1]) == "Good▁day,▁Ann!"
    )
    sums = found.weights.sum(axis=1)
    if kind != "gpt":
        np.testing.assert_allclose(sums, 1, atol=1e-5)
    else:  # the first token is predicted from the turns alone
        assert sums[0] == pytest.approx(1, abs=1e-5) and (sums[1:] < 1).all()
    assert talker.align(turns).target_tokens
    explained = talker.explain(turns)
    assert explained.title == turns[-1]
    assert explained.target_tokens == talker.align(turns).target_tokens
    assert talker.explain(turns, **USES["sample"]).target_tokens != explained.target_tokens
    begun = talker.explain([turns, "Hi."], beginning=("Good", "day"))
    assert [
        "".join(x.target_tokens).startswith(y) for x, y in zip(begun, ("Good", "day"), strict=True)
    ] == [1, 1]
    with pytest.raises(ValueError, match=r"not blank\. Received: \('', ' '\) at position 1"):
        talker.explain([turns, ("", " ")])
    with pytest.raises(ValueError, match=r"Received: \(\) at position 0"):
        talker.explain(())
    with pytest.raises(ValueError, match="Received: 5"):
        talker.align(turns, text, layer=5)


@pytest.mark.slow
def test_it_learns():
    talker = toys.fitted()
    found = talker.evaluate(TALKS, beams=2)
    assert found.answers == [answer for _, answer in TALKS] and found.perplexity < 1.3


def test_scores(talkers, tmp_path, monkeypatch, eager):
    talker, right = talkers["transformer"], dict(TALKS)
    monkeypatch.setattr(talker, "results", lambda turns, use: [right[some] for some in turns])
    report = talker.evaluate(TALKS, train=TALKS[:1] * 2, beams=2)
    rows = report.scores
    assert rows["model"]["BLEU"] == pytest.approx(100) and rows["model"]["commonest"] == 1 / 6
    for name in ("random training answer", "answer of the nearest training context"):
        assert rows[name]["commonest"] == 1.0 and rows[name]["BLEU"] < 80
    text = str(report)
    assert report.bleu_signature in text and "No embedding average" in text
    lines = text.splitlines()[1:5]  # the names of the columns, and their figures below them
    assert len({len(line) for line in lines}) == 1
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 1 0\nann 0 1\nben 0 -1\n")
    report = talker.evaluate(TALKS, vectors=str(vectors))
    assert list(report.scores) == ["model"] and "embedding_average" in str(report)
    assert report.scores["model"]["embedding_average"] == pytest.approx(1)
    vectors.write_text("Gut 1 0\n")
    with pytest.raises(ValueError, match="none of"):
        talker.evaluate(TestExchanges(TALKS, TALKS, ""), vectors=str(vectors))
    dev = talker.scorer(TALKS, talker.Training())(talker.model)
    assert dev.figures == {"val_perplexity": pytest.approx(talker.perplexity(TALKS))}
    assert dev.key[0] < 0


@pytest.mark.slow
def test_files(talkers, tmp_path, eager):
    talker = talkers["gpt"]
    talker.save(tmp_path / "a.task")
    loaded = Talker.load(tmp_path / "a.task")
    assert loaded.get_config() == talker.get_config() and loaded.data == talker.data
    assert loaded.perplexity(TALKS) == pytest.approx(talker.perplexity(TALKS), rel=1e-5)
    other = toys.make("gpt")
    report = other.load_backbone(tmp_path / "a.task")
    assert "embedding" in str(report)
    assert other.perplexity(TALKS) == pytest.approx(talker.perplexity(TALKS), rel=1e-4)


def test_a_speaker_who_answers_in_few_dialogues(tmp_path):
    def line(who, number):
        turns = [("A", f"hi {number}"), (who, "so"), ("A", "yes")]
        return json.dumps({"turns": [{"speaker": s, "text": t} for s, t in turns]}) + "\n"

    path = tmp_path / "talks.jsonl"
    path.write_text("".join(line("Bot" if n < 7 else "B", n) for n in range(20)))
    said = {}
    for seed in range(6):
        data = Talker.Data(train=str(path), speaker="Bot", split_seed=seed)
        try:
            said[seed] = len(Talker.read(data).dev)
        except ValueError as error:
            said[seed] = str(error)
    assert 1 in said.values()
    (told,) = {x for x in said.values() if x != 1}
    assert told.startswith("Expected answers of 'Bot' among the 1 dialogues that are held out to")
    none = Talker.Data(train=str(path), dev_share=0)
    assert Talker.read(none).dev is None  # and the last weights are kept


def test_equal_runs_and_other_data(talkers):
    talker = talkers["gpt"]
    assert talker.digest(TALKS, TALKS[:1]) == talker.digest(
        [Exchange(*x) for x in TALKS], TALKS[:1]
    )
    assert talker.digest(TALKS, TALKS[:1]) != talker.digest(TALKS[::-1], TALKS[:1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick("gpt"))
def test_the_exported_function_gives_what_python_gives(talkers, kind, unsaved, eager, tmp_path):
    import tensorflow as tf

    talker = talkers[kind]
    # Samples hang on every id that is read.
    use = USES[{"gpt": "sample", "rnn": "mutual"}.get(kind, "beam")]
    talker.export(tmp_path / "model", **use)
    (functions,) = unsaved
    width = max(map(len, HOSTILE))
    rows = [[*turns, *[""] * (width - len(turns))] for turns in HOSTILE]
    table = tf.constant([[text.encode() for text in row] for row in rows])
    found = functions["serving_default"](turns=table)["answer"].numpy()
    assert [text.decode() for text in found] == talker.answer(HOSTILE, **use)
    for shape in ((0, 2), (2, 0)):
        none = functions["serving_default"](turns=tf.zeros(shape, tf.string))["answer"].numpy()
        assert none.tolist() == [b""] * shape[0]


@pytest.mark.slow
def test_sentence_pieces(eager, tmp_path):
    """A task, its file, and a SavedModel that reads the file's bytes of no text as Python does."""
    import tensorflow as tf

    data = {"tokenizer": "sentence_piece", "vocabulary_size": 400}
    toys.untrained("gpt", tmp_path / "task", data)
    talker = Talker.load(tmp_path / "task")
    assert isinstance(talker.tokenizer, SentencePieceTokenizer)
    assert talker.tokenizer.vocabulary[-2:] == ("<other>", "<self>")
    digits = talker.tokenizer.tokens(talker.tokenizer.encode("a 4711"))
    assert digits[-4:] == [f"<0x3{digit}>" for digit in "4711"]
    for turns in HOSTILE:
        assert talker.field.encode([turns])["source_ids"][0] == ids_by_hand(talker, turns)
    talker.export(tmp_path / "model", **USES["sample"])
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    width = max(map(len, HOSTILE))
    rows = [[*turns, *[""] * (width - len(turns))] for turns in HOSTILE]
    found = serve(turns=tf.constant([[text.encode() for text in row] for row in rows]))["answer"]
    answers = talker.answer(HOSTILE, **USES["sample"])
    assert [text.decode() for text in found.numpy()] == answers and any(answers)
    alignment = talker.align(TALKS[0][0])
    assert alignment.weights.shape[1] == len(alignment.source_tokens)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_other_backends_answer_alike(talkers, backend, tmp_path):
    kinds = tuple(KINDS)
    for kind in kinds:
        talkers[kind].save(tmp_path / kind)
    script = Path(toys.__file__).read_text(encoding="utf-8")
    found = answer(backend, script, *(tmp_path / kind for kind in kinds))
    assert found["backend"] == backend
    for kind, theirs in zip(kinds, found["found"], strict=True):
        ours = toys.everything(talkers[kind])
        assert theirs["answers"] == ours["answers"], kind
        assert theirs["perplexity"] == pytest.approx(ours["perplexity"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_with_nothing_of_ours(talkers, kind, tmp_path):
    talker = talkers[kind]
    talker.export(tmp_path / "model", beams=2)
    script = (
        "import json, sys\nimport tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "found = serve(turns=tf.constant([['Hi.', 'Hello!', 'I am Ben.'], ['', 'So?', '']]))\n"
        "print(json.dumps([text.decode() for text in found['answer'].numpy()]))\n"
    )
    found = answer("alone", script, tmp_path / "model")
    assert found == talker.answer([("Hi.", "Hello!", "I am Ben."), "So?"], beams=2)

"""What a text generator writes: streams, stop strings, end tokens, and their export."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from text_generation_toys import ALL, PROMPTS, SEEDS, make, untrained

from keras_attn.generation import CompiledSteps, text_writer
from keras_attn.tasks import Ending, TextGenerationUse, TextGenerator
from keras_attn.text import BytePairTokenizer
from keras_attn.text.pieces import cut_at_stop

GPT = {"model": "gpt", "dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("task") / "t.task")


@pytest.fixture(scope="module")
def of_bytes():
    """A GPT of bytes that writes characters of several of them, and windows that change."""
    keras.utils.set_random_seed(0)
    tokenizer = BytePairTokenizer.train(["é🙂 " * 9], 262, normalize=False)
    generator = TextGenerator(tokenizer, model=GPT, data={"sequence_length": 12})
    rng = np.random.default_rng(0)
    for weight in generator.model.trainable_variables:
        weight.assign(weight + rng.normal(scale=0.3, size=weight.shape))
    return generator


def ending(bias=1.0):
    """A generator that writes its end token now and then."""
    generator = make()
    generator = TextGenerator(
        generator.tokenizer, ends=True, model=generator.config, data={"sequence_length": 24}
    )
    rng = np.random.default_rng(0)
    for weight in generator.model.trainable_variables:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    head = generator.model.get_layer("head").bias
    change = np.zeros(head.shape)
    change[generator.tokenizer.end_id] = bias
    head.assign(head + change)
    return generator


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(text_writer, "PIECES", ((2e7, 16),))


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls that compute tokens."""
    found = []
    advance = CompiledSteps.advance
    monkeypatch.setattr(
        CompiledSteps, "advance", lambda self, state: (found.append(1), advance(self, state))[1]
    )
    return found


@pytest.mark.slow
def test_a_stream_is_what_is_generated(random_weights, calls):
    for prompt, count in ((PROMPTS[1], 1), (PROMPTS[3], 16), (PROMPTS[4], 17), ("", 40)):
        calls.clear()
        pieces = list(random_weights.stream(prompt, count, seed=3, **ALL))
        assert prompt + "".join(pieces) == random_weights.generate(prompt, count, seed=3, **ALL)
        assert [len(piece) for piece in pieces] == [16] * (count // 16) + (
            [count % 16] if count % 16 else []
        )
        assert len(calls) == len(pieces)
    together = random_weights.generate(PROMPTS, 20, seed=5)
    streamed = random_weights.streamed(PROMPTS, num_characters=20, seed=5, batch_size=3)
    assert list(map("".join, streamed)) == together
    kinds = dict(random_weights.writer._compiled)
    (run,) = [kinds[k] for k in kinds if k[:2] == ("steps", 16) and len(k[3]) > 1]
    assert run._advance.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_a_stream_takes_no_step_ahead(random_weights, calls):
    pieces = random_weights.stream("to", 100, seed=3)
    assert not calls
    next(pieces)
    assert len(calls) == 1


@pytest.mark.slow
def test_a_stream_of_bytes_has_whole_characters(of_bytes):
    whole = of_bytes.generate("é", 60, seed=2)
    assert not whole.isascii()
    for seed in range(3):
        pieces = list(of_bytes.stream("é", 40, seed=seed))
        assert "é" + "".join(pieces) == of_bytes.generate("é", 40, seed=seed)
        assert all(pieces)


@pytest.mark.slow
def test_large_models_give_smaller_pieces(random_weights, monkeypatch):
    monkeypatch.setattr(text_writer, "PIECES", ((10, 64), (20, 16)))
    pieces = list(random_weights.stream("to", 6, seed=3))
    assert [len(piece) for piece in pieces] == [4, 2]
    assert "to" + "".join(pieces) == random_weights.generate("to", 6, seed=3)


def streamed(generator, *args, **settings):
    """A streamed text and its ending."""
    found = []

    def read():
        found.append((yield from generator.stream(*args, **settings)))

    return "".join(read()), found[0]


def test_how_a_streamed_text_ends(random_weights, of_bytes):
    """The number of tokens is counted by hand: a token is a character here, or a byte."""
    for count in (1, 16, 21):
        text, ends = streamed(random_weights, "to", count, seed=3)
        assert (len(text), ends) == (count, Ending(count, truncated=True))
        _, ends = streamed(of_bytes, "é", count, seed=3)  # a cut character is one of U+FFFD
        assert ends == Ending(count, truncated=True)
    stop = text[18:20]
    before, ends = streamed(random_weights, "to", 21, seed=3, stop=stop)
    assert text.startswith(before + stop)
    assert ends == Ending(len(before) + 2, truncated=False)
    _, ends = streamed(random_weights, "to", len(before) + 2, seed=3, stop=stop)
    assert not ends.truncated
    assert streamed(random_weights, "to", 9, seed=3, stop="none of it")[1] == Ending(9, True)


@pytest.mark.slow
def test_a_text_ends_before_the_first_stop_string(random_weights, calls):
    """Whatever the prompt has; and nothing is computed after it."""
    whole = random_weights.generate(PROMPTS, 60, seed=SEEDS)
    new = [text[len(prompt) :] for text, prompt in zip(whole, PROMPTS, strict=True)]
    for stops in (["ab", "q"], new[1][5:8], ["question"]):
        as_tuple = (stops,) if isinstance(stops, str) else tuple(stops)
        wanted = [p + cut_at_stop(t, as_tuple) for p, t in zip(PROMPTS, new, strict=True)]
        assert random_weights.generate(PROMPTS, 60, seed=SEEDS, stop=stops) == wanted
        for i, prompt in enumerate(PROMPTS):
            pieces = random_weights.stream(prompt, 60, seed=[SEEDS[i]], stop=stops)
            assert prompt + "".join(pieces) == wanted[i]
    calls.clear()
    stop = new[0][3:6]
    found = random_weights.generate(PROMPTS[0], 5000, seed=SEEDS[:1], stop=stop)
    assert found == cut_at_stop(new[0], (stop,)) and len(found) <= 3
    assert len(calls) == 1
    assert list(random_weights.stream("", 5000, seed=SEEDS[:1], stop=stop)) == [found]
    assert len(calls) == 2


@pytest.mark.slow
def test_a_stop_string_of_several_tokens_and_bytes(of_bytes):
    whole = of_bytes.generate("é", 60, seed=4)[1:]
    assert not whole.isascii()
    for place in (7, 15, 22):
        stop = whole[place : place + 3]
        wanted = "é" + whole[: whole.index(stop)]
        assert of_bytes.generate("é", 60, seed=4, stop=stop) == wanted
        pieces = of_bytes.stream("é", 60, seed=4, stop=stop)
        assert "é" + "".join(pieces) == wanted


@pytest.mark.slow
def test_an_end_token_ends_a_text(tmp_path):
    """Compared with the plain model, one most probable token after the other."""
    generator = ending()
    tokenizer = generator.tokenizer
    never = [tokenizer.pad_id, tokenizer.start_id, tokenizer.unknown_id]
    model = tf.function(generator.model, [tf.TensorSpec([1, None], "int32")])

    def plain(prompt, count, ends):
        ids = [tokenizer.start_id, *tokenizer.encode(prompt)]
        for _ in range(count):
            logits = model(np.array([ids], "int32")).numpy()[0, -1]
            logits[[*never, *([] if ends else [tokenizer.end_id])]] = -np.inf
            if logits.argmax() == tokenizer.end_id:
                break
            ids.append(int(logits.argmax()))
        return tokenizer.decode(ids)

    ended = 0
    for prompt in ("to be", "question", "is", "h"):
        text = generator.generate(prompt, 30, top_k=1)
        assert text == plain(prompt, 30, ends=True)
        ended += len(text) < len(prompt) + 30
        assert prompt + "".join(generator.stream(prompt, 30, top_k=1)) == text
    assert ended
    whole = generator.generate("to be", 30, top_k=1, end_token=False)
    assert whole == plain("to be", 30, ends=False) and len(whole) == 35
    texts = generator.generate(["to", "is"] * 4, 40, seed=1)
    assert len({len(text) for text in texts}) > 2
    # It is kept in files, and in the SavedModel, beside stop strings.
    generator.save(tmp_path / "t.task")
    assert TextGenerator.load(tmp_path / "t.task").ends
    generator.export(tmp_path / "m", stop=["e", "t\n"])
    served = tf.saved_model.load(tmp_path / "m").signatures["serving_default"]
    found = served(
        prompt=tf.constant(["to", "is"] * 4), seed=tf.range(8), num_characters=tf.constant(40)
    )["text"].numpy()
    wanted = generator.generate(["to", "is"] * 4, 40, seed=np.arange(8), stop=["e", "t\n"])
    assert [text.decode() for text in found] == wanted


def test_prompts_are_batched_by_length_and_given_back_in_order(random_weights, monkeypatch):
    widths = []
    padded = random_weights.writer.padded
    monkeypatch.setattr(
        random_weights.writer,
        "padded",
        lambda rows, n: (widths.append(max(map(len, rows))), padded(rows, n))[1],
    )
    prompts = ["to be, or not", "t", "question", "", "to be, or nut", "is"]
    seeds = list(range(len(prompts)))
    together = random_weights.generate(prompts, 12, seed=seeds, batch_size=2)
    assert widths == [2, 9, 14]
    assert together == random_weights.generate(prompts, 12, seed=seeds, batch_size=64)
    for prompt, seed, text in zip(prompts, seeds, together, strict=True):
        assert random_weights.generate(prompt, 12, seed=[seed]) == text
    assert [text[: len(p)] for text, p in zip(together, prompts, strict=True)] == prompts


def log_probability(generator, prompt, new):
    """Of tokens after a prompt, by the plain model."""
    ids = [generator.tokenizer.start_id, *generator.tokenizer.encode(prompt)]
    logits = keras.ops.convert_to_numpy(generator.model(np.array([ids + new])))[0].astype("float64")
    total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    places = np.arange(len(ids) - 1, len(ids) + len(new) - 1)
    return (logits[places, new] - total[places]).sum()


@pytest.mark.slow
def test_beams_find_the_most_probable_text(random_weights, tmp_path):
    """Exhaustively for three characters; a beam of one is greedy."""
    generator, prompt = random_weights, "to be"
    tokenizer = generator.tokenizer
    ids = [tokenizer.start_id, *tokenizer.encode(prompt)]
    ordinary = range(4, tokenizer.vocabulary_size)
    rows = np.array([[*ids, a, b] for a in ordinary for b in ordinary])
    logits = keras.ops.convert_to_numpy(generator.model(rows)).astype("float64")
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each, start = np.arange(len(rows)), len(ids) - 1
    first = logp[each, start, rows[:, -2]] + logp[each, start + 1, rows[:, -1]]
    total = first[:, None] + logp[:, start + 2, 4:]
    row, last = np.unravel_index(total.argmax(), total.shape)
    best = prompt + tokenizer.decode([*rows[row, -2:], last + 4])
    wide = len(ordinary) ** 2
    assert generator.generate(prompt, 3, beams=wide) == best
    assert generator.generate(prompt, 3, beams=wide, seed=5, stop="q") == (
        prompt + cut_at_stop(best[len(prompt) :], ("q",))
    )
    greedy = generator.generate(PROMPTS, 20, beams=1)
    assert greedy == generator.generate(PROMPTS, 20, top_k=1)
    four = generator.generate(PROMPTS, 20, beams=4)
    assert generator.generate(PROMPTS, 20, beams=4, batch_size=2, seed=9) == four
    scores = [
        sum(log_probability(generator, "", tokenizer.encode(text)) for text in texts[:1])
        for texts in (greedy, four)
    ]
    assert scores[1] > scores[0]


@pytest.mark.slow
@pytest.mark.parametrize("of", ["characters", "bytes"])
def test_beams_in_the_saved_model(of, random_weights, of_bytes, tmp_path):
    generator = random_weights if of == "characters" else of_bytes
    generator.export(tmp_path / "m", beams=3, stop="q")  # it compares texts itself
    assert (tmp_path / "m").is_dir()
    ends = ending()
    assert len({len(x) for x in ends.generate(["to", "is", "h", "q"], 30, beams=3)}) > 1
    ends.export(tmp_path / "e", beams=2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.generate("a", stop=""), ValueError, "empty string"),
        (lambda g: g.stream("a", stop=["b", ""]), ValueError, "empty string"),
        (lambda g: g.stream("a", stop=[7]), TypeError, "Received: 7"),
        (lambda g: g.stream(["a", "b"]), TypeError, "one string"),
        (lambda g: g.stream("a", 0), ValueError, "num_characters"),
        (lambda g: g.stream("a", temperature=0), ValueError, "temperature"),
        (lambda g: g.stream("a", seed=[1, 2]), ValueError, "each of the 1 prompts"),
        (lambda g: g.export("x", stop=[""]), ValueError, "empty string"),
        (lambda g: TextGenerationUse(stop=7), TypeError, "stop"),
        (lambda g: g.generate("a", beams=0), ValueError, "beams"),
        (lambda g: g.generate("a", beams=2, top_k=3), ValueError, "Received: top_k=3"),
        (lambda g: TextGenerationUse(beams=2, temperature=0.5), ValueError, "temperature=0.5"),
        (lambda g: next(g.streamed(["a"], beams=2)), ValueError, "known only at the end"),
    ],
)
def test_wrong_use_is_refused_at_once(random_weights, call, error, message):
    with pytest.raises(error, match=message):
        call(random_weights)


@pytest.mark.slow
def test_stop_strings_as_a_setting():
    assert TextGenerationUse(stop="END").stop == ("END",)
    assert TextGenerationUse(stop=["\n", "b"]).stop == ("\n", "b")

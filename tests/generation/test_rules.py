"""Length penalties, stopping and rules on tokens, against all sequences and `transformers`."""

import functools
import math

import keras
import numpy as np
import pytest
from generation_toys import (
    END,
    GROWTH,
    PAD,
    START,
    TableDecoder,
    assert_same,
    exhaustive_search,
    log_probabilities,
    tables,
)
from keras import ops

from keras_attn.generation import (
    CompiledFunction,
    beam_search,
    greedy_search,
    length_penalty,
    sample,
)

A, B = 3, 4
ROWS = 12


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def forced(first=None, last=None, beginning=(), length=4):
    """A rule for the reference."""
    given = [*([] if first is None else [first]), *beginning]

    def rule(prompt, tokens):
        if len(tokens) < len(given):
            return given[len(tokens)]
        return last if last is not None and len(tokens) + 1 == length else set()

    return rule


def no_repeats(n):
    """A rule for the reference: tokens that would repeat an n-gram."""

    def rule(prompt, tokens):
        ids = [*prompt, *tokens]
        tail = ids[len(ids) - n + 1 :]
        return {ids[i + n - 1] for i in range(len(ids) - n + 1) if ids[i : i + n - 1] == tail}

    return rule


CASES = {
    "power": ({"length_penalty_kind": "power", "alpha": 1.3}, {"kind": "power", "alpha": 1.3}),
    "power, short": (
        {"length_penalty_kind": "power", "alpha": -0.7}, {"kind": "power", "alpha": -0.7}
    ),
    "first": ({"forced_first_id": A, "alpha": 0.6}, {"rule": forced(A), "alpha": 0.6}),
    "last": ({"forced_last_id": END}, {"rule": forced(last=END)}),
    "first and last": (
        {"forced_first_id": START, "forced_last_id": B, "suppressed_ids": (START, B)},
        {"rule": forced(START, B), "suppressed": (START, B)},
    ),
    "unigrams": ({"no_repeat_ngram_size": 1}, {"rule": no_repeats(1)}),
    "bigrams": ({"no_repeat_ngram_size": 2, "min_length": 3},
                {"rule": no_repeats(2), "min_length": 3}),
    "beginning": (
        {"beginning": np.array([[A, PAD]] * ROWS), "length_penalty_kind": "power", "alpha": 1.0},
        {"rule": forced(beginning=(A, PAD)), "given": 2, "kind": "power", "alpha": 1.0},
    ),
    "first, then a beginning": (
        {"forced_first_id": B, "beginning": np.array([[A]] * ROWS), "alpha": 1.0},
        {"rule": forced(B, beginning=(A,)), "given": 1, "alpha": 1.0},
    ),
}  # fmt: skip


@pytest.mark.quick("first and last-None", "bigrams-never", "first, then a beginning-never")
@pytest.mark.parametrize("early_stopping", [None, "never"])
@pytest.mark.parametrize("case", CASES)
def test_wide_beam_is_exhaustive_search(case, early_stopping):
    settings, rules = CASES[case]
    table, prompt = tables(ROWS, 5, seed=len(case)), np.array([[START, A]] * ROWS)
    found = beam_search(
        TableDecoder(), prompt, None, ops.convert_to_tensor(table), num_beams=400,
        num_return_sequences=8, max_length=4, end_id=END, early_stopping=early_stopping, **settings,
    )  # fmt: skip
    for row in range(ROWS):
        assert_same(found, row, exhaustive_search(table[row], (START, A), 4, **rules))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_greedy_search_is_a_beam_of_one_and_a_cold_sample(case):
    settings, rules = CASES[case]
    table, prompt = tables(ROWS, 5, seed=1), np.array([[START, A]] * ROWS)
    own = {n: x for n, x in settings.items() if n not in ("alpha", "length_penalty_kind")}
    memory = ops.convert_to_tensor(table)
    common = {"max_length": 6, "end_id": END}
    greedy = greedy_search(TableDecoder(), prompt, None, memory, **common, **own)
    drawn = sample(TableDecoder(), prompt, None, memory, seed=1, temperature=1e-9, **common, **own)
    beams = []
    for early in (None, True, False, "never"):
        kind = {"num_beams": 1, "early_stopping": early, **common, **settings}
        beams.append(beam_search(TableDecoder(), prompt, None, memory, **kind))
    for beam in beams:
        np.testing.assert_array_equal(numpy(greedy.tokens), numpy(beam.tokens)[:, 0])
    np.testing.assert_array_equal(numpy(greedy.tokens), numpy(drawn.tokens))
    np.testing.assert_allclose(numpy(greedy.scores), numpy(drawn.scores), atol=1e-5)
    given = rules.get("given", 0)
    penalty = length_penalty(
        np.maximum(numpy(greedy.lengths) - given, 1), settings.get("alpha", 0.0),
        settings.get("length_penalty_kind", "gnmt"),
    )  # fmt: skip
    ranked = numpy(greedy.scores) / numpy(penalty)
    np.testing.assert_allclose(ranked, numpy(beams[0].scores)[:, 0], atol=1e-5)


@pytest.mark.slow
def test_beginnings_of_rows_in_one_compiled_function():
    """Rows have beginnings of unlike lengths, or none; one trace serves all."""
    table = np.repeat(tables(1, 6, seed=2), 4, axis=0)
    traces = []

    def run(ids, length, beginning, least):
        traces.append(length)
        return beam_search(
            TableDecoder(), ids, None, ops.convert_to_tensor(table)[: ops.shape(ids)[0]],
            num_beams=3, max_length=length, end_id=END, alpha=1.0, min_length=least,
            length_penalty_kind="power", early_stopping=False, no_repeat_ngram_size=2,
            beginning=beginning, beginning_mask=ops.not_equal(beginning, PAD), forced_last_id=END,
        )  # fmt: skip

    compiled = CompiledFunction(run, [])
    beginnings = np.array([[A, B, 5], [A, PAD, PAD], [PAD] * 3, [5, 5, PAD]])
    prompt, least = np.full((4, 1), START), np.array([0, 3, 0, 5])
    found = compiled(prompt, 6, beginnings, least)
    for row, own in enumerate(beginnings):
        own = own[own != PAD]
        assert numpy(found.tokens)[row, 0, : len(own)].tolist() == own.tolist()
        alone = compiled(prompt[:1], 6, own[None], least[row : row + 1])
        np.testing.assert_array_equal(alone.tokens[0], found.tokens[row])
        np.testing.assert_allclose(alone.scores[0], found.scores[row], atol=1e-5)
    if keras.backend.backend() == "tensorflow":
        assert len(traces) == 1
        fast = CompiledFunction(run, [], jit_compile=True)(prompt, 6, beginnings, least)
        np.testing.assert_array_equal(fast.tokens, found.tokens)


# Beside `transformers`, on the same logits


@functools.cache
def their_model(V, seed):
    """A model of `transformers` with the logits of `TableDecoder`."""
    import torch
    from transformers import GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutput

    class Config(PreTrainedConfig):
        model_type = "table"
        vocab_size = V
        num_hidden_layers = 1

    class Table(PreTrainedModel, GenerationMixin):
        config_class = Config
        _supports_cache_class = False

        def __init__(self, config):
            super().__init__(config)
            table = torch.tensor(tables(1, V, seed=seed)[0])
            self.table = torch.nn.Parameter(table, requires_grad=False)
            self.post_init()

        def prepare_inputs_for_generation(self, input_ids, **more):
            return {"input_ids": input_ids}

        def forward(self, input_ids, **more):
            before = torch.nn.functional.pad(input_ids[:, :-1], (1, 0), value=PAD)
            factor = 1 + GROWTH * torch.arange(input_ids.shape[1])
            logits = self.table[before * V + input_ids] * factor[None, :, None]
            return CausalLMOutput(logits=logits)

    model = Table(Config())
    model.generation_config = GenerationConfig(pad_token_id=PAD, eos_token_id=END, use_cache=False)
    return model.eval()


def theirs(prompt, num_beams, max_length, V=23, seed=3, **settings):
    import torch

    found = their_model(V, seed).generate(
        torch.tensor(prompt), num_beams=num_beams, max_new_tokens=max_length, do_sample=False,
        return_dict_in_generate=True, output_scores=True, use_cache=False, **settings,
    )  # fmt: skip
    tokens = found.sequences[:, prompt.shape[1] :].numpy()
    tokens = np.pad(tokens, [(0, 0), (0, max_length - tokens.shape[1])])
    # Behind the end of a beam they write the end again where the padding is 0.
    tokens = np.where(np.cumsum(tokens == END, axis=1) - (tokens == END) > 0, PAD, tokens)
    return tokens, None if num_beams == 1 else found.sequences_scores.numpy()


def ours(prompt, num_beams, max_length, V=23, seed=3, **settings):
    memory = ops.convert_to_tensor(np.repeat(tables(1, V, seed=seed), len(prompt), axis=0))
    found = beam_search(
        TableDecoder(), prompt, None, memory, num_beams=num_beams, max_length=max_length,
        end_id=END, **settings,
    )  # fmt: skip
    return numpy(found.tokens)[:, 0], numpy(found.scores)[:, 0]


def compare(prompt, num_beams, max_length, their, own):
    """The same tokens, or a better score; beams that stop alike find the same but for ties."""
    expected, scores = theirs(prompt, num_beams, max_length, **their)
    found, own_scores = ours(prompt, num_beams, max_length, **own)
    same = (found == expected).all(axis=1)
    if scores is None:
        assert same.all()
        return
    assert (same | (own_scores >= scores - 1e-5)).all()
    np.testing.assert_allclose(own_scores[same], scores[same], atol=1e-4)
    assert same.mean() > 0.99
    assert (expected == END).any(axis=1).any()


def prompts(rows=200, V=23):
    return np.random.default_rng(0).integers(3, V, size=(rows, 2))


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("penalty", [0.6, 1.0, 2.0])
@pytest.mark.parametrize(
    "early_stopping",
    [False, *(pytest.param(x, marks=pytest.mark.slow) for x in (True, "never"))],
)
def test_the_beams_of_transformers(early_stopping, penalty, num_beams):
    own = {"alpha": penalty, "length_penalty_kind": "power", "early_stopping": early_stopping}
    their = {"length_penalty": penalty, "early_stopping": early_stopping} if num_beams > 1 else {}
    compare(prompts(), num_beams, 12, their, own)


@pytest.mark.slow
def test_when_beams_stop_is_as_in_transformers():
    """Eight tokens, of which one ends, and a penalty that favours length: it matters when."""
    prompt, found = np.random.default_rng(0).integers(3, 8, size=(40, 2)), []
    for early_stopping in (False, "never"):
        their = {"length_penalty": 2.0, "early_stopping": early_stopping}
        own = {"alpha": 2.0, "length_penalty_kind": "power", "early_stopping": early_stopping}
        expected, scores = theirs(prompt, 2, 16, V=8, **their)
        tokens, own_scores = ours(prompt, 2, 16, V=8, **own)
        np.testing.assert_array_equal(tokens, expected)
        np.testing.assert_allclose(own_scores, scores, atol=1e-6)
        found.append(tokens)
    assert (found[0] != found[1]).any(axis=1).mean() > 0.9


RULES = {
    "last": ({"forced_eos_token_id": END}, {"forced_last_id": END}),
    "n-grams": ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
    "suppressed": ({"bad_words_ids": [[5], [9]]}, {"suppressed_ids": [5, 9]}),
    # Theirs count the tokens before the end.
    "least": ({"min_new_tokens": 6}, {"min_length": 7}),
    "renormalized": (
        {"min_new_tokens": 3, "bad_words_ids": [[5], [9]], "renormalize_logits": True},
        {"min_length": 4, "suppressed_ids": [5, 9], "renormalize": True},
    ),
}


@pytest.mark.quick("False-renormalized")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("early_stopping", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_rules_of_transformers(rule, early_stopping):
    their, own = RULES[rule]
    common = {"early_stopping": early_stopping}
    own = {"alpha": 1.0, "length_penalty_kind": "power", **common, **own}
    compare(prompts(), 4, 9, {"length_penalty": 1.0, **common, **their}, own)


def test_probabilities_among_the_tokens_that_may_come():
    """Greedily and by a beam; without the end, a token is as much more probable."""
    table, prompt = tables(ROWS, 5, seed=2), np.array([[START]] * ROWS)
    common = {"max_length": 2, "end_id": END, "min_length": 2, "suppressed_ids": [A]}
    memory = ops.convert_to_tensor(table)
    found = greedy_search(TableDecoder(), prompt, None, memory, renormalize=True, **common)
    beam = beam_search(
        TableDecoder(), prompt, None, memory, num_beams=1, renormalize=True, **common
    )
    np.testing.assert_array_equal(numpy(found.tokens), numpy(beam.tokens)[:, 0])
    np.testing.assert_allclose(numpy(found.scores), numpy(beam.scores)[:, 0], atol=1e-6)
    for row, tokens in enumerate(numpy(found.tokens).tolist()):
        logp = log_probabilities(table[row], 2)
        first, second = logp[0, PAD * 5 + START], logp[1, START * 5 + tokens[0]]
        left = [np.exp(np.delete(first, [END, A])).sum(), np.exp(np.delete(second, A)).sum()]
        expected = first[tokens[0]] + second[tokens[1]] - np.log(left).sum()
        np.testing.assert_allclose(numpy(found.scores)[row], expected, atol=1e-5)


@pytest.mark.slow
def test_the_first_token_of_transformers():
    prompt = np.arange(3, 23)[:, None]
    own = {"alpha": 2.0, "length_penalty_kind": "power", "early_stopping": False}
    their = {"length_penalty": 2.0, "early_stopping": False, "forced_bos_token_id": 7}
    compare(prompt, 4, 9, their, {**own, "forced_first_id": 7})


@pytest.mark.slow
def test_a_beginning_is_a_longer_prompt_of_transformers():
    prompt = prompts(40)
    own = {"alpha": 1.0, "length_penalty_kind": "power", "early_stopping": False}
    found, own_scores = ours(prompt[:, :1] * 0 + START, 4, 11, beginning=prompt, **own)
    longer = np.pad(prompt, [(0, 0), (1, 0)], constant_values=START)
    expected, scores = theirs(longer, 4, 9, length_penalty=1.0)
    np.testing.assert_array_equal(found[:, :2], prompt)
    np.testing.assert_array_equal(found[:, 2:], expected)
    np.testing.assert_allclose(own_scores, scores, atol=1e-4)


# Errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_penalty_kind": "wu"}, "`length_penalty_kind` must be one of 'gnmt', 'power'"),
        ({"early_stopping": "soon"}, "`early_stopping` must be one of None, True, False, 'never'"),
        ({"forced_first_id": 5}, "`forced_first_id` must be within the vocabulary, 0 to 4"),
        ({"forced_last_id": -1}, "`forced_last_id` must be within the vocabulary"),
        ({"no_repeat_ngram_size": -1}, "`no_repeat_ngram_size` must be an integer of at least 0"),
        ({"suppressed_ids": [[3, 4]]}, r"single tokens: .*`bad_words_ids`.* Received: \[3, 4\]"),
        ({"beginning": np.array([3])}, r"`beginning` .* \(B, P\).* shape \(1,\)"),
        ({"beginning": np.array([[3.0]])}, "`beginning` must be integers"),
        ({"beginning_mask": np.array([[True]])}, "`beginning_mask` requires a `beginning`"),
        (
            {"beginning": np.array([[3]]), "beginning_mask": np.array([[True, True]])},
            "`beginning_mask`",
        ),
    ],
)
def test_errors(settings, message):
    table = ops.convert_to_tensor(tables(1, 5))
    with pytest.raises(ValueError, match=message):
        beam_search(
            TableDecoder(), np.array([[START]]), None, table, num_beams=2, max_length=3,
            end_id=END, **settings,
        )  # fmt: skip


def test_the_power_of_a_length():
    lengths = np.array([1, 4, 9])
    np.testing.assert_allclose(length_penalty(lengths, 0.5, kind="power"), [1, 2, 3], rtol=1e-6)
    assert math.isclose(float(length_penalty(3, -1.0, kind="power")), 1 / 3, rel_tol=1e-6)

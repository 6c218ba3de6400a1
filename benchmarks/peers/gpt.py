"""keras_attn's GPT."""

import keras
from keras import ops

from benchmarks import gpt
from benchmarks.peers import Job, keras_jobs
from keras_attn.generation import CompiledFunction, greedy_search
from keras_attn.models import GptConfig, language_decoder
from keras_attn.models.tensors import load_tensors

PARTS = {
    "norm_1": "self_attention_norm",
    "qkv": "self_attention/qkv",
    "output": "self_attention/output",
    "norm_2": "feed_forward_norm",
    "hidden": "feed_forward/hidden",
    "back": "feed_forward/output",
}
"""Our names of the parts of a block."""


def config_of(case: dict) -> GptConfig:
    """The settings of all contenders."""
    return GptConfig(
        case["vocabulary"],
        dim=case["dim"],
        num_layers=case["layers"],
        num_heads=case["heads"],
        intermediate_dim=4 * case["dim"],
        activation=case["activation"],
        dropout=case["dropout"],
        attention_dropout=case["dropout"],
        sequence_length=case["context"],
    )


def make_model(case: dict) -> keras.Model:
    """With the weights of all contenders."""
    model = config_of(case).build()
    names = {
        "tokens": "embedding/embedding/embeddings", "positions": "positions/embedding/embeddings",
    }  # fmt: skip
    tensors = {}
    for name, value in gpt.make_weights(case).items():
        *where, last = name.split(".")
        if where and where[0] == "block":
            ours = f"decoder/block_{where[1]}/{PARTS[where[2]]}/{last}"
        else:
            ours = names.get(name) or f"decoder/norm/{last}"
        tensors[ours] = value
    load_tensors(model, tensors)
    return model


def language_model(case: dict, jit: bool) -> Job:
    """Steps of `fit` on the next tokens; the amount is tokens."""
    return keras_jobs.next_tokens(make_model(case), case, jit)


def writing(case: dict, jit: bool) -> Job:
    """Greedy search with a cache, from ids to ids; the amount is new tokens."""
    model = make_model(case)
    decoder = language_decoder(model)

    def search(ids, steps):
        return greedy_search(decoder, ids, max_length=steps, end_id=None).tokens

    compiled = CompiledFunction(search, model.variables, jit)
    ids = gpt.prompts(case)
    amount = case["batch"] * case["new"]
    return Job(lambda: compiled(ids, case["new"]), amount, lambda found: found.tolist())


def tokens_at(case: dict, jit: bool) -> Job:
    """Tokens behind `at` others, in a cache for `room`; the amount is tokens.

    What is in the cache does not change what a step costs, so the prompt has one token, and the
    state is that behind `at` tokens, of zeros. Behind `new` more it goes back to there, `turns`
    times, so that making the cache hardly counts.
    """
    model = make_model(case)
    decoder = language_decoder(model)

    def write(ids, room):
        logits, state = decoder.prefill(ids, max_length=room)
        first = ops.cast(ops.argmax(logits, axis=-1), "int32")
        at = ops.zeros_like(first) + case["at"]
        slots = ops.cumsum(ops.ones_like(state["visible"], dtype="int32"), axis=1) - 1
        state = {**state, "slot": at, "visible": slots < case["at"]}

        def step(number, token, state):
            place = at + number % case["new"]
            logits, state = decoder.step(token, place, {**state, "slot": place})
            return number + 1, ops.cast(ops.argmax(logits, axis=-1), "int32"), state

        number, steps = ops.zeros((), "int32"), case["new"] * case["turns"]
        some = ops.while_loop(lambda number, *_: number < steps, step, (number, first, state))
        return some[1]

    compiled = CompiledFunction(write, model.variables, jit)
    ids = gpt.prompts({**case, "prompt": 1})
    amount = case["batch"] * case["new"] * case["turns"]
    return Job(lambda: compiled(ids, case["room"]), amount)

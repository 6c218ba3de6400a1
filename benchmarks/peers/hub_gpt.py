"""KerasHub's GPT-2, with the weights of all contenders."""

import keras_hub
import numpy as np

from benchmarks import gpt
from benchmarks.peers import Job
from benchmarks.peers.gpt import config_of, make_model
from keras_attn.interop import to_keras_hub


def writing(case: dict, jit: bool) -> Job:
    """`GPT2CausalLM.generate`, greedy, from ids to ids; the amount is new tokens."""
    backbone = to_keras_hub(make_model(case), config_of(case))
    model = keras_hub.models.GPT2CausalLM(backbone)
    model.compile(sampler="greedy", jit_compile=jit)
    ids, prompt = gpt.prompts(case), case["prompt"]
    padded = np.pad(ids, ((0, 0), (0, case["new"])))
    inputs = {"token_ids": padded, "padding_mask": np.arange(padded.shape[1])[None] < prompt}
    inputs["padding_mask"] = np.tile(inputs["padding_mask"], (len(ids), 1)).astype("int32")

    def run():
        found = model.generate(inputs, stop_token_ids=None)
        return np.asarray(found["token_ids"])[:, prompt:]

    return Job(run, case["batch"] * case["new"], lambda found: found.tolist())

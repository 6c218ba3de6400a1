"""keras_attn's tasks with one value of a setting after the other."""

from benchmarks.peers import Job
from keras_attn.tasks import TextGenerator, Translator
from keras_attn.text import BytePairTokenizer

TEXTS = ["one dog, two cats", "ein Hund, zwei Katzen"]


def tokenizer(case: dict, **settings: bool) -> BytePairTokenizer:
    """Bytes, and a few pairs of them."""
    most = case["vocabulary"]
    return BytePairTokenizer.train(TEXTS * 9, most, allow_fewer=True, **settings)


def sampled(case: dict, jit: bool) -> Job:
    """Texts of `new` tokens by an untrained GPT, with `values` temperatures."""
    sizes = {"dim": case["dim"], "num_layers": case["layers"], "num_heads": case["heads"]}
    generator = TextGenerator(
        tokenizer(case, normalize=False),
        model={"model": "gpt", **sizes},
        data={"sequence_length": case["context"]},
    )

    def run() -> list[str]:
        return [
            generator.generate("one", case["new"], temperature=0.5 + i / 20)
            for i in range(case["values"])
        ]

    return Job(run)


def searched(case: dict, jit: bool) -> Job:
    """Translations by an untrained Transformer, by beams of 4, with `values` length penalties."""
    sizes = {"dim": case["dim"], "num_layers": case["layers"], "num_heads": case["heads"]}
    translator = Translator(tokenizer(case), model=sizes, data={"max_length": 32})

    def run() -> list[str]:
        return [translator.translate(TEXTS[0], alpha=i / 10) for i in range(case["values"])]

    return Job(run)

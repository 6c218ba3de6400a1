"""Text from prompts: greedy search of one GPT-2 with a cache, and what a token costs by context.

All contenders have the same weights and write the same number of tokens, as no token ends a text.
The rows "behind N tokens" are keras_attn alone: single steps behind N tokens, in a cache with room
for the whole context, beside a cache with room for `short` tokens.
"""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import GPT, HF_GPT, HUB_GPT


def cases(sizes: dict) -> list[Case]:
    """One prompt and many; short and long contexts."""
    texts = [
        Case(
            f"{batch} prompt{'s' if batch > 1 else ''}",
            "writing",
            (GPT, HUB_GPT, HF_GPT),
            {"batch": batch},
            "tokens",
        )
        for batch in (1, sizes["many"])
    ]
    some = (
        (sizes["early"], sizes["context"]),
        (sizes["late"], sizes["context"]),
        (sizes["early"], sizes["short"]),
    )
    return texts + [
        Case(
            f"behind {at} tokens, room for {room}",
            "tokens_at",
            (GPT,),
            {"batch": 1, "at": at, "room": room, "new": sizes["steps"]},
            "tokens",
        )
        for at, room in some
    ]


SUITE = Suite(
    "writing",
    "greedy search of a GPT-2 from prompts, with caches",
    sizes={
        "dim": 256, "layers": 4, "heads": 4, "vocabulary": 8000, "activation": "gelu_tanh",
        "dropout": 0.0, "context": 1024, "prompt": 16, "new": 256, "many": 16, "steps": 20,
        "early": 100, "late": 1000, "short": 128,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "vocabulary": 60, "context": 40, "prompt": 3, "new": 5,
        "many": 3, "steps": 2, "early": 4, "late": 30, "short": 8,
    },
    cases=cases,
)  # fmt: skip

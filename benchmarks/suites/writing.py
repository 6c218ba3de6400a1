"""Text from prompts: greedy search of one GPT-2 with a cache, and what a token costs by context.

All contenders have the same weights and write the same number of tokens, as no token ends a text.
The rows "behind N tokens" are keras_attn alone: single steps behind N tokens, in a cache with room
for the whole context, beside a cache with room for `short` tokens.
"""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import GPT, HF_GPT, HUB_GPT, PRODUCTS


def cases(sizes: dict) -> list[Case]:
    """One prompt and many; short and long contexts."""
    texts = [
        Case(
            f"{batch} prompt{'s' if batch > 1 else ''}",
            "writing",
            (GPT, HUB_GPT, HF_GPT, PRODUCTS),
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
            {"batch": 1, "at": at, "room": room, "new": sizes["steps"], "turns": sizes["turns"]},
            "tokens",
        )
        for at, room in some
    ]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """What a token costs behind few and many others, beside a cache with little room."""
    cost = {
        (row["contender"], row["values"]["at"], row["values"]["room"]): 1e3 / row["speed"]["median"]
        for row in rows
        if "at" in row["values"] and row.get("speed")
    }
    early, late, room, short = (sizes[name] for name in ("early", "late", "context", "short"))
    lines = []
    for name in dict.fromkeys(contender for contender, *_ in cost):
        few, many, capped = (
            cost.get((name, *place)) for place in ((early, room), (late, room), (early, short))
        )
        if few and many and capped:
            lines.append(
                f"{name}: a token takes {few:.2f} ms behind {early} others and {many:.2f} ms "
                f"behind {late}, with room for {room}: {few / capped:.2f} and "
                f"{many / capped:.2f} times the {capped:.2f} ms that it takes behind {early} with "
                f"room for {short}."
            )
    return lines


SUITE = Suite(
    "writing",
    "greedy search of a GPT-2 from prompts, with caches",
    sizes={
        "dim": 256, "layers": 4, "heads": 4, "vocabulary": 8000, "activation": "gelu_tanh",
        "dropout": 0.0, "context": 1024, "prompt": 16, "new": 256, "many": 16,
        "early": 100, "late": 1000, "short": 128, "steps": 20, "turns": 25,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "vocabulary": 60, "context": 40, "prompt": 3, "new": 5,
        "many": 3, "early": 4, "late": 30, "short": 8, "steps": 2, "turns": 2,
    },
    cases=cases,
    remarks=remarks,
)  # fmt: skip

"""A language that is learnt in seconds."""

NUMBERS = "zero one two three four five six seven eight nine".split()
ZAHLEN = "null eins zwei drei vier fünf sechs sieben acht neun".split()
PAIRS = [
    (f"the {NUMBERS[i]} and {NUMBERS[j]}", f"die {ZAHLEN[i]} und {ZAHLEN[j]}")
    for i in range(10)
    for j in range(10)
]


def write_pairs(path, pairs=PAIRS):
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return str(path)

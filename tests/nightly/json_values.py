"""Every value of every JSON file of a folder, replaced by values of all types.

    KERAS_BACKEND=torch python tests/nightly/json_values.py
    KERAS_BACKEND=torch python tests/nightly/json_values.py --kinds marian ctranslate2

Folders of models and tokenizers are written, a value in one of their JSON files is replaced or
removed, and the folder is loaded. Of long lists and tables, such as vocabularies, only the first
and the last two values are replaced. The loader must return, or raise a ValueError or an OSError
that names the folder. Each kind of folder has the same share of the cases, or all that it has.
"""

import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from drawn_cases import options, report
from loaded_files import KINDS
from mutations import places_of

FOLDERS = (
    "bert", "gpt", "t5", "marian", "ctranslate2", "sentences",
    "byte pairs", "characters", "sentence piece",
)  # fmt: skip
REMOVED = object()
VALUES = [
    REMOVED, None, True, -1, 0, 1, 0.5, float("inf"), 10**12, "", "x", "\ud800", [], [1], ["x"],
    [[1]], [None], {}, {"a": 1}, {"0": "x"}, {"content": 1}, {"type": "x"},
]  # fmt: skip
ENDS = 2


def places(value):
    """Returns where the values of a JSON file are; of long lists and tables, the ends."""
    found = []
    for holder, key in places_of(value, []):
        keys = list(range(len(holder))) if isinstance(holder, list) else list(holder)
        if len(keys) <= 40 or key in keys[:ENDS] + keys[-ENDS:]:
            found.append((holder, key))
    return found


def outcome(kind, folder):
    """Loads a folder; returns what became of it."""
    try:
        kind.read(folder)
    except (ValueError, OSError) as error:
        return "refused" if str(folder) in str(error) else f"failed: not named: {error!r}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"failed: {error!r} ({Path(last.filename).name}:{last.lineno})"
    return "read"


def tried(name, folder, number, rng):
    """Replaces `number` values of a folder's JSON files; yields what was done, and the outcome."""
    kind = KINDS[name]
    kind.make(folder)
    assert outcome(kind, folder) == "read"
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*.json"))}
    todo = [
        (path, place, value)
        for path, raw in files.items()
        for place in range(len(places(json.loads(raw))))
        for value in range(len(VALUES))
    ]
    chosen = rng.permutation(len(todo))[:number]
    for path, place, value in (todo[n] for n in sorted(chosen)):
        content, value = json.loads(files[path]), VALUES[value]
        holder, key = places(content)[place]
        if value is REMOVED:
            del holder[key]
        else:
            holder[key] = value
        path.write_text(json.dumps(content), encoding="utf-8")
        shown = "removed" if value is REMOVED else f"= {value!r}"
        yield f"{path.name} {key!r} {shown}", outcome(kind, folder)
        path.write_bytes(files[path])


def main():
    """Tries all folders; exits with an error if a loader failed."""
    parser = options(__doc__, 21_000, numbered=False)
    parser.add_argument("--kinds", nargs="+", choices=FOLDERS, default=FOLDERS)
    args = parser.parse_args()
    began, counts, failures = time.monotonic(), Counter(), []
    for name in args.kinds:
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            break
        rng = np.random.default_rng([args.seed, FOLDERS.index(name)])
        with tempfile.TemporaryDirectory() as folder:
            number = -(-args.cases // len(args.kinds))
            for done, found in tried(name, Path(folder), number, rng):
                counts[found.partition(":")[0]] += 1
                if found.startswith("failed"):
                    failures.append(f"{name} {done}")
                    print(f"{failures[-1]}: {found}", file=sys.stderr, flush=True)
        print(f"{name}: {dict(counts)}", file=sys.stderr, flush=True)
    report(args, counts, failures, began)


if __name__ == "__main__":
    main()

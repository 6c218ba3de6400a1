"""Runs the nightly checks and prints the table of `docs/reliability.md`.

python tests/nightly/table.py                       # all of them, for some hours
python tests/nightly/table.py --share 0.01 --checks strings files
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHECKS = {  # the script, its backend, and its cases
    "layers torch": ("../reliability.py", "torch", 10_000),
    "layers tensorflow": ("../reliability.py", "tensorflow", 10_000),
    "layers jax": ("../reliability.py", "jax", 2_000),
    "folders": ("hugging_face.py", "torch", 500),
    "files": ("mutated_files.py", "torch", 10_000),
    "values": ("json_values.py", "torch", 21_000),
    "strings": ("served_strings.py", "tensorflow", 10_000),
    "runs": ("stopped_runs.py", "torch", 300),
    "processes": ("stopped_processes.py", "jax", 56),
}


def run(name: str, share: float, seed: int) -> dict:
    """Returns the line of JSON of a check, or its error."""
    script, backend, cases = CHECKS[name]
    ended = subprocess.run(
        [sys.executable, HERE / script, "--cases", str(max(1, round(cases * share))),
         "--seed", str(seed)],
        env={**os.environ, "KERAS_BACKEND": backend},
        stdout=subprocess.PIPE, encoding="utf-8", check=False,
    )  # fmt: skip
    lines = ended.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return {"failures": f"exit code {ended.returncode}"}
    return json.loads(lines[-1])


def row(name: str, found: dict) -> str:
    """Returns a row of the table."""
    _, backend, cases = CHECKS[name]
    known = ("cases", "seed", "seconds", "failures", "backend")
    others = ", ".join(f"{count:,} {what}" for what, count in found.items() if what not in known)
    failures = found.get("failures", 0)
    failures = len(failures) if isinstance(failures, list) else failures
    cells = [name, backend, found.get("cases", cases), others, failures]
    return "| " + " | ".join(map(str, [*cells, f"{found.get('seconds', 0) / 60:.0f}"])) + " |"


def main() -> None:
    """Runs the checks one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checks", nargs="+", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--share", type=float, default=1.0, help="of the cases (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    args = parser.parse_args()
    print("| check | backend | cases | outcomes | failures | minutes |\n|---|---|---|---|---|---|")
    failed = False
    for name in args.checks:
        found = run(name, args.share, args.seed)
        failed |= bool(found.get("failures"))
        print(row(name, found), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()

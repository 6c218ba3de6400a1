"""Makes the translator that comes with the package from a run of `examples/translation.py`.

    python examples/translation.py
    python examples/trained_translator.py

The first command trains a translator with the default settings. The second command quantizes it to
int8, measures it on the same two test sets, and writes the task file and a page of notes: figures,
commands, versions and licence. It then translates five sentences. To replace the translator of the
package, copy both files to `keras_attn/trained`.
"""

import argparse
import json
from pathlib import Path

from translation import parse_arguments as translation_arguments
from translation import read_splits

from keras_attn_command import plain_output

NAME = "home-assistant-en-de"
SENTENCES = (
    "The sensor is not available.",
    "Please check your network connection.",
    "Do you want to add this device?",
    "This device is already connected.",
    "The battery is low.",
)
NOTES = """\
# {name}

A Transformer with {weights:,} weights that translates English sentences to German. It knows the
language of a smart home's user interface, and little else. Its kernels and embeddings have 8 bits.

```python
from keras_attn.tasks import Translator

Translator.load("{name}").translate("The device is not connected.")
```

## Figures

Each test set has 1,000 pairs. No sentence of a test set is in the training data, even with other
digits, case or punctuation. *Unseen integrations* are parts of the program whose texts are not in
the training data. The beam search has a width of 4.

| test set | BLEU, float32 | BLEU, int8 | chrF, float32 | chrF, int8 |
|---|---|---|---|---|
{rows}

BLEU: `{bleu_signature}`

chrF: `{chrf_signature}`

## How it was made

Two commands made it, with seed {seed} and {versions}:

```bash
python examples/translation.py
python examples/trained_translator.py
```

## Licence

The model was trained on the English and German texts of Home Assistant 2026.11.0
(<https://www.home-assistant.io>), copyright the Home Assistant authors and translators, licensed
under the Apache License, Version 2.0 (<https://www.apache.org/licenses/LICENSE-2.0>). The texts
were changed as follows: runs of white space became one space, and duplicates, sentences of fewer
than three words and sentences equal in both languages were left out. The model is licensed under
the same licence.
"""


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/translation"), help="default: %(default)s")
    add("--to", type=Path, default=Path("runs/trained"), help="default: %(default)s")
    add("--wheel", type=Path, help="the data's wheel, if it is there already")
    add("--cache-dir", type=Path, help="where the data are kept (~/.cache/keras_attn)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()

    from keras_attn.tasks import Translator

    noted = json.loads((args.run_dir / "settings.json").read_text())
    settings = translation_arguments([])
    vars(settings).update(noted["settings"], wheel=args.wheel, cache_dir=args.cache_dir)
    splits = read_splits(settings)
    before = json.loads((args.run_dir / "results.json").read_text())

    translator = Translator.load(args.run_dir / "translator.task")
    weights = translator.model.count_params()
    translator = translator.quantize("int8")
    args.to.mkdir(parents=True, exist_ok=True)
    file = args.to / f"{NAME}.task"
    translator.save(file)
    print(f"{file}: {file.stat().st_size:,} bytes")

    rows = []
    for name, test in [("unseen sentences", splits.test), ("unseen integrations", splits.holdout)]:
        print(f"scoring {len(test):,} {name}", flush=True)
        scores = translator.evaluate(test, beams=settings.beams)
        figures = (before[name]["bleu"], scores.bleu, before[name]["chrf"], scores.chrf)
        rows.append(f"| {name} | " + " | ".join(f"{x:.2f}" for x in figures) + " |")
        print(rows[-1])
    packages = ("keras", "tensorflow", "python")
    notes = NOTES.format(
        name=NAME,
        weights=weights,
        rows="\n".join(rows),
        bleu_signature=before["bleu_signature"],
        chrf_signature=before["chrf_signature"],
        seed=settings.seed,
        versions=", ".join(f"{p} {noted['versions'][p]}" for p in packages),
    )
    (args.to / f"{NAME}.md").write_text(notes, encoding="utf-8")

    for sentence, translation in zip(SENTENCES, translator.translate(SENTENCES), strict=True):
        print(f"  {sentence}\n  -> {translation}")


if __name__ == "__main__":
    main()

"""What UCM-Captions gives to who knows only the kind of a place: two baselines.

    python examples/ucm_captions/baselines.py --data-dir ucm_captions

UCM-Captions has 21 kinds of places, whose captions repeat: the kind of a picture says much of what
people wrote about it. Both baselines give each picture the caption that is the commonest for its
kind in the training side.

- "true kind": the kind is known, from the number of the picture's file.
- "predicted kind": it is found by logistic regression on the mean of VGG16's regions, fitted on the
  training side.

A captioner that does not beat the second one may have learnt the kinds, and nothing else.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import numpy as np
from vgg16_lpips import vgg16_from_lpips

from keras_attn.images import CaptionedImage, FeatureCache, read_ucm_captions
from keras_attn.metrics import CaptionScores, caption_scores
from keras_attn.models import ImageEncoder

KINDS = (
    "agricultural", "airplane", "baseball diamond", "beach", "buildings", "chaparral",
    "dense residential", "forest", "freeway", "golf course", "harbor", "intersection",
    "medium residential", "mobile home park", "overpass", "parking lot", "river", "runway",
    "sparse residential", "storage tanks", "tennis court",
)  # fmt: skip
OF_A_KIND = 100


def main(arguments: list[str] | None = None) -> None:
    """Scores both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, help="folder of UCM-Captions")
    add("--run-dir", type=Path, default=Path("runs/ucm_captions"), help="default: %(default)s")
    add("--split", default="test", choices=["val", "test"], help="default: test")
    args = parser.parse_args(arguments)
    found = baselines(args.data_dir, args.run_dir / "features", vgg16_from_lpips(), args.split)
    for name, scores in found.items():
        print(f"{name}: {scores}")


def baselines(
    data_dir: Path, features_dir: Path, encoder: ImageEncoder, split: str = "test"
) -> dict[str, CaptionScores]:
    """Scores both baselines on a side of the data.

    Args:
        data_dir: Folder of UCM-Captions.
        features_dir: Folder of a `FeatureCache`; regions that it does not have are added to it.
        encoder: Makes the regions.
        split: `"val"` or `"test"`.

    Returns:
        The scores of "true kind" and of "predicted kind".
    """
    train, scored = (read_ucm_captions(data_dir, side) for side in ("train", split))
    captions = commonest_captions(train)
    known, asked = (mean_regions(side.paths, encoder, features_dir) for side in (train, scored))
    true = [kind_of(image) for image in scored]
    predicted = predict_kinds(known, [kind_of(image) for image in train], asked)
    right = np.mean([one == other for one, other in zip(true, predicted, strict=True)])
    print(f"Kinds that logistic regression has right: {right:.1%}")
    references = [image.captions for image in scored]
    return {
        name: caption_scores([captions[kind] for kind in kinds], references, train.captions)
        for name, kinds in {"true kind": true, "predicted kind": predicted}.items()
    }


def kind_of(image: CaptionedImage) -> str:
    """The kind of a picture: files are numbered from 1, each kind's hundred in turn."""
    return KINDS[(int(Path(image.path).stem) - 1) // OF_A_KIND]


def commonest_captions(train: Sequence[CaptionedImage]) -> dict[str, str]:
    """The caption that each kind has most often; of equally many the first."""
    counts: dict[str, Counter[str]] = {}
    for image in train:
        counts.setdefault(kind_of(image), Counter()).update(image.captions)
    return {kind: found.most_common(1)[0][0] for kind, found in counts.items()}


def mean_regions(paths: Sequence[str], encoder: ImageEncoder, features_dir: Path) -> np.ndarray:
    """The mean of the regions of each picture, (B, D)."""
    cache = FeatureCache(features_dir, encoder.fingerprint())
    cache.fill(paths, encoder, encoder.image_size, verbose=0)
    return np.stack([cache[path].mean(axis=0, dtype="float32") for path in paths])


def predict_kinds(known: np.ndarray, kinds: Sequence[str], asked: np.ndarray) -> list[str]:
    """Fits logistic regression on pictures of known kinds, and predicts those of others."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return model.fit(known, list(kinds)).predict(asked).tolist()


if __name__ == "__main__":
    main()

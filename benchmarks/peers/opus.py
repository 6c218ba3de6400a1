"""keras_attn's SavedModel of an imported translator: strings in, strings out."""

import functools
import json
import tempfile
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401

from benchmarks import opus
from benchmarks.peers import Job
from keras_attn.tasks import Translator


class FixedTranslator(Translator):
    """Writes as many tokens as it may, whatever the length of the source; exports no details."""

    most = 32
    examples = ("",)

    def longest(self, length):
        """As many, for any source."""
        return self.most

    def signatures(self, use):
        """Strings to strings alone."""
        return {"serving_default": super().signatures(use)["serving_default"]}

    def served_numbers(self, use):
        """None."""
        return {}

    def export_examples(self):
        """Few: the export is compared with the task in tests."""
        return {"text": list(self.examples)}


@functools.cache
def served(case: str, beams: int, jit: bool, int8: bool):
    """The loaded SavedModel, and its size in bytes."""
    case = json.loads(case)
    with tempfile.TemporaryDirectory() as folder:
        source, saved = Path(folder) / "source", Path(folder) / "saved"
        source.mkdir()
        opus.write_folder(case, source)
        model = FixedTranslator.from_pretrained(source)
        model.most, model.examples = case["target"], opus.texts({**case, "batch": 1})
        if int8:
            model.quantize("int8")
        model.export(saved, beams=beams, xla=jit)
        return tf.saved_model.load(saved), opus.folder_size(saved)


def translating(case: dict, jit: bool, int8: bool = False) -> Job:
    """A call of `serving_default`."""
    loaded, _ = served(opus.sizes(case), case["beams"], jit, int8)
    function = loaded.signatures["serving_default"]
    batch = tf.constant(opus.texts(case))

    def run():
        return function(text=batch)["translation"].numpy()

    return Job(run, case["batch"], lambda found: [text.decode() for text in found])


def file(case: dict, jit: bool, int8: bool = False) -> Job:
    """How many bytes the SavedModel has."""
    _, size = served(opus.sizes(case), case["beams"], jit, int8)
    return Job(lambda: None, size)

"""The SavedModel of a text generator: prompts and seeds in, texts out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keras_attn.export import check_place, export_text_functions

if TYPE_CHECKING:
    from keras_attn.tasks.text_generator import TextGenerator

# What every export is tried with: the odd beside the ordinary.
EXPORT_PROMPTS = ["", "To be, or not", "\n\n", "a \x00 b\x01", "👩\u200d👧 שלום e\u0301", "x" * 600]
EXPORT_SEEDS = [0, 1, -5, 2**31 - 1, -(2**31), 7]
EXPORT_CHARACTERS = 24


def export_text_generation(
    generator: TextGenerator,
    path: str | os.PathLike,
    settings: dict[str, Any],
    overwrite: bool = False,
) -> None:
    """Exports a generator as a SavedModel, and compares it with the Python object.

    Args:
        generator: What is exported, on the TensorFlow backend.
        path: Folder of the SavedModel.
        settings: Of the sampling.
        overwrite: Whether a SavedModel that is there is replaced.

    Raises:
        FileExistsError: As `export_text_functions`.
        PermissionError: As `export_text_functions`.
        RuntimeError: As `export_text_functions`.
    """
    check_place(path, overwrite)  # before the work
    prompts, seeds, count = EXPORT_PROMPTS, EXPORT_SEEDS, EXPORT_CHARACTERS
    texts = generator.generate(prompts, count, seed=seeds, **settings)
    export_text_functions(
        path,
        lambda tf: graph_functions(generator, tf, settings),
        generator.model.variables,
        {"prompt": prompts, "seed": seeds, "num_characters": count},
        {"serving_default": {"text": texts}},
        overwrite=overwrite,
    )


def graph_functions(
    generator: TextGenerator, tf: Any, settings: dict[str, Any]
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the function of the SavedModel, and the `tf.Module` that it uses.

    Args:
        generator: What is exported.
        tf: The module `tensorflow`.
        settings: Of the sampling.

    Returns:
        `{"serving_default": function}` with `function(prompt (B,), seed (B,), num_characters ())
        -> {"text": (B,)}`, and the tokenizer.
    """
    tokenizer = generator.tokenizer.to_graph()
    most = generator.sequence_length - 1

    def serve(prompt, seed, num_characters):
        rows = tf.size(prompt)
        same = tf.debugging.assert_equal(
            rows, tf.size(seed), message="Expected as many seeds as prompts."
        )
        some = tf.debugging.assert_positive(
            num_characters, message="Expected at least one new character."
        )
        with tf.control_dependencies([same, some]):
            text = tf.strings.unicode_transcode(prompt, "UTF-8", "UTF-8", errors="replace")
        # Loops want a row: an empty batch gets one, which is dropped.
        more = tf.cast(rows == 0, tf.int32)
        text = tf.concat([text, tf.fill([more], "")], axis=0)
        seed = tf.concat([seed, tf.fill([more], 0)], axis=0)
        ids = tokenizer.encode(text)[:, -most:]
        start = tf.fill([tf.size(text), 1], tokenizer.start_id)
        ids = tf.concat([start, ids], axis=1).to_tensor(tokenizer.pad_id)
        found = generator.continue_ids(ids, num_characters, seed, **settings)
        text = tf.strings.join([text, tokenizer.decode(found.tokens)])
        return {"text": text[:rows]}

    return {"serving_default": serve}, [tokenizer]

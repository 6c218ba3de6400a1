"""The SavedModel of a text generator: prompts and seeds in, texts out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attn.export import check_equal, check_place, replaced_folder

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
        FileExistsError: As `check_place`.
        PermissionError: As `check_place`.
        RuntimeError: If the loaded SavedModel gives something else.
    """
    check_place(path, overwrite)  # before the work
    prompts, seeds, count = EXPORT_PROMPTS, EXPORT_SEEDS, EXPORT_CHARACTERS
    expected = generator.generate(prompts, count, seed=seeds, **settings)
    with replaced_folder(path, overwrite) as folder:
        import tensorflow as tf

        module = tf.Module(name="keras_attn_export")
        serve, module.tokenizer = graph_function(generator, tf, settings)
        module.variables_ = [variable.value for variable in generator.model.variables]
        # Not an attribute of the module: it would be traced a second time.
        signature = tf.function(serve, autograph=False).get_concrete_function(
            prompt=tf.TensorSpec([None], tf.string, name="prompt"),
            seed=tf.TensorSpec([None], tf.int32, name="seed"),
            num_characters=tf.TensorSpec([], tf.int32, name="num_characters"),
        )
        tf.saved_model.save(module, str(folder), signatures={"serving_default": signature})

        loaded = tf.saved_model.load(str(folder)).signatures["serving_default"]
        received = loaded(
            prompt=tf.constant([prompt.encode("utf-8") for prompt in prompts]),
            seed=tf.constant(seeds, tf.int32),
            num_characters=tf.constant(count),
        )
        check_equal("text", np.asarray(received["text"].numpy()), expected, tolerance=0)


def graph_function(generator: TextGenerator, tf: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
    """Makes the function of the SavedModel, and the `tf.Module` that it uses.

    Args:
        generator: What is exported.
        tf: The module `tensorflow`.
        settings: Of the sampling.

    Returns:
        `function(prompt (B,), seed (B,), num_characters ()) -> {"text": (B,)}`, and the tokenizer.
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

    return serve, tokenizer

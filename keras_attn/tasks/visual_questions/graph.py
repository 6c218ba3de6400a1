"""The SavedModel of questions about pictures: bytes of pictures and strings in, answers out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.tasks.captioning.graph import decode_pictures
from keras_attn.tasks.entailment.graph import ids_and_words
from keras_attn.tasks.visual_questions.looking import answer_and_look


def graph_functions(
    task: Any, tf: Any, top_k: int, max_pixels: int
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the functions of the SavedModel.

    Args:
        task: A `VisualQuestionAnswerer`.
        tf: The module `tensorflow`.
        top_k: Number of answers that are given.
        max_pixels: Largest number of pixels of a picture.

    Returns:
        The functions by the names of their signatures, and the `tf.Module`s they use.
    """
    tokenizer = task.tokenizer.to_graph()
    names = tf.constant(list(task.answers))
    encoder = task.encoder

    def encode(image: Any) -> Any:
        """Regions of pictures; what is given several times is encoded once."""
        different, places = tf.unique(image)
        regions = task.encode(decode_pictures(tf, different, encoder.image_size, max_pixels))
        return tf.gather(regions, places)

    def answer(regions: Any, question: Any) -> dict[str, Any]:
        ids, words = ids_and_words(tf, tokenizer, question, task.max_length)
        shape = (-1, encoder.num_regions, encoder.region_dim)
        probabilities, *maps = answer_and_look(task.answering, tf.reshape(regions, shape), ids)
        best, numbers = tf.math.top_k(probabilities, top_k)
        found = {"answers": tf.gather(names, numbers), "probabilities": best, "words": words}
        if maps:
            grid = tf.concat([tf.shape(maps[0])[:2], encoder.grid], axis=0)
            found["attention"] = tf.reshape(maps[0], grid)
        return found

    def serve(image: Any, question: Any) -> dict[str, Any]:
        return answer(encode(image), question)

    def encode_pictures(image: Any) -> dict[str, Any]:
        return {"regions": encode(image)}

    def ask(picture: Any, question: Any, regions: Any) -> dict[str, Any]:
        shape = tf.shape(regions)
        message = tf.strings.format(
            f"Expected `regions` of shape (B, {encoder.num_regions}, {encoder.region_dim}), as "
            "`encode` gives them. Received: shape {}.",
            shape,
        )
        right = tf.reduce_all(shape[1:] == [encoder.num_regions, encoder.region_dim])
        checks = [tf.debugging.Assert(right, [message])]
        message = tf.strings.format(
            "Expected `picture` to have numbers of rows of `regions`, 0 to {}. Received: {}.",
            (shape[0] - 1, picture),
        )
        there = tf.reduce_all((picture >= 0) & (picture < shape[0]))
        checks.append(tf.debugging.Assert(there, [message]))
        with tf.control_dependencies([check for check in checks if check is not None]):
            picture = tf.identity(picture)
        return answer(tf.gather(regions, picture), question)

    functions: dict[str, Callable] = {
        "serving_default": serve,
        "encode": encode_pictures,
        "ask": ask,
    }
    return functions, [tokenizer]

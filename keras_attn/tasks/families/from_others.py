"""Tasks with an encoder-decoder that may be pretrained."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from keras_attn.hints import DType
from keras_attn.interop.search_settings import OwnTask
from keras_attn.models.tensors import load_tensors
from keras_attn.settings import Settings
from keras_attn.tasks.base.backbones import Backbone, of_tokens, read_encoder_decoder
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.families.sequence_to_sequence import SequenceToSequence
from keras_attn.text.registry import TextTokenizer

LONGEST = 512
"""Longest source of a model with weights of others, in tokens."""


class FromOthers(SequenceToSequence):
    """Base class of tasks whose encoder-decoder is new, or comes from a task file or a folder."""

    own_tasks: ClassVar[str]
    """Prefix of the names of this task in `task_specific_params`, where a model for several tasks
    has settings of each."""

    read_start = staticmethod(read_encoder_decoder)

    @property
    def source_tokenizer(self) -> TextTokenizer:
        """The tokenizer of source texts."""
        return self.learned.tokenizer

    @classmethod
    def begin(
        cls, examples: object, data: Any, model: object, dtype: DType, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new task, from the examples or the backbone in `data`."""
        if not getattr(data, "backbone", ""):
            return super().begin(examples, data, model, dtype, **parts)
        return cls.beginning(cls.read_start(data.backbone), data, model)

    @classmethod
    def beginning(cls, start: Backbone, data: Any, model: object = None) -> Beginning:
        """Returns the parts of a task that starts from a pretrained encoder-decoder.

        Args:
            start: The encoder-decoder, as read by `read_start`.
            data: Settings of class `Data`.
            model: Settings of the model that override the encoder-decoder's, such as dropout rates.
        """
        chosen = start.choice(cls.kinds, cls.kinds.made({} if model is None else model))
        if "right_padding" in chosen.values:  # as the batches are
            values = {**chosen.values, "right_padding": True}
            chosen = dataclasses.replace(chosen, values=values)
        return Beginning(cls.learned_of(start, data), chosen, start)

    @classmethod
    def learned_of(cls, start: Backbone, data: Any) -> Any:
        """Returns the learned values of a task that starts from a pretrained encoder-decoder.

        Args:
            start: The encoder-decoder, with its tokenizers.
            data: Settings of class `Data`.

        Returns:
            An instance of `Learned`.
        """
        own = {"tokenizer": start.tokenizer, **start.learned}
        names = {field.name for field in dataclasses.fields(cls.Learned)}
        return cls.Learned(**{name: value for name, value in own.items() if name in names})

    @classmethod
    def begun(cls, start: Beginning, data: Settings, dtype: DType = None) -> Self:
        """Creates a task from a `Beginning`. If it has a pretrained encoder-decoder, the task gets
        all of its weights and its search settings."""
        task = super().begun(start._replace(backbone=None), data, dtype)
        if start.backbone is not None:
            tensors = of_tokens(start.backbone.tensors, task.source_tokenizer.vocabulary_size)
            loaded = load_tensors(task.model, tensors)
            task.loaded = loaded._replace(left_over=list(start.backbone.unused))
            task.pretrained = True
            task.own_use = start.backbone.learned["own_use"]
        return task

    @classmethod
    def from_pretrained(cls, place: str | os.PathLike[str], dtype: DType = None) -> Self:
        """Creates a task from a pretrained encoder-decoder, such as OPUS-MT's Marian models.

        The search settings of the model are stored in `own_use`: the settings of its
        `generation_config.json`, and for T5 the `task_specific_params` of its `config.json` for
        this task (prefix, lengths, and search settings that are the same for all languages).

        Args:
            place: A folder (or hub name) of Hugging Face weights, or another place that
                `keras_attn.interop.read_pretrained` reads; or a file of another task with an
                encoder-decoder.
            dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

        Returns:
            A task that can be used, trained further and exported.

        Raises:
            ValueError: As in `read_pretrained`, and if the model is not an encoder-decoder or has
                no tokenizer.
        """
        start = cls.read_start(place)
        own = cls.own(start).values()
        data = cls.Data.made({"max_length": LONGEST, **cls.lengths([x.max_length for x in own])})
        task = cls.begun(cls.beginning(start, data), data, dtype)
        searches = [x.search for x in own]
        same = {n: x for n, x in (searches or [{}])[0].items() if all(s[n] == x for s in searches)}
        task.own_use = {**task.own_use, **same}
        return task

    @classmethod
    def own(cls, start: Backbone) -> dict[str, OwnTask]:
        """Returns the settings of a pretrained model for this task.

        Args:
            start: The pretrained model.

        Returns:
            A dict from names in `task_specific_params`, such as `"translation_en_to_de"`, to
            settings; empty if the model has none for this task.
        """
        tasks = start.learned.get("tasks", {})
        return {name: own for name, own in tasks.items() if name.startswith(cls.own_tasks)}

    @classmethod
    def lengths(cls, longest: Sequence[int | None]) -> dict[str, int]:
        """Returns the settings of the data that limit the length of a target.

        Args:
            longest: The maximum lengths in the results of `own`; None where a length is missing.
        """
        return {}

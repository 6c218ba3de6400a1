"""Settings of fine-tuning: frozen layers, LoRA, and learning rates by depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras

from keras_attn.adapt import enable_lora, merge_lora
from keras_attn.adapt.lora import with_lora
from keras_attn.settings import RunDefault, Settings, setting, with_defaults
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.training_settings import BatchTraining

_BELOW = ("embedding", "positions")


@dataclass(frozen=True)
class LoraTraining(Settings):
    """Settings of training with LoRA."""

    lora_rank: int = setting(
        0, "rank of LoRA in the attention, with all other weights frozen; 0 trains all weights",
        at_least=0,
    )  # fmt: skip
    layer_decay: ClassVar[float] = 1.0
    frozen_layers: ClassVar[int] = 0

    @property
    def limits(self) -> bool:
        """Whether only some weights are trained."""
        return bool(self.lora_rank)


@dataclass(frozen=True)
class FineTuning(BatchTraining):
    """Settings that choose the trained layers of an encoder or decoder and their learning rates.

    Example:

    >>> FineTuning(layer_decay=0.9).frozen_layers
    0
    """

    layer_decay: float = setting(
        1.0, "factor of the learning rate from the head to the top block, and from each block to "
        "the one below it",
        above=0,
    )  # fmt: skip
    frozen_layers: int = setting(
        0, "number of lowest blocks that are frozen, together with the embeddings; 0 trains all",
        at_least=0,
    )  # fmt: skip
    lora_rank: int = setting(
        0, "rank of LoRA in the attention of the encoder or decoder, whose own weights are "
            "frozen; 0 trains them",
        at_least=0,
    )  # fmt: skip

    @property
    def limits(self) -> bool:
        """Whether blocks are frozen or have LoRA, or learning rates depend on the depth."""
        return self.layer_decay != 1.0 or bool(self.frozen_layers or self.lora_rank)


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(10, backbone=3),
    learning_rate=RunDefault(1e-3, lora=1e-3, backbone=1e-4, encoder=5e-4),
    weight_decay=0.01,
    words={"rows": "texts"},
)
class EncoderTraining(FineTuning):
    """Settings for training from a pretrained encoder or from random weights.

    Example:

    >>> EncoderTraining().decided(["backbone"]).learning_rate
    0.0001
    """


def choose_weights(model: keras.Model, training: FineTuning | LoraTraining) -> dict[int, float]:
    """Freezes layers of an encoder or decoder and enables LoRA, before the model is compiled.

    LoRA freezes all other weights, except those of the layers above an encoder (such as a head).
    Changes by an earlier call are undone first; layers that were already frozen do not change.
    Returns learning rate factors, keyed by the `id` of the variable: `layer_decay ** k` for the
    k-th block from the top, and one more power for the embeddings; empty if all factors are 1.
    """
    _undo(model)
    if not training.limits:
        return {}
    layers = {layer.name: layer for layer in model.layers}
    stack = layers.get("encoder", layers.get("decoder"))
    blocks = getattr(stack, "blocks", None)
    if blocks is None:
        raise ValueError(
            "`layer_decay`, `frozen_layers` and `lora_rank` require a model with Transformer "
            f"blocks. Received: {model.name!r}, which has no such blocks. Remove these "
            "settings."
        )
    if training.frozen_layers > len(blocks):
        raise ValueError(
            f"`frozen_layers` must be at most {len(blocks)}, the number of blocks of the "
            f"model. Received: {training.frozen_layers}."
        )
    decodes_too = {"encoder", "decoder"} <= layers.keys()
    if training.lora_rank and training.frozen_layers == len(blocks) and not decodes_too:
        raise ValueError(
            "`lora_rank` trains the blocks that are not frozen. Received: frozen_layers="
            f"{training.frozen_layers}, all blocks of the model. Leave one of the settings out, or "
            "freeze fewer blocks."
        )
    below = [layers[name] for name in _BELOW if name in layers]
    model._chosen = chosen = _Chosen()
    if training.frozen_layers:
        for layer in [*below, *blocks[: training.frozen_layers]]:
            parts = [*layer._flatten_layers()]
            # A layer that is thawed thaws its variables, which may have been frozen one by one.
            own = [v for part in parts for v in part._trainable_variables]
            chosen.frozen += [(part, part.trainable) for part in (*parts, *own)]
            layer.trainable = False
    if training.lora_rank:
        encodes = stack is layers.get("encoder") and "decoder" not in layers
        above = [x for x in model.layers if encodes and x not in (*below, stack)]
        own = [v for layer in above for v in layer.trainable_variables]
        enable_lora(model, training.lora_rank)
        chosen.lora = True
        for variable in own:
            variable.trainable = True
    decay, top = training.layer_decay, len(blocks)
    factors = {}
    for depth, some in enumerate([below, *([block] for block in blocks)]):
        for layer in some:
            factors.update({id(v): decay ** (top + 1 - depth) for v in layer.variables})
    return {} if decay == 1.0 else factors


class _Chosen:
    """The layers that were frozen or got LoRA for a training."""

    def __init__(self) -> None:
        self.lora = False
        self.frozen: list[tuple[keras.layers.Layer | keras.Variable, bool]] = []


def _undo(model: keras.Model) -> None:
    merge_chosen_lora(model)
    chosen = getattr(model, "_chosen", None)
    for part, trainable in chosen.frozen if chosen else ():  # the outer ones come first
        part.trainable = trainable
    model._chosen = None


def merge_chosen_lora(model: keras.Model) -> None:
    """Merges LoRA into the weights if `choose_weights` enabled it."""
    chosen = getattr(model, "_chosen", None)
    if chosen is not None and chosen.lora:
        if with_lora(model):  # who was interrupted may have merged it
            merge_lora(model)
        chosen.lora = False


def refuse_adapter(model: keras.Model) -> None:
    """Refuses a model with LoRA that `choose_weights` did not add.

    The best weights of a run are stored without such an adapter, which would be lost.
    """
    chosen = getattr(model, "_chosen", None)
    if with_lora(model) and not (chosen is not None and chosen.lora):
        raise ValueError(
            "`run_dir` cannot be used with a model that has LoRA from `enable_lora` or "
            "`load_lora`, because the best weights are kept without LoRA. Leave `run_dir` "
            "out, merge LoRA with `merge_lora`, or let `fit` add it (`lora_rank`)."
        )

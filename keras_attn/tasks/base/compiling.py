"""Optimizers and compilation of the models of tasks."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_attn.models import packed_transformer
from keras_attn.ops.replicas import replicas
from keras_attn.tasks.base.training_settings import TrainingSettings
from keras_attn.training import (
    ChunkedLossModel,
    WarmupCosineSchedule,
    fuse_adam,
    sum_repeated_rows,
)


def make_schedule(
    total_steps: int,
    learning_rate: float,
    warmup_steps: int | None = None,
    final_learning_rate: float = 0.0,
) -> WarmupCosineSchedule:
    """Makes the learning rate schedule of a run: linear warm-up and cosine decay.

    By default, the warm-up is a twentieth of the steps, and at most 1000 steps.
    """
    if warmup_steps is None:
        warmup_steps = min(1000, total_steps // 20)
    warmup_steps = max(warmup_steps, 1)
    total_steps = max(total_steps, warmup_steps + 1)
    return WarmupCosineSchedule(learning_rate, warmup_steps, total_steps, final_learning_rate)


def make_adam(
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    policy: keras.DTypePolicy,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    ema_momentum: float = 0.0,
    gradient_accumulation: int = 1,
    **settings: Any,
) -> keras.optimizers.Optimizer:
    """Makes Adam or AdamW with the options of tasks; float16 gets loss scaling."""
    settings["global_clipnorm"] = clip_norm or None
    if ema_momentum:
        settings |= {"use_ema": True, "ema_momentum": ema_momentum}
    if gradient_accumulation > 1:
        settings["gradient_accumulation_steps"] = gradient_accumulation
    if weight_decay:
        made = keras.optimizers.AdamW(schedule, weight_decay, **settings)
    else:
        made = keras.optimizers.Adam(schedule, **settings)
    sum_repeated_rows(made)
    fuse_adam(made)
    if replicas() > 1:
        if gradient_accumulation > 1:
            raise ValueError(
                "`gradient_accumulation` must be 1 on several devices with TensorFlow, where "
                f"Keras does not support it. Received: {gradient_accumulation}. Use 1, a single "
                "device, or KERAS_BACKEND=jax."
            )
        clip_sum_of_replicas(made)
    # Keras does this by itself only where the policy is the global one.
    return keras.optimizers.LossScaleOptimizer(made) if policy.name == "mixed_float16" else made


def make_optimizer(
    training: TrainingSettings,
    policy: keras.DTypePolicy,
    total_steps: int,
    warmup_share: tuple[float, int],
    adam: Mapping[str, float],
) -> keras.optimizers.Optimizer:
    """Makes the optimizer of a run from its settings and number of batches."""
    accumulation = getattr(training, "gradient_accumulation", 1)
    rate, decay = training.learning_rate or 0.0, training.weight_decay or 0.0
    ema = training.ema_momentum
    updates = max(total_steps // accumulation, 1)
    warmup = training.warmup_steps
    if warmup is None:
        share, most = warmup_share
        warmup = min(most, int(updates * share))
    if accumulation > max(total_steps, 1):
        raise ValueError(
            "`gradient_accumulation` must be at most the number of batches of the whole run, "
            f"or nothing is learned. Received: gradient_accumulation={accumulation}, "
            f"{total_steps} batches."
        )
    # Keras asks a schedule at the number of batches, of which several make an update, in the
    # last of them.
    steps, warmup = max(total_steps, 1) + accumulation - 1, warmup * accumulation
    return make_adam(
        make_schedule(
            steps,
            rate,
            warmup,
            rate if training.schedule == "constant" else 0.0,
        ),
        policy,
        decay,
        training.clip_norm,
        ema_momentum(total_steps) if ema is None else ema,
        accumulation,
        **adam,
    )


def ema_momentum(batches: int) -> float:
    """Returns the momentum of a moving average over the last tenth of a run, at most 0.999.

    In a short run, a larger momentum would keep untrained weights, because Keras' average begins
    with the weights after the first batch, without bias correction.
    """
    return min(0.999, max(0.0, 1.0 - 10.0 / batches))


def clip_sum_of_replicas(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes an optimizer clip the gradient of the whole batch, as on one device.

    Under `tf.distribute`, Keras clips the gradient of each replica and adds the clipped gradients.
    """
    clip = optimizer._clip_gradients

    def clip_sum(gradients: Any) -> Any:
        import tensorflow as tf

        here = tf.distribute.get_replica_context()
        return clip(here.all_reduce(tf.distribute.ReduceOp.SUM, gradients))

    optimizer._clip_gradients = clip_sum
    optimizer._all_reduce_sum_gradients = list


def jit_compile(recurrent: bool) -> Any:
    """Returns the argument `jit_compile` of `keras.Model.compile`.

    On TensorFlow, XLA helps only on GPUs, and not for loops over time; it fails under
    `tf.distribute`, because a compiled step cannot access other devices.
    """
    if keras.backend.backend() != "tensorflow":
        return "auto"
    import tensorflow as tf

    pays = tf.config.list_physical_devices("GPU") and not recurrent and replicas() == 1
    return "auto" if pays else False


def checked_steps(steps_per_execution: int) -> int:
    """Refuses several steps per execution on PyTorch, which does not support them.

    TensorFlow runs a group of `steps_per_execution` batches in one graph, and JAX runs them one
    after the other. On both backends, Keras calls callbacks only after each group, so a run can be
    interrupted and saved only there.
    """
    if steps_per_execution > 1 and keras.backend.backend() == "torch":
        raise ValueError(
            "Keras runs one batch at a time on PyTorch: `steps_per_execution` must be 1 there. "
            f"Received: {steps_per_execution}."
        )
    return steps_per_execution


def trained_form(
    model: keras.Model, packed: bool = False, chunked_loss: bool = False
) -> keras.Model:
    """Wraps a compiled model for packed batches or a chunked loss, or returns it as it is."""
    if not packed and not chunked_loss:
        return model
    form = packed_transformer(model) if packed else model
    form = ChunkedLossModel(form) if chunked_loss else form
    return compiled_alike(form, model)


def compiled_alike(form: keras.Model, model: keras.Model) -> keras.Model:
    """Compiles another form of a compiled model with the same optimizer, loss and metrics."""
    form.compile(**{**model._compile_config.config, "optimizer": model.optimizer})
    return form

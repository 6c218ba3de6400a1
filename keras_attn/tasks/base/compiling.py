"""How the models of tasks are compiled and fitted."""

from typing import Any

import keras

from keras_attn.models import packed_transformer
from keras_attn.ops.replicas import replicas
from keras_attn.training import (
    ChunkedLossModel,
    WarmupCosineSchedule,
    fuse_adam,
    sum_repeated_rows,
)


def make_schedule(
    total_steps: int, learning_rate: float, warmup_steps: int | None = None
) -> WarmupCosineSchedule:
    """Makes the learning rate of a run: linear warm-up and cosine decay.

    Args:
        total_steps: Number of updates in all.
        learning_rate: The highest learning rate.
        warmup_steps: Steps until it is reached; a twentieth of all, at most 1000, if None.

    Returns:
        The schedule.

    Example:

    >>> make_schedule(total_steps=200, learning_rate=1e-3).warmup_steps
    10
    """
    if warmup_steps is None:
        warmup_steps = min(1000, total_steps // 20)
    warmup_steps = max(warmup_steps, 1)
    return WarmupCosineSchedule(learning_rate, warmup_steps, max(total_steps, warmup_steps + 1))


def make_adam(
    schedule: Any,
    policy: Any,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    ema_momentum: float = 0.0,
    gradient_accumulation: int = 1,
    **settings: Any,
) -> keras.optimizers.Optimizer:
    """Makes Adam, or AdamW, with what tasks offer beside it.

    Args:
        schedule: The learning rate.
        policy: Dtype policy of the model's layers; float16 gets a scaled loss.
        weight_decay: Of AdamW; 0: Adam.
        clip_norm: Largest norm of all gradients together; 0: any.
        ema_momentum: Momentum of the moving average of the weights; 0: none.
        gradient_accumulation: Batches whose mean gradient makes one update.
        **settings: Further ones of the optimizer.

    Returns:
        The optimizer.

    Example:

    >>> type(make_adam(1e-3, keras.DTypePolicy("float32"), weight_decay=0.1)).__name__
    'AdamW'
    """
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
                "`gradient_accumulation` must be 1 on several devices with TensorFlow, where Keras "
                f"cannot do it. Received: {gradient_accumulation}. Take 1, one device, or "
                "KERAS_BACKEND=jax."
            )
        clip_sum_of_replicas(made)
    # Keras does this by itself only where the policy is the global one.
    return keras.optimizers.LossScaleOptimizer(made) if policy.name == "mixed_float16" else made


def ema_momentum(batches: int) -> float:
    """The momentum of a moving average over the last tenth of a run, at most 0.999.

        m = min(0.999, max(0, 1 - 10 / batches))

    A longer memory would hold untrained weights where a run is short: Keras' average begins with
    the weights after the first batch, and is not corrected for that.

    Args:
        batches: Number of batches of the run.

    Returns:
        The momentum.

    Example:

    >>> ema_momentum(500), ema_momentum(100_000)
    (0.98, 0.999)
    """
    return min(0.999, max(0.0, 1.0 - 10.0 / batches))


def clip_sum_of_replicas(optimizer: keras.optimizers.Optimizer) -> None:
    """Has an optimizer clip the gradient of the whole batch, as it does on one device.

    Under `tf.distribute` Keras clips the part of each replica, and adds up the clipped parts.

    Args:
        optimizer: Made in the scope of the strategy; it is changed.

    Example:

    >>> clip_sum_of_replicas(keras.optimizers.SGD(0.1, global_clipnorm=1.0))
    """
    clip = optimizer._clip_gradients

    def clip_sum(gradients: Any) -> Any:
        import tensorflow as tf

        here = tf.distribute.get_replica_context()
        return clip(here.all_reduce(tf.distribute.ReduceOp.SUM, gradients))

    optimizer._clip_gradients = clip_sum
    optimizer._all_reduce_sum_gradients = list


def jit_compile(recurrent: bool) -> Any:
    """What `keras.Model.compile` is told about XLA.

    On TensorFlow it pays on GPUs alone, and there not for loops over time; it fails under
    `tf.distribute`, as a compiled step cannot reach what is on the other devices.

    Args:
        recurrent: Whether the model has such loops.

    Returns:
        `"auto"` or False.

    Example:

    >>> jit_compile(recurrent=True) in (False, "auto")
    True
    """
    if keras.backend.backend() != "tensorflow":
        return "auto"
    import tensorflow as tf

    pays = tf.config.list_physical_devices("GPU") and not recurrent and replicas() == 1
    return "auto" if pays else False


def checked_steps(steps_per_execution: int) -> int:
    """Refuses what PyTorch cannot do, before anything is trained.

    TensorFlow runs that many batches in one graph; JAX one after the other. In both, callbacks see
    the last of them only: a run can be ended, and be kept in its checkpoint, after each of them.
    The batches need not have the same shape.

    Args:
        steps_per_execution: As `keras.Model.compile`.

    Returns:
        The same.

    Raises:
        ValueError: On PyTorch, for more than 1.

    Example:

    >>> checked_steps(1)
    1
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
    """Wraps a compiled model for training: of the same layers, and compiled alike.

    Args:
        model: An encoder-decoder, or with `packed=False` another one of logits.
        packed: Whether it gets `PackedBatches`.
        chunked_loss: Whether the loss is computed in chunks.

    Returns:
        A compiled model; `model` itself where nothing is asked for.

    Raises:
        ValueError: For a model that cannot be trained so.

    Example:

    >>> model = TransformerEncoderDecoderConfig(50, num_layers=1, dim=16).build()
    >>> model.compile("adam", MaskedCrossEntropy())
    >>> trained_form(model) is model, trained_form(model, packed=True).name
    (True, 'packed_transformer')
    """
    if not packed and not chunked_loss:
        return model
    form = packed_transformer(model) if packed else model
    form = ChunkedLossModel(form) if chunked_loss else form
    return compiled_alike(form, model)


def compiled_alike(form: keras.Model, model: keras.Model) -> keras.Model:
    """Compiles another form of a compiled model with the same optimizer, loss, metrics and so on.

    Args:
        form: The form, which has the layers of the model.
        model: The compiled model.

    Returns:
        The form.

    Example:

    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse", run_eagerly=True)
    >>> compiled_alike(keras.Model(model.inputs, model.outputs), model).run_eagerly
    True
    """
    form.compile(**{**model._compile_config.config, "optimizer": model.optimizer})
    return form

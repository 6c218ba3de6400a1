"""How the models of tasks are compiled."""

from typing import Any

import keras


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

    >>> make_adam(1e-3, keras.DTypePolicy("float32"), weight_decay=0.1).name
    'adam_w'
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
    # Keras does this by itself only where the policy is the global one.
    return keras.optimizers.LossScaleOptimizer(made) if policy.name == "mixed_float16" else made


def jit_compile(recurrent: bool) -> Any:
    """What `keras.Model.compile` is told about XLA.

    On TensorFlow it pays on GPUs alone, and there not for loops over time.

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

    return "auto" if tf.config.list_physical_devices("GPU") and not recurrent else False

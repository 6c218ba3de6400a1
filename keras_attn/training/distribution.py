"""Distribution of weights and batches over devices and hosts on JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attn.training.processes import num_processes

_COLUMNS = (
    r"(.*/)?qkv",
    r"(.*/)?(cross_attention|multi_head_attention(_\d+)?)/(query|key|value)",
    r"(.*/)?value_up",
    r"(.*/)?feed_forward(_\d+)?/hidden",
)
_ROWS = (
    r"(.*/)?(self_attention|cross_attention|multi_head_(self_)?attention(_\d+)?)/output",
    r"(.*/)?feed_forward(_\d+)?/output",
)


def get_layout_map(
    device_mesh: keras.distribution.DeviceMesh,
    model_parallel_dim_name: str = "model",
    shard_embeddings: bool = True,
) -> keras.distribution.LayoutMap:
    """Returns a layout map that shards the weights of blocks over devices, as in Megatron-LM.

        query, key, value, qkv, hidden   kernel (D, F): columns over the devices; bias (F,) too
        output                           kernel (F, D): rows; bias (D,) whole
        embedding, tokens                E (V, D): rows, a part of the vocabulary on each device
        all others                       whole on each device

    D is the width of the model, F the width of a projection, and V the size of the vocabulary. The
    layout is described by Shoeybi et al., 2019, https://arxiv.org/abs/1909.08053. The optimizer's
    variables for a weight are on the same devices as the weight. XLA compiles one program for the
    whole model from the layout (GSPMD), so the results are the same as on one device. Unlike in
    Megatron, `qkv` has the columns of all queries, then keys, then values, so that the part of a
    device is not a set of whole heads. The results are correct, but XLA may have to move parts of
    the product between devices.

    The map covers `TransformerEncoderBlock`, `DecoderBlock`, their stacks and models; and it covers
    `MultiHeadSelfAttention`, `MultiHeadAttention` and `FeedForward` with the names that Keras
    generates. For other names, add entries such as
    `layout_map["mine/output/kernel"] = ("model", None)`.

    Args:
        device_mesh: Devices on two axes.
        model_parallel_dim_name: Name of the axis over which weights are sharded.
        shard_embeddings: Whether embeddings are also sharded. The number of devices on the axis
            must then divide the size of the vocabulary.

    Returns:
        A `LayoutMap` for `keras.distribution.ModelParallel`.

    Raises:
        ValueError: If the mesh has no axis of this name.

    Example:

    >>> mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), ["cpu:0"])
    >>> get_layout_map(mesh)["encoder/block_0/self_attention/qkv/kernel"].axes
    (None, 'model')
    """
    if model_parallel_dim_name not in device_mesh.axis_names:
        raise ValueError(
            f"`model_parallel_dim_name` must be one of the axes {list(device_mesh.axis_names)} of "
            f"the mesh. Received: {model_parallel_dim_name!r}."
        )
    cut = model_parallel_dim_name
    layout_map = keras.distribution.LayoutMap(device_mesh)
    for name in _COLUMNS:
        layout_map[f"{name}/kernel"] = (None, cut)
        layout_map[f"{name}/bias"] = (cut,)
    for name in _ROWS:
        layout_map[f"{name}/kernel"] = (cut, None)
    if shard_embeddings:
        layout_map[r"(.*/)?(\w*embedding(_\d+)?|tokens)/embedding/embeddings"] = (cut, None)
    return layout_map


def model_parallel(
    model_shards: int,
    data_shards: int | None = None,
    devices: list[str] | None = None,
    shard_embeddings: bool = True,
    auto_shard_dataset: bool = True,
) -> keras.distribution.ModelParallel:
    """Creates a distribution that shards weights over one axis of devices, batches over the other.

    This is a `keras.distribution.ModelParallel` with the mesh `(data_shards, model_shards)` and the
    layout of `get_layout_map`. Create models, optimizers and metrics in its scope:

        distribution = model_parallel(model_shards=2)
        keras.distribution.set_distribution(distribution)
        model = config.build()

    Args:
        model_shards: Number of parts of a weight. For N query heads, and K key and value heads, of
            width H, it must divide N H and K H, and should divide N and K. It must also divide the
            intermediate width, and the size of the vocabulary if embeddings are sharded.
        data_shards: Number of parts of a batch, which must divide its number of rows; the largest
            possible number if None.
        devices: Device names such as `"gpu:0"`; all devices of all processes if None.
        shard_embeddings: Whether embeddings are also sharded.
        auto_shard_dataset: Whether Keras splits datasets among processes. Use False if each process
            reads only its own part of the data, as with `ProcessBatches`.

    Returns:
        A `keras.distribution.ModelParallel`. If `model_shards` does not divide the width of a
        sharded weight, creating the model raises a ValueError.

    Raises:
        ValueError: If a number of shards is not a positive integer, or the numbers of shards do not
            match the number of devices.
        RuntimeError: If the backend is not JAX.

    Example:

    >>> model_parallel(0)
    Traceback (most recent call last):
        ...
    ValueError: `model_shards` and `data_shards` must be positive integers. Received: 0 and None.
    """
    for number in (model_shards, 1 if data_shards is None else data_shards):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(
                "`model_shards` and `data_shards` must be positive integers. "
                f"Received: {model_shards!r} and {data_shards!r}."
            )
    if keras.backend.backend() != "jax":
        raise RuntimeError(
            "Weights can be split across devices only on JAX. Received: the "
            f"{keras.backend.backend()} backend. Set KERAS_BACKEND=jax."
        )
    devices = keras.distribution.list_devices() if devices is None else devices
    data_shards = max(len(devices) // model_shards, 1) if data_shards is None else data_shards
    if data_shards * model_shards != len(devices):
        raise ValueError(
            "`data_shards` x `model_shards` must equal the number of devices, "
            f"{len(devices)}. Received: {data_shards} x {model_shards}. Use other numbers, "
            "or fewer `devices`."
        )
    mesh = keras.distribution.DeviceMesh((data_shards, model_shards), ("batch", "model"), devices)
    return _CheckedModelParallel(
        layout_map=get_layout_map(mesh, "model", shard_embeddings),
        batch_dim_name="batch",
        auto_shard_dataset=auto_shard_dataset,
    )


class _CheckedModelParallel(keras.distribution.ModelParallel):
    """Raises an error that names a weight that cannot be sharded; JAX gives only its shape."""

    def get_variable_layout(self, variable: keras.Variable) -> keras.distribution.TensorLayout:
        layout = super().get_variable_layout(variable)
        mesh = self.device_mesh
        sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
        for size, axis in zip(variable.shape, layout.axes, strict=False):
            if axis is not None and size % sizes[axis]:
                raise ValueError(
                    f"{variable.path!r} of shape {tuple(variable.shape)} cannot be split "
                    f"into {sizes[axis]} equal parts: {size} is not a multiple of "
                    f"{sizes[axis]}. Use another `model_shards` or another head width. If it "
                    "is an embedding, pad the vocabulary to a multiple, or use "
                    "shard_embeddings=False."
                )
        return layout


class ProcessBatches(keras.utils.PyDataset):
    """A dataset that returns this process's rows of each batch, for training on several processes.

        rows[p B / P : (p + 1) B / P]    of B rows, for part p of P

    All processes create the same batches in the same order, so they need the same data and seed. A
    distribution with `auto_shard_dataset=False` combines the parts of all processes. Processes that
    share one copy of the weights read the same part. `fit` and `fit_resumable` accept this dataset.

    Args:
        batches: A dataset whose numbers of rows are multiples of the number of devices, such as
            `TokenBatches(..., rows_multiple_of=num_data_shards())`.
        part: Index p of the part. If None, it is taken from the `keras.distribution` in scope; 0 if
            there is no distribution.
        parts: Number P of parts. If None, it is taken from the `keras.distribution` in scope; 1 if
            there is no distribution.

    Raises:
        ValueError: If `part` is not from 0 to P - 1; or, when a batch is read, if P does not divide
            its number of rows.

    Example:

    >>> batches = TextWindows([5, 6, 7, 8], 1, sequence_length=1, batch_size=4, shuffle=False)
    >>> ids, labels, weight = ProcessBatches(batches, part=1, parts=2)[0]
    >>> labels.tolist()
    [[7], [8]]
    """

    def __init__(
        self, batches: keras.utils.PyDataset, part: int | None = None, parts: int | None = None
    ):
        super().__init__(workers=1)
        distribution = keras.distribution.distribution()
        if parts is None:
            parts = 1
            if distribution is not None:
                parts = min(distribution.num_processes, distribution.num_model_replicas)
        if part is None:
            part = 0 if distribution is None else distribution.data_shard_id
        if not 0 <= part < parts:
            raise ValueError(f"`part` must be from 0 to {parts - 1}. Received: {part!r}.")
        self.batches = batches
        self.part = part
        self.parts = parts

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        return keras.tree.map_structure(self._own, self.batches[index])

    def _own(self, array: np.ndarray) -> np.ndarray:
        if len(array) % self.parts:
            raise ValueError(
                f"Expected batches whose number of rows is a multiple of {self.parts}, the "
                f"number of processes. Received: {len(array)} rows. Create the batches with "
                "`rows_multiple_of`."
            )
        share = len(array) // self.parts
        return array[self.part * share : (self.part + 1) * share]

    @property
    def seed(self) -> int:
        """Seed of the order of the batches."""
        return self.batches.seed

    @property
    def num_examples(self) -> int:
        """Number of examples of an epoch in all processes."""
        return self.batches.num_examples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch (from 0) whose order the batches have."""
        self.batches.set_epoch(epoch)

    def on_epoch_begin(self) -> None:
        """Tells the wrapped batches that an epoch has begun; called by Keras."""
        self.batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Tells the wrapped batches that an epoch has ended; called by Keras."""
        self.batches.on_epoch_end()


def whole_value(variable: keras.Variable) -> np.ndarray:
    """Returns the complete value of a variable, which may be sharded, as a NumPy array.

    If shards are on devices of other processes, all processes must call this function.
    """
    value = variable.value if keras.backend.backend() == "jax" else None
    if value is None or value.is_fully_addressable or value.is_fully_replicated:
        return np.array(keras.ops.convert_to_numpy(variable))
    from jax.experimental import multihost_utils

    return np.array(multihost_utils.process_allgather(value, tiled=True))


@contextlib.contextmanager
def in_own_process(*models: keras.Model) -> Iterator[None]:
    """Lets each process compute on its own with models that all processes train together.

    Inside the `with` block, the variables are copies on a device of this process. At the end of the
    block, the original values are restored, so that changes are lost. All processes must enter the
    block, but may run different code in it. With a single process, the block has no effect.
    """
    if num_processes() == 1:
        yield
        return
    distribution = keras.distribution.distribution()
    variables = {id(v): v for m in models for v in (*m.variables, *m.metrics_variables)}.values()
    former = [(variable, variable._layout, variable.value) for variable in variables]
    keras.distribution.set_distribution(None)
    try:
        for variable in variables:
            value = whole_value(variable)
            variable._layout = None
            variable.assign(value)
        yield
    finally:
        for variable, layout, value in former:
            variable._layout = layout
            variable.assign(value)
        keras.distribution.set_distribution(distribution)

"""Types for hints: tensors of every backend, shapes, and what Keras accepts by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import numpy.typing as npt

if TYPE_CHECKING:
    import keras


class Tensor(Protocol):
    """A tensor of TensorFlow, JAX or PyTorch, a symbolic Keras tensor, or a NumPy array.

    The protocol has only the attributes that all tensors have; `keras.ops` has all other
    operations. Results of operators are `Any`, because each backend returns its own class.
    """

    @property
    def shape(self) -> Any:
        """The sizes of the axes, None where unknown."""

    @property
    def dtype(self) -> Any:
        """The dtype, in the form of the backend."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


TensorLike: TypeAlias = Tensor | npt.ArrayLike
"""A tensor, or what `np.asarray` makes one of: numbers and nested lists of numbers."""
Shape: TypeAlias = tuple[Any, ...]
"""Sizes of the axes of a tensor: integers, None where unknown; exports of JAX have symbols."""
Initializer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any]
"""A value for `keras.initializers.get`: a name, a config, an initializer or its class."""
Regularizer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | None
"""A value for `keras.regularizers.get`: a name, a config, a regularizer or its class."""
Constraint: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | None
"""A value for `keras.constraints.get`: a name, a config, a constraint or its class."""
Activation: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | None
"""A value for `keras.activations.get`: a name, a config or a function; None is linear."""
Nest: TypeAlias = TensorLike | Sequence["Nest"] | Mapping[str, "Nest"]
"""Inputs of a model: a tensor, or nested lists, tuples and dicts of tensors."""
Size: TypeAlias = int | Tensor
"""A number of rows or steps: an integer where it is known, else a scalar tensor."""
Seed: TypeAlias = Union[int, "keras.random.SeedGenerator", None]
"""A seed for `keras.random`."""
DType: TypeAlias = Union[str, "keras.DTypePolicy", None]
"""The dtype or policy of a Keras layer; None is the global policy."""

"""The thread that computes a model's requests: rows in batches of similar lengths, and streams."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

from keras_attn.serve.problems import RequestProblem

T = TypeVar("T")
_SHORT = 64  # characters; shorter rows are of one length


class _Row(NamedTuple):
    """A row that waits, and whom its result is for."""

    row: object
    kind: Hashable
    """Rows of one kind are computed together: same settings, like length."""
    future: asyncio.Future[object]


class _Stream(NamedTuple):
    """What is computed piece by piece, other work between the pieces."""

    pieces: Iterator[object]
    out: asyncio.Queue[object]
    wanted: threading.Event
    loop: asyncio.AbstractEventLoop


class _End(NamedTuple):
    error: BaseException | None


class Worker:
    """A thread that computes all requests to one model.

    Each model has a single thread, because Keras models do not support several threads at once.
    Waiting rows are computed together if they have the same settings and similar lengths. A batch
    consists of rows that arrived while the previous batch was computed, so that no row waits for
    later rows. If a batch fails, its halves are computed separately, so that only the request with
    the bad row fails.

    Args:
        compute: Function of rows and their settings that returns a result for each row.
        max_rows: Maximum number of rows of a batch.
        queue_size: Maximum number of waiting rows.
        around: Function that returns a context manager for the thread, such as one that chooses a
            device.
        heard: Function that is called with the number of rows of each batch.

    Example:

    >>> worker = Worker(lambda rows, settings: [len(row) for row in rows])
    >>> asyncio.run(worker.rows(["a", "abc"]))
    [1, 3]
    >>> worker.stop()
    """

    def __init__(
        self,
        compute: Callable[[list[object], dict[str, object]], Sequence[object]],
        *,
        max_rows: int = 64,
        queue_size: int = 256,
        around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
        heard: Callable[[int], object] = lambda rows: None,
    ):
        self._compute = compute
        self._max_rows = max_rows
        self.queue_size = queue_size
        self._around = around
        self._heard = heard
        self._waiting: deque[_Row | _Stream] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="keras_attn model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of waiting rows and streams."""
        return len(self._waiting)

    async def rows(
        self, rows: Sequence[object], settings: dict[str, object] | None = None
    ) -> list[object]:
        """Computes rows.

        Args:
            rows: The rows of a request.
            settings: Their settings, by name.

        Returns:
            A result for each row.

        Raises:
            RequestProblem: If there are more rows than the queue holds (400), or if the queue is
                full (429).
            Exception: The exception that `compute` raised for a row.
        """
        if len(rows) > self.queue_size:
            raise RequestProblem(
                400, f"Expected at most {self.queue_size} rows in a request. Received: {len(rows)}."
            )
        future = asyncio.get_running_loop().create_future
        given = tuple(sorted((settings or {}).items()))
        made = [_Row(row, (given, _length(row)), future()) for row in rows]
        self._add(made)
        try:
            return list(await asyncio.gather(*(row.future for row in made)))
        finally:  # the rows of a request that failed, or took too long, are not computed
            for row in made:
                row.future.cancel()

    async def stream(self, make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """Yields the items of an iterator that runs in the thread, which does other work in
        between.

        Args:
            make: Function that returns the iterator; it is called in the thread.

        Raises:
            RequestProblem: If the queue is full (429).
            Exception: The exception that the iterator raised.
        """
        stream = _Stream(
            _begun(make), asyncio.Queue(), threading.Event(), asyncio.get_running_loop()
        )
        stream.wanted.set()
        self._add([stream])
        try:
            while not isinstance(piece := await stream.out.get(), _End):
                yield piece  # type: ignore[misc]  # a queue of pieces, and one end
            if piece.error is not None:
                raise piece.error
        finally:
            stream.wanted.clear()

    def stop(self) -> None:
        """Ends the thread after all waiting work is done."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _add(self, work: Sequence[_Row | _Stream]) -> None:
        with self._changed:
            if self._stopping or len(self._waiting) + len(work) > self.queue_size:
                raise RequestProblem(429, "Too many requests are waiting. Try again later.")
            self._waiting.extend(work)
            self._changed.notify()

    def _run(self) -> None:
        with self._around():
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._stopping)
                    if not self._waiting:
                        return
                    work = self._taken()
                if isinstance(work, _Stream):
                    self._step(work)
                else:
                    self._finish(work)

    def _taken(self) -> _Stream | list[_Row]:
        """The stream, or a batch with the row, that has waited longest."""
        first = self._waiting[0]
        if isinstance(first, _Stream):
            return self._waiting.popleft()  # type: ignore[return-value]  # it is `first`
        alike = [x for x in self._waiting if isinstance(x, _Row) and x.kind == first.kind]
        batch = alike[: self._max_rows]
        taken = set(map(id, batch))
        self._waiting = deque(x for x in self._waiting if id(x) not in taken)
        return [row for row in batch if not row.future.done()]

    def _step(self, stream: _Stream) -> None:
        if not stream.wanted.is_set():
            return
        try:
            piece = next(stream.pieces)
        except StopIteration:
            piece = _End(None)
        except Exception as error:  # raised again where the pieces are read
            piece = _End(error)
        _call(stream.loop, stream.out.put_nowait, piece)
        if not isinstance(piece, _End):
            with self._changed:
                self._waiting.append(stream)

    def _finish(self, batch: list[_Row]) -> None:
        if not batch:
            return
        self._heard(len(batch))
        results = self._computed(batch)
        of_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Row, object]]] = {}
        for row, result in zip(batch, results, strict=True):
            of_loop.setdefault(row.future.get_loop(), []).append((row, result))
        for loop, done in of_loop.items():
            _call(loop, _deliver, done)

    def _computed(self, batch: list[_Row]) -> list[object]:
        """A result, or a `_Failed`, for each row."""
        settings = dict(batch[0].kind[0])  # type: ignore[index]  # a tuple, see `rows`
        try:
            results = list(self._compute([row.row for row in batch], settings))
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results for {len(batch)} rows")
            return results
        except Exception as error:
            if len(batch) == 1:
                return [_End(error)]
        half = len(batch) // 2
        return [*self._computed(batch[:half]), *self._computed(batch[half:])]


def _begun(make: Callable[[], Iterator[T]]) -> Iterator[T]:
    """What `make` returns, called with the first piece."""
    yield from make()


def _deliver(done: Sequence[tuple[_Row, object]]) -> None:
    for row, result in done:
        if row.future.done():
            continue
        if isinstance(result, _End) and result.error is not None:
            row.future.set_exception(result.error)
        else:
            row.future.set_result(result)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], value: object) -> None:
    """Calls a function in a loop, unless it has ended with its clients."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, value)


def _length(row: object) -> int:
    """A number that is equal for texts of like length: at most twice as long as each other."""
    parts = row if isinstance(row, tuple) else (row,)
    return max(sum(len(x) for x in parts if isinstance(x, str)), _SHORT).bit_length()

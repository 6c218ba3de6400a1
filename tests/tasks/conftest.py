"""Settings of the tests of tasks."""

from tracing import _quick_graphs, eager, unsaved  # noqa: F401

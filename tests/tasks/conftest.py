"""Settings of the tests of tasks."""

from tracing import eager, unsaved  # noqa: F401

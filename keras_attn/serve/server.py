"""The server process."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
from collections.abc import Mapping

import keras

from keras_attn.serve.application import Limits, application
from keras_attn.tasks import Task


def serve(
    tasks: Mapping[str, Task],
    host: str = "127.0.0.1",
    port: int = 8080,
    limits: Limits | None = None,
    device: str = "auto",
) -> None:
    """Serves tasks until a signal ends the process; requests that have begun are finished.

    Args:
        tasks: The tasks by the names that requests have for them.
        host: Address to listen at. The default is for programs of this machine only; `"0.0.0.0"`
            is for all of the network. There is no password.
        port: Port to listen at.
        limits: Limits of requests; the defaults if None.
        device: `"cpu"`, or any other to leave it to the backend.

    Raises:
        ImportError: If Starlette or uvicorn is not installed.
    """
    local = _is_local(host)
    hosts = ("localhost", "127.0.0.1", "[::1]", host) if local else ("*",)
    # The scope of a device is one of a thread.
    around = functools.partial(keras.device, "cpu:0") if device == "cpu" else contextlib.nullcontext
    app = application(tasks, limits, hosts=hosts, around=around)
    import uvicorn

    who = "this machine only" if local else "everybody who reaches it, without a password"
    print(f"http://{host}:{port} serves {', '.join(tasks)} to {who}. Ctrl-C ends it.", flush=True)
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

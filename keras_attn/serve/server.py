"""The server process."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import signal
import socket
from collections.abc import Mapping
from types import FrameType

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
    """Serves tasks until SIGTERM or Ctrl-C; requests that have begun are finished.

    Each model computes a small request first, so that it is compiled when the port opens.

    Args:
        tasks: The tasks, keyed by the names that requests use.
        host: Address to listen on. By default, only programs on this machine can connect; with
            `"0.0.0.0"`, all machines on the network can. The server asks for no password.
        port: Port to listen on; 0 for any free port.
        limits: Limits of requests; `Limits()` if None.
        device: `"cpu"` computes on the CPU; any other value leaves the choice to the backend.

    Raises:
        ImportError: If Starlette, uvicorn or `prometheus_client` is not installed.
        OSError: If the server cannot listen on the address and port, for example because the port
            is in use.
    """
    _check_address(host, port)
    local = _is_local(host)
    hosts = ("localhost", "127.0.0.1", "[::1]", host) if local else ("*",)
    # The scope of a device is one of a thread.
    around = functools.partial(keras.device, "cpu:0") if device == "cpu" else contextlib.nullcontext
    app = application(tasks, limits, hosts=hosts, around=around, warm=True)
    import uvicorn

    who = "this machine only" if local else "everybody who can reach it, without a password"

    class Server(uvicorn.Server):
        """A server that says when it is ready, and returns after a signal."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            at = self.servers[0].sockets[0].getsockname()[1]
            models = ", ".join(tasks)
            named = f"[{host}]" if ":" in host else host  # IPv6
            print(f"http://{named}:{at} serves {models} to {who}. Ctrl-C ends it.", flush=True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # uvicorn's own method has the signal raised again, which then kills the process.
            self.force_exit = self.should_exit and sig == signal.SIGINT
            self.should_exit = True

    Server(uvicorn.Config(app, host, port, log_level="warning", access_log=False)).run()


def _check_address(host: str, port: int) -> None:
    """Raises an OSError if no server can listen on the address and port."""
    try:
        for family, kind, number, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, number) as tried:
                if os.name == "posix":  # as servers do, so that a port is free at once
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
    except OSError as error:
        raise OSError(
            f"Expected an address and a port to listen on. Received: {host!r} and port {port}: "
            f"{error.strerror}. Choose another port, or 0 for any free one."
        ) from error


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

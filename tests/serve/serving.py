"""Servers: one in a thread, and the command in a process."""

import contextlib
import os
import subprocess
import sys
import threading
import time

import uvicorn

from keras_attn.serve import application


@contextlib.contextmanager
def served(tasks, limits=None):
    """Serves tasks at a free port, and gives its address."""
    server = uvicorn.Server(uvicorn.Config(application(tasks, limits), port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    (socket,) = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def command(folder, *options, errors=None, **environment):
    """Runs `keras-attn serve` in a folder, and gives its process and address when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_attn", "serve", "--port", "0", *options],
        cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=errors,
        text=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert line.startswith("http"), process.wait(60)
        yield process, line.split()[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()

"""A server in a thread."""

import contextlib
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

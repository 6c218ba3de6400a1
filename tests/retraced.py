"""TensorFlow's warnings of retracing."""

import contextlib
import logging


@contextlib.contextmanager
def retraced():
    """Yields a list of the lines in which TensorFlow warns within the block."""
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            if "retracing" in record.getMessage():
                lines.append(record.getMessage())

    handler, logger = Handler(), logging.getLogger("tensorflow")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)

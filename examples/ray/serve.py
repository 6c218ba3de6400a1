"""Serves a saved task with Ray Serve: replicas on the machines of a cluster, requests in batches.

    pip install "ray[serve]" "keras_attn[tensorflow,tasks]"
    python examples/ray/serve.py --task TextClassifier --model run/best.task --replicas 2
    curl -d '{"instances": ["A warm film.", "Dull."]}' http://127.0.0.1:8000/

Each replica is a process with the model. Requests that come within a hundredth of a second are
predicted together. The answer is `{"predictions": [...]}`, as from `keras-attn serve`, which serves
on one machine with limits, explanations, chats and a page.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

BATCH, WAIT, WAITING = 64, 0.01, 256


@serve.deployment(max_ongoing_requests=BATCH * 2, max_queued_requests=WAITING)
class Predictor:
    """A replica: one process with the model.

    Args:
        task: Name of the class of the task in `keras_attn.tasks`.
        model: File of the task.
    """

    def __init__(self, task: str, model: str):
        import keras_attn.tasks

        self.task = getattr(keras_attn.tasks, task).load(model)

    @serve.batch(max_batch_size=BATCH, batch_wait_timeout_s=WAIT)
    async def predict(self, texts: list[str]) -> list[Any]:
        """Predicts texts of several requests; other requests are read meanwhile."""
        results = await asyncio.to_thread(self.task.predict, texts)
        return [self.task.cells(result) for result in results]

    async def __call__(self, request: Request) -> JSONResponse:
        """Answers a request over HTTP."""
        body = await request.json()
        rows = body.get("instances") if isinstance(body, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            return JSONResponse({"error": "Expected a list of texts as `instances`."}, 400)
        found = await asyncio.gather(*map(self.predict, rows))
        return JSONResponse({"predictions": found})


def application(task: str, model: Path, replicas: int) -> serve.Application:
    """Returns the application with so many replicas."""
    place = str(model.resolve())
    return Predictor.options(num_replicas=replicas).bind(task, place)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until Ctrl-C."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--task", required=True, help="class of the task, such as TextClassifier")
    add("--model", type=Path, required=True, help="file of the task")
    add("--replicas", type=int, default=2, help="processes with the model (%(default)s)")
    args = parser.parse_args(arguments)
    serve.run(application(args.task, args.model, args.replicas), blocking=True)


if __name__ == "__main__":
    main()

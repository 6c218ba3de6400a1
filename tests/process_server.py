"""A process that imports once and forks for each script: `process_server.py PATH MODULE ...`.

Importing Keras takes five seconds of a processor. A fork of a process that has done that and
nothing else takes milliseconds, and is as fresh: it shares nothing with what ran before. Each line
that comes in is a request, and each line that goes out is an exit status; see `processes.py`.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
import types
import warnings
from typing import Any


def run(request: dict[str, Any]) -> int:
    """Does in the fork what `python SCRIPT` would do; returns its exit status."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    with tempfile.TemporaryFile() as file:
        file.write(request["stdin"].encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
    sys.stdin = os.fdopen(os.dup(0), encoding="utf-8")
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", buffering=1)
    # As where a shell starts it: with `&` or `nohup` the tests themselves would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.path[:0] = request["path"]
    for category in request["errors"]:
        warnings.simplefilter("error", getattr(__import__("builtins"), category))
    script, code = request["script"], request["code"]
    sys.argv = [script or "-c", *request["arguments"]]
    try:
        if script:
            sys.path.insert(0, os.path.dirname(script))
            runpy.run_path(script, run_name="__main__")
        else:
            exec(compile(code, "<script>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main(path: str, *modules: str) -> None:
    """Imports, then answers until there are no more requests."""
    sys.path[:0] = [part for part in path.split(os.pathsep) if part]
    imported = sys.modules["imported"] = types.ModuleType("imported", "What each import brought.")
    imported.by = {}
    for module in modules:
        if module.startswith("no "):
            sys.modules[module.removeprefix("no ")] = None
        else:
            before = set(sys.modules)
            importlib.import_module(module)
            imported.by[module] = set(sys.modules) - before
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for line in requests:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = run(json.loads(line))
                sys.stdout.flush()
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        answers.write(b"%d\n" % os.waitstatus_to_exitcode(ended))
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

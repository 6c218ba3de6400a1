"""A contender without a framework, for the tests of the runner."""

import os
import sys
import time

from benchmarks.peers import Job


def sleeping(case, **settings):
    """Takes `case["seconds"]`, and `settings["times"]` of that."""
    print("noise on the standard output")
    seconds = case["seconds"] * settings.get("times", 1)
    return Job(lambda: time.sleep(seconds) or "slept", case["amount"], lambda found: [found])


def failing(case, **settings):
    """Raises what the case says."""
    raise {"memory": MemoryError, "value": ValueError}[case["kind"]](case["message"])


def holding(case, **settings):
    """Takes memory at each run."""
    return Job(lambda: len(bytearray(case["bytes"])))


def dying(case, **settings):
    """Ends the process, as C++ does."""
    print(case["message"], file=sys.stderr, flush=True)
    os.abort()

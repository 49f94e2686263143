"""A process that forks while another of its threads profiles a model: what its child, and then it itself, find.

A script defines:

- ``net`` and ``x``, a model and its input. The model calls ``reached`` in each forward pass; that is where it forks.
- ``state()``, a list of what must be the same in the child and afterwards.
- ``answers()``, called in the child: what it finds there.
- ``require_inside()``, called while the other thread waits in the model; it need not define that one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from time_limits import run_program

__all__ = ["answers_of_forks"]

_BEFORE = """
import gc, json, os, signal, sys, threading
worker = at = None

def reached():
    if threading.current_thread() is worker:
        calls[0] += 1
        if calls[0] == at:
            inside.set()
            assert forked.wait(60)

def require_inside():
    pass
"""

_AFTER = """
before = state()

def in_child():
    signal.alarm(60)  # ends the child where it hangs
    differing = [(a, b) for a, b in zip(before, state(), strict=True) if a != b]
    return differing or ('child', *answers())

for request, at in json.loads(sys.argv[1]):
    calls, inside, forked = [0], threading.Event(), threading.Event()
    worker = threading.Thread(target=lambda: eval(request), daemon=True)
    worker.start()
    assert inside.wait(60), 'the model was never called so often: ' + request
    require_inside()
    child = os.fork()
    if not child:
        print(in_child(), flush=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    forked.set()
    worker.join()
    print('parent', state() == before, status, flush=True)
"""


def answers_of_forks(
    script: str, requests: Mapping[str, tuple[str, int]], **environment: str
) -> tuple[dict[str, tuple[str, str]], str]:
    """Run a script in a process of its own, so that a child that hangs ends with it.

    Args:
        script: As described above.
        requests: What is requested of the profiler, and in which call of ``reached`` the process forks.
        environment: Variables of the environment.

    Returns:
        For each request what the child and the parent print, and the standard error of all.
    """
    code = (sys.executable, "-W", "ignore::DeprecationWarning", "-c", f"{_BEFORE}{script}{_AFTER}")
    done = run_program([*code, json.dumps(list(requests.values()))], check=False, seconds=300, variables=environment)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(requests), done.stderr
    return dict(zip(requests, zip(lines[::2], lines[1::2], strict=True), strict=True)), done.stderr

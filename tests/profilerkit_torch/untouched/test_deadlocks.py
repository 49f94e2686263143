"""A model that waits for a thread that profiles: an error in that thread, and no end of waiting."""

from __future__ import annotations

import pytest
from time_limits import run_python

PROGRAM = """
import threading
from concurrent.futures import ThreadPoolExecutor
import torch
from torch import nn
from profilerkit import ProfilerBusyError, profile

layer, errors = nn.Linear(2, 2), []

def profiling():
    try:
        profile(layer, torch.ones(1, 2), metrics="macs", strict=True)
    except ProfilerBusyError as error:
        errors.append(str(error))

def start(target, *args):
    thread = threading.Thread(target=target, args=args)
    thread.start()
    return thread

def chain(length):
    if length:
        start(chain, length - 1).join()
    else:
        profiling()

def chain_of_pools(length):
    if length:
        ThreadPoolExecutor(1).submit(chain_of_pools, length - 1).result()
    else:
        start(profiling).join()

WAYS = {
    "join": lambda: start(profiling).join(),
    "chain of threads": lambda: start(chain, 3).join(),
    "chain of pools": lambda: ThreadPoolExecutor(1).submit(chain_of_pools, 2).result(),
    "result": lambda: ThreadPoolExecutor(1).submit(profiling).result(),
}

class Waiting(nn.Module):
    way = ""

    def forward(self, x):
        WAYS[self.way]()
        return x @ x

for Waiting.way in WAYS:
    profile(Waiting(), torch.ones(2, 2), metrics="macs")
    print(Waiting.way, errors.pop(), flush=True)
    profile(layer, torch.ones(1, 2), metrics="macs", strict=True)
"""


@pytest.mark.slow
def test_a_model_that_waits_for_a_thread_that_profiles() -> None:
    done = run_python(PROGRAM, seconds=400)
    assert done.stdout.count("waits for this thread: a model may not join a thread") == 4, done.stdout

"""A process that forks while another thread profiles: the child waits for nobody, and has the model as it was."""

from __future__ import annotations

import os

import pytest
from forking import answers_of_forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

#: What is requested of the profiler, and in which call of forward the process forks.
REQUESTS = {
    "a static trace": ("profile(net, x, metrics=['macs'])", 1),
    "a static trace of a training step": ("profile(net, x, metrics=['training_macs'])", 1),
    "the first run of a timing": ("profile(net, x, metrics=['execution_time'], num_iters=3)", 1),
    "a later run of a timing": ("profile(net, x, metrics=['execution_time'], num_iters=3)", 3),
    "the times of layers": ("profile(net, x, metrics=['layer_times'])", 2),
    "the times of operators": ("profile(net, x, metrics=['operator_table'])", 2),
    "a training run": ("profile(net, x, metrics=['execution_time'], num_iters=3, training=True)", 2),
}

SCRIPT = """
import torch
import torch._dynamo
from torch import nn
from profilerkit import profile
from profilerkit_torch import layer_times

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.product, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.plain = torch.ones(3)
        self.seen = []

    def forward(self, x):
        if threading.current_thread() is worker:
            self.seen.append(x)
        reached()
        return self.norm(self.product(x)) * self.plain.sum()

def state():
    torch_module = nn.modules.module
    hooks = [len(value) for name, value in sorted(vars(torch_module).items()) if name.startswith('_global_')
             and isinstance(value, dict)]
    flags = (torch.backends.mha.get_fastpath_enabled(), torch.get_default_dtype(), torch.is_grad_enabled(),
             torch._C._get_mkldnn_enabled(), torch._C._get_graph_executor_optimize(), torch.backends.cudnn.benchmark,
             torch._dynamo.eval_frame._stance.stance)
    process = (gc.isenabled(), sys.getrecursionlimit(), sys.stdout, sys.stderr)
    held = [{name: (id(value), repr(value), getattr(value, 'requires_grad', None), id(getattr(value, 'grad', None)))
             for name, value in (*m.__dict__.items(), *m._parameters.items(), *m._buffers.items())}
            for m in net.modules()]
    return hooks, flags, process, held, [(type(m), m.training) for m in net.modules()]

net, x = Net().eval(), torch.ones(2, 4)
net.product.weight.grad = torch.ones(6, 4)
expected = net(x)
macs = profile(net, x, metrics=['macs'])['macs']
assert macs == 2 * 4 * 6, macs

def answers():
    same = torch.equal(net(x), expected) and profile(net, x, metrics=['macs'])['macs'] == macs
    again = []
    other = threading.Thread(target=lambda: again.append(profile(net, x, metrics=['macs'])['macs']))
    other.start()
    other.join()
    return same, again == [macs]
"""


@pytest.mark.slow
def test_the_child_has_the_model_as_it_was_and_profiles_it() -> None:
    """With one thread: else torch itself waits in the child for its threads of the parent."""
    answers, errors = answers_of_forks(SCRIPT, REQUESTS, OMP_NUM_THREADS="1")
    assert answers == dict.fromkeys(REQUESTS, ("('child', True, True)", "parent True 0")), errors

"""What the fuzzer has found: programs made small, each with what was wrong of it. All of it is mended.

What it has found of questions and modes is in tests of the trace: ``test_questions.py``, ``test_grad_modes.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KEPT", "Kept"]


@dataclass(frozen=True)
class Kept:
    """A program that was counted wrongly, or hurt: its forward, and what was wrong."""

    name: str
    wrong: str
    forward: str
    init: str = ""
    inputs: str = "torch.randn(4, 3)"
    before: str = ""
    #: Whether it is compared as a training step too.
    training: bool = False

    @property
    def source(self) -> str:
        body = "".join(f"        {line}\n" for line in self.forward.strip().split("\n"))
        init = "".join(f"        {line}\n" for line in self.init.strip().split("\n"))
        return (
            "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
            f"{self.before}\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{init}\n"
            f"    def forward(self, x0):\n{body}\n\ndef build():\n    torch.manual_seed(1)\n    return Net()\n\n\n"
            f"def inputs():\n    torch.manual_seed(2)\n    return ({self.inputs},)\n"
        )


KEPT = (
    Kept(
        "operators of whole numbers that others are made of",
        "the table of operators named `__and__` in inference mode, where a run of the model has `bitwise_and`",
        "y = x0.clone()\ny &= 1\nreturn (x0 & 1) | x0 ^ y",
        inputs="torch.randint(0, 5, (4, 3))",
    ),
    Kept(
        "work in a try",
        "masking fails on shapes inside of the model's own try: 0 MACs for 144, complete",
        "try:\n    y = x0[x0 > 0]\n    return torch.mm(y[:, None], y[None])\nexcept Exception:\n    return x0 + 1",
        inputs="torch.ones(4, 3)",
    ),
    Kept(
        "a mode for functions",
        "the training trace has one of its own, so this is True there and False in a step: 432 MACs for 144, complete",
        "y = self.weight * x0\nif torch.overrides.has_torch_function((y,)):\n    y = y @ y.mT @ y\nreturn y @ y.mT",
        init="self.weight = nn.Parameter(torch.ones(3))",
        training=True,
    ),
    Kept(
        "gradients after a value",
        "a real run was in inference mode too: zeros for a gradient",
        "x0 = x0 * int(x0.sum() > 0)\nreturn torch.autograd.functional.jacobian(lambda t: (t @ t.mT).sum(), x0)",
        inputs="torch.ones(4, 3)",
    ),
    Kept(
        "an input that is a view",
        "what stands in for it was none: 16 MACs for none, complete",
        "if x0._base is None:\n    return x0 @ x0.mT\nreturn x0 + 1",
        inputs="torch.randn(4, 2).t()",
    ),
    Kept(
        "an input that is a view, in a real run",
        "what was given to the model was a tensor of its own: 16 MACs for none, complete",
        "x0 = x0 * int(x0.sum() < 99) if x0._base is not None else x0 @ x0.mT\nreturn x0",
        inputs="torch.randn(4, 2).t()",
    ),
    Kept(
        "attention of many heads in a pass with autograd",
        "the same inside of torch's own function",
        "if x0._is_view():\n    return x0\nreturn self.m(x0, x0, x0, need_weights=False)[0].sin()",
        init="self.m = nn.MultiheadAttention(8, 2, batch_first=True)",
        inputs="torch.randn(2, 4, 8)",
    ),
    Kept(
        "one-hot numbers in a pass with autograd",
        "on meta tensors torch compares with every class: 16 FLOPs for those of a search of both ends",
        "if x0._is_view():\n    return x0\nreturn F.one_hot(x0.long().abs() % 4, 4)",
    ),
    Kept(
        "a write to an expanded input",
        "its values were not written back: torch refuses to, and the run that works was said to fail",
        "x0.zero_()\nreturn (x0 + 1) * int(x0.sum() < 1)",
        inputs="torch.randn(1, 3).expand(4, 3)",
    ),
    Kept(
        "a write to an input whose windows overlap",
        "the same",
        "x0.as_strided((5,), (1,)).zero_()\nreturn (x0 + 1) * int(x0.sum() < 1)",
        inputs="torch.randn(5).unfold(0, 3, 1)",
    ),
    Kept(
        "a bilinear product of nothing",
        "an empty batch counted as one sample: 72 MACs for 0, complete",
        "return F.bilinear(x0, x0, torch.ones(8, 3, 3))",
        inputs="torch.randn(6, 0, 3)",
    ),
    Kept(
        "a cache of the file",
        "it keeps the meta tensor that the pass has put there, and the model raises afterwards",
        "if 'made' not in CACHE_0:\n    CACHE_0['made'] = x0.sum(0)\nreturn x0 * CACHE_0['made']",
        before="CACHE_0 = {}",
    ),
    Kept(
        "a buffer that a training step writes to",
        "where the training trace is a real run, the buffer keeps requires_grad and a graph",
        "y = self.weight * x0\nif y.sum() > 0:\n    y = y * 1\nself.b.copy_(y)\nreturn y",
        init="self.weight = nn.Parameter(torch.ones(3))\nself.register_buffer('b', torch.zeros(4, 3))",
        inputs="torch.ones(4, 3)",
        training=True,
    ),
    Kept(
        "a sparse product on fake tensors",
        "torch makes a sparse tensor without data as if it stored nothing: 0 MACs for 36, complete",
        "return torch.sparse.mm((x0 + 1).to_sparse(), x0.t())",
        inputs="torch.ones(4, 3)",
    ),
    Kept(
        "a sparse sum on meta tensors",
        "the same on the meta device: a sum of sparse tensors stores nothing there",
        "s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), x0[0, :2], (4, 4))\n"
        "return torch.sparse.mm(s + s, x0)",
    ),
    Kept(
        "a weight tied to its transpose",
        "a parameter over the elements of another, in another order, counted twice: 18 parameters for 9",
        "return self.decoder(self.encoder(x0))",
        init="self.encoder = nn.Linear(3, 3, bias=False)\nself.decoder = nn.Linear(3, 3, bias=False)\n"
        "self.decoder.weight = nn.Parameter(self.encoder.weight.data.t())",
    ),
    Kept(
        "inference mode in a pass with gradients",
        "composite operators come whole in the model's own inference mode, and in pieces beside it",
        "y = F.linear(x0, torch.ones(4, 0))\nwith torch.inference_mode():\n    z = y.relu().softmax(-1)\n"
        "return torch.autograd.functional.jacobian(lambda t: t.sum(), y.unbind(0)[3]), z",
        inputs="torch.randn(0)",
        training=True,
    ),
    Kept(
        "a dtype that torch asks for",
        "forward mode asks for the dtype of half-precision sums on the meta device: work outside torch's operators",
        "return torch.func.hessian(lambda t: t.square().sum())(x0.flatten())",
        inputs="torch.randn(4, 3, dtype=torch.bfloat16)",
    ),
)

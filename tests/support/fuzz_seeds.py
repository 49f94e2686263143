"""What the fuzzer has found: programs made small, each with what was wrong of it. All of it is mended."""

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


def _ask(name: str, question: str, yes: bool = True) -> Kept:
    """Return a program that multiplies where the answer is that of a real run, and adds where it is not."""
    first, second = ("x0 @ x0.mT", "x0 + 1") if yes else ("x0 + 1", "x0 @ x0.mT")
    return Kept(
        name,
        f"`{question}` is answered by what stands in for the tensor: no MACs for 48, complete",
        f"if {question}:\n    return {first}\nreturn {second}",
    )


def _try(name: str, question: str, inputs: str = "torch.ones(4, 3)") -> Kept:
    """Return a program that asks for a value inside of a ``try``, and multiplies where it has got it."""
    return Kept(
        name,
        f"`{question}` fails on shapes, and the model's own except takes it: no MACs for 48, complete",
        f"try:\n    asked = bool({question})\nexcept Exception:\n    asked = False\n"
        "if asked:\n    return x0 @ x0.mT\nreturn x0 + 1",
        inputs=inputs,
    )


KEPT = (
    _ask("device type", "x0.device.type == 'cpu'"),
    _ask("device", "x0.device == torch.device('cpu')"),
    _ask("device by name", "str(x0.device) == 'cpu'"),
    _ask("device of a new tensor", "x0.device == torch.empty(0).device"),
    _ask("device in a list", "x0.device in (torch.device('cpu'), torch.device('cuda', 0))"),
    _ask("device of a storage", "x0.untyped_storage().device.type == 'cpu'"),
    _ask("is_meta", "x0.is_meta", yes=False),
    _ask("is_cpu", "x0.is_cpu"),
    _ask("data_ptr of nothing", "x0.data_ptr() == 0", yes=False),
    _ask("data_ptr of two", "x0.data_ptr() == (x0 * 2).data_ptr()", yes=False),
    _ask("storages of two", "x0.untyped_storage().data_ptr() == (x0 * 2).untyped_storage().data_ptr()", yes=False),
    _ask("type", "x0.type() == 'torch.FloatTensor'"),
    _ask("type of tensors", "isinstance(x0, torch.FloatTensor)"),
    _ask("type of a GPU's tensors", "isinstance(x0, torch.cuda.FloatTensor)", yes=False),
    _try("device for other libraries", "x0.__dlpack_device__()[0] == 1"),
    _try("a capsule for other libraries", "torch.utils.dlpack.to_dlpack(x0) is not None"),
    _try("a tensor from another library", "torch.from_dlpack(x0).shape[0] == 4"),
    _ask("repr", "'device=' in repr(x0)", yes=False),
    _ask("text", "'size=' in f'{x0}'", yes=False),
    _ask("values as text", "'0.5' in repr(x0 * 0 + 0.5)"),
    _try("bool", "x0.sum() > 0"),
    _try("item", "x0.sum().item() > 0"),
    _try("tolist", "x0.tolist()[0][0] > 0"),
    _try("numpy", "(x0.numpy() > 0).any()"),
    _try("nonzero", "len(x0.nonzero()) > 2"),
    _try("equal", "torch.equal(x0, x0 * 1)"),
    _try("allclose", "torch.allclose(x0, x0 * 1)"),
    _try("unique", "x0.unique().numel() == 1"),
    Kept(
        "work in a try",
        "masking fails on shapes inside of the model's own try: 0 MACs for 144, complete",
        "try:\n    y = x0[x0 > 0]\n    return torch.mm(y[:, None], y[None])\nexcept Exception:\n    return x0 + 1",
        inputs="torch.ones(4, 3)",
    ),
    Kept(
        "inference mode",
        "the pass is in inference mode, a run without gradients is not: MACs for none, complete",
        "if torch.is_inference_mode_enabled():\n    return x0 @ x0.mT\nreturn x0 + 1",
    ),
    Kept(
        "an inference tensor",
        "what the pass makes are inference tensors: MACs for none, complete",
        "y = x0 + 1\nif y.is_inference():\n    return y @ y.mT\nreturn y",
    ),
    Kept(
        "a mode for functions",
        "the training trace has one of its own, so this is True there and False in a step: 432 MACs for 144, complete",
        "y = self.weight * x0\nif torch.overrides.has_torch_function((y,)):\n    y = y @ y.mT @ y\nreturn y @ y.mT",
        init="self.weight = nn.Parameter(torch.ones(3))",
        training=True,
    ),
    Kept(
        "a view that a transform makes",
        "in inference mode it does not know that it is a view: no MACs for 1728, complete",
        "y = torch.func.hessian(lambda t: t.square().sum())(x0)\nif y._is_view():\n    return y @ y.mT\nreturn y + 1",
    ),
    Kept(
        "a function that is overridden",
        "the pass had a mode for functions in the forward pass too: no MACs for 48, complete",
        "if torch.overrides.has_torch_function((x0,)):\n    return x0 + 1\nreturn x0 @ x0.mT",
    ),
    Kept(
        "a tangent",
        "without autograd no derivative is carried along, and the model's own except takes the error: 0 MACs for 144",
        "try:\n    with forward_ad.dual_level():\n        dual = forward_ad.make_dual(x0, x0)\n"
        "        return forward_ad.unpack_dual(dual @ dual.mT).tangent\nexcept Exception:\n    return x0 + 1",
        inputs="torch.ones(4, 3)",
        before="from torch.autograd import forward_ad",
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
        "attention in a pass with autograd",
        "on meta tensors torch spells it out there: every score in memory, which no run makes",
        "if x0._is_view():\n    return x0\nreturn F.scaled_dot_product_attention(x0, x0, x0)",
        inputs="torch.randn(2, 1, 4, 8)",
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
        "torch.autograd.functional",
        "in inference mode it computes no gradient, gives zeros and does not fail: 48 MACs for 144, complete",
        "return torch.autograd.functional.jacobian(lambda t: (t @ t.mT).sum(), x0)",
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
)

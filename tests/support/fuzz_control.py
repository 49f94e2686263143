"""Statements of fuzzed modules that ask, branch, loop, remember, write in place, or run under something else."""

from __future__ import annotations

from fuzz_generator import Maker, Piece, Template, texts

__all__ = ["CACHES", "CONTEXTS", "ESCAPES", "LOOPS", "QUESTIONS", "WRITES"]

_SHAPES = """
{x}.shape[0] % 2 == 0 | {x}.dim() > 2 | {x}.numel() > 8 | {x}.shape[-1] > 2 | len({x}) > 1 | {x}.size(0) == 1
{x}.dtype == torch.float32 | {x}.is_contiguous() | {x}.is_floating_point() | {x}.stride()[-1] == 1
{x}.storage_offset() == 0 | {x}.element_size() == 4 | isinstance({x}, torch.Tensor) | {x}.layout == torch.strided
{x}.is_complex() | 0 in {x}.shape | {x}.ndim == {y}.ndim
"""
_PLACES = """
{x}.device.type == 'cpu' | {x}.is_meta | {x}.is_cpu | {x}.is_cuda | {x}.device == torch.device('cpu')
{x}.device.type == 'meta' | str({x}.device) == 'cpu' | {x}.data_ptr() == {y}.data_ptr()
{x}.untyped_storage().data_ptr() == {y}.untyped_storage().data_ptr() | {x}.data_ptr() == 0 | {x}.get_device() == -1
'device=' in repr({x}) | next(self.parameters()).device.type == 'cpu' | {x}.device.index is None
{x}.untyped_storage().device.type == 'cpu' | {x}.untyped_storage().nbytes() > 4 | {x}.type() == 'torch.FloatTensor'
{x}.data_ptr() % 4 == 0 | {x}.device == torch.empty(0).device
{x}.device in (torch.device('cpu'), torch.device('cuda', 0)) | {x}.is_shared() | {x}.is_pinned()
"""
_VALUES = """
{x}.sum() > 0 | ({x} > 0).any() | {x}.sum().item() > 0 | bool(({x} > 0).all()) | {x}.flatten()[0] > 0
float({x}.mean()) > 0 | len({x}.nonzero()) > 2 | {x}.abs().max() > 1 | torch.equal({x}, {y})
torch.allclose({x}, {x} * 1) | int({x}.argmax()) % 2 == 0 | {x}.tolist() == [] | {x}.isnan().any()
{x}.masked_select({x} > 0).numel() > 2 | {x}.unique().numel() > 3 | {x}.is_nonzero() | {x}.max() == {x}.flatten()[0]
({x}.detach().numpy() > 0).any() | {x}.count_nonzero() > 1 | {x}.norm() > 1
"""
_MODES = """
torch.is_grad_enabled() | self.training | torch.is_inference_mode_enabled() | {x}.is_inference() | {x}.requires_grad
{x}.is_leaf | {x}.grad_fn is None | isinstance({x}, torch._subclasses.FakeTensor) | type({x}) is torch.Tensor
torch.jit.is_tracing() | torch.jit.is_scripting() | torch.compiler.is_compiling()
torch.overrides.has_torch_function(({x},)) | hasattr({x}, 'fake_mode') | torch.is_autocast_enabled('cpu')
{x}._is_view() | {x}._version == 0 | torch._C._get_tracing_state() is None | {x}._base is None
torch.get_default_dtype() == torch.float32 | torch.get_default_device().type == 'cpu'
torch.are_deterministic_algorithms_enabled()
"""
_INPUT_WRITES = """
{x}.add_(1) | {x}.mul_(0.5) | {x}[0] = 0 | {x}.relu_() | {x}.t_() | {x}.copy_({x} * 2) | {x}.clamp_(-1, 1)
{x}[..., 0].add_(1) | {x}.zero_() | {x}.view(-1)[0] = 3 | {x} += 1 | {x}.unsqueeze_(0)
{x}.resize_(min({x}.numel(), 2))
{x}.transpose(0, -1).mul_(2) | {x}.set_({x} * 2) | {x}.data = {x}.data * 2
{x}.index_put_((torch.tensor([0]),), {x}[0]) | {x}.masked_fill_({x} > 0, 0) | {x}.fill_diagonal_(1)
torch.add({x}, 1, out={x}) | {x}.squeeze_(0)
"""
_BUFFER_WRITES = """
self.{b}.add_(1) | self.{b} += {x}.sum() | self.{b} = self.{b} * 2 | self.{b}.copy_({x}.flatten()[0])
self.{b}.data = self.{b} + 1 | self.{b}[0] = {x}.mean() | self.{b}.view(-1)[:1].mul_(2)
self.{b} = {x}.mean() + self.{b} | self.{b}.relu_()
"""
_WITH = """
torch.no_grad() | torch.enable_grad() | torch.inference_mode() | torch.autocast('cpu', dtype=torch.bfloat16)
torch.autocast('cpu', enabled=False) | torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
torch.device('cpu') | torch.random.fork_rng() | torch.autograd.set_detect_anomaly(False) | torch.inference_mode(False)
"""
_TRANSFORMS = """
torch.vmap(lambda t: t.relu() * t.sum())({x}) | torch.vmap(lambda t: torch.outer(t, t))({x})
torch.func.grad(lambda t: (t @ t.mT).sum())({x}) | torch.func.vjp(lambda t: t @ t.mT, {x})[0]
torch.func.jacrev(lambda t: t.sum(-1))({x}) | torch.func.jvp(torch.sin, ({x},), ({x},))[1]
checkpoint(lambda t: t @ t.mT, {x}, use_reentrant=False) | checkpoint(lambda t: t.relu(), {x}, use_reentrant=True)
torch.vmap(lambda t: t @ t.mT)({x}) | torch.autograd.functional.jacobian(lambda t: t.sum(), {x})
torch.func.hessian(lambda t: t.square().sum())({x})
"""

_ESCAPES = """
aside(lambda: {x} @ {x}.mT) | aside(lambda: {x}.relu()) | pooled(lambda: {x} @ {x}.mT) | pooled(lambda: {x}.softmax(-1))
torch.from_numpy(array({x}) @ array({x}).T) | torch.tensor(array({x}) * 2) | torch.as_tensor((array({x}) + 1).tolist())
IntoEmpty.apply({x}) | IntoZeros.apply({x}) | torch.from_numpy(aside(lambda: array({x}) * 3))
torch.utils.dlpack.from_dlpack(array({x}) * 2)
"""
_GENERATORS = """
torch.stack(list(t * 2 for t in {x})) | sum(t.relu() for t in {x}) | next(t @ t.mT for t in [{x}])
torch.cat([t[None] for t in map(torch.tanh, {x})]) | {x}[:, [0]] | {x}[[True] * {x}.shape[0]] | {x}[..., [-1]]
{x} * torch.tensor([0.5] * {x}.shape[-1]) | {x} + {x}.new([1.0] * {x}.shape[-1]) | {x}[range({x}.shape[0])]
{x} * torch.FloatTensor([0.5]) | {x} * torch.Tensor([0.5] * {x}.shape[-1])
"""


def _branches(maker: Maker, name: str, condition: str) -> Piece:
    """Ask, and do one of two things."""
    made = maker.fresh()
    first, second = maker.expression(name), maker.expression(name)
    return Piece([f"if {condition}:\n    {made} = {first}\nelse:\n    {made} = {second}"], made)


def _asks(table: str) -> Template:
    def template(maker: Maker) -> Piece:
        name = maker.real()
        condition = maker.rng.choice(texts(table)).format(x=name, y=maker.real())
        return _branches(maker, name, condition)

    return template


def _tries(table: str) -> Template:
    """Ask inside of a ``try``, with an answer of one's own where the question fails."""

    def template(maker: Maker) -> Piece:
        name, answer = maker.real(), maker.fresh("q")
        question = maker.rng.choice(texts(table)).format(x=name, y=maker.real())
        piece = _branches(maker, name, answer)
        default = maker.rng.choice(("True", "False"))
        error = maker.rng.choice(("Exception", "Exception", "(RuntimeError, NotImplementedError)"))
        piece.body[0] = (
            f"try:\n    {answer} = bool({question})\nexcept {error}:\n    {answer} = {default}\n" + piece.body[0]
        )
        return piece

    return template


def _tries_work(maker: Maker) -> Piece:
    """Work inside of a ``try`` that may fail half-way."""
    name, made = maker.real(), maker.fresh()
    part = maker.rng.choice(("{x}[{x} > 0]", "{x}.nonzero().float()", "{x} * {x}.max().item()", "{x}.unique()"))
    first, second = maker.expression(name), maker.expression(name)
    text = part.format(x=name)
    return Piece([f"try:\n    {made} = ({first}).sum() * {text}\nexcept Exception:\n    {made} = {second}"], made)


def _for(maker: Maker) -> Piece:
    name, made = maker.real(), maker.fresh()
    rounds = maker.rng.choice(
        (
            "{x}.shape[0]",
            "min({x}.shape[-1], 3)",
            "{x}.dim()",
            "2 + {x}.shape[0] % 3",
            "min(int({x}.abs().max().item()), 4)",
        )
    ).format(x=name)
    step = maker.rng.choice(("{v} @ ({v}.mT @ {v})", "{v}.relu() + {x}", "{v} * 0.5", "({v} @ {x}.mT) @ {x} * 0.1"))
    return Piece([f"{made} = {name}\nfor _ in range({rounds}):\n    {made} = {step.format(v=made, x=name)}"], made)


def _while(maker: Maker) -> Piece:
    name, made, rounds = maker.real(), maker.fresh(), maker.fresh("i")
    asked = maker.rng.choice(("{v}.norm() > 1", "{v}.shape[0] > 1", "{v}.abs().sum().item() > 2", "{v}.numel() > 2"))
    step = maker.rng.choice(
        ("{v} * 0.5", "{v}[:-1] @ ({v}.mT @ {v})", "{v} @ ({v}.mT @ {v}) * 0.1", "{v}[: {v}.shape[0] // 2]")
    )
    text, step = asked.format(v=made), step.format(v=made)
    return Piece(
        [f"{made} = {name}\n{rounds} = 0\nwhile {rounds} < 4 and {text}:\n    {made} = {step}\n    {rounds} += 1"], made
    )


def _recursion(maker: Maker) -> Piece:
    name, made, function = maker.real(), maker.fresh(), maker.fresh("f")
    step = maker.expression(name)
    return Piece(
        [
            f"def {function}(x, depth):\n    if depth == 0 or x.shape[0] < 2:\n"
            f"        return [x.sum() * ({step}).sum()]\n    half = x.shape[0] // 2\n"
            f"    return {function}(x[:half], depth - 1) + {function}(x[half:], depth - 1)\n"
            f"{made} = torch.stack({function}({name}, {maker.rng.randint(1, 3)}))"
        ],
        made,
    )


def _dynamic(maker: Maker) -> Piece:
    """What comes out is as large as values say."""
    name, made = maker.real(), maker.fresh()
    text = maker.rng.choice(
        ("{x}[{x} > 0]", "{x}.masked_select({x} < 0)", "{x}.flatten()[{x}.flatten().nonzero()[:, 0]]")
    )
    return Piece([f"{made} = {text.format(x=name)}\n{made} = torch.outer({made}, {made})"], made)


def _attribute_cache(maker: Maker) -> Piece:
    name, made, kept = maker.real(), maker.fresh(), maker.fresh("c")
    value = maker.expression(name)
    form = maker.rng.random()
    if form < 0.4:
        return Piece(
            [f"if self.{kept} is None:\n    self.{kept} = {value}\n{made} = self.{kept} * 2"],
            made,
            [f"self.{kept} = None"],
        )
    if form < 0.6:
        return Piece([f"if not hasattr(self, '{kept}'):\n    self.{kept} = {value}\n{made} = self.{kept} + 1"], made)
    if form < 0.8:
        key = maker.rng.choice(
            (f"tuple({name}.shape)", f"{name}.dtype", f"{name}.device", f"({name}.shape[0], {name}.device.type)")
        )
        text = f"if {key} not in self.{kept}:\n    self.{kept}[{key}] = {value}\n{made} = self.{kept}[{key}] * 2"
        return Piece([text], made, [f"self.{kept} = {{}}"])
    return Piece(
        [f"self.{kept}.append({value})\n{made} = self.{kept}[0] * len(self.{kept})"], made, [f"self.{kept} = []"]
    )


def _fill_cache(maker: Maker) -> Piece:
    """A cache that was filled when the module was made."""
    name, made, kept = maker.real(2, 3), maker.fresh(), maker.fresh("c")
    width = maker.value(name).shape[-1]
    init = maker.rng.choice(
        (
            f"self.{kept} = torch.ones({width}, {maker.size()})",
            f"self.register_buffer('{kept}', torch.ones({width}, 3))",
        )
    )
    return Piece([f"{made} = {name} @ self.{kept}.to({name}.dtype)"], made, [init])


def _module_cache(maker: Maker) -> Piece:
    """A cache outside of the module: a global of its file."""
    name, made, kept = maker.real(), maker.fresh(), f"CACHE_{maker.rng.randrange(10**6)}"
    text = f"if tuple({name}.shape) not in {kept}:\n    {kept}[tuple({name}.shape)] = {maker.expression(name)}\n"
    return Piece([f"{text}{made} = {kept}[tuple({name}.shape)] * 2"], made, [], [f"{kept} = {{}}\n"])


def _input_write(maker: Maker) -> Piece:
    name = maker.real()
    text = maker.rng.choice(texts(_INPUT_WRITES))  # fmt: skip
    return Piece([text.format(x=name)], name)


def _buffer_write(maker: Maker) -> Piece:
    name, made, kept = maker.real(), maker.fresh(), maker.fresh("b")
    width = maker.value(name).shape[-1]
    text = maker.rng.choice(texts(_BUFFER_WRITES))  # fmt: skip
    after = maker.rng.choice((f"{made} = {name} * self.{kept}", f"{made} = {name} @ self.{kept}"))
    init = maker.rng.choice(
        (
            "self.register_buffer('{b}', torch.ones({n}))",
            "self.{b} = nn.Parameter(torch.ones({n}))",
            "self.{b} = torch.ones({n})",
        )
    )
    return Piece([text.format(b=kept, x=name) + "\n" + after], made, [init.format(b=kept, n=width)])


def _counter(maker: Maker) -> Piece:
    """Counts its calls, and does something else every second time."""
    name, made, kept = maker.real(), maker.fresh(), maker.fresh("n")
    first, second = maker.expression(name), maker.expression(name)
    body = f"self.{kept} += 1\nif self.{kept} % 2:\n    {made} = {first}\nelse:\n    {made} = {second}"
    return Piece(
        [body], made, [maker.rng.choice((f"self.{kept} = 0", f"self.register_buffer('{kept}', torch.tensor(0))"))]
    )


def _context(maker: Maker) -> Piece:
    name, made = maker.real(), maker.fresh()
    context = maker.rng.choice(texts(_WITH))
    return Piece([f"with {context}:\n    {made} = {maker.expression(name)}\n    {made} = {made} * 1"], made)


def _custom(maker: Maker) -> Piece:
    """An autograd function of one's own."""
    name, made, kind = maker.real(2, 3), maker.fresh(), f"Function{maker.rng.randrange(10**6)}"
    text = (
        f"class {kind}(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return x @ x.mT\n\n    @staticmethod\n    def backward(ctx, grad):\n        (x,) = ctx.saved_tensors\n"
        "        return (grad + grad.mT) @ x\n"
    )
    return Piece([f"{made} = {kind}.apply({name})"], made, [], [text])


def _escape(maker: Maker) -> Piece:
    """Work where torch's dispatcher does not see it, and use what it made."""
    name, made = maker.real(1, 2, 3), maker.fresh()
    text = maker.rng.choice(texts(_ESCAPES)).format(x=name)
    return Piece([f"{made} = {text}\nassert {made}.numel() > 1\n{made} = {made} * 1"], made)


def _generator(maker: Maker) -> Piece:
    """Go through a generator, or make a tensor of the values of Python's."""
    name, made = maker.real(1, 2, 3), maker.fresh()
    return Piece([f"{made} = {maker.rng.choice(texts(_GENERATORS)).format(x=name)}"], made)


def _sparse(maker: Maker) -> Piece:
    """A product with a sparse weight: it costs what is stored."""
    name, made, kept = maker.real(2), maker.fresh(), maker.fresh("s")
    rows, width = maker.size(), maker.value(name).shape[0]
    to_sparse = maker.rng.choice(("to_sparse()", "to_sparse_csr()"))
    dtype = maker.value(name).dtype
    dense = f"(torch.arange({rows * width}).view({rows}, {width}) % {maker.rng.randint(1, 5)} == 0).to({dtype})"
    product = maker.rng.choice((f"torch.sparse.mm(self.{kept}, {name})", f"self.{kept} @ {name}"))
    return Piece([f"{made} = {product}"], made, [f"self.register_buffer('{kept}', {dense}.{to_sparse})"])


def _function(maker: Maker) -> Piece:
    """A transform of a function: vmap, gradients, checkpoints, a condition of torch's own."""
    name, made = maker.real(1, 2, 3), maker.fresh()
    text = maker.rng.choice(texts(_TRANSFORMS))  # fmt: skip
    return Piece([f"{made} = {text.format(x=name)}"], made)


def _own_gradient(maker: Maker) -> Piece:
    name, made, leaf = maker.real(), maker.fresh(), maker.fresh("g")
    return Piece(
        [
            f"with torch.enable_grad():\n    {leaf} = {name}.detach().requires_grad_(True)\n"
            f"    ({made},) = torch.autograd.grad("
            f"({maker.expression(name)} if False else {leaf} @ {leaf}.mT).sum(), {leaf})"
        ],
        made,
    )


QUESTIONS: list[Template] = [
    *map(_asks, (_SHAPES, _PLACES, _VALUES, _MODES)),
    *map(_tries, (_VALUES, _VALUES, _PLACES)),
    _tries_work,
]
LOOPS: list[Template] = [_for, _for, _while, _recursion, _dynamic]
CACHES: list[Template] = [_attribute_cache, _attribute_cache, _fill_cache, _counter, _module_cache]
WRITES: list[Template] = [_input_write, _input_write, _buffer_write, _buffer_write]
ESCAPES: list[Template] = [_escape, _escape, _escape, _generator, _generator, _sparse]
CONTEXTS: list[Template] = [_context, _context, _custom, _function, _function, _own_gradient]

"""Recurrent layers and cells: the products of the gates, and the element-wise work after them; their gradients.

Each weight matrix is applied once for each step and sample ("position"), and a bias is added once. The operations of
the gates for each hidden unit, layer, direction and position are in `gates` and `gates_gradient`. Sources: Hochreiter
and Schmidhuber 1997 with forget gates (LSTM), Cho and others 2014 (GRU), Elman 1990 (RNN).
"""

from __future__ import annotations

from .cost import Cost
from .numbers import constants as c

#: Gates of each kind, and so rows of its matrices for each hidden unit.
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
#: Activations for each hidden unit, which an LSTM has of its cell state too.
ACTIVATIONS = {"lstm": 5, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def gates(kind: str, cell: bool = False) -> int:
    """Return the operations of the gates for each hidden unit at each position.

    - LSTM: the two products added for four gates; three sigmoids, two tanhs; ``f * c + i * g`` and ``o * tanh(c)``.
    - GRU: the two products added for three gates; two sigmoids, a tanh; ``r * h`` and ``(1 - z) * n + z * h``, which a
      single cell has as ``(h - n) * z + n``.
    - RNN: the two products added, and a tanh or ReLU.
    """
    if kind == "lstm":
        return 4 * c.ADD + 3 * c.SIGMOID + 2 * c.TANH + 3 * c.MULTIPLY + c.ADD
    if kind == "gru":
        mixed = c.SUBTRACT + (1 if cell else 2) * c.MULTIPLY + c.ADD
        return 3 * c.ADD + 2 * c.SIGMOID + c.TANH + c.MULTIPLY + mixed
    return c.ADD + {"rnn_tanh": c.TANH, "rnn_relu": c.COMPARE}[kind]


def gates_gradient(kind: str) -> int:
    """Return the operations of the gates' gradients for each hidden unit at each position.

    - LSTM: five sigmoid and tanh gradients, six products (two for the output gate, four for the cell), two additions.
    - GRU: three sigmoid and tanh gradients, four products, one negated, three additions.
    - RNN: one tanh (or ReLU) gradient, one addition.
    """
    if kind == "lstm":
        return 5 * c.ELEMENTARY_GRADIENT + 6 * c.MULTIPLY + 2 * c.ADD
    if kind == "gru":
        return 3 * c.ELEMENTARY_GRADIENT + 4 * c.MULTIPLY + c.NEGATE + 3 * c.ADD
    if kind not in GATES:
        raise KeyError(kind)
    return c.ELEMENTARY_GRADIENT + c.ADD


def layers(kind: str, positions: int, matrix_elements: int, bias_elements: int, units: int, cell: bool = False) -> Cost:
    """Return the cost of layers.

    Args:
        kind: ``"lstm"``, ``"gru"``, ``"rnn_tanh"`` or ``"rnn_relu"``.
        positions: Steps times samples.
        matrix_elements: Elements of all weight matrices, of all layers and directions.
        bias_elements: Elements of all biases.
        units: Hidden units of all layers and directions together.
        cell: Whether it is a single step that a cell takes, see `gates`.
    """
    return Cost.of_macs(positions * matrix_elements, positions * (bias_elements * c.ADD + units * gates(kind, cell)))


def layers_gradient(
    kind: str,
    positions: int,
    matrix_elements: int,
    bias_elements: int,
    units: int,
    by_weights: bool = True,
    unwanted_macs: int = 0,
) -> Cost:
    """Return the cost of the gradients by inputs and states, and with ``by_weights`` by matrices and biases.

    Each takes as many multiply-accumulates as the forward pass, less ``unwanted_macs``: the multiply-accumulates for
    the first layer's input or the first states if their gradient is not needed. A bias takes the sum over positions.
    """
    products = positions * matrix_elements
    by_states = Cost.of_macs(products - unwanted_macs, positions * units * gates_gradient(kind))
    return by_states.plus(Cost.of_macs(products, positions * bias_elements * c.ADD)) if by_weights else by_states


def cell_after_products(kind: str, states: int, bias_elements: int) -> Cost:
    """Return the cost of one step after its products: the gates for each state element, and the biases."""
    return Cost(0, states * gates(kind, cell=True) + bias_elements * c.ADD)


def lstm_cell_gradient(states: int, bias_elements: int, cell_gradient: bool) -> Cost:
    """``dh * tanh(c)``, ``dh * o``, four products of dc, five sigmoids and tanhs; an addition if dc came in too."""
    operations = 6 * c.MULTIPLY + 5 * c.ELEMENTARY_GRADIENT + (c.ADD if cell_gradient else 0)
    return Cost(0, states * operations + bias_elements * c.ADD)


def gru_cell_gradient(states: int, has_bias: bool) -> Cost:
    """Four products, a negation, an addition, three sigmoids and tanhs; each of two biases takes three sums."""
    operations = 4 * c.MULTIPLY + c.NEGATE + c.ADD + 3 * c.ELEMENTARY_GRADIENT + (6 * c.ADD if has_bias else 0)
    return Cost(0, states * operations)


def lstm_with_joined_product(
    positions: int, matrix_elements: int, units: int, peepholes: bool, forget_bias: bool
) -> Cost:
    """Return the cost of an LSTM with one product of input and state together, so that its gates add four biases.

    Peepholes are a product and an addition for each of three gates (Gers and Schmidhuber 2000); the constant bias of
    the forget gate is one addition more.
    """
    operations = gates("lstm")
    if peepholes:
        operations += 3 * (c.MULTIPLY + c.ADD)
    if forget_bias:
        operations += c.ADD
    return Cost.of_macs(positions * matrix_elements, positions * units * operations)

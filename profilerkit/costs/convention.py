"""The convention: how many floating-point operations each elementary function counts as, for every backend.

This is the only place where such a number stands. Everything else is a sum of these: a softmax is a comparison, a
subtraction, an exponential, an addition and a division. Formulas read it when they are called, so one line
changed here changes every backend, and the tables of the documentation, alike.

Each elementary function is one operation, however many a processor takes for it. This is the convention of
``torch.utils.flop_counter`` and of published counts as far as they include such functions; it depends on no device and
no library. A multiply-accumulate is one multiplication and one addition.

These are operations on real numbers; `complex_numbers` has the operations on complex numbers, as sums of these.
Formulas read either through `numbers.constants`.
"""

from __future__ import annotations

#: ``x + y``; in sums and means one for each summand, and the one division of a mean is not counted.
ADD = 1
#: ``x - y``.
SUBTRACT = 1
#: ``x * y``.
MULTIPLY = 1
#: ``x / y``, and ``1 / x``.
DIVIDE = 1
#: ``-x``.
NEGATE = 1
#: ``abs(x)``.
ABSOLUTE = 1
#: ``atan2(b, a)``: the angle of a complex number.
ANGLE = 1
#: A comparison with the choice that follows it: a maximum, a minimum, one bound of a clamp, ReLU.
COMPARE = 1
#: ``sign(x)``.
SIGN = 1
#: ``round(x)``, ``floor(x)``, ``ceil(x)``, ``trunc(x)``, and related: ``frac(x)``, ``x % y``, ``x // y``.
ROUND = 1
#: ``x ** y``, the square included.
POWER = 1
#: ``sqrt(x)``.
SQRT = 1
#: ``1 / sqrt(x)``.
RSQRT = 1
#: ``exp(x)``, and to other bases, and less one.
EXP = 1
#: ``log(x)``, and to other bases, and of one more.
LOG = 1
#: ``tanh(x)``.
TANH = 1
#: ``1 / (1 + exp(-x))``: every framework has one kernel for it.
SIGMOID = 1
#: ``erf(x)``, and one less of it.
ERF = 1
#: ``sin(x)``, ``cos(x)``, ``sinh(x)`` or ``cosh(x)``.
SINE = 1
#: Any other function of one number that mathematics has a name for: tan, asinh, lgamma, Bessel functions.
SPECIAL = 1
#: The gradient of ReLU, sigmoid or tanh, or of another function that passes or scales: every framework has one kernel.
ELEMENTARY_GRADIENT = 1
#: Any other operator that a framework calls element-wise, for each output element; or a reduction, for each input one.
ELEMENTWISE = 1
#: For each complex point and each doubling of the length of a fast Fourier transform: ``5 n log2(n)`` in all (Van Loan,
#: Computational Frameworks for the Fast Fourier Transform, 1992); of real points half of it.
FOURIER_POINT = 5

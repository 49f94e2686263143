"""The conformance suite: the tests that every backend must pass.

Three lines in a test file are enough:

.. code-block:: python

   from profilerkit.testing import BackendConformance

   class TestMine(BackendConformance):
       backend, builders, kinds = MyBackend(), {"mlp": build_mlp}, {"Dense": "linear", "Relu": "activation"}

``builders`` maps the names of `profilerkit.testing.ARCHITECTURES` to functions that build each one in your framework,
with its weights, as ``ARCHITECTURES[name].description`` describes; the sizes are constants in
`profilerkit.testing.architectures`. ``kinds`` maps the layer types of your framework, as they are in the
``LayerRecord.type`` of a trace, to the kinds in ``ARCHITECTURES[name].layers``: "linear", "convolution",
"activation", "dropout", "pooling", "flatten", "batch normalisation", "layer normalisation", "attention", "embedding",
"lstm", "gru", "block".

An architecture without a builder is reported as skipped, by its name. Every number is compared with its closed form,
so it is equal to the number of every other backend that passes.

A class may also define the following; the defaults are in `BackendSettings`:

- ``data_format``: "channels_last" (default) or "channels_first", the layout of the images that the models take.
- ``statistics_are_parameters``: True if a batch norm's mean and variance are among the parameters, as in Keras.
- ``integer_dtype``: "int64" (default), or another integer dtype for word indices.
- ``has_layers``: False if a model is one function, without layers: then only the totals are compared.
- ``not_expressible``: reasons by name, for the architectures that the framework cannot express.
- ``call(model, inputs)``: Call the model as a user of the framework would; ``model(*inputs.args, **inputs.kwargs)``.
- ``to_numpy(tensor)``: Return a tensor's values as a numpy array; ``numpy.asarray(tensor)``.
- ``snapshot(model)``: Return everything that must not change, comparable with ``==``: values, flags, attributes; by
  default all objects behind the model's attributes, arrays with their values.
- ``change_a_parameter(model)``: Change one value of a parameter; for the test of ``fingerprint``.
- ``raising_model(message)``: Return a model with the inputs of "mlp" that raises an error with the message in a run.
- ``uncounted_model()``: Return a model with the inputs of "mlp" and an operation whose cost is not known.
- ``low_precision_model(dtype)``: Return "mlp" with all weights in "bfloat16", or its matrices in "int8".
- ``threads()``: Return how many threads an operator may use now; for the test of ``num_threads=``.

The last five have no default: the tests that need them are skipped, with a reason. So are the tests of optional
capabilities: fingerprints, training steps, times of layers, tensors from numpy arrays.
"""

from __future__ import annotations

from .capabilities import CapabilityChecks
from .contracts import ContractChecks
from .counting import CountingChecks
from .failing import FailingChecks
from .running import RunningChecks
from .untouched import DefaultMetricChecks, UntouchedChecks

__all__ = ["BackendConformance"]


class BackendConformance(
    ContractChecks,
    CountingChecks,
    RunningChecks,
    CapabilityChecks,
    FailingChecks,
    UntouchedChecks,
    DefaultMetricChecks,
):
    """The tests that every backend passes; subclass it in a test file, under a name that pytest collects.

    `profilerkit.testing.conformance` describes the attributes and methods of the subclass.
    """

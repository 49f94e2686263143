"""The conformance suite: what every backend must do, as tests that any backend runs over itself.

Three lines in a test file of yours are enough:

.. code-block:: python

   from profilerkit.testing import BackendConformance

   class TestMine(BackendConformance):
       backend, builders, kinds = MyBackend(), {"mlp": build_mlp}, {"Dense": "linear", "Relu": "activation"}

``builders`` maps the names of `profilerkit.testing.ARCHITECTURES` to functions that build each in your framework,
with its weights, as ``ARCHITECTURES[name].description`` says in words; their sizes are the constants of
`profilerkit.testing.architectures`. ``kinds`` maps the layer types of your framework, as a trace's
``LayerRecord.type`` has them, to the kinds that ``ARCHITECTURES[name].layers`` lists: "linear", "convolution",
"activation", "dropout", "pooling", "flatten", "batch normalisation", "layer normalisation", "attention", "embedding",
"lstm", "gru", "block".

An architecture without a builder is reported as skipped, by its name. Every number is compared with its closed form;
so it is equal to that of every other backend that passes.

What a class may say besides, each with its default in `BackendSubject`:

- ``data_format``: "channels_last" (default) or "channels_first", the layout of the images that the models take.
- ``statistics_are_parameters``: True where a batch norm's mean and variance are among the parameters, as in Keras.
- ``integer_dtype``: "int64" (default), or the integers that the framework has for words.
- ``has_layers``: False where a model is one function, without layers: then the totals alone are compared.
- ``not_expressible``: reasons by name, for the architectures that the framework cannot express.
- ``call(model, inputs)``: Call the model as a user of the framework would; ``model(*inputs.args, **inputs.kwargs)``.
- ``to_numpy(tensor)``: Return a tensor's values as a numpy array; ``numpy.asarray(tensor)``.
- ``snapshot(model)``: Return all that must not change, comparable with ``==``: values, flags, attributes; unless given,
  every object that the model's attributes lead to, arrays with their values.
- ``change_a_parameter(model)``: Change one value of a parameter; for the test of ``fingerprint``.
- ``raising_model(message)``: Return a model that takes what "mlp" takes, and raises an error with the message in a run.
- ``uncounted_model()``: Return a model that takes what "mlp" takes, with an operation whose cost is not known.
- ``low_precision_model(dtype)``: Return "mlp" with all weights in "bfloat16", or its matrices in "int8".
- ``threads()``: Return how many threads an operator may use right now; for the test of ``num_threads=``.

The last five have no default: the tests that need them are skipped, and say so. So are those of what a backend need
not offer: fingerprints, steps of training, times of layers, tensors of numpy arrays.
"""

from __future__ import annotations

from .contracts import ContractChecks
from .counting import CountingChecks
from .failing import FailingChecks
from .running import RunningChecks
from .untouched import DefaultMetricChecks, UntouchedChecks

__all__ = ["BackendConformance"]


class BackendConformance(
    ContractChecks, CountingChecks, RunningChecks, FailingChecks, UntouchedChecks, DefaultMetricChecks
):
    """The tests that every backend passes; subclass it in a test file, under a name that pytest collects.

    See `profilerkit.testing.conformance` for what the subclass says.
    """

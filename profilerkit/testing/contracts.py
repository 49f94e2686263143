"""Checks of a backend's small methods: tensors and batches, devices, names, fingerprints, environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backend import Backend, Device
from ..data_splits import DataLoader, ForwardPass
from ..errors import InputError
from ..input_shapes import TensorSpec, dtype_name
from ..inputs import ModelInputs
from ..protocols import FitsInputs, NoticesTraining, OpensModels
from .architectures import ARCHITECTURES
from .expectations import catch_error, expect, expect_equal
from .subject import BackendSubject

__all__ = ["ContractChecks"]


class ContractChecks(BackendSubject):
    """Each method of the backend keeps the promises of its docstring in `Backend`."""

    def test_the_class_says_what_is_tested(self) -> None:
        """The class has a backend, builders of known architectures, and kinds."""
        absent = [name for name in ("backend", "builders", "kinds") if not hasattr(self, name)]
        expect(not absent, f"{type(self).__name__} does not say its {' and '.join(absent)}")
        expect(isinstance(self.backend, Backend), f"backend = {self.backend!r}: give an instance of a Backend")
        strange = sorted({*self.builders, *self.not_expressible} - set(ARCHITECTURES))
        expect(not strange, f"there are no architectures {strange}; there are: {', '.join(ARCHITECTURES)}")
        both = sorted(set(self.builders) & set(self.not_expressible))
        expect(not both, f"{both} have builders and are not_expressible; leave them out of one")
        self.find_architecture()

    def test_every_architecture_is_built(self, name: str) -> None:
        """An architecture without a builder is skipped, so that the summary of the tests names it."""
        reason = self.explain_omission(name)
        if reason:
            self.skip(reason)
        model = self.get_model(ARCHITECTURES[name])
        expect_equal(self.backend.accepts(model), True, f"accepts() of the model of {name}, a {type(model).__name__}")

    # Models -----------------------------------------------------------------------------------------------------

    def test_other_things_are_no_models(self) -> None:
        """The backend accepts neither None, text, plain objects nor lists of models."""
        for other in (None, "model", 3, object(), [self.get_model(self.find_architecture())]):
            expect_equal(self.backend.accepts(other), False, f"accepts({other!r})")

    def test_a_model_is_opened_as_it_is(self) -> None:
        """`open_model` returns an object that is no path unchanged."""
        model = self.get_model(self.find_architecture())
        expect(
            self.require_capability(OpensModels).open_model(model) is model,
            "open_model(model) returned another object than the model",
        )

    def test_names_are_words(self) -> None:
        """The backend and each model have a name."""
        model = self.get_model(self.find_architecture())
        for what, name in (("name", self.backend.name), ("model_name(model)", self.backend.model_name(model))):
            expect(isinstance(name, str) and name.strip() == name != "", f"{what} is {name!r}, not a name")

    def test_data_splits_have_their_classes(self) -> None:
        """The classes of loaders and batches are subclasses of the core's classes, which every profiler can read."""
        for name, base in (("data_loader", DataLoader), ("forward_pass", ForwardPass)):
            kind = getattr(self.backend, name)
            expect(isinstance(kind, type) and issubclass(kind, base), f"{name} is {kind!r}, no {base.__name__}")

    def test_inputs_that_fit_stay_as_they_are(self) -> None:
        """Inputs in the model's own layout are returned unchanged."""
        architecture = self.find_architecture()
        inputs = self.inputs(architecture)
        fitted = self.require_capability(FitsInputs).fit_inputs(self.get_model(architecture), inputs)
        expect(isinstance(fitted, ModelInputs), f"fit_inputs returned {fitted!r}, not ModelInputs")
        shapes, expected = ([tuple(leaf.shape) for leaf in both.leaves()] for both in (fitted, inputs))
        expect_equal(shapes, expected, "shapes after fit_inputs, of inputs in the layout of the model")

    def test_the_fingerprint_changes_with_a_parameter_alone(self) -> None:
        """The fingerprint stays equal while the model is traced and run."""
        architecture = self.find_architecture()
        model, inputs = self.builders[architecture.name](), self.inputs(architecture)
        fingerprint = self.require_capability(NoticesTraining).fingerprint
        before = fingerprint(model)
        if before is None:
            self.skip(f"the {self.backend.name} backend does not tell whether the model was trained")
        self.backend.trace(model, inputs)
        self.run_forward(model, inputs)
        expect(fingerprint(model) == before, "the fingerprint changed while the model was traced and run")
        self.change_a_parameter(model)
        expect(fingerprint(model) != before, "the fingerprint did not change when a parameter did")

    def test_the_environment_is_text(self) -> None:
        """The environment has names and values as text, for reports."""
        environment: Any = self.backend.environment()
        expect(isinstance(environment, Mapping), f"environment() returned {environment!r}, not a mapping")
        for name, value in environment.items():
            whole = all(isinstance(text, str) and text for text in (name, value))
            expect(whole, f"environment() has {name!r}: {value!r}; give names and values as text")

    def test_devices_have_names(self) -> None:
        """None stands for the device of the model; a CPU always exists, also by its name."""
        model = self.get_model(self.find_architecture())
        for device in (None, Device.CPU):
            resolved = self.backend.resolve_device(model, device)
            is_name = isinstance(resolved, str) and resolved
            expect(is_name, f"resolve_device(model, {device!r}) returned {resolved!r}, not a name")
            again = self.backend.resolve_device(model, resolved)
            expect_equal(again, resolved, f"resolve_device(model, {resolved!r}), its own name for {device!r}")

    # Tensors ----------------------------------------------------------------------------------------------------

    def test_random_tensors(self) -> None:
        """Tensors have the requested shape and dtype; floats vary, integers are zero, which every embedding accepts."""
        for dtype in ("float32", self.integer_dtype):
            tensor = self.backend.random_tensor(TensorSpec((4, 5), dtype), 3)
            what = f"random_tensor(TensorSpec((4, 5), {dtype!r}), 3)"
            expect_equal(tuple(tensor.shape), (3, 4, 5), f"shape of {what}")
            expect_equal(dtype_name(tensor.dtype), dtype, f"dtype of {what}")
            expect_equal(self.backend.is_tensor(tensor), True, f"is_tensor of {what}")
            values = set(self.to_numpy(tensor).ravel().tolist())
            expect(len(values) > 1 if dtype == "float32" else values == {0}, f"the values of {what} are {values}")

    def test_other_things_are_no_tensors(self) -> None:
        """Other objects are no tensors, and neither are containers of tensors."""
        tensor = self.backend.random_tensor(TensorSpec((4,)), 3)
        for other in (None, "text", 3, [1.0], object(), [tensor], {"x": tensor}):
            expect_equal(self.backend.is_tensor(other), False, f"is_tensor of a {type(other).__name__}")

    def test_what_is_no_array_stays_as_it_is(self) -> None:
        """`as_tensor` converts arrays and returns other objects unchanged, tensors included."""
        tensor = self.backend.random_tensor(TensorSpec((4,)), 3)
        for value in (None, "text", 3, [1.0], object(), tensor):
            expect(self.backend.as_tensor(value) is value, f"as_tensor changed a {type(value).__name__}")

    def test_numpy_arrays_keep_their_values_and_dtype(self) -> None:
        """This is tested if the backend makes tensors of arrays."""
        import numpy as np

        for dtype in ("float32", self.integer_dtype):
            array = np.arange(6, dtype=dtype).reshape(3, 2)
            tensor = self.backend.as_tensor(array)
            if not self.backend.is_tensor(tensor):
                self.skip(f"the {self.backend.name} backend makes no tensors of numpy arrays")
            expect_equal(dtype_name(tensor.dtype), array.dtype.name, f"dtype of as_tensor of a {array.dtype} array")
            expect_equal(
                self.to_numpy(tensor).tolist(), array.tolist(), f"values of as_tensor of a {array.dtype} array"
            )

    def test_batches_are_cut_and_repeated(self) -> None:
        """Samples are taken from the first on, and repeated; the dtype stays, and the tensor itself is unchanged."""
        tensor = self._make_numbered(3)
        rows = self.to_numpy(tensor).tolist()
        for batch_size in (1, 2, 3, 7):
            batch = self.backend.with_batch_size(tensor, batch_size)
            of = f"with_batch_size(a batch of 3, {batch_size})"
            expect_equal(tuple(batch.shape), (batch_size, 2), f"shape of {of}")
            expect_equal(dtype_name(batch.dtype), "float32", f"dtype of {of}")
            expected = [rows[index % 3] for index in range(batch_size)]
            expect_equal(self.to_numpy(batch).tolist(), expected, f"values of {of}")
        expect_equal(self.to_numpy(tensor).tolist(), rows, "values of a tensor after with_batch_size made others of it")

    def test_an_empty_batch_cannot_be_repeated(self) -> None:
        """An empty batch is an `InputError`, not an empty result or a division by zero."""
        empty = self._make_numbered(0)
        error = catch_error(lambda: self.backend.with_batch_size(empty, 2))
        expect(isinstance(error, InputError), f"with_batch_size(an empty batch, 2) raised {error!r}; raise InputError")

    def _make_numbered(self, batch_size: int) -> Any:
        """Return a tensor whose numbers all differ, made of an array if the backend makes tensors of arrays."""
        import numpy as np

        tensor = self.backend.as_tensor(np.arange(2.0 * batch_size, dtype="float32").reshape(batch_size, 2))
        if self.backend.is_tensor(tensor):
            return tensor
        return self.backend.random_tensor(TensorSpec((2,)), batch_size)

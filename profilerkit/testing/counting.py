"""Checks of the counts of a backend for the known architectures: parameters, MACs, FLOPs, layers, bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..input_shapes import TensorSpec
from ..inputs import ModelInputs
from ..trace.dtypes import element_bytes
from .architectures import ARCHITECTURES, MLP_FEATURES
from .expectations import expect, expect_equal
from .expected import Architecture, LayerNumbers, layer_numbers
from .subject import BackendSubject

__all__ = ["CountingChecks"]

#: The architectures are float32 throughout.
FLOAT_BYTES = 4


class CountingChecks(BackendSubject):
    """Every number of a trace equals its closed form."""

    def test_builders_build_what_is_described(self, architecture: Architecture) -> None:
        """The model accepts the inputs of the description, and its outputs have the described shapes."""
        model, inputs = self.get_model(architecture), self.inputs(architecture)
        outputs = self.backend.evaluate(model, lambda: self.call(model, inputs))
        named = outputs if isinstance(outputs, Mapping) else {0: outputs}
        shapes = {key: tuple(output.shape) for key, output in named.items()}
        expected = {key: (3, *shape) for key, shape in architecture.outputs.items()}
        expect_equal(shapes, expected, f"shapes of the outputs of {architecture.name} for a batch of 3")

    def test_nothing_is_left_uncounted(self, architecture: Architecture) -> None:
        """Every operation of the architectures has a known cost."""
        expect_equal(
            self.trace_architecture(architecture).missing, (), f"what the counts of {architecture.name} leave out"
        )

    def test_parameters(self, architecture: Architecture) -> None:
        """All and trainable parameters; shared ones count once, the statistics of batch norms as configured."""
        trace = self.trace_architecture(architecture)
        every = architecture.params + (architecture.statistics if self.statistics_are_parameters else 0)
        expect_equal(trace.total_params, every, f"total_params of {architecture.name}")
        if self.knows_trained_weights(self.get_model(architecture)):
            expect_equal(trace.trainable_params, architecture.params, f"trainable_params of {architecture.name}")

    def test_macs_and_flops(self, architecture: Architecture, batch_size: int) -> None:
        """The totals of one forward pass of the batch."""
        trace = self.trace_architecture(architecture, batch_size)
        of = f"of {architecture.name} for a batch of {batch_size}"
        expect_equal(trace.macs, architecture.macs(batch_size), f"macs {of}")
        expect_equal(trace.flops, architecture.flops(batch_size), f"flops {of}")

    def test_layers(self, architecture: Architecture, batch_size: int) -> None:
        """Each row of the layer table, in the order of the model: depth, kind, calls, parameters, MACs, FLOPs."""
        if not self.has_layers:
            self.skip("the models have no layers: has_layers is False")
        table = self.trace_architecture(architecture, batch_size).table
        actual = layer_numbers(table, self.kinds)
        described = list(architecture.layers)
        expect_equal([row[:2] for row in actual], described, f"depths and kinds of the layers of {architecture.name}")
        expected = architecture.layer_numbers(batch_size, with_statistics=self.statistics_are_parameters)
        for row, numbers, closed_form in zip(table, actual, expected, strict=True):
            wrong = [
                f"{column} {numbers[index]}, expected {closed_form[index]}"
                for index, column in enumerate(LayerNumbers._fields)
                if numbers[index] != closed_form[index]
            ]
            where = f"layer {row['path'] or 'of the whole model'!r} of {architecture.name}"
            expect(not wrong, f"{where} for a batch of {batch_size}: found {'; '.join(wrong)}")

    def test_the_layers_add_up_to_the_totals(self, architecture: Architecture, batch_size: int) -> None:
        """Every operation belongs to exactly one layer."""
        trace = self.trace_architecture(architecture, batch_size)
        paths = [layer.path for layer in trace.layers]
        expect_equal(len(set(paths)), len(paths), f"distinct paths of the layers of {architecture.name}")
        strangers = sorted({op.layer for op in trace.operators} - set(paths))
        expect(not strangers, f"operators of {architecture.name} are in {strangers}, which are no layers of the trace")
        for column, total in (("own_macs", trace.macs), ("own_flops", trace.flops)):
            expect_equal(sum(row[column] for row in trace.table), total, f"sum of {column} of {architecture.name}")
            by_call = sum(row[column] for row in trace.call_table)
            expect_equal(by_call, total, f"sum of {column} of the calls of {architecture.name}")
        expect_equal(trace.table[""]["weight_bytes"], trace.size_bytes, f"weight_bytes of {architecture.name}")

    def test_counts_are_whole_numbers(self, architecture: Architecture) -> None:
        """Counts are Python integers, which every form of a report can write, with at least two FLOPs for each MAC."""
        for op in self.trace_architecture(architecture).operators:
            for name in ("macs", "flops", "bytes_read", "bytes_written"):
                value, what = getattr(op, name), f"{name} of {op.operator} in {architecture.name}"
                whole = type(value) is int and value >= 0
                expect(whole, f"{what} is {value!r}, a {type(value).__name__}; give an int from 0")
            expect(
                op.flops >= 2 * op.macs, f"{op.operator} in {architecture.name} has {op.macs} macs, {op.flops} flops"
            )

    def test_inputs_and_outputs_of_the_model(self, architecture: Architecture, batch_size: int) -> None:
        """The first layer is the model itself, called once; its tensors have the shapes of the batch."""
        root = self.trace_architecture(architecture, batch_size).layers[0]
        expect_equal((root.path, root.depth), ("", 0), f"path and depth of the first layer of {architecture.name}")
        expect_equal(len(root.calls), 1, f"calls of the model {architecture.name}")
        passed = [(batch_size, *spec.shape) for spec in self._list_specs(architecture)]
        returned = [(batch_size, *shape) for shape in architecture.outputs.values()]
        for what, infos, shapes in (
            ("inputs", root.calls[0].inputs, passed),
            ("outputs", root.calls[0].outputs, returned),
        ):
            traced = sorted(info.shape for info in infos)
            expect_equal(traced, sorted(shapes), f"shapes of the {what} of {architecture.name} in its trace")

    def test_size_of_the_weights(self, architecture: Architecture) -> None:
        """Floating-point weights have four bytes for each element, the statistics of batch norms included."""
        trace = self.trace_architecture(architecture)
        weights = [weight for weight in (*trace.parameters, *trace.buffers) if weight.persistent]
        size = sum(weight.bytes for weight in weights if weight.dtype == "float32")
        expected = FLOAT_BYTES * (architecture.params + architecture.statistics)
        expect_equal(size, expected, f"bytes of the float32 weights of {architecture.name}")

    def test_shapes_of_the_weights(self, architecture: Architecture) -> None:
        """The product of the sizes of a weight is its number of elements, if the sizes are known."""
        for layer in self.trace_architecture(architecture).layers:
            for weight in (*layer.parameters, *layer.buffers):
                if weight.shape:
                    of = f"of {weight.name} in {layer.path!r} of {architecture.name}"
                    expect_equal(math.prod(weight.shape), weight.count, f"elements in the shape {weight.shape} {of}")

    def test_every_call_has_outputs(self, architecture: Architecture) -> None:
        """Each call of a layer returns tensors, whose shapes are recorded."""
        layers = self.trace_architecture(architecture).layers
        empty = [layer.path for layer in layers if any(not call.outputs for call in layer.calls)]
        expect(not empty, f"calls of the layers {empty} of {architecture.name} have no outputs in the trace")

    def test_operators_have_names_of_their_own(self) -> None:
        """A product and an activation are different operators."""
        mlp = self.require_mlp()
        names = {op.operator for op in self.trace_architecture(mlp).operators if op.flops}
        expect(len(names) > 1, f"all operators of mlp have one name, {names}: its products and activations differ")

    def test_outputs_are_alive_at_the_end(self, architecture: Architecture, batch_size: int) -> None:
        """The caller of the model keeps the outputs, so they are not freed before the last operator."""
        live = self.trace_architecture(architecture, batch_size).memory.live_bytes
        least = FLOAT_BYTES * batch_size * sum(math.prod(shape) for shape in architecture.outputs.values())
        last = live[-1] if live else 0
        of = f"{architecture.name} for a batch of {batch_size}"
        expect(last >= least, f"{last} bytes are alive after the last operator of {of}, its outputs take {least}")

    def test_a_network_of_low_precision(self, precision: str) -> None:
        """The work equals that in float32; the weights have the bytes of their dtype."""
        mlp = ARCHITECTURES["mlp"]
        with self.skip_where_not_offered():
            model = self.low_precision_model(precision)
        spec = TensorSpec((MLP_FEATURES,), "bfloat16" if precision == "bfloat16" else "float32")
        trace = self.backend.trace(model, ModelInputs(self.backend.random_tensor(spec, 3)))
        expect(trace.failure is None, f"the trace of mlp in {precision} has failed: {trace.failure}")
        expect_equal(trace.macs, mlp.macs(3), f"macs of mlp in {precision} for a batch of 3")
        weights = [weight for weight in (*trace.parameters, *trace.buffers) if weight.dtype.endswith(precision)]
        elements = mlp.params if precision == "bfloat16" else mlp.macs()  # one for each product
        expect_equal(sum(weight.count for weight in weights), elements, f"elements of mlp in {precision}")
        number = 2 if precision == "bfloat16" else 1
        expect_equal(
            sum(weight.bytes for weight in weights), number * elements, f"bytes of the {precision} weights of mlp"
        )

    def test_memory_of_weights_and_inputs(self, architecture: Architecture, batch_size: int) -> None:
        """The timeline begins with the inputs, and has one value for each operator."""
        trace = self.trace_architecture(architecture, batch_size)
        of = f"of {architecture.name} for a batch of {batch_size}"
        expect_equal(len(trace.memory.live_bytes), len(trace.operators), f"values of the memory timeline {of}")
        expect_equal(trace.memory.input_bytes, self._count_input_bytes(architecture, batch_size), f"input_bytes {of}")
        least = FLOAT_BYTES * architecture.params
        expect(trace.memory.weight_bytes >= least, f"weight_bytes {of}: {trace.memory.weight_bytes}, below {least}")

    def test_peak_of_memory(self, architecture: Architecture, batch_size: int) -> None:
        """The peak lies between weights, inputs and the largest activation, and all bytes read and written."""
        trace = self.trace_architecture(architecture, batch_size)
        fixed = FLOAT_BYTES * architecture.params + self._count_input_bytes(architecture, batch_size)
        least = fixed + FLOAT_BYTES * batch_size * architecture.largest_activation
        moved = sum(op.bytes_read + op.bytes_written for op in trace.operators)
        most = trace.memory.weight_bytes + trace.memory.input_bytes + moved
        peak = trace.memory.peak_bytes()
        of = f"the peak of {architecture.name} for a batch of {batch_size} is {peak} bytes"
        expect(peak >= least, f"{of}, below weights, inputs and the largest activation, {least}")
        expect(peak <= most, f"{of}, above weights, inputs and all that the operators read and write, {most}")

    def test_a_second_trace_finds_the_same(self) -> None:
        """A trace does not depend on earlier traces, with other batch sizes too."""
        architecture = self.find_architecture()
        for batch_size in (1, 3, 1):
            inputs = self.inputs(architecture, batch_size)
            trace = self.backend.trace(self.get_model(architecture), inputs)
            numbers = (trace.macs, trace.memory.peak_bytes())
            first = self.trace_architecture(architecture, batch_size)
            expected = (architecture.macs(batch_size), first.memory.peak_bytes())
            expect_equal(numbers, expected, f"macs and peak of {architecture.name} when it is traced again")

    def _list_specs(self, architecture: Architecture) -> list[TensorSpec]:
        shape: Any = self.shapes(architecture)
        return list(shape.values() if isinstance(shape, dict) else shape)

    def _count_input_bytes(self, architecture: Architecture, batch_size: int) -> int:
        """Return the bytes of the inputs of a batch."""
        specs = self._list_specs(architecture)
        return int(batch_size * sum(math.prod(spec.shape) * element_bytes(spec.dtype) for spec in specs))

"""The main job: a teacher and a student, really trained, really compared. Everything printed is measured.

First in PyTorch; where TensorFlow is installed, the same in Keras, and then the student of one framework beside that
of the other. Run it with ``make demo``.
"""

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import digits
import profilerkit_torch
from profilerkit import Profiler, compare
from profilerkit_torch import ComputeEvalMetric, TorchProfiler


def main() -> None:
    """Train the models on scikit-learn's digits, then compare what they cost and what they score."""
    accuracy = ComputeEvalMetric(profilerkit_torch.get_accuracy, "accuracy", unit_name="%")
    torch_student = compare_pair("PyTorch", digits, TorchProfiler, accuracy)

    # Asked without importing it: TensorFlow takes seconds to load.
    if find_spec("tensorflow") is None:
        print(f"\nFor the same in Keras, install TensorFlow: {sys.executable} -m pip install '.[tensorflow]'")
        return
    import keras_digits
    import profilerkit_tensorflow
    from profilerkit_tensorflow import TFProfiler

    print()
    accuracy = ComputeEvalMetric(profilerkit_tensorflow.get_accuracy, "accuracy", unit_name="%")
    keras_student = compare_pair("Keras", keras_digits, TFProfiler, accuracy)

    print("\nThe student of one framework and that of the other, on the same images:\n")
    print(compare(torch_student, keras_student))


def compare_pair(framework: str, example: Any, profiler_class: type[Profiler], accuracy: ComputeEvalMetric) -> Profiler:
    """Train and compare the teacher and the student of one framework; return a profiler of the student.

    example is the module with the data, the models and their training; both have the same functions.
    """
    splits = example.load_digits_splits()
    teacher, student = example.digits_teacher(), example.digits_student()
    seconds = time_call(example.train, teacher, splits["train"], epochs=8, lr=1e-3)
    print(f"Trained the {framework} teacher in {seconds:.1f} s.")
    seconds = time_call(example.distil, student, teacher, splits["train"], epochs=8, lr=3e-3)
    print(f"Distilled the {framework} student from it in {seconds:.1f} s.\n")

    data_splits = profiler_class.enable_forward_pass_data_splits(splits)
    comparison = compare(teacher, student, names=("Teacher", "Student"), data_splits=data_splits, functions=[accuracy])
    print(comparison)
    ratio = comparison.ratio("execution_time")
    print(
        f"\nThe student takes {ratio.value:.3f} of the teacher's time "
        f"(95 % confidence: {ratio.low:.3f} to {ratio.high:.3f})."
    )
    # Models of two frameworks have no loader in common: each comes with its own, in a profiler.
    profiler = profiler_class(student, data_splits, name=f"{framework} student")
    profiler.register_profiler_function(accuracy)
    return profiler.register_defaults()


def time_call(function: Callable[..., None], *args: Any, **kwargs: Any) -> float:
    """Call a function and return the seconds it took."""
    start = time.perf_counter()
    function(*args, **kwargs)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

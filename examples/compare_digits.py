"""The main job: a teacher and a student, really trained, really compared. Everything printed is measured.

Run it with ``make demo``.
"""

import time

from digits import digits_student, digits_teacher, distil, load_digits_splits, train
from profilerkit import compare
from profilerkit_torch import ComputeEvalMetric, TorchProfiler, get_accuracy


def main() -> None:
    """Train both models on scikit-learn's digits, then compare what they cost and what they score."""
    splits = load_digits_splits()
    teacher, student = digits_teacher(), digits_student()

    start = time.perf_counter()
    train(teacher, splits["train"], epochs=8, lr=1e-3)
    print(f"Trained the teacher on {len(splits['train'].dataset)} images in {time.perf_counter() - start:.1f} s.")  # type: ignore[arg-type]
    start = time.perf_counter()
    distil(student, teacher, splits["train"], epochs=8, lr=3e-3)
    print(f"Distilled the student from it in {time.perf_counter() - start:.1f} s.\n")

    comparison = compare(
        teacher,
        student,
        names=("Teacher", "Student"),
        data_splits=TorchProfiler.enable_forward_pass_data_splits(splits),
        functions=[ComputeEvalMetric(get_accuracy, "accuracy", unit_name="%")],
    )
    print(comparison)

    ratio = comparison.ratio("execution_time")
    print(
        f"\nThe student takes {ratio.value:.3f} of the teacher's time "
        f"(95 % confidence: {ratio.low:.3f} to {ratio.high:.3f})."
    )


if __name__ == "__main__":
    main()

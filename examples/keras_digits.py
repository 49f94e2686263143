"""Train a teacher and a student on scikit-learn's handwritten digits with Keras; the twin of ``digits.py``.

Run as a script, it trains both, distils the student from the teacher and prints their accuracy on the test images.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

# Both are read once, at the import. What TensorFlow's C++ code logs, errors too, comes back as Python exceptions where
# it matters; the rest is about the CPU, and about GPUs that are not there.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Drop what is written to standard error within, by C++ code too."""
    saved = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


# Since 2.19, TensorFlow reads the log level only after its import has logged some lines already.
with quiet_stderr():
    import keras
    import tensorflow as tf

    from keras_models import lenet5, resnet18

Loss = Callable[[Any, Any, Any], Any]


def load_digits_splits(batch_size: int = 64, seed: int = 0) -> dict[str, Any]:
    """Load the 1797 digits as "train" (1437) and "test" (360) datasets of images (N, 32, 32, 1) and labels (N,).

    The images are float32 from 0 to 1, enlarged from 8x8 to 32x32; the labels are int64. Every class has the same share
    of both splits, and seed alone decides which image goes where: the same ones as in ``digits.py``. "train" is
    shuffled, anew in each epoch, in an order that follows from seed.
    """
    digits = load_digits()
    images = tf.constant(digits.images[..., None], tf.float32) / 16  # stored as 0..16
    images = tf.image.resize(images, (32, 32), method="bilinear").numpy()
    labels = digits.target.astype("int64")
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=seed, stratify=digits.target)
    train_split = tf.data.Dataset.from_tensor_slices((images[train], labels[train]))
    test_split = tf.data.Dataset.from_tensor_slices((images[test], labels[test]))
    return {
        "train": train_split.shuffle(len(train), seed=seed).batch(batch_size),
        "test": test_split.batch(batch_size),
    }


def digits_teacher(seed: int = 0) -> Any:
    """Build the teacher, a narrow ResNet for (N, 32, 32, 1) images; seed decides its initial weights."""
    return draw_kernels(resnet18(num_classes=10, in_channels=1, width=32, blocks=(1, 1, 1)), seed)


def digits_student(seed: int = 0) -> Any:
    """Build the student, a LeNet-5 for (N, 32, 32, 1) images; seed decides its initial weights."""
    return draw_kernels(lenet5(), seed)


def train(model: Any, split: Any, epochs: int, lr: float) -> None:
    """Train with Adam on the cross-entropy of the logits."""
    fit(model, split, epochs, lr, lambda images, logits, labels: cross_entropy(logits, labels))


def distil(
    student: Any, teacher: Any, split: Any, epochs: int, lr: float, temperature: float = 4.0, label_weight: float = 0.5
) -> None:
    """Train the student to give the teacher's softened answers, and the labels.

    The loss is that of Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015
    (arXiv:1503.02531): the divergence of the two softmaxes at this temperature, times its square, and the
    cross-entropy, weighted 1 - label_weight and label_weight.
    """

    def loss(images: Any, logits: Any, labels: Any) -> Any:
        target = tf.nn.log_softmax(tf.stop_gradient(teacher(images, training=False)) / temperature)
        answer = tf.nn.log_softmax(logits / temperature)
        divergence = tf.reduce_mean(tf.reduce_sum(tf.exp(target) * (target - answer), axis=1)) * temperature**2
        return (1 - label_weight) * divergence + label_weight * cross_entropy(logits, labels)

    fit(student, split, epochs, lr, loss)


def fit(model: Any, split: Any, epochs: int, lr: float, loss: Loss) -> None:
    """Minimise loss(images, logits, labels) with Adam."""
    optimizer = keras.optimizers.Adam(lr)
    variables = model.trainable_variables

    def step(images: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(images, model(images, training=True), labels)
        optimizer.apply(tape.gradient(value, variables), variables)

    # One graph for all batches: without the signature, the last and shorter one would have a graph of its own.
    compiled = tf.function(step, input_signature=split.element_spec)
    for images, labels in split.repeat(epochs):
        compiled(images, labels)


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of (N, classes) logits and (N,) labels."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def accuracy(model: Any, split: Any) -> float:
    """Return the share of images, from 0 to 1, whose largest logit is at their label."""
    hits = [tf.argmax(model(images, training=False), axis=1) == labels for images, labels in split]
    return float(tf.reduce_mean(tf.cast(tf.concat(hits, axis=0), tf.float32)))


def draw_kernels(model: Any, seed: int) -> Any:
    """Draw the model's kernels again, from seed, and return it.

    ``keras.utils.set_random_seed`` would seed Python, numpy and TensorFlow for the rest of the program too. The
    distribution is that of PyTorch's layers: uniform up to one over the square root of a kernel's inputs.
    """
    draw = keras.initializers.VarianceScaling(
        1 / 3, mode="fan_in", distribution="uniform", seed=keras.random.SeedGenerator(seed)
    )
    for variable in model.trainable_variables:
        if variable.name == "kernel":
            variable.assign(draw(variable.shape))
    return model


def main() -> None:
    """Train the teacher and two students, alone and distilled, and print what each scores on the test images."""
    splits = load_digits_splits()
    teacher, student, distilled = digits_teacher(), digits_student(), digits_student()
    train(teacher, splits["train"], epochs=8, lr=1e-3)
    train(student, splits["train"], epochs=8, lr=3e-3)
    distil(distilled, teacher, splits["train"], epochs=8, lr=3e-3)
    for name, model in {"teacher": teacher, "student": student, "distilled student": distilled}.items():
        print(f"{name}: {accuracy(model, splits['test']):.1%}")


if __name__ == "__main__":
    main()

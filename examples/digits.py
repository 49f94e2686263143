"""Train a teacher and a student on scikit-learn's handwritten digits, in seconds and without a download.

Run as a script, it trains both, distils the student from the teacher and prints their accuracy on the test images.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from models import lenet5, resnet18

Batches = DataLoader[tuple[Tensor, ...]]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def load_digits_splits(batch_size: int = 64, seed: int = 0) -> dict[str, Batches]:
    """Load the 1797 digits as "train" (1437) and "test" (360) loaders of images (N, 1, 32, 32) and labels (N,).

    The images are float32 from 0 to 1, enlarged from 8x8 to 32x32; the labels are int64. Every class has the same share
    of both splits, and seed alone decides which image goes where. "train" is shuffled, anew in each epoch.
    """
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16  # stored as 0..16
    images = F.interpolate(images, size=(32, 32), mode="bilinear")
    labels = torch.tensor(digits.target, dtype=torch.int64)
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=seed, stratify=digits.target)
    return {
        "train": DataLoader(TensorDataset(images[train], labels[train]), batch_size, shuffle=True),
        "test": DataLoader(TensorDataset(images[test], labels[test]), batch_size),
    }


def digits_teacher(seed: int = 0) -> nn.Module:
    """Build the teacher, a narrow ResNet for (N, 1, 32, 32) images; seed decides its initial weights."""
    with use_seed(seed):
        return resnet18(num_classes=10, in_channels=1, width=32, blocks=(1, 1, 1))


def digits_student(seed: int = 0) -> nn.Module:
    """Build the student, a LeNet-5 for (N, 1, 32, 32) images; seed decides its initial weights."""
    with use_seed(seed):
        return lenet5()


def train(model: nn.Module, loader: Batches, epochs: int, lr: float, seed: int = 0) -> None:
    """Train with Adam on the cross-entropy of the logits; leave the model in eval mode.

    The order of the batches follows from seed, so that the same call repeats the same training.
    """
    fit(model, loader, epochs, lr, seed, lambda images, logits, labels: F.cross_entropy(logits, labels))


def distil(
    student: nn.Module,
    teacher: nn.Module,
    loader: Batches,
    epochs: int,
    lr: float,
    seed: int = 0,
    temperature: float = 4.0,
    label_weight: float = 0.5,
) -> None:
    """Train the student to give the teacher's softened answers, and the labels; leave both models in eval mode.

    The loss is that of Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015
    (arXiv:1503.02531): the divergence of the two softmaxes at this temperature, times its square, and the
    cross-entropy, weighted 1 - label_weight and label_weight. Batches and optimiser are those of train.
    """
    teacher.eval()

    def loss(images: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            target = F.log_softmax(teacher(images) / temperature, dim=1)
        answer = F.log_softmax(logits / temperature, dim=1)
        divergence = F.kl_div(answer, target, reduction="batchmean", log_target=True) * temperature**2
        return (1 - label_weight) * divergence + label_weight * F.cross_entropy(logits, labels)

    fit(student, loader, epochs, lr, seed, loss)


def fit(model: nn.Module, loader: Batches, epochs: int, lr: float, seed: int, loss: Loss) -> None:
    """Minimise loss(images, logits, labels) with Adam, on the model's own device; leave the model in eval mode."""
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr)
    model.train()
    with use_seed(seed):
        for _ in range(epochs):
            for images, labels in loader:
                images, labels = images.to(device), labels.to(device)
                optimizer.zero_grad()
                torch.autograd.backward(loss(images, model(images), labels))
                optimizer.step()
    model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, loader: Batches) -> float:
    """Return the share of images, from 0 to 1, whose largest logit is at their label; leave the model in eval mode."""
    device = next(model.parameters()).device
    model.eval()
    hits = [model(images.to(device)).argmax(1).cpu() == labels for images, labels in loader]
    return torch.cat(hits).float().mean().item()


@contextmanager
def use_seed(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from seed within, and put the CPU's generator back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


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

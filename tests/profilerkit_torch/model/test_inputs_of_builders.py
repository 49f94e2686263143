"""A function that builds a model may say what it is called with: inputs that no shape describes."""

from pathlib import Path

from click.testing import CliRunner

from profilerkit.cli import cli

NET = """
import torch
from profilerkit import LoadedModel, ModelInputs

class Recommender(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.user = torch.nn.Embedding(10, 4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, batch):
        return self.head(self.user(batch["user"]))

def build():
    return LoadedModel(Recommender(), inputs=ModelInputs({"user": torch.zeros(3, dtype=torch.long)}))
"""


def test_a_batch_that_is_a_dictionary_on_the_command_line(tmp_path: Path) -> None:
    """By hand: 3 samples of 4 x 2 MACs."""
    (tmp_path / "net.py").write_text(NET)
    spec = f"{tmp_path / 'net.py'}:build"
    result = CliRunner().invoke(cli, ["profile", spec, "--metric", "macs"])
    assert result.exit_code == 0, result.output
    assert "MACs  24 MACs" in result.output
    assert "Input: {'user': Tensor(3,)}, int64" in result.output

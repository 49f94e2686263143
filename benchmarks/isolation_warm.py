"""What a fork server imports so that its copies begin warm: a first trace imports more than torch does itself."""

import torch

from profilerkit import profile

profile(torch.nn.Linear(1, 1), torch.ones(1, 1), metrics=["macs"]).to_dict()

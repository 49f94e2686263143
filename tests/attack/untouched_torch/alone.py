"""Runs one case in a process of its own: ``python -m untouched_torch.alone MODEL CALL FAULT CONTEXT``."""

from __future__ import annotations

import json
import sys

from attack_cases import Case

from .harness import find_case_differences

if __name__ == "__main__":
    found = find_case_differences(Case(*sys.argv[1:]))
    sys.stdout.write(
        "\n"
        + json.dumps([[difference.fact, repr(difference.before), repr(difference.after)] for difference in found])
        + "\n"
    )

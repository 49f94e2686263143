"""Runs one case in a process of its own: ``python -m untouched_torch.alone MODEL CALL FAULT CONTEXT``."""

from __future__ import annotations

import json
import sys

from attack_cases import Case

from .harness import differences_of

if __name__ == "__main__":
    found = differences_of(Case(*sys.argv[1:]))
    sys.stdout.write("\n" + json.dumps([[each.fact, repr(each.before), repr(each.after)] for each in found]) + "\n")

"""The search for a private name of TensorFlow, and the notes for a release without it."""

from __future__ import annotations

from profilerkit.backend_kit.private_names import PrivateNames

_TENSORFLOW = PrivateNames("tensorflow")
#: The capabilities that are off in this release although calls go on: each report has these as notes.
lacking = _TENSORFLOW.lacking
find_first = _TENSORFLOW.find_first
make_refusal = _TENSORFLOW.make_refusal

"""Looking for a private name of TensorFlow, and what happens in a release without it."""

from __future__ import annotations

from profilerkit.backend_kit.private_names import PrivateNames

_TENSORFLOW = PrivateNames("tensorflow")
#: What is off in this release although calls go on: each report has these as notes.
lacking = _TENSORFLOW.lacking
find_first = _TENSORFLOW.find_first
make_refusal = _TENSORFLOW.make_refusal

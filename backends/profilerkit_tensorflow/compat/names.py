"""How a private name of TensorFlow is looked for, and what happens in a release that has none of that name."""

from __future__ import annotations

from profilerkit.backend_kit.private_names import PrivateNames

_TENSORFLOW = PrivateNames("tensorflow")
#: What is off in this release although calls go on: each report has these as notes.
lacking = _TENSORFLOW.lacking
find_first = _TENSORFLOW.find_first
make_refusal = _TENSORFLOW.make_refusal

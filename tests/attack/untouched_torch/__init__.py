"""A fingerprint of a model and of the process around it, taken before and after every call, with every fault.

``subjects.py`` and ``models_*.py`` have the models, ``calls.py`` what is done with them, ``faults.py`` what goes wrong
meanwhile, ``contexts.py`` what the caller is in the middle of; ``allowed.py`` is the one table of expected differences.
A case is called ``model-call-fault-context``; ``PROFILERKIT_ATTACK=whole pytest tests/attack -k CASE`` runs it alone.
"""

import os

# torch.compile's pool of workers starts and stops in threads of its own: their pipes would come and go during a case.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

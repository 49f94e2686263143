"""The figures of ``docs/speed.rst``: a file for each table or two, measured in one run by ``benchmarks/run.py``."""

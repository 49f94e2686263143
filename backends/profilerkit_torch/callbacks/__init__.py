"""`watch` as callbacks of trainers for PyTorch; each module imports the framework that it is for."""

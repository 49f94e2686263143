"""From what a user names to a loaded model: files, names in Python code, and the backend that it is for."""

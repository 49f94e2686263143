"""The rules of arguments: which values each may have, and how they are read."""

"""What the library uses of Python and of the process: locks, files, output, and settings that it restores."""

"""What the library needs of Python and of the process around it: locks, files, output, and what it hands back."""

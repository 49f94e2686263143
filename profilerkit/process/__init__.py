"""Access to Python and the process: locks, files, output, and process settings that are restored."""

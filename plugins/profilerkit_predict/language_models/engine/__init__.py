"""The cost of a language model in a serving engine: its steps, its memory, and the bounds of its times."""

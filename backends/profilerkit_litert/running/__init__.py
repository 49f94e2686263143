"""Runs by the interpreter of LiteRT."""

"""Seconds of each operator in each layer."""

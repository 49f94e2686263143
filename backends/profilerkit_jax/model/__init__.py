"""The kinds of models: functions with their parameters, and the modules of Flax and Equinox; layers and weights."""

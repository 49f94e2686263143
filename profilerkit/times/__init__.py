"""Time: how it is measured, of a model, of its layers, of its operators and of training steps."""

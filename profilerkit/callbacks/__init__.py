"""`watch` as callbacks of training frameworks: what they have in common, and Keras'; the others lie in their backends."""

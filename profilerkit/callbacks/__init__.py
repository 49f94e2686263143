"""`watch` as callbacks of training frameworks: what they share, and Keras'; the others are in their backends."""

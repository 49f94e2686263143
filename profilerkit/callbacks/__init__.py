"""`watch` as callbacks of training frameworks: their common base, and Keras'; the others are in their backends."""

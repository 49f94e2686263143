"""From a user's text or object to a loaded model: files, names in Python code, and the backend of the model."""

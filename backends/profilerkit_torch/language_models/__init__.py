"""Language models of transformers: prefill and decode through the model's own cache, and real generation."""

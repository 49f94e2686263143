"""The reports of language models: their data, and these as text, JSON, page and figures."""

"""Folders of models as Hugging Face's transformers keeps them: configuration, weights, and what becomes a file of each."""

"""Documents: characters, tokens and terms, and the vectorizers that count them."""

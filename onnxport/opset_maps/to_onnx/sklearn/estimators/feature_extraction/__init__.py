"""sklearn.feature_extraction, but for text."""

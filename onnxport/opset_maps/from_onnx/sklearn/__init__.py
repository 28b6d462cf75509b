"""Graphs back to scikit-learn's own estimators."""

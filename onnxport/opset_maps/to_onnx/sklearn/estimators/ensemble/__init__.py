"""sklearn.ensemble, but for forests."""

"""sklearn.preprocessing."""

"""sklearn.ensemble and sklearn.tree."""

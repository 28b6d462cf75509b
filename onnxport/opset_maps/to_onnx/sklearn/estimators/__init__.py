"""Estimators, by the names of scikit-learn's own modules, and packages that extend it."""

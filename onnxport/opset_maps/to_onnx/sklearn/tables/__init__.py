"""What an estimator is given: matrices, named columns and data frames, and which of them scikit-learn keeps sparse."""

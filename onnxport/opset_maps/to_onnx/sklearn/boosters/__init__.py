"""Gradient boosting libraries: XGBoost, LightGBM and CatBoost."""

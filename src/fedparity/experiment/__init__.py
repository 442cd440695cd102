"""Whole experiments: comparisons, logs, results."""

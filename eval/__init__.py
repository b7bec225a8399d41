"""Evaluation: suites that score the pipeline, and their reports."""

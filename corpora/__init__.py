"""The sample clinic: an illustrative corpus for tests and evaluation, not for clinical use."""

from pathlib import Path

CLINIC = Path(__file__).parent / "clinic"

"""The samples: an illustrative clinic and three records that are notes alone, for tests and evaluation, not for clinical use."""

from pathlib import Path

CLINIC = Path(__file__).parent / "clinic"
NOTES = Path(__file__).parent / "notes"

"""A home with the whole shared part of the clinic and one patient, indexed without a model's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from ragq.corpora import CLINIC
from ragq.index.add import add
from ragq.index.embed import Offsets, Vectors


class FlatEmbedder:
    """The same vector for every text: enough where only the words of the documents matter, and a minute faster."""

    name = "minilm-l6"
    dimension = 384

    def encode(self, texts: Sequence[str]) -> Vectors:
        return np.full((len(texts), self.dimension), self.dimension**-0.5, dtype=np.float32)


@pytest.fixture(scope="session")
def gold_home(models_dir: Path, offsets: Offsets, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared documents and patients 42 and 51 (Spanish). Read it; change nothing."""
    home = tmp_path_factory.mktemp("gold")
    (home / "models").symlink_to(models_dir)
    add(home / "index", "shared:default", CLINIC / "shared", FlatEmbedder(), offsets)
    for patient in ("42", "51"):
        add(home / "index", f"patient:{patient}", CLINIC / "patients" / patient, FlatEmbedder(), offsets)
    return home

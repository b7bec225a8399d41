"""Real models and a real, small home for every test that needs one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from ragq.corpora import CLINIC
from ragq.engine.models import find, installed, model_path, pull
from ragq.index.add import add
from ragq.index.embed import Embedder, LazyEmbedder, Offsets, open_embedder, token_offsets

TEST_MODELS = ("smollm2-135m", "minilm-l6", "minilm-l6-int8")
# 42 takes apixaban, 1 warfarin, 10 no anticoagulant.
PATIENTS = ("42", "1", "10")
# Of the shared documents those that bear on these patients: all of them would take a minute to embed.
SHARED = (
    *(
        f"monographs/{drug}.md"
        for drug in (
            "amiodarone", "apixaban", "aspirin", "clarithromycin", "digoxin", "ibuprofen", "lisinopril", "metformin",
            "ramipril", "rivaroxaban", "simvastatin", "warfarin",
        )
    ),
    "guidelines/stroke-prevention-in-atrial-fibrillation.md",
    "guidelines/warfarin-and-high-inr.md",
)  # fmt: skip

# What the person who runs the tests has set must not reach them.
_GIVEN_HOME = os.environ.get("RAGQ_HOME")
for _name in [n for n in os.environ if n.startswith(("RAGQ_", "HF_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_"))]:
    if _name not in ("RAGQ_SLOW", "RAGQ_HOME", "RAGQ_DATA"):
        del os.environ[_name]
for _name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
    os.environ.pop(_name, None)
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

Ragq = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with the three small models and no other; they are brought into the repository's .ragq if need be."""
    own = Path(__file__).parent.parent / ".ragq" / "models"
    places = [Path(_GIVEN_HOME) / "models"] if _GIVEN_HOME else []
    place = next((p for p in (*places, own) if all(installed(find(n), p) for n in TEST_MODELS)), None)
    if place is None:
        place = own
        for name in TEST_MODELS:
            pull(name, own)
    only = tmp_path_factory.mktemp("home") / "models"
    only.mkdir()
    for name in TEST_MODELS:
        path = model_path(name, place).absolute()
        (only / path.relative_to(place.absolute())).symlink_to(path)
    return only


@pytest.fixture(scope="session")
def light_embedder(models_dir: Path) -> Embedder:
    """The torch-free form of the default embedder under the name of the default one."""
    return LazyEmbedder("minilm-l6", lambda: open_embedder(model_path("minilm-l6-int8", models_dir), "minilm-l6"))


@pytest.fixture(scope="session")
def offsets(models_dir: Path) -> Offsets:
    """Token spans of the default embedder's tokenizer."""
    return token_offsets(model_path("minilm-l6", models_dir))


@pytest.fixture(scope="session")
def clinic_home(
    models_dir: Path, light_embedder: Embedder, offsets: Offsets, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A home with patients 42, 1 and 10 and the shared documents that bear on them. Read it; change a copy."""
    home = _new_home(tmp_path_factory.mktemp("clinic"), models_dir)
    shared = tmp_path_factory.mktemp("shared")
    for name in SHARED:
        (shared / name).parent.mkdir(exist_ok=True)
        shutil.copy(CLINIC / "shared" / name, shared / name)
    add(home / "index", "shared:default", shared, light_embedder, offsets)
    for patient in PATIENTS:
        add(home / "index", f"patient:{patient}", CLINIC / "patients" / patient, light_embedder, offsets)
    return home


@pytest.fixture(scope="session")
def home_of(
    models_dir: Path, light_embedder: Embedder, offsets: Offsets, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Sequence[str], Mapping[str, str]], Path]:
    """Make a home: `home_of(pages, notes)`, of shared pages of the clinic and of patients with one visit note each."""

    def make(pages: Sequence[str], notes: Mapping[str, str]) -> Path:
        home = _new_home(tmp_path_factory.mktemp("made"), models_dir)
        for page in pages:
            add(home / "index", "shared:default", CLINIC / "shared" / page, light_embedder, offsets)
        for patient, text in notes.items():
            note = home / "notes" / patient / "2024-05-02.md"
            note.parent.mkdir(parents=True)
            note.write_text(f"# Visit 2024-05-02\n\n{text}\n", encoding="utf-8")
            add(home / "index", f"patient:{patient}", note.parent, light_embedder, offsets)
        return home

    return make


@pytest.fixture
def copied_home(clinic_home: Path, tmp_path: Path) -> Path:
    """A copy of `clinic_home` that a test may change."""
    return Path(shutil.copytree(clinic_home, tmp_path / "home", symlinks=True))


@pytest.fixture
def empty_home(models_dir: Path, tmp_path: Path) -> Path:
    """A home with models and nothing else."""
    return _new_home(tmp_path / "home", models_dir)


@pytest.fixture(scope="session")
def environment() -> Callable[..., dict[str, str]]:
    """The environment of a ragq process: `environment(home, RAGQ_MODEL="…")`."""
    return _environment


@pytest.fixture(scope="session")
def ragq() -> Ragq:
    """Run the command line in its own process: `ragq(home, "ask", …, RAGQ_MODEL="…")`."""

    def run(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ragq", *arguments]
        return subprocess.run(
            command, env=_environment(home, **variables), capture_output=True, text=True, check=False, timeout=300
        )

    return run


def _environment(home: Path, **variables: str) -> dict[str, str]:
    """The environment of a ragq process with this home."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAGQ_")}
    return {**kept, "RAGQ_HOME": str(home), "NO_COLOR": "1", **variables}


def _new_home(home: Path, models_dir: Path) -> Path:
    """An empty private home with the models linked in."""
    home.mkdir(mode=0o700, exist_ok=True)
    home.chmod(stat.S_IRWXU)
    (home / "models").symlink_to(models_dir)
    return home

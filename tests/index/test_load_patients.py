"""Every file of a folder of public patient records loads, or is refused with a reason."""

import os
from pathlib import Path

import pytest
from ragq.errors import LoadError
from ragq.index.load import load

DATA = Path(os.environ.get("RAGQ_DATA", Path(__file__).parents[3] / "shared" / "data")) / "patients"


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no records at {DATA}; set RAGQ_DATA to the folder that holds patients/")
def test_every_record_loads_or_is_refused_with_a_reason():
    files = sorted(path for path in DATA.rglob("*") if path.is_file())
    for path in files:
        try:
            (document,) = load(path, path.relative_to(DATA).as_posix())
        except LoadError as error:
            assert error.reason, path
            assert path.name.startswith("LICENSE"), f"{path.name}: {error.reason}"
            continue
        assert document.text.strip(), path
        for fact in document.facts:
            line = document.text[fact.start : fact.end]
            (section,) = [s for s in document.sections if s.start <= fact.start and fact.end <= s.end]
            assert "\n" not in line, path
            assert line, path
            if fact.kind == "medication":
                assert (section.heading == ("Active medications",)) == (fact.status == "active"), path

import json
import random
import sys
from pathlib import Path

import pytest
from ragq.errors import ModelError
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon

pytest.importorskip("llmlingua")
from ragq.compress.lingua import Lingua

sys.path.insert(0, str(Path(__file__).parent))
from tiny_lingua import CONTEXTS, QUESTION, RUNS, causal, classifier

REFERENCE = json.loads((Path(__file__).parent / "lingua_reference.json").read_text())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Lingua(causal(tmp_path_factory.mktemp("causal")))


@pytest.fixture(scope="module")
def second(tmp_path_factory, models_dir):
    return Lingua(classifier(tmp_path_factory.mktemp("classifier"), models_dir / "minilm-l6" / "tokenizer.json"))


def hits():
    return [Hit(Chunk(f"{i}.md", 1, text, 0, len(text), 50), 1.0) for i, text in enumerate(CONTEXTS)]


@pytest.mark.parametrize(("name", "asked", "rate", "options"), RUNS)
def test_the_output_is_that_of_the_unpatched_package_on_the_old_stack(tiny, name, asked, rate, options):
    assert tiny.prompt(CONTEXTS, QUESTION if asked else "", rate, **options) == REFERENCE["tiny"][name]


def test_so_is_that_of_the_classifier(second):
    assert second.prompt(CONTEXTS, rate=0.5) == REFERENCE["classifier"]


def test_no_seed_of_the_process_is_set(tmp_path, models_dir):
    import torch

    def states():
        return random.getstate(), torch.random.get_rng_state().tolist()

    before = states()
    model = classifier(tmp_path, models_dir / "minilm-l6" / "tokenizer.json")
    random.seed(5)
    torch.manual_seed(5)
    before = states()
    Lingua(model)
    assert states() == before


@pytest.mark.parametrize("which", ["tiny", "second"])
def test_a_sentence_that_keeps_anything_keeps_its_protected_spans_and_whole_words(which, request):
    kept = request.getfixturevalue(which).compress(hits(), QUESTION, Lexicon(), 0.3)
    assert kept
    for excerpt in kept:
        assert excerpt.quote in excerpt.hit.chunk.text
        assert {w.strip(".,") for w in excerpt.text.split()} <= {w.strip(".,") for w in excerpt.quote.split()}
    left, source = " ".join(e.text for e in kept), " ".join(e.quote for e in kept)
    spans = ("Apixaban 5 mg twice daily", "No bleeding since then.", "Metformin 500 mg twice daily", "112 umol/L on")
    there = [s for s in spans if s in source]
    assert there
    assert all(s in left for s in there)


def test_a_folder_without_a_model_is_told(tmp_path):
    with pytest.raises(ModelError, match="expected the folder of a causal model"):
        Lingua(tmp_path)

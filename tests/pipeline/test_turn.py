"""An opened Ragq goes on with other settings and keeps what is loaded, where that still fits."""

from pathlib import Path

import pytest
from ragq import Ragq
from ragq.errors import MissingError, ModelError
from ragq.eval.tiny_model import MODELS, tiny_adapter


def test_the_model_stays_loaded_and_adapters_are_exchanged_over_it(empty_home: Path, tmp_path: Path) -> None:
    model = MODELS["llama"](tmp_path / "llama.gguf")
    adapter = str(tiny_adapter(tmp_path / "a.gguf"))
    with Ragq.open(empty_home, model=str(model), n_ctx=512, threads=1) as rag:
        engine, first = rag.engine(), rag.settings
        plain = engine.shape()["adapters"]
        assert rag.turn_to(first.model_copy(update={"mode": "strict", "top_k": 3}))
        assert rag.settings.mode == "strict"
        assert rag.turn_to(first.model_copy(update={"adapter": (adapter + ":0.5",)}))
        assert rag.engine() is engine
        assert [a.scale for a in engine.options.adapters] == [0.5]
        assert engine.shape()["adapters"] != plain
        with pytest.raises(MissingError, match="no such file"):
            rag.turn_to(first.model_copy(update={"adapter": ("nowhere",)}))
        with pytest.raises(ModelError, match="no LoRA adapter"):
            rag.turn_to(first.model_copy(update={"adapter": (str(model),)}))
        assert rag.settings.adapter == (adapter + ":0.5",)
        assert rag.turn_to(first)
        assert engine.shape()["adapters"] == plain


def test_what_needs_another_model_or_window_is_opened_anew(empty_home: Path) -> None:
    with Ragq.open(empty_home, model="smollm2-135m") as rag:
        before = rag.settings
        for change in ({"model": "qwen2.5-coder-0.5b"}, {"n_ctx": 1024}, {"kv_type": "q8_0"}, {"threads": 1}):
            assert not rag.turn_to(before.model_copy(update=change))
        assert rag.settings == before

"""LongLLMLingua offline and with today's transformers: llmlingua 0.2.2 expects the KV caches of an older version and
downloads a tokenizer and a sentence splitter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class OldCaches:
    """A causal language model whose KV caches go in and out as lists of (key, value), as llmlingua wants them."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - a transformers model
        self._model = model

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._model, name)

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Sequence[tuple[Tensor, Tensor]] | None = None,
        **_: object,
    ) -> SimpleNamespace:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past_key_values or ()):
            cache.update(keys, values, layer)
        made = self._model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        kept = [(layer.keys, layer.values) for layer in made.past_key_values.layers]
        return SimpleNamespace(logits=made.logits, past_key_values=kept)


def sentences(text: str, language: str = "english") -> list[str]:
    """A plain splitter in the place of nltk's."""
    return [s for s in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(\[])", text) if s] or [text]


def longllmlingua(gguf: Path, options: dict[str, Any]) -> Any:  # noqa: ANN401 - LlamaIndex's postprocessor
    """LlamaIndex's postprocessor over a small model in a GGUF, which is turned into a transformers folder beside it."""
    import tiktoken
    from llama_index.postprocessor.longllmlingua import LongLLMLinguaPostprocessor
    from llmlingua import prompt_compressor
    from transformers import AutoTokenizer

    folder = as_transformers(gguf)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    class Encoding:
        def encode(self, text: str, **_: Any) -> list[int]:  # noqa: ANN401
            return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    tiktoken.encoding_for_model = lambda _name: Encoding()
    prompt_compressor.nltk.sent_tokenize = sentences
    made = LongLLMLinguaPostprocessor(
        model_name=str(folder), device_map="cpu", target_token=300, additional_compress_kwargs=options
    )
    made._llm_lingua.model = OldCaches(made._llm_lingua.model)
    return made


def as_transformers(gguf: Path) -> Path:
    """The folder of the same weights for transformers, made once."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = gguf.with_suffix("")
    if not (folder / "config.json").is_file():
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer = None
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    return folder

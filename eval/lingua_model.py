"""Lingua model: the weights of a GGUF as a transformers folder, so that llmlingua weighs words with the same model."""

from __future__ import annotations

from pathlib import Path

from ragq.engine.gguf import read_gguf


def as_transformers(gguf: Path, folder: Path) -> Path:
    """Write the folder (float32) unless it is there. Needs the packages `gguf` and `accelerate`.

    A GGUF without an output matrix shares that of the embeddings; transformers would draw one at random.
    """
    if (folder / "config.json").is_file():
        return folder
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if all(t.name != "output.weight" for t in read_gguf(gguf).tensors):
        model.config.tie_word_embeddings = True
        model.lm_head.weight = model.model.embed_tokens.weight
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder

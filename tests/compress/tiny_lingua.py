"""Tiny models for llmlingua with weights from numpy's generator, the same under every version of transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CONTEXTS = [
    "Apixaban 5 mg twice daily was started on 2024-03-15. The patient walks well and sleeps well. No bleeding since then.",
    "The garden is in bloom. Metformin 500 mg twice daily continues. Her mother had warfarin for many years.",
    "Creatinine was 112 umol/L on 2025-01-20 and 98 umol/L a year before. She denies chest pain.",
]
QUESTION = "When was apixaban started?"
# Name, whether the question is given, the rate, and options of the package.
RUNS = (
    ("lingua", False, 0.5, {}),
    ("lingua sentences", False, 0.4, {"use_sentence_level_filter": True}),
    ("long", True, 0.5, {}),
    ("long tight", True, 0.25, {"iterative_size": 60}),
)


def causal(folder: Path) -> Path:
    """A Llama of two layers over bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate(["<|end|>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", bos_token="<|end|>")
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return _saved(LlamaForCausalLM(config), fast, folder)


def classifier(folder: Path, vocabulary: Path) -> Path:
    """A BERT of two layers that labels the word pieces of `vocabulary` (a tokenizer.json); the package takes it by name."""
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_file=str(vocabulary), cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]",
        mask_token="[MASK]",
    )  # fmt: skip
    config = BertConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, num_labels=2, pad_token_id=fast.pad_token_id,
    )  # fmt: skip
    return _saved(BertForTokenClassification(config), fast, folder / "bert-base-multilingual-cased-tiny")


def _saved(model, tokenizer, folder):
    import torch

    random = np.random.default_rng(7)
    with torch.no_grad():
        for _, value in sorted(model.named_parameters()):
            drawn = random.normal(0, 1 if value.ndim == 1 else 0.7 / np.sqrt(value.shape[-1]) * 4, value.shape)
            value.copy_(torch.tensor(drawn, dtype=torch.float32))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder

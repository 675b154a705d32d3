"""The processes of the loaders: started with the packages they need, asked with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.peer_loaders import Setting

ROOT = Path(__file__).resolve().parent.parent
READY_S = 120.0
"""Seconds to import a library and start the device while all others do the same."""
TIMES, LEAST_S = 3.0, 20.0
"""Once others are ready, a process has so many times their seconds, and so many at least."""
LOAD_S, SLOWEST = 20.0, 0.4e9
"""Seconds that a load may take, and beside them its bytes at this rate, below that of any disk."""
END_S = 10.0
"""Seconds to leave after the end of the input."""
SILENT = "no answer in"
SIGNAL = "was ended by signal"
SAID = 4096
"""Bytes of the end of what a process has said, in which its last words are looked for."""


class Child:
    """One loader's process."""

    def __init__(
        self,
        setting: Setting,
        device: str,
        site: Sequence[Path],
        python: str,
        *,
        watch: Path | None = None,
    ) -> None:
        self.version: str | None = None
        self._born = monotonic()
        self._rest = b""
        path = [*map(str, site), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        env = os.environ | setting.env | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
        script = str(ROOT / "benchmarks" / "peer_child.py")
        words = [setting.loader, setting.setting, device, *([str(watch)] if watch else [])]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [python, script, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=env,
            )
        except OSError:
            self._said.close()
            raise

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return monotonic() - self._born

    def ready(self, seconds: float = READY_S, left: float = float("inf")) -> str:
        """Wait until it can load, so many seconds from its start and at most `left` from now.

        Returns why it cannot, or nothing.
        """
        found = self._answer(max(0.0, min(seconds - self.age, left)))
        if found.get("failed", "").startswith(SILENT):
            found["failed"] = f"it was not ready {self.age:.0f} s after its start"
        self.version = found.get("version")
        return str(found.get("absent") or found.get("failed") or "")

    def load(self, path: Path, seconds: float = float("inf")) -> dict[str, Any]:
        """Load the file once, in at most `seconds`; `failed` holds the reason where it did not."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed or self._process.poll() is not None:
            return {"failed": self._ended()}
        try:
            stdin.write(json.dumps({"path": str(path)}).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return {"failed": self._ended()}
        return self._answer(min(seconds, LOAD_S + path.stat().st_size / SLOWEST))

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line of JSON, or what kept it from coming; then the process is ended."""
        line = self._line(monotonic() + seconds)
        if line is None:
            self._process.kill()
            return {"failed": f"{SILENT} {max(0.0, seconds):.0f} s"}
        if not line:
            return {"failed": self._ended()}
        found: dict[str, Any] = json.loads(line)
        return found

    def _line(self, deadline: float) -> bytes | None:
        """One line, empty at the end of the output, `None` after the deadline."""
        stdout = self._process.stdout
        if stdout is None or stdout.closed:
            return b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - monotonic())):
                    return None
                data = os.read(stdout.fileno(), 1 << 16)
                if not data:
                    return b""
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _ended(self) -> str:
        """How it ended, with its last words."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "it closed its output and stayed"
        how = f"its process {SIGNAL} {-code}" if code < 0 else f"it left with {code}"
        last = self._last_words()
        return f"{how}: {last}" if last else how

    def _last_words(self) -> str:
        """The last line of what it said."""
        if self._said.closed:
            return ""
        end = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, end - SAID))
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def dismiss(self) -> None:
        """End its input: it leaves when it is through."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # what it was last asked never left
                self._process.stdin.close()

    def close(self, seconds: float = END_S) -> None:
        """End it: by the end of its input, else after so many seconds by force."""
        self.dismiss()
        try:
            self._process.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the driver may hold it
                self._process.wait(timeout=END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._said.close()


class Nobody:
    """In the place of a process that could not load before: it is not started again."""

    version: str | None = None

    def dismiss(self) -> None:
        """There is nothing to end."""

    def close(self, _seconds: float = 0.0) -> None:
        """There is nothing to end."""


def all_ready(children: Sequence[Child], left: Callable[[], float]) -> list[str]:
    """Wait for processes that were started together; for each why it cannot load, or nothing.

    Whoever is much later than the others hangs. `left` gives the seconds that there are for all.
    """
    reasons, limit = [], READY_S
    for child in children:
        reasons.append(child.ready(limit, max(0.0, left())))
        if not reasons[-1]:
            limit = min(READY_S, max(TIMES * child.age, LEAST_S))
    return reasons


def close_all(children: Iterable[Child | Nobody]) -> None:
    """End all together: each has the same few seconds to leave."""
    there = list(children)
    for child in there:
        child.dismiss()
    deadline = monotonic() + END_S
    for child in there:
        child.close(deadline - monotonic())


def unpack(wheels: Iterable[Path], folder: Path) -> None:
    """Lay wheels out as a folder of packages; their libraries find each other beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                # `NAME.data/purelib/...` belongs at the top, as an installer puts it.
                parts = Path(member.filename).parts
                data = len(parts) > 2 and parts[0].endswith(".data")
                if member.is_dir() or (data and parts[1] not in ("purelib", "platlib")):
                    continue
                member.filename = str(Path(*parts[2:] if data else parts))
                archive.extract(member, folder)

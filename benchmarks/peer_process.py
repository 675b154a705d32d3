"""The processes of the loaders: started with the packages they need, asked with a time limit."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.peer_loaders import Setting

ROOT = Path(__file__).resolve().parent.parent
READY_S = 180.0
"""Seconds to import a library and start the device while all others do the same."""
LOAD_S, SLOWEST = 60.0, 0.15e9
"""Seconds that a load may take, and beside them its bytes at this rate."""


class Child:
    """One loader's process."""

    def __init__(
        self, setting: Setting, device: str, site: Sequence[Path], python: str, size: int
    ) -> None:
        self.version: str | None = None
        self._limit = LOAD_S + size / SLOWEST
        self._rest = b""
        path = [*map(str, site), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        env = os.environ | setting.env | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [
                python,
                str(ROOT / "benchmarks" / "peer_child.py"),
                setting.loader,
                setting.setting,
                device,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )

    def ready(self) -> str:
        """Wait until it can load; returns why it cannot, or nothing."""
        found = self._answer(READY_S)
        self.version = found.get("version")
        return str(found.get("absent") or found.get("failed") or "")

    def load(self, path: Path, *, watch: bool) -> dict[str, Any]:
        """Load the file once; `failed` holds the reason where it did not."""
        stdin = self._process.stdin
        if stdin is None or self._process.poll() is not None:
            return {"failed": self._ended()}
        try:
            stdin.write(json.dumps({"path": str(path), "watch": watch}).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return {"failed": self._ended()}
        return self._answer(self._limit)

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line of JSON, or what kept it from coming; then the process is ended."""
        line = self._line(monotonic() + seconds)
        if line is None:
            self._process.kill()
            return {"failed": f"no answer in {seconds:.0f} s"}
        if not line:
            return {"failed": self._ended()}
        found: dict[str, Any] = json.loads(line)
        return found

    def _line(self, deadline: float) -> bytes | None:
        """One line, empty at the end of the output, `None` after the deadline."""
        stdout = self._process.stdout
        if stdout is None:
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
        code = self._process.wait()
        return f"its process was ended by signal {-code}" if code < 0 else f"it left with {code}"

    def close(self) -> None:
        """End it: by the end of its input, else by force."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


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

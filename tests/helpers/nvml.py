"""A driver's management library that says what a test wants: GPUs, their NVLinks, their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class FakeError(Exception):
    """The library's own error."""


@dataclass
class FakeNvml:
    """As many GPUs as `buses`; functions that are not given refuse, as an old driver does.

    `answers` holds for each function a value, or one for each GPU by its index. `ends` are for each
    GPU where its NVLinks lead: the index of a GPU, `switch`, an address, `None` for a hidden end.
    """

    NVMLError = FakeError
    buses: Sequence[str] = ("00000000:0A:00.0", "00000000:0B:00.0")
    answers: Mapping[str, Any] = field(default_factory=dict)
    ends: Sequence[Sequence[int | str | None]] | None = None
    peer: int | None = 0
    by_nvlink: int | None = 0
    level: int | None = 50
    loaded: bool = True
    is_open: bool = False

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        if not self.loaded:
            raise FakeError("Driver Not Loaded")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVML_"):
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> Any:
        found = self._known(name, *arguments)
        if found is None:
            raise FakeError("Not Supported")
        return found

    def _known(self, name: str, *arguments: Any) -> Any:
        if "NvLink" in name:
            return self._link(name, *arguments)
        if name in self.answers:
            answer = self.answers[name]
            return answer.get(arguments[0]) if isinstance(answer, Mapping) else answer
        usual: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetCount": lambda: len(self.buses),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=self.buses[gpu].encode()),
            "nvmlDeviceGetP2PStatus": lambda *of: self.by_nvlink if of[2] == 2 else self.peer,
            "nvmlDeviceGetTopologyCommonAncestor": lambda *_two: self.level,
        }
        return usual[name](*arguments) if name in usual else None

    def _link(self, name: str, gpu: int, link: int) -> Any:
        if self.ends is None:
            return None
        ends = self.ends[gpu]
        if name == "nvmlDeviceGetNvLinkState":
            return int(link < len(ends))
        end = ends[link]
        if name == "nvmlDeviceGetNvLinkRemoteDeviceType":
            return 2 if end == "switch" else 0 if isinstance(end, int) else None
        if name == "nvmlDeviceGetNvLinkRemotePciInfo" and end is not None:
            return SimpleNamespace(busId=self.buses[end] if isinstance(end, int) else end)
        return None

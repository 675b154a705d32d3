"""All tensors of a load as PyTorch's; numpy stands in for PyTorch where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import planner
from planner.engine.serving.dlpack import NAMES
from planner.errors import UnavailableError
from tests.helpers.weights import write_weights


class Array:
    """As much of a `torch.Tensor` as is needed, over an array of numpy's."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getitem__(self, part: slice) -> Array:
        return Array(self.held[part])

    def view(self, to: Any) -> Array:
        """With another dtype, or another shape."""
        return Array(self.held.reshape(to) if isinstance(to, tuple) else self.held.view(to))

    def clone(self) -> Array:
        """A copy."""
        return Array(self.held.copy())


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in; it has no float8."""
    found: Any = ModuleType("torch")
    found.__version__ = "0.0"
    found.from_dlpack = lambda tensor: Array(np.from_dlpack(tensor))
    for name in NAMES.values():
        if not name.startswith(("float8", "bfloat")):
            setattr(found, name, np.dtype(name))
    monkeypatch.setitem(sys.modules, "torch", found)


WANTED = [
    ("a", "F32", (3, 5)),
    ("b", "U8", (7,)),  # what follows is not where a float may lie
    ("c", "F32", (2, 2)),
    ("d", "BOOL", (9,)),
    ("e", "F64", ()),
    ("f", "I16", (0, 4)),
]


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_every_tensor_is_there_with_its_bytes(tmp_path: Path, device: str) -> None:
    held = write_weights(tmp_path / "m.safetensors", WANTED)
    held |= write_weights(tmp_path / "n.safetensors", [("z", "I32", (4,))])
    with planner.Loader(backend="host") as pool:
        loaded = pool.load(sorted(tmp_path.iterdir()), device)
        found = loaded.torch()
        assert list(found) == list(loaded)
        for name, dtype, shape in [*WANTED, ("z", "I32", (4,))]:
            assert str(found[name].held.dtype) == np.dtype(NAMES[dtype]).name
            assert found[name].held.shape == shape
            assert found[name].held.tobytes() == held[name].tobytes()
        # Views of the load's own memory, but for the one that lies between two floats.
        assert found["a"].held.ctypes.data == loaded["a"].data_ptr
        assert found["z"].held.ctypes.data == loaded["z"].data_ptr
        # The bytes live as long as any of them.
        last = found["z"]
        del found, loaded
        assert last.held.tobytes() == held["z"].tobytes()
        del last


def test_what_pytorch_lacks_is_told_with_its_name(tmp_path: Path) -> None:
    write_weights(tmp_path / "m.safetensors", [("scale", "F8_E4M3", (4,))])
    with planner.Loader(backend="host") as pool:
        loaded = pool.load(tmp_path / "m.safetensors", "cpu")
        with pytest.raises(UnavailableError, match=r"PyTorch 0\.0 has no F8_E4M3, which scale is"):
            loaded.torch()


def test_without_pytorch_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_weights(tmp_path / "m.safetensors", [("a", "U8", (4,))])
    monkeypatch.setitem(sys.modules, "torch", None)
    with planner.Loader(backend="host") as pool:
        loaded = pool.load(tmp_path / "m.safetensors", "cpu")
        with pytest.raises(UnavailableError, match="PyTorch is not installed"):
            loaded.torch()

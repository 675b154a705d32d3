"""Several benchmarks one after another on a machine with GPUs, in a given time.

    python benchmarks/session.py choice --results FOLDER [--seconds 560] [--wheels FOLDER]
                                        [--machine FILE]

A session is a list of steps (`SESSIONS`); each is one program with its own share of the time that
is left, told to it where it takes a budget. A step that outlives its share is asked to end
(SIGTERM: it keeps what it has measured), and the next one begins; one for which too little is left
is skipped, and said so. With `--machine` the calibration is kept there, and a later session on the
same computer does without its own (`PLANNER_CACHE_DIR` must then be the same, too). What a step
prints goes to `FOLDER/NAME.log` too, and its last lines to the terminal. Ends with 1 if a step
failed, was ended or was skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.record import Clock
from planner.machine.made import FULL, QUICK

ROOT: Final = Path(__file__).resolve().parent.parent
GRACE_S: Final = 20.0
"""Seconds in which a step that is asked to end may still write down what it has."""
SHOWN: Final = 25
"""Last lines of a step that are shown."""


@dataclass(frozen=True)
class Step:
    """One program: `words` as on a command line, with `{results}`, `{machine}`, `{wheels}`.

    `most` are the seconds that it gets at most, `least` those below which it is not begun. `budget`
    names the option that takes its seconds; `None` for a program that ends by itself.
    """

    name: str
    words: str
    most: float
    least: float = 20.0
    budget: str | None = "--budget"


CALIBRATE: Final = Step("calibrate", f"{FULL} -v -o {{machine}}", 190, 150, None)
QUICKLY: Final = Step("calibrate", f"{QUICK} -v -o {{machine}}", 40, 10, None)
CALIBRATIONS: Final = (CALIBRATE, QUICKLY)
MEASURED: Final = f"by: {QUICK}"
"""What a machine file says of any calibration."""
FULLY: Final = f"by: {FULL}"
"""What it says of a full one."""
CACHE: Final = "PLANNER_CACHE_DIR"
_PYTEST: Final = "pytest -v --tb=short -m gpu tests/gpu -p no:cacheprovider -p no:randomly"
TESTS: Final = Step("tests", _PYTEST, 520, 60, None)
_FULL: Final = "test_a_full_calibration_has_every_curve_and_takes_less_than_three_minutes"
OTHER_TESTS: Final = Step(
    "tests",
    f"{_PYTEST} --deselect tests/gpu/test_calibrate_gpu.py::{_FULL}",
    400,
    60,
    None,
)
"""All but the one that calibrates fully, which takes half of the time: the session has done so."""


def _bench(name: str, program: str, words: str, most: float, least: float = 30.0) -> Step:
    budget, out = ("--seconds", "-o") if program == "load_speed" else ("--budget", "--out")
    line = f"benchmarks/{program}.py {words} {out} {{results}}/{name}.json"
    return Step(name, line, most, least, None if program == "spine" else budget)


SESSIONS: Final[dict[str, tuple[Step, ...]]] = {
    "accuracy": (CALIBRATE, _bench("accuracy", "accuracy", "--machine {machine}", 420, 120)),
    "calibrate": (CALIBRATE,),
    "choice": (CALIBRATE, _bench("choice", "choice", "--machine {machine}", 420, 120)),
    "load": (
        QUICKLY,
        _bench("load_speed", "load_speed", "--sizes 8GB,100k,memory:8GB,cold --rounds 5", 110),
        _bench("load_speed-32", "load_speed", "--sizes 32GB,memory:32GB --rounds 5", 130),
        _bench("load_speed-two-cores", "load_speed", "--sizes 8GB --cores 2 --rounds 5", 50),
        _bench("registering", "registering", "", 60),
        _bench("cold_reads", "cold_reads", "--machine {machine}", 90),
    ),
    "peers": (
        QUICKLY,
        _bench("peers", "peers", "--wheels {wheels} --settings best --sizes 8GB,1GB", 300, 100),
        _bench("peers-100k", "peers", "--wheels {wheels} --settings best --sizes 100k", 120, 60),
    ),
    "peers-large": (
        QUICKLY,
        _bench(
            "peers-large", "peers", "--wheels {wheels} --settings best --sizes 7b,32GB", 520, 200
        ),
    ),
    "smoke": (TESTS, *(_bench(f"spine-{k}", "spine", "--size 8GB", 60) for k in (1, 2, 3))),
    "speed": (
        CALIBRATE,
        _bench("load_speed", "load_speed", "--sizes 8GB,100k,memory:8GB --rounds 4", 90),
        _bench("choice", "choice", "--machine {machine}", 420, 120),
    ),
    "tests": (TESTS,),
    "two": (
        CALIBRATE,
        _bench("two_gpus", "two_gpus", "--size 4GB --samples 5", 110, 90),
        _bench("accuracy", "accuracy", "--machine {machine} --several-gpus", 100, 60),
        OTHER_TESTS,
    ),
}


class Session:
    """Runs steps within the clock's time, and keeps what they print below `results`."""

    def __init__(self, results: Path, clock: Clock, wheels: Path | None, machine: Path) -> None:
        self.results, self.clock = results, clock
        self._machine = machine
        self._places = {"results": results, "machine": machine, "wheels": wheels}

    def run(self, step: Step) -> str:
        """One step; what became of it: "done", or why not."""
        if step in CALIBRATIONS and self._kept(full=step == CALIBRATE):
            return "done before"
        if "{wheels}" in step.words and self._places["wheels"] is None:
            return "skipped: it needs --wheels"
        seconds = min(step.most, self.clock.left())
        if seconds < step.least:
            return f"skipped: {max(0.0, seconds):.0f} s left, it takes {step.least:.0f}"
        words = [word.format_map(self._places) for word in step.words.split()]
        if step.budget is not None:
            words += [step.budget, f"{max(1.0, seconds - GRACE_S / 2):.0f}"]
        begun = time.perf_counter()
        code, late = _watched(_command(words), self.results / f"{step.name}.log", seconds)
        if late:
            return f"ended after {seconds:.0f} s"
        return "done" if code == 0 else f"failed with {code} ({time.perf_counter() - begun:.0f} s)"

    def _kept(self, *, full: bool) -> bool:
        """Whether there is a calibration already, one as good as the step would make."""
        if not self._machine.exists():
            return False
        by = FULLY if full else MEASURED
        return by in self._machine.read_text(encoding="utf-8")


def _command(words: Sequence[str]) -> list[str]:
    """How this interpreter runs a program of the project, or a module that has a command line."""
    first, *others = words
    if first.endswith(".py"):
        return [sys.executable, first, *others]
    return [sys.executable, "-m", first, *others]


def _watched(command: Sequence[str], log: Path, seconds: float) -> tuple[int, bool]:
    """Exit code of a program, and whether it was asked to end after so many seconds."""
    last: deque[str] = deque(maxlen=SHOWN)
    asked: list[int] = []
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(  # noqa: S603 - programs of this checkout
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        ) as child,
    ):

        def end(with_signal: signal.Signals) -> None:
            asked.append(with_signal)
            child.send_signal(with_signal)

        timers = [
            Timer(seconds, end, [signal.SIGTERM]),
            Timer(seconds + GRACE_S, end, [signal.SIGKILL]),
        ]
        try:
            for timer in timers:
                timer.start()
            for line in child.stdout or ():
                file.write(line)
                last.append(line)
            code = child.wait()
        finally:
            for timer in timers:
                timer.cancel()
            if child.poll() is None:
                child.terminate()
    print("".join(last), end="", flush=True)
    return code, bool(asked)


def parse() -> argparse.Namespace:
    """The command line."""
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("session", choices=sorted(SESSIONS))
    parser.add_argument("--results", type=Path, required=True, help="where results and logs go")
    parser.add_argument("--seconds", type=float, default=560.0, help="in all")
    parser.add_argument("--machine", type=Path, help="the calibration, made there if none is")
    parser.add_argument("--wheels", type=Path, help="folder of the other loaders' wheels")
    return parser.parse_args()


def _refused(machine: Path | None) -> str | None:
    """Why a session cannot keep its calibration there, `None` where it can."""
    if machine is None:
        return None
    if not os.environ.get(CACHE):
        return (
            f"--machine needs {CACHE}: programs read the calibration there or from the file; "
            f"give a folder, {CACHE}=FOLDER python benchmarks/session.py ..."
        )
    if machine.exists() and MEASURED not in machine.read_text(encoding="utf-8"):
        return f"{machine} is no calibration and would be replaced; name a file that is not there"
    return None


def main() -> int:
    """Run the steps and say what became of each."""
    options = parse()
    if (wrong := _refused(options.machine)) is not None:
        print(wrong, file=sys.stderr)
        return 2
    options.results.mkdir(parents=True, exist_ok=True)
    clock, told = Clock(options.seconds), []
    with tempfile.TemporaryDirectory() as own, contextlib.ExitStack() as undo:
        if not os.environ.get(CACHE):  # no calibration of another day
            os.environ[CACHE] = own
            undo.callback(os.environ.pop, CACHE)
        machine = (options.machine or Path(own) / "machine.yaml").resolve()
        session = Session(options.results.resolve(), clock, options.wheels, machine)
        for step in SESSIONS[options.session]:
            print(f"== {step.name} ({clock.spent():.0f} s): {step.words}", flush=True)
            told.append(session.run(step))
            print(f"== {step.name}: {told[-1]}", flush=True)
    return 0 if all(what in ("done", "done before") for what in told) else 1


if __name__ == "__main__":
    sys.exit(main())

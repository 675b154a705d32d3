"""What ends a command: Ctrl-C and the requests to end, once; and who insists leaves at once.

The first of them lets the command put away what it has begun: memory that disks and GPUs still
write to must not go, and files must. One that comes meanwhile would end that halfway.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_S: Final = 2.0
"""Seconds that a command may take to end before it can be left at once: a key that is held down
repeats within them."""
INSISTS: Final = 3
"""Signals, the first one included, after which whoever sends them does not want to wait."""
_NOTE: Final = b"\nending; again, and again, leaves at once\n"


class Interrupts:
    """The signals of one command."""

    def __init__(self) -> None:
        self._count = 0
        self._first = 0.0
        self._over = False

    def over(self) -> None:
        """The command has ended: what comes now ends nothing that is not ending."""
        self._over = True

    def __call__(self, number: int, _frame: object) -> None:
        """Raise `KeyboardInterrupt` once; kill the process if somebody insists."""
        self._count += 1
        now = time.monotonic()
        if self._count == 1:
            self._first = now
            if not self._over:
                raise KeyboardInterrupt
        elif self._count >= INSISTS and now - self._first > PATIENCE_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._count == 2 and not self._over:
            os.write(2, _NOTE)


@contextmanager
def interrupts(*, for_good: bool) -> Iterator[Interrupts]:
    """Have them so within the block; with `for_good` behind it, too, where the process ends.

    A request to end cleans up as Ctrl-C does; without that scratch files would stay. What somebody
    else wants to be done at a signal stays: `nohup` and shells ignore some.
    """
    own = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield own
        return
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {one: found for one in usual if (found := signal.getsignal(one)) == usual[one]}
    for number in before:
        signal.signal(number, own)
    try:
        yield own
    finally:
        own.over()
        if not for_good:
            for number, found in before.items():
                signal.signal(number, found)

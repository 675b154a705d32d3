"""Make a virtual environment, or say plainly why this Python cannot: `make_venv.py FOLDER`.

Runs before anything is installed, by whatever `python3` is: keep it within what Python 3.6 parses.
"""

import importlib.util
import sys
import venv

OLDEST = (3, 11)


def obstacle() -> str:
    """Say why this Python cannot make the environment and what to do; empty when it can."""
    if sys.version_info[:2] < OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        return (
            f"planner needs Python 3.11 or newer; {sys.executable} is {found}.\n"
            "Name another one: make PYTHON=python3.12\n"
        )
    if importlib.util.find_spec("ensurepip") is None:
        # Debian and Ubuntu ship the venv module without what puts pip into the environment.
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        return (
            f"{sys.executable} has no ensurepip, so it cannot make a virtual environment.\n"
            f"Install it (Debian, Ubuntu: apt install {package}), or name another Python:\n"
            "make PYTHON=python3.12\n"
        )
    return ""


def main(arguments: "list[str]") -> int:
    """Return the exit code for the shell: 0 done, 1 impossible here, 2 wrong usage."""
    if len(arguments) != 1:
        sys.stderr.write("usage: make_venv.py FOLDER\n")
        return 2
    message = obstacle()
    if message:
        sys.stderr.write(message)
        return 1
    venv.create(arguments[0], with_pip=True, symlinks=True, clear=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

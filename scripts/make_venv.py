"""Make a virtual environment, or say plainly why this Python cannot: `make_venv.py FOLDER`.

Runs before anything is installed, by whatever `python3` is, so it must parse on old versions too.
"""

import importlib.util
import subprocess
import sys

OLDEST = (3, 11)


def main():  # type: () -> int
    """Return the exit code for the shell: 0 done, 1 impossible here, 2 wrong usage."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: make_venv.py FOLDER\n")
        return 2
    if sys.version_info < OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        sys.stderr.write(
            "planner needs Python 3.11 or newer; {} is {}.\n"
            "Name another one: make PYTHON=python3.12\n".format(sys.executable, found)
        )
        return 1
    if importlib.util.find_spec("ensurepip") is None:
        # Debian and Ubuntu ship the venv module without what puts pip into the environment.
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        sys.stderr.write(
            "{} has no ensurepip, so it cannot make a virtual environment.\n"
            "Install it (Debian, Ubuntu: apt install {}), or name another Python:\n"
            "make PYTHON=python3.12\n".format(sys.executable, package)
        )
        return 1
    return subprocess.call([sys.executable, "-m", "venv", sys.argv[1]])


if __name__ == "__main__":
    sys.exit(main())

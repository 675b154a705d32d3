"""Install Chromium and its driver, which the browser tests need, from Debian's packages.

Does nothing where both are there. Without root or apt, or where the packages cannot be had, it only
says what is missing: the tests are skipped then, and say so as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
"""The program and the package that brings it."""
APT = ("apt-get", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300", "-qq")


def missing() -> list[str]:
    """Packages whose programs are not there."""
    return [package for program, package in PROGRAMS.items() if shutil.which(program) is None]


def main() -> int:
    """Install what is missing, or say loudly that it could not be; always 0."""
    packages = missing()
    if not packages:
        return 0
    names = " ".join(packages)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"BROWSER TESTS WILL BE SKIPPED: as root, apt-get install {names}", file=sys.stderr)
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("update",), ("install", "-y", "--no-install-recommends", *packages):
        done = subprocess.run([*APT, *command], env=environment, check=False)  # noqa: S603
        if done.returncode != 0:
            break
    if missing():
        names = " ".join(missing())
        print(f"BROWSER TESTS WILL BE SKIPPED: apt-get brought no {names}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

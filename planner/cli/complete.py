"""What a shell offers after Tab: files, and the names that stand in the plan at hand.

Each function gets the words so far and what has been typed of the next one. A plan that is half
written completes nothing: an error in the middle of a command line would help nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.plan.schema import Plan


def script(shell: str) -> str:
    """What a shell must read to complete `planner`: one line in its start file does it."""
    from typer._completion_shared import get_completion_script

    from planner.cli.entry import COMPLETING

    return str(get_completion_script(prog_name="planner", complete_var=COMPLETING, shell=shell))


def plans(incomplete: str) -> list[str]:
    """Plans (YAML) and the folders that may hold some."""
    return _files(incomplete, (".yaml", ".yml"))


def anything(incomplete: str) -> list[str]:
    """Plans, saved results, and reports that hold one."""
    return _files(incomplete, (".yaml", ".yml", ".json", ".html"))


def plans_and_results(incomplete: str) -> list[str]:
    """Whatever `execute` takes."""
    return _files(incomplete, (".yaml", ".yml", ".json"))


def machines(incomplete: str) -> list[str]:
    """Machines of the catalogue, this computer, and machine files."""
    from planner.machine.load import catalogue

    return [*_starting([*catalogue(), "here"], incomplete), *plans(incomplete)]


def checks(incomplete: str) -> list[str]:
    """The checks of `planner doctor`."""
    from planner.review.doctor import CHECKS

    return _starting((check.word for check in CHECKS), incomplete)


def flows(ctx: Any, incomplete: str) -> list[str]:
    """The flows of the plan on the command line."""
    plan = _plan(ctx)
    return _starting(plan.flows if plan else (), incomplete)


def settings(ctx: Any, incomplete: str) -> list[str]:
    """`name=` of each variable, and the keys of flows, nodes and links that one may set."""
    plan = _plan(ctx)
    if plan is None:
        return []
    keys = [f"{name}=" for name in plan.vars]
    if "." in incomplete or not _starting(keys, incomplete):
        keys += [
            f"flows.{name}.{key}="
            for name in plan.flows
            for key in ("size", "cache", "strategy", "chunk", "depth", "workers", "repeat")
        ]
        keys += _machine_keys(plan)
    else:
        keys += ["flows.", "links.", "nodes."]
    return _starting(keys, incomplete)


def history_words(ctx: Any, incomplete: str) -> list[str]:
    """`show` and `forget`, then the numbers of the latest runs."""
    given = ctx.params.get("what") or []
    if not given:
        return _starting(["show", "forget"], incomplete)
    with suppress(Exception):
        from planner.review.history.trend import history

        return _starting([str(run.id) for run in history(latest=20).latest], incomplete)
    return []


def kept_plans(incomplete: str) -> list[str]:
    """Plans that the history has runs of."""
    return _starting(_kept("plan"), incomplete)


def kept_machines(incomplete: str) -> list[str]:
    """Machines that the history has runs on."""
    return _starting(_kept("machine"), incomplete)


def kept_links(incomplete: str) -> list[str]:
    """Links that runs in the history crossed, by name."""
    return _starting((link.split(".")[0] for link in _kept("link")), incomplete)


def _kept(what: str) -> list[str]:
    with suppress(Exception):
        from planner.review.history.trend import history

        return [name for trend in history().trends if (name := getattr(trend, what))]
    return []


def _machine_keys(plan: Plan) -> list[str]:
    """The figures of the plan's machine that are set most: rates of links, cores of hosts."""
    if plan.machine == "here":
        return []  # it may have to be measured first
    from planner.machine.load import load_machine

    with suppress(Exception):
        machine = load_machine(plan.machine, directory=Path(plan.directory))
        links = [f"links.{name}.rate=" for name in machine.links]
        hosts = [name for name, node in machine.nodes.items() if node.kind == "ram"]
        return [*links, *(f"nodes.{name}.cores=" for name in hosts)]
    return []


def _plan(ctx: Any) -> Plan | None:
    """The plan that the command line names, if it can be read."""
    given = [ctx.params.get(key) for key in ("plan", "what", "plans")]
    words = [w for g in given for w in (g if isinstance(g, list | tuple) else [g]) if w]
    # Behind an option that still lacks its value, words are not taken apart yet.
    path = next((word for word in [*words, *ctx.args] if Path(word).is_file()), "")
    with suppress(Exception):
        from planner.plan.load import load_plan

        return load_plan(path).plan
    return None


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    """Those that go on from what was typed, each once, in their order."""
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Files of these kinds that begin so, and folders to go into."""
    folder, _, begin = incomplete.rpartition("/")
    base = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    if not base.is_dir():
        return []
    found = []
    for path in sorted(base.iterdir()):
        if not path.name.startswith(begin) or (path.name.startswith(".") and not begin):
            continue
        name = incomplete[: len(incomplete) - len(begin)] + path.name
        if path.is_dir():
            found += [f"{name}/"]
        elif path.suffix in suffixes:
            found.append(name)
    return found

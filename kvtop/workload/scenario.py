"""Scenario files: what to ask of the generator, and when, in TOML. `docs/scenarios.md` names every key.

`load_scenario` takes a built-in name or a file and either returns a checked `Scenario` or raises a
`ScenarioError` of one line: file, line, key, what is wrong.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from kvtop.workload.fields import (
    Check,
    PlacedProblem,
    Problem,
    choice,
    either,
    flag,
    integer,
    number,
    shown,
    suggestion,
    table,
    text,
)
from kvtop.workload.spec import (
    Arrivals,
    Branching,
    Bursts,
    Lengths,
    PoolSettings,
    RequestSpec,
    Scenario,
    ScenarioError,
    SchedulerSettings,
    hold_problem,
    printable,
)
from kvtop.workload.toml_lines import Path as KeyPath
from kvtop.workload.toml_lines import key_lines

__all__ = ["Scenario", "ScenarioError", "builtin_names", "load_scenario", "parse_scenario"]

LARGEST_FILE = 1 << 20
"""Bytes of a scenario file at most."""

_TOKENS = integer(1, 1_000_000)
_STEP = integer(1, 1_000_000_000)
_PREFIX = either(_TOKENS, text(100_000))
_TEMPERATURE = number(0, 100)
_BRANCHES = integer(1, 64)

POOL: Mapping[str, Check] = {
    "blocks": integer(1, 100_000_000),
    "block_size": integer(1, 65_536),
    "host_blocks": integer(0, 100_000_000),
    "preemption": choice("recompute", "swap"),
}
SCHEDULER: Mapping[str, Check] = {
    "max_sequences": integer(1, 65_536),
    "token_budget": _TOKENS,
    "watermark": number(0, 1, below=True),
    "victim": choice("newest", "oldest"),
}
REQUEST: Mapping[str, Check] = {
    "at_step": _STEP,
    "prompt": text(100_000),
    "prompt_tokens": _TOKENS,
    "shared_prefix": _PREFIX,
    "n": _BRANCHES,
    "beam_width": _BRANCHES,
    "max_new_tokens": _TOKENS,
    "hold_at_stored": _TOKENS,
    "ignore_eos": flag,
    "temperature": _TEMPERATURE,
    "seed": integer(0, (1 << 63) - 1),
    "abort_at_step": _STEP,
}


def _lengths(mean: float, max: int, min: int = 1) -> Lengths:
    if max < min:
        raise Problem(f"max is {max:,}, below min, {min:,}")
    if not min <= mean <= max:
        raise Problem(f"mean is {mean:,g}, outside {min:,} to {max:,}")
    return Lengths(mean=mean, maximum=max, minimum=min)


def _branching(share: float, max: int = 4) -> Branching:
    return Branching(share=share, maximum=max)


def _bursts(every: int, requests: int, first: int | None = None) -> Bursts:
    return Bursts(every=every, requests=requests, first=every if first is None else first)


_LENGTHS = table({"mean": number(1, 1_000_000), "max": _TOKENS, "min": _TOKENS}, ("mean", "max"), _lengths)
_BRANCHING = table({"share": number(0, 1), "max": integer(2, 64)}, ("share",), _branching)
ARRIVALS: Mapping[str, Check] = {
    "rate_per_step": number(0, 1_000),
    "prompt_tokens": _LENGTHS,
    "new_tokens": _LENGTHS,
    "shared_prefix": _PREFIX,
    "shared_share": number(0, 1),
    "n": _BRANCHING,
    "beam_width": _BRANCHING,
    "bursts": table(
        {"every": _STEP, "requests": integer(1, 10_000), "first": _STEP}, ("every", "requests"), _bursts
    ),
    "temperature": _TEMPERATURE,
    "ignore_eos": flag,
    "max_unfinished": integer(1, 1_000_000),
    "until_step": _STEP,
}
TOP: Mapping[str, Check | None] = {
    "name": text(200),
    "caption": text(1_000),
    "pool": None,
    "scheduler": None,
    "request": None,
    "arrivals": None,
}


def builtin_names() -> tuple[str, ...]:
    """Names of the scenarios that ship with the program, sorted."""
    folder = resources.files("kvtop.workload") / "scenarios"
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """The built-in scenario of that name, or the one in that file. Reads the file, changes nothing.

    A built-in name wins over a file of the same name; `./name` means the file. Raises ScenarioError.
    """
    given = str(name_or_path)
    if isinstance(name_or_path, str) and given in builtin_names():
        file = resources.files("kvtop.workload") / "scenarios" / f"{given}.toml"
        return parse_scenario(file.read_text("utf-8"), f"{given}.toml")
    return parse_scenario(_read(given), given)


def parse_scenario(document: str, source: str) -> Scenario:
    """The scenario in TOML `document`; errors name `source` as the file. Raises ScenarioError."""
    try:
        values = tomllib.loads(document)
        return _Reader(source, key_lines(document)).scenario(values)
    except RecursionError:
        raise ScenarioError(f"{printable(source)}: not valid TOML: nested too deeply") from None
    except ScenarioError:
        raise
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise _syntax_error(document, source, str(error)) from None


def _read(path: str) -> str:
    """The text of a file. Raises ScenarioError when there is none to be had."""
    place = printable(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        names = builtin_names()
        hint = suggestion(Path(path).name.removesuffix(".toml"), names)
        what = f"no such scenario or file{hint}; built in: {', '.join(names)}"
        raise ScenarioError(f"{place}: {what}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{place}: is a folder, not a scenario file") from None
    except OSError as error:
        raise ScenarioError(f"{place}: cannot be read: {error.strerror}") from None
    except ValueError:  # a null character in the name
        raise ScenarioError(f"{place}: not a file name") from None
    if len(content) > LARGEST_FILE:
        raise ScenarioError(f"{place}: larger than 1 MiB: not a scenario file")
    try:
        document = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{place}:{line}: not UTF-8 text: is this a TOML file?") from None
    if not document.strip():
        raise ScenarioError(f"{place}: is empty: give it [[request]] tables or [arrivals]")
    return document


def _syntax_error(document: str, source: str, message: str) -> ScenarioError:
    """A TOML reader's message with its line where errors have theirs."""
    line: int | str | None = None
    if place := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        line, message = place[1], f"{message[: place.start()]} (column {place[2]})"
    elif message.endswith(" (at end of document)"):
        line = document.rstrip("\n").count("\n") + 1
        message = message.removesuffix("at end of document)") + "end of file)"
    elif message.startswith("Exceeds the limit"):
        message = "a number has too many digits"
    return ScenarioError(printable(f"{source}{f':{line}' if line else ''}: not valid TOML: {message}"))


class _Reader:
    """Turns one document's values into a Scenario; knows where each stands."""

    def __init__(self, source: str, lines: Mapping[KeyPath, int]) -> None:
        self.source = source
        self.lines = lines

    def error(self, path: KeyPath, what: str) -> ScenarioError:
        """The error about the value at `path`, or about the nearest table around it."""
        place = path
        while place not in self.lines:
            place = place[:-1]
        line = f":{self.lines[place]}" if place else ""
        key = ".".join(part for part in path if isinstance(part, str))
        return ScenarioError(printable(f"{self.source}{line}: {key + ': ' if key else ''}{what}"))

    def scenario(self, values: dict[str, Any]) -> Scenario:
        top = self.checked((), values, TOP)
        requests = tuple(self.request(i, entry) for i, entry in enumerate(self.request_tables(values)))
        arrivals = self.arrivals(values["arrivals"]) if "arrivals" in values else None
        if not requests and arrivals is None:
            raise self.error((), "asks for nothing: give it [[request]] tables or [arrivals]")
        return Scenario(
            name=top.get("name", Path(self.source).stem or "scenario"),
            caption=top.get("caption", ""),
            pool=self.pool(values),
            scheduler=self.scheduler(values),
            requests=requests,
            arrivals=arrivals,
            source=self.source,
        )

    def checked(
        self, path: KeyPath, values: dict[str, Any], known: Mapping[str, Check | None]
    ) -> dict[str, Any]:
        """The values of a table that have a check, checked, in the order of the file."""
        result = {}
        for key, value in values.items():
            if key not in known:
                raise self.error((*path, key), "unknown key" + suggestion(key, known))
            check = known[key]
            if check is None:
                continue
            try:
                result[key] = check(value)
            except PlacedProblem as problem:
                raise self.error((*path, key, problem.key), str(problem)) from None
            except Problem as problem:
                raise self.error((*path, key), str(problem)) from None
        return result

    def settings(self, name: str, values: dict[str, Any], known: Mapping[str, Check]) -> dict[str, Any]:
        """The checked values of table `name`; empty when the file has none."""
        found = values.get(name, {})
        if not isinstance(found, dict):
            raise self.error((name,), f"must be a table, [{name}], not {shown(found)}")
        return self.checked((name,), found, known)

    def table_lines(self, path: KeyPath, values: dict[str, Any]) -> dict[str, int]:
        """Where a table and its keys stand, for errors found when prompts are made."""
        return {"": self.lines[path]} | {key: self.lines[*path, key] for key in values}

    def pool(self, values: dict[str, Any]) -> PoolSettings:
        settings = self.settings("pool", values, POOL)
        if settings.get("preemption") == "swap" and settings.get("host_blocks") == 0:
            what = "swap needs host blocks: set pool.host_blocks above 0 or leave it out"
            raise self.error(("pool", "preemption"), what)
        return PoolSettings(**settings)

    def scheduler(self, values: dict[str, Any]) -> SchedulerSettings:
        settings = SchedulerSettings(**self.settings("scheduler", values, SCHEDULER))
        budget, sequences = settings.token_budget, settings.max_sequences
        if budget is not None and sequences is not None and budget < sequences:
            what = f"must be at least max_sequences, {sequences:,}: each of them computes a token a step"
            raise self.error(("scheduler", "token_budget"), what)
        return settings

    def request_tables(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        found = values.get("request", [])
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            brackets = ": write [[request]], with two brackets" if isinstance(found, dict) else ""
            raise self.error(("request",), f"must be an array of tables, not {shown(found)}{brackets}")
        return found

    def request(self, index: int, values: dict[str, Any]) -> RequestSpec:
        path: KeyPath = ("request", index)
        given = self.checked(path, values, REQUEST)
        if ("prompt" in given) == ("prompt_tokens" in given):
            both = "prompt" in given
            raise self.error(
                (*path, "prompt_tokens") if both else path,
                "contradicts prompt: give one of the two" if both else "needs prompt or prompt_tokens",
            )
        spec = RequestSpec(**given, lines=self.table_lines(path, values))
        for key, what in _contradictions(spec, given):
            raise self.error((*path, key), what)
        return spec

    def arrivals(self, values: Any) -> Arrivals:
        if not isinstance(values, dict):
            raise self.error(("arrivals",), f"must be a table, [arrivals], not {shown(values)}")
        path: KeyPath = ("arrivals",)
        given = self.checked(path, values, ARRIVALS)
        for key in ("rate_per_step", "prompt_tokens", "new_tokens"):
            if key not in given:
                raise self.error(path, f"lacks {key}")
        given["samples"] = given.pop("n", None)
        given["beams"] = given.pop("beam_width", None)
        arrivals = Arrivals(**given, lines=self.table_lines(path, values))
        if arrivals.rate_per_step == 0 and arrivals.bursts is None:
            what = "is 0 and there are no bursts, so nothing would ever arrive"
            raise self.error((*path, "rate_per_step"), what)
        if "shared_share" in given and arrivals.shared_prefix is None:
            raise self.error((*path, "shared_share"), "needs shared_prefix")
        if sum(branching.share for branching in (arrivals.samples, arrivals.beams) if branching) > 1:
            raise self.error((*path, "beam_width", "share"), "adds up with n.share to more than 1")
        return arrivals


def _contradictions(spec: RequestSpec, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys of a request that cannot go together, with why; those about the prompt's length come later if
    only its tokens will tell (`kvtop.workload.scripted`)."""
    found = []
    if spec.n > 1 and spec.beam_width > 1:
        found.append(("beam_width", "contradicts n: a request has samples or beams, not both"))
    if spec.beam_width > 1 and "temperature" in given:
        found.append(("temperature", "contradicts beam_width: beam search does not sample"))
    tokens = spec.prompt_tokens
    if isinstance(spec.shared_prefix, int) and tokens is not None and spec.shared_prefix > tokens:
        found.append(("shared_prefix", f"is longer than the prompt, {tokens:,} tokens"))
    if spec.abort_at_step is not None and spec.abort_at_step <= spec.at_step:
        found.append(("abort_at_step", f"must come after at_step, {spec.at_step:,}"))
    if tokens is not None and (what := hold_problem(spec, tokens)):
        found.append(("hold_at_stored", what))
    return found

"""What this machine offers, and what is missing: one line for each thing that kvtop can use.

Nothing heavy is imported: versions come from the packages' metadata, the processor's from the kernel.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import kvtop
from kvtop.kernels.choice import Machine, choose_kind, obstacle

Status = Literal["ok", "note", "missing"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    status: Status
    """`missing` is what kvtop cannot do without; `note` what a person may want to know or mend."""
    text: str


Examination = Callable[[Mapping[str, str]], Iterator[Check]]


def examine(environ: Mapping[str, str]) -> list[Check]:
    """Every check, in the order of the report. Changes nothing."""
    parts: tuple[Examination, ...] = (
        _python, _packages, _model, _processor, _gpu, _kernels, _memory, _terminal, _glyphs, _tmux, _settings,
        _state, _themes, _pictures,
    )  # fmt: skip
    return [check for part in parts for check in part(environ)]


def report(checks: list[Check], *, as_json: bool, encoding: str | None) -> str:
    """The checks as lines, or as one JSON object. What an encoding cannot carry is written as its code."""
    ok = all(check.status != "missing" for check in checks)
    if as_json:
        return json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=2) + "\n"
    width = max(len(check.name) for check in checks)
    lines = [f"{check.status:<7}  {check.name:<{width}}  {_printable(check.text)}" for check in checks]
    text = "\n".join(lines) + "\n"
    return text.encode(encoding or "utf-8", "backslashreplace").decode(encoding or "utf-8")


def _printable(text: str) -> str:
    """Paths and names may hold anything: control characters are written as their codes."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


# -- what it runs on ----------------------------------------------------------------------------------------


def _python(environ: Mapping[str, str]) -> Iterator[Check]:
    version = platform.python_version()
    enough = sys.version_info >= (3, 11)
    yield Check(
        "Python",
        "ok" if enough else "missing",
        f"{version}, {sys.executable}" + ("" if enough else "; 3.11 or newer is needed"),
    )
    yield Check("kvtop", "ok", f"{kvtop.__version__}, {Path(kvtop.__file__).parent}")


PACKAGES = ("torch", "transformers", "textual")


def _packages(environ: Mapping[str, str]) -> Iterator[Check]:
    for name in PACKAGES:
        try:
            yield Check(name, "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Check(name, "missing", f"not installed: pip install {name}")


def _model(environ: Mapping[str, str]) -> Iterator[Check]:
    folder = Path(kvtop.__file__).parent / "models" / "inside-3m"
    needed = ("config.json", "model.safetensors", "tokenizer.json")
    lacking = [name for name in needed if not (folder / name).is_file()]
    if lacking:
        yield Check("model inside", "missing", f"{folder} lacks {', '.join(lacking)}: install kvtop again")
        return
    size = sum(file.stat().st_size for file in folder.iterdir())
    yield Check("model inside", "ok", f"inside-3m, {size / 2**20:.1f} MiB")


BF16_FLAGS = ("amx_bf16", "avx512_bf16", "avx_ne_convert", "bf16")
"""What /proc/cpuinfo calls the instructions that make bfloat16 fast; the last is ARM's."""


def _processor(environ: Mapping[str, str]) -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{cores} core{'s' if cores > 1 else ''}"
    try:
        info = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        yield Check("CPU", "note", f"{text}; /proc/cpuinfo cannot be read")
        return
    fields = dict(_cpu_fields(info))
    if model := fields.get("model name"):
        text += f", {model}"
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    found = [flag for flag in BF16_FLAGS if flag in flags]
    if found:
        yield Check("CPU", "ok", f"{text}, bf16 by {' and '.join(found)}")
    else:
        yield Check("CPU", "note", f"{text}, without instructions for bf16")


def _cpu_fields(info: str) -> Iterator[tuple[str, str]]:
    """Fields of the first processor."""
    for line in info.split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _gpu(environ: Mapping[str, str]) -> Iterator[Check]:
    try:
        import pynvml
    except ImportError:
        yield Check("GPU", "note", "cannot be asked for: nvidia-ml-py is not installed; the CPU is used")
        return
    try:
        pynvml.nvmlInit()
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            yield Check(
                f"GPU {index}",
                "ok",
                f"{_text(pynvml.nvmlDeviceGetName(device))}, {memory.free / 2**30:.1f} of "
                f"{memory.total / 2**30:.1f} GiB free, driver {driver}",
            )
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        yield Check("GPU", "note", f"none ({_text(str(error)).lower()}): the CPU is used")


def _kernels(environ: Mapping[str, str]) -> Iterator[Check]:
    """What `--kernels auto` takes on the CPU, and what it would take on a GPU."""
    yield _kernels_check("kernels, CPU", Machine("cpu", "bf16"))
    for index, capability in enumerate(_capabilities()):
        yield _kernels_check(f"kernels, GPU {index}", Machine("cuda", "bf16", capability))
    if not _capabilities():
        lacking = obstacle("triton", Machine("cuda", "bf16")) or _does_not_load("triton")
        text = f"triton {_version('triton')}, for a machine with a GPU"
        yield Check("kernels, GPU", "ok", text) if lacking is None else Check("kernels, GPU", "note", lacking)


def _kernels_check(name: str, machine: Machine) -> Check:
    choice = choose_kind(machine)
    note = choice.note or _does_not_load(choice.kind)
    if note is not None:
        return Check(name, "note", f"torch, slower: {note}")
    built = "+cpu" in _version("torch") and machine.device != "cpu"
    version = f"{choice.kind} {_version(choice.kind)}"
    return (
        Check(name, "note", f"{version}, but this torch is built without CUDA")
        if built
        else Check(name, "ok", version)
    )


def _does_not_load(package: str) -> str | None:
    """What a package that is installed says when it is imported and fails; None when it loads."""
    try:
        importlib.import_module(package)
    except Exception as error:
        lines = str(error).strip().splitlines()
        return f"{package} does not load: {lines[0] if lines else type(error).__name__}"
    return None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _capabilities() -> list[tuple[int, int]]:
    """Of each NVIDIA GPU; empty where there is none or nobody can say."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        found = [tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles]
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return []
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _memory(environ: Mapping[str, str]) -> Iterator[Check]:
    import psutil

    memory = psutil.virtual_memory()
    text = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB available"
    if memory.available < 2**30:
        yield Check("RAM", "note", f"{text}; a run on the model inside takes about 1 GiB")
    else:
        yield Check("RAM", "ok", text)


# -- what it draws on ---------------------------------------------------------------------------------------


LEAST = (60, 18)
"""Columns and rows that the dashboard needs."""


def _terminal(environ: Mapping[str, str]) -> Iterator[Check]:
    term = environ.get("TERM", "")
    if not sys.stdout.isatty():
        yield Check("terminal", "note", "standard output is none: only --batch works here")
    elif term in ("", "dumb"):
        yield Check("terminal", "note", f'TERM is "{term}": only --batch works here')
    else:
        columns, rows = shutil.get_terminal_size()
        small = columns < LEAST[0] or rows < LEAST[1]
        needed = f"; the dashboard needs {LEAST[0]} x {LEAST[1]}" if small else ""
        yield Check("terminal", "note" if small else "ok", f"{term}, {columns} x {rows}{needed}")
    yield _colours(environ, term)


def _colours(environ: Mapping[str, str], term: str) -> Check:
    """How many colours the terminal says it has, by the rules of the library that draws."""
    if environ.get("NO_COLOR"):
        return Check("colours", "note", "none: NO_COLOR is set")
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return Check("colours", "ok", f"16 million (COLORTERM={environ['COLORTERM']})")
    if term.endswith(("-256color", "kitty")):
        return Check("colours", "ok", f"256 (TERM={term}); COLORTERM=truecolor would say that there are more")
    return Check("colours", "note", f"16 (TERM={term or 'unset'}): --theme 16-colour fits best")


def _glyphs(environ: Mapping[str, str]) -> Iterator[Check]:
    from kvtop.ui.draw.glyphs import charset, choose_glyphs

    settings = _effective(environ)
    glyphs = choose_glyphs(settings.glyphs, environ)
    variable, locale = charset(environ)
    if settings.glyphs != "auto":
        why = f"set to {settings.glyphs}"
    elif not variable:
        why = "no locale is set, UTF-8 is assumed"
    elif glyphs.ascii:
        why = f"{variable}={locale} is not UTF-8; LC_ALL=C.UTF-8 would be, or --glyphs block"
    else:
        why = f"{variable}={locale}"
    yield Check("glyphs", "note" if glyphs.ascii else "ok", f"{glyphs.name}: {why}")


def _effective(environ: Mapping[str, str]) -> Any:
    """The settings of a dashboard that were started now without flags."""
    from kvtop.config import SettingsError, load, resolve

    file, _ = load(environ)
    try:
        return resolve(file, environ, {})
    except SettingsError:
        return file


def _tmux(environ: Mapping[str, str]) -> Iterator[Check]:
    if environ.get("TMUX") or environ.get("TERM", "").startswith(("tmux", "screen")):
        advice = [] if environ.get("COLORTERM") else ['set -as terminal-features ",*:RGB" for true colour']
        advice += ["set -g mouse on for the mouse", "set -sg escape-time 10 for a prompt Esc"]
        yield Check("tmux", "note", f"in its configuration: {'; '.join(advice)}")


# -- what a person has set ----------------------------------------------------------------------------------


def _settings(environ: Mapping[str, str]) -> Iterator[Check]:
    from kvtop.config import SettingsError, config_file, load, resolve
    from kvtop.ui.commands.actions import ACTIONS
    from kvtop.ui.commands.keymap import key_map
    from kvtop.ui.draw.themes import theme_problems

    path = config_file(environ)
    settings, problems = load(environ)
    problems += theme_problems(settings)
    problems += key_map([(action.id, action.keys) for action in ACTIONS], settings.keys, settings.places)[1]
    if not problems:
        how = "read" if path.is_file() else "not there, defaults are used; --print-default-config prints one"
        yield Check("settings", "ok", f"{path}: {how}")
    for problem in problems:
        yield Check("settings", "note", problem)
    try:
        given = resolve(settings, environ, {}).given
    except SettingsError as error:
        yield Check("environment", "note", str(error))
        return
    if given:
        names = ", ".join(sorted(f"KVTOP_{name.upper()}" for name in given))
        yield Check("environment", "note", f"{names} outweigh{'s' if len(given) == 1 else ''} the file")


def _state(environ: Mapping[str, str]) -> Iterator[Check]:
    from kvtop.config import state_folder

    folder = state_folder(environ)
    place = next(path for path in (folder, *folder.parents) if path.exists())
    if place.is_dir() and os.access(place, os.W_OK):
        yield Check("state", "ok", f"{folder}")
    else:
        yield Check("state", "note", f"{folder} cannot be written: layouts are not kept")


def _themes(environ: Mapping[str, str]) -> Iterator[Check]:
    from kvtop.ui.draw.palette import ThemeError, load_palette
    from kvtop.ui.draw.themes import themes

    found = themes(environ)
    usable = [name for name, _, error in found if error is None]
    yield Check("themes", "ok" if usable else "missing", ", ".join(usable) or "none: install kvtop again")
    for _, _, error in found:
        for line in (error or "").splitlines():
            yield Check("themes", "note", line)
    theme = _effective(environ).theme
    try:
        load_palette(theme)
        yield Check("theme", "ok", theme)
    except ThemeError as error:
        yield Check("theme", "note", f"{str(error).splitlines()[0]}; dark is used")


def _pictures(environ: Mapping[str, str]) -> Iterator[Check]:
    from kvtop.ui.draw.png import PictureError, load_fonts

    try:
        font, _ = load_fonts(16)
        yield Check("pictures", "ok", f"SVG and PNG, font {getattr(font, 'path', font)}")
    except ImportError:
        yield Check("pictures", "note", "SVG alone: PNG needs Pillow, pip install pillow")
    except PictureError as error:
        yield Check("pictures", "note", f"SVG alone: {error}")

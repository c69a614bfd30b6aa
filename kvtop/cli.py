"""The command line. Imports nothing heavy: a command loads what it needs when it runs."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kvtop import __version__
from kvtop.kernels.choice import AUTO, KINDS

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


class Memory(click.ParamType[int]):
    """An amount of memory: `2GiB`, `512MiB`, `3GB`, or plain bytes. Becomes an int of bytes."""

    name = "memory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes. Fails with a usage error that shows the form."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?B)?\s*", value, re.IGNORECASE)
        amount = float(match[1]) * _UNITS[(match[2] or "").upper()] if match else 0
        if not 1 <= amount < 2**62:
            self.fail(f"{value!r} is not an amount of memory such as 2GiB, 512MiB or 3GB", param, ctx)
        return int(amount)


class Given(click.ParamType[Any]):
    """Text that is not empty, made into something else where `make` is given."""

    def __init__(self, name: str, make: Callable[[str], Any] = str) -> None:
        self.name = name
        self.make = make

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """What the text is made into. Fails for empty text with a usage error."""
        if value == "":
            self.fail(f"no {self.name} is given", param, ctx)
        return self.make(value)


SETTINGS = ("theme", "glyphs", "fps", "mouse", "readonly", "preset")
"""Options that outweigh the person's settings."""


def _print_default_config(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from kvtop.config.writing import default_config

        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        click.echo(default_config(), nl=False)
        ctx.exit()


class DefaultToRun(click.Group):
    """A group whose missing command is `run`: `kvtop --seed 7` means `kvtop run --seed 7`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` in front of options that are not the group's own."""
        own = {"--help", "-h", "--version"}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(name="kvtop", cls=DefaultToRun, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kvtop")
def cli() -> None:
    """See and debug the memory of LLM inference.

    Without a command, `run`: the live dashboard on the model inside.
    """


@cli.command()
@click.option(
    "--model",
    type=Given("model"),
    default="inside",
    metavar="M",
    show_default=True,
    help="inside, smollm2, none (no model: scripted tokens), a hub id, a folder or a GGUF file.",
)
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--dtype", type=click.Choice(["fp32", "bf16", "fp16"]), help="Default: bf16 where it is fast.")
@click.option(
    "--kernels",
    type=click.Choice([AUTO, *KINDS]),
    default=AUTO,
    show_default=True,
    help="What computes attention and moves blocks: triton on a GPU, numba on a CPU, or by name.",
)
@click.option("--blocks", type=click.IntRange(1), metavar="N", help="Blocks in the pool.")
@click.option("--kv-memory", type=Memory(), metavar="SIZE", help="Size of the pool instead: 2GiB.")
@click.option(
    "--memory-utilization",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="X",
    help="Size of the pool as a share of the memory left after the weights: 0.9.",
)
@click.option("--block-size", type=click.IntRange(1, 65536), metavar="N", help="Tokens a block. Default: 16.")
@click.option("--host-blocks", type=click.IntRange(0), metavar="N", help="Blocks of host memory to swap to.")
@click.option("--preemption", type=click.Choice(["recompute", "swap"]))
@click.option("--victim", type=click.Choice(["newest", "oldest"]), help="Who is preempted first.")
@click.option("--max-sequences", type=click.IntRange(1), metavar="N", help="Sequences that run at once.")
@click.option("--token-budget", type=click.IntRange(1), metavar="N", help="Tokens computed in a step.")
@click.option("--prefix-caching/--no-prefix-caching", default=True, show_default=True)
@click.option(
    "--scenario",
    type=Given("scenario"),
    default="mixed",
    metavar="NAME|FILE",
    show_default=True,
    help="What to ask of the generator; see docs/scenarios.md.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, metavar="K", show_default=True)
@click.option(
    "--speed",
    type=click.FloatRange(0),
    metavar="S",
    help="Steps a second on the screen; 0 is unbounded. Default: 20.",
)
@click.option("--theme", type=Given("theme"), metavar="NAME|FILE", help="Colours; see docs/themes.md.")
@click.option("--glyphs", type=click.Choice(["auto", "block", "braille", "ascii"]), help="Characters.")
@click.option("--fps", type=click.IntRange(1, 60), metavar="N", help="Pictures a second. Default: 20.")
@click.option("--mouse/--no-mouse", default=None, help="Whether the mouse is used.")
@click.option("--readonly/--no-readonly", default=None, help="Take away what changes the generator.")
@click.option("--preset", type=Given("preset"), metavar="P", help="What is shown first: 1-7, a name, last.")
@click.option(
    "--print-default-config",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_default_config,
    help="Print a file of settings with what they mean, and exit.",
)
@click.option(
    "--check", is_flag=True, help="Check every invariant after every step (about 1 ms at 512 blocks)."
)
@click.option("--batch", is_flag=True, help="No screen: one line a step on standard output.")
@click.option(
    "-n", "steps", type=click.IntRange(0), metavar="STEPS", help="With --batch: stop after so many."
)
@click.option("--json", "as_json", is_flag=True, help="With --batch: one JSON object a line.")
@click.option("--csv", "as_csv", is_flag=True, help="With --batch: CSV with dotted column names.")
@click.option("--tables", is_flag=True, help="With --batch --json: block tables and reference counts.")
@click.option("--summary", is_flag=True, help="With --batch: one object at the end instead of the lines.")
@click.option(
    "--outputs",
    type=Given("file", Path),
    metavar="F",
    help="With --batch: write token ids of finished sequences to F as JSON.",
)
def run(**given: Any) -> None:
    """The live dashboard, or with --batch one line a step."""
    from kvtop.options import RunOptions
    from kvtop.workload.scenario import load_scenario

    names = {name for name in RunOptions.__dataclass_fields__ if name in given}
    options = RunOptions(**{name: given[name] for name in names}, keep_outputs=given["outputs"] is not None)
    batch_only = {
        "-n": given["steps"],
        "--json": given["as_json"],
        "--csv": given["as_csv"],
        "--tables": given["tables"],
        "--summary": given["summary"],
        "--outputs": given["outputs"],
    }
    scenario = load_scenario(given["scenario"])
    # Spinning threads would fight the screen for the cores; torch reads this once, when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # NumPy's BLAS is not used for anything: its threads would only cost their start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if given["batch"]:
        try:
            sys.exit(_batch(options, scenario, given))
        except KeyboardInterrupt:  # caught here: click would write an empty line first
            sys.exit(128 + signal.SIGINT)
    wrong = [name for name, value in batch_only.items() if value not in (None, False)]
    if wrong:
        raise click.UsageError(f"{' and '.join(wrong)} need{'s' if len(wrong) == 1 else ''} --batch")
    from kvtop.dashboard import run_dashboard

    flags = {name: given[name] for name in SETTINGS}
    sys.exit(run_dashboard(options, scenario, speed=given["speed"], flags=flags))


def _batch(options: Any, scenario: Any, given: dict[str, Any]) -> int:
    from kvtop.assembly import assemble
    from kvtop.batch import BatchOptions, check_writable, run_batch
    from kvtop.options import UsageError

    if given["as_json"] and given["as_csv"]:
        raise UsageError("--json and --csv exclude each other")
    if given["speed"] is not None:
        raise UsageError("--speed is for the screen: batch mode runs as fast as it can")
    for name in SETTINGS:
        if given[name] is not None:
            flag = f"--no-{name}" if given[name] is False else f"--{name}"
            raise UsageError(f"{flag} is for the screen, which batch mode has not")
    format_ = "json" if given["as_json"] else "csv" if given["as_csv"] else "text"
    batch = BatchOptions(given["steps"], format_, given["tables"], given["summary"], given["outputs"])
    if batch.outputs is not None:
        check_writable(batch.outputs)
        source = Path(given["scenario"])
        if source.is_file() and batch.outputs.exists() and source.samefile(batch.outputs):
            raise UsageError(f"--outputs {batch.outputs} is the scenario file: give another name")
    # `kvtop ... | head` ends as any filter does, without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    run = assemble(options, scenario)
    info = run.runner.info
    if info.kernels_note is not None:
        click.echo(f"kvtop: the {info.kernels} kernels run: {info.kernels_note}", err=True)
    return run_batch(run, batch)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def doctor(as_json: bool) -> None:
    """What this machine offers, and what is missing.

    Exit code 1 when something that kvtop needs is missing.
    """
    from kvtop.doctor import examine, report

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    checks = examine(os.environ)
    sys.stdout.write(report(checks, as_json=as_json, encoding=sys.stdout.encoding))
    sys.exit(any(check.status == "missing" for check in checks))


def main() -> None:
    """Entry point: exit 2 with one line for wrong use or input, 128 + n after signal n."""
    from kvtop.errors import describe

    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _say(error.format_message())
        sys.exit(2)
    except (KeyboardInterrupt, click.exceptions.Abort):
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        # A full disk, a closed terminal: not the program's fault, and no check that failed.
        _say(f"cannot write: {error.strerror or error}")
        sys.exit(2)
    except Exception as error:
        message = describe(error)
        if message is None:
            raise
        _say(message)
        sys.exit(2)


def _say(message: str) -> None:
    line = " ".join(message.split())
    print("kvtop: " + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line), file=sys.stderr)

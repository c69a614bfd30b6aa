"""One command for a machine with a GPU: are the kernels right, how fast are they, what does a step cost.

    python benchmarks/gpu_check.py                   everything, in at most 6 minutes
    python benchmarks/gpu_check.py --quick           fewer shapes
    python benchmarks/gpu_check.py --device cpu      no GPU: kernels interpreted, sizes tiny, nothing timed

Runs from a checkout, without installing: it needs torch and triton, for the model's parts transformers and
kvtop's own small dependencies; a part that lacks one is left out and says so. Nothing of a screen is
imported. Exit code 1 when something is wrong; a budget that is missed is only said. The figures go to a table
and, units in their names, to a JSON file.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE.parent, HERE):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

# Part -> (its share of the time, the packages that it needs beside torch and NumPy), in the order of running.
KVTOP = ("msgspec", "psutil", "platformdirs", "transformers")
PARTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "correctness": (100, ("triton",)),
    "sampling": (5, ("msgspec",)),
    "tokens": (25, ("triton", *KVTOP)),
    "decode": (80, ("triton",)),
    "moves": (20, ("triton",)),
    "prefill": (25, ("triton",)),
    "batch": (60, ("click", *KVTOP)),
    "step": (45, KVTOP),
    "tune": (30, ("triton",)),
    "others": (15, ("triton",)),
}
LEAST_S = {"tokens": 10, "batch": 25, "step": 20, "tune": 10, "others": 15}
"""What a part with a model, or with other libraries, takes at least, on a GPU."""
FOREIGN = "others"
"""The part that is not kvtop's: nothing is wrong with kvtop when it hangs."""
RESERVE = 0.1
"""Of the time: for what a part that looks at the clock has begun already."""


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says. Exits with code 2 for what it does not know."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer shapes")
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--json", type=Path, default=Path("gpu_check.json"), metavar="FILE")
    parser.add_argument("--only", metavar="PART,...", help=", ".join(PARTS))
    parser.add_argument("--minutes", type=float, default=6.0, help="parts are cut to fit (default 6)")
    parser.add_argument("--processes", type=int, help="that compile and check at once (default by cores)")
    # What the command gives to the processes that it starts itself.
    parser.add_argument("--share", default="0/1", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    chosen.parts = chosen.only.split(",") if chosen.only else list(PARTS)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    place = chosen.json.resolve()
    if not place.parent.is_dir():
        parser.error(f"--json {chosen.json}: there is no folder {place.parent}")
    if place.is_dir():
        parser.error(f"--json {chosen.json}: is a folder, a file is needed")
    try:
        with tempfile.TemporaryFile(dir=place.parent):
            pass
    except OSError as error:
        parser.error(f"--json {chosen.json}: nothing can be written to {place.parent}: {error.strerror}")
    if not 0 < chosen.minutes < float("inf"):
        parser.error("--minutes must be a number above 0")
    if chosen.processes is not None and chosen.processes < 1:
        parser.error("--processes must be 1 or more")
    return chosen


def choose_device(wanted: str) -> Any:
    """The torch device; where it is the CPU, kernels that are imported later will be interpreted."""
    if wanted == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported
    import torch

    if wanted != "cpu" and torch.cuda.is_available():
        os.environ.pop("TRITON_INTERPRET", None)
        return torch.device("cuda", torch.cuda.current_device())
    if wanted == "cuda":
        print("gpu_check: torch sees no GPU", file=sys.stderr)
        raise SystemExit(2)
    if wanted == "auto":
        print("no GPU: only the CPU parts run, at tiny sizes", flush=True)
    os.environ["TRITON_INTERPRET"] = "1"
    return torch.device("cpu")


def missing(packages: tuple[str, ...]) -> list[str]:
    """Those that cannot be imported."""
    absent = []
    for package in packages:
        try:
            found = importlib.util.find_spec(package) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            absent.append(package)
    return absent


def main(given: list[str] | None = None) -> int:
    """Run what is asked for. Returns the exit code: 0, or 1 when something is wrong."""
    chosen = arguments(given)
    device = choose_device(chosen.device)
    from gpu.session import Clock, Findings, Session

    index, _, of = chosen.share.partition("/")
    with tempfile.TemporaryDirectory(prefix="kvtop-gpu-check-") as folder:
        session = Session(device, chosen.quick, Clock(0), Findings(), Path(folder), (int(index), int(of)))
        check = Check(session, chosen)
        check.run()
    return 0 if session.findings.passed else 1


class Check:
    """The parts of one run, one after the other, and the report."""

    def __init__(self, session: Any, chosen: argparse.Namespace) -> None:
        from gpu.machine import describe
        from gpu.session import Clock

        self.session = session
        self.chosen = chosen
        self.began = time.monotonic()
        self.clock = Clock(chosen.minutes * 60 * (1 - RESERVE))
        self.machine = describe(session.device)
        self.child = chosen.child

    def run(self) -> None:
        """All parts; the report is written after each, so that little is lost when one hangs."""
        from gpu.children import START_S
        from gpu.report import print_machine

        if not self.child:
            print_machine(self.machine)
        watch = threading.Timer(self.chosen.minutes * 60 + (START_S if self.child else 0), self._give_up)
        watch.daemon = True
        watch.start()
        parts: list[str] = self.chosen.parts
        for place, part in enumerate(parts):
            self.part = part
            print(f"\n== {part}", flush=True)
            if not self._run_part(part, parts[place:]):
                self._rest_elsewhere(parts[place + 1 :])
                break
            self.write()
        watch.cancel()
        if self.session.findings.empty and not self.child:
            self.session.fail("nothing was checked: everything was left out")
        self.write()
        if not self.child:
            self._print()

    def _print(self) -> None:
        """The table at the end."""
        from gpu.report import print_report

        print_report(self.session.findings, time.monotonic() - self.began)
        print(f"\nfigures: {self.chosen.json}", flush=True)

    def _run_part(self, part: str, rest: list[str]) -> bool:
        """False when this process can use the GPU no more."""
        from gpu.session import Clock

        session = self.session
        absent = missing(PARTS[part][1])
        if absent:
            session.leave_out(f"{part} needs {', '.join(absent)}: pip install {' '.join(absent)}")
            return True
        if self.clock.left <= (LEAST_S.get(part, 0) if session.cuda else 0):
            session.leave_out(f"{part}: {self.clock.left:.0f} s are left")
            return True
        weights = [PARTS[name][0] for name in rest]
        session.clock = Clock(self.clock.left * weights[0] / sum(weights))
        session.figures = session.findings.parts.setdefault(part, {})
        began = time.monotonic()
        try:
            if part == "correctness" and session.cuda and not self.child and self._processes() > 1:
                self._in_processes(part)
            else:
                importlib.import_module(f"gpu.{part}").run(session)
        except Exception as error:
            trail = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(trail.filename).name}:{trail.lineno}"
            session.fail(f"{part}: {type(error).__name__} at {where}: {' '.join(str(error).split())[:400]}")
        session.figures["seconds"] = time.monotonic() - began
        return self._free()

    def _broken(self) -> bool:
        """Whether the GPU refuses everything after an error, as it does until the process ends."""
        import torch

        try:
            torch.cuda.synchronize()
            torch.zeros(1, device="cuda").add_(1).item()
        except RuntimeError:
            return True
        return False

    def _free(self) -> bool:
        """Give memory back for the next part. False when the GPU works no more."""
        import gc

        import torch

        gc.collect()
        if not self.session.cuda:
            return True
        if self._broken():
            return False
        torch.cuda.empty_cache()
        return True

    # -- other processes ----------------------------------------------------------------------------------

    def _processes(self) -> int:
        return int(self.chosen.processes or max(1, min(12, (os.cpu_count() or 1) * 3 // 4)))

    def _in_processes(self, part: str) -> None:
        """Compiling is most of the time, so several processes check at once; one that dies takes its share
        along and no more."""
        from gpu.children import Child

        of = self._processes()
        children = [
            Child(self, [part], self.session.clock.left, share=f"{index}/{of}") for index in range(of)
        ]
        for child in children:
            child.collect()

    def _rest_elsewhere(self, parts: list[str]) -> None:
        """What is left, in a process in which the GPU works."""
        from gpu.children import Child

        if parts and self.clock.left:
            print("the GPU works no more in this process: the rest runs in another", flush=True)
            Child(self, parts, self.clock.left).collect()

    # -- the report ---------------------------------------------------------------------------------------

    def write(self) -> None:
        """The JSON file as far as it is known."""
        from gpu.report import report
        from gpu.session import write_json

        elapsed = time.monotonic() - self.began
        options = {"quick": self.chosen.quick, "minutes": self.chosen.minutes, "parts": self.chosen.parts}
        write_json(self.chosen.json, report(self.session.findings, self.machine, options, elapsed))

    def _give_up(self) -> None:
        """In a thread of its own: a part hangs, and cannot be stopped but with the process."""
        note = self.session.leave_out if self.part == FOREIGN else self.session.fail
        note(f"{self.part}: still at it after {self.chosen.minutes:g} minutes: stopped")
        for process in self.session.processes:
            process.kill()
        shutil.rmtree(self.session.temporary, ignore_errors=True)
        self.write()
        if not self.child:
            self._print()
        sys.stdout.flush()
        os._exit(0 if self.session.findings.passed else 1)


if __name__ == "__main__":
    sys.exit(main())

"""Wrong use and wrong input: one line on standard error, exit code 2, nothing else."""

from __future__ import annotations

import pytest

NONE = ("run", "--batch", "--model", "none", "-n", "1")

WRONG = {
    "no terminal": ((), "needs a terminal", "--batch"),
    "no terminal, options alone": (("--seed", "7"), "needs a terminal", "--batch"),
    "unknown option": (("run", "--blocs", "3"), "--blocs", "--block"),
    "unknown command": (("rum",), "rum", ""),
    "batch option alone": (("run", "--json"), "--json", "--batch"),
    "two formats": ((*NONE, "--json", "--csv"), "--json and --csv", ""),
    "tables as text": ((*NONE, "--tables"), "--tables", "--json"),
    "two sizes": (
        (*NONE, "--blocks", "4", "--kv-memory", "1GiB"),
        "--blocks and --kv-memory both set",
        "one of them",
    ),
    "memory without a model": ((*NONE, "--kv-memory", "1GiB"), "--kv-memory", "--blocks"),
    "utilization without a model": (
        (*NONE, "--memory-utilization", "0.5"),
        "--memory-utilization",
        "--blocks",
    ),
    "kernels without a model": ((*NONE, "--kernels", "numba"), "--kernels needs a model", ""),
    "unknown kernels": (("run", "--kernels", "cutlass"), "cutlass", "triton"),
    "not a size": (("run", "--kv-memory", "much"), "much", "2GiB"),
    "no size at all": (("run", "--kv-memory", "0GiB"), "0GiB", "2GiB"),
    "no blocks": ((*NONE, "--blocks", "0"), "--blocks", ""),
    "more blocks than memory": ((*NONE, "--blocks", "99999999999"), "GiB", "fewer"),
    "unknown scenario": ((*NONE, "--scenario", "mixd"), "mixd", "mixed"),
    "missing scenario file": ((*NONE, "--scenario", "no/such.toml"), "no/such.toml", ""),
    "budget below seats": ((*NONE, "--max-sequences", "64", "--token-budget", "8"), "token budget 8", "64"),
    "outputs into a folder": ((*NONE, "--outputs", "/"), "--outputs /", "file"),
    "outputs nowhere": ((*NONE, "--outputs", "/no/such/x.json"), "/no/such", "folder"),
    "swap to nowhere": ((*NONE, "--preemption", "swap", "--host-blocks", "0"), "swap", "--host-blocks"),
    "speed in batch": ((*NONE, "--speed", "3"), "--speed", ""),
    "screen option in batch": ((*NONE, "--theme", "dark"), "--theme is for the screen", ""),
    "screen flag in batch": ((*NONE, "--no-mouse"), "--no-mouse is for the screen", ""),
    "no such glyphs": (("run", "--glyphs", "runes"), "--glyphs", "braille"),
    "too many pictures": (("run", "--fps", "61"), "--fps", "60"),
    "no model name": (("run", "--model", ""), "--model", "no model is given"),
    "no scenario name": ((*NONE, "--scenario", ""), "--scenario", "no scenario is given"),
    "no file name": ((*NONE, "--outputs", ""), "--outputs", "no file is given"),
    "three sizes": (
        (*NONE, "--blocks", "4", "--kv-memory", "1GiB", "--memory-utilization", "0.5"),
        "all set the size",
        "one of them",
    ),
    "unknown model": (("run", "--batch", "--model", "/no/such/model"), "/no/such/model", ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_line_and_exit_two(kvtop, case):
    arguments, names, remedy = WRONG[case]
    done = kvtop(*arguments, TERM="xterm")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert names in done.stderr and remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_control_characters_in_an_argument_are_shown_not_obeyed(kvtop):
    done = kvtop(*NONE, "--scenario", "a\x1b[31mb\nc")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_help_and_version(kvtop):
    assert "run" in kvtop("--help").stdout
    assert "--victim" in kvtop("run", "--help").stdout
    assert kvtop("--version").stdout.startswith("kvtop")


def test_a_failed_check_is_exit_one(kvtop, tmp_path):
    """A memory that breaks its own books is found by --check, told in one line."""
    (tmp_path / "sitecustomize.py").write_text(
        "from kvtop.memory.block_pool import BlockPool\n"
        "right = BlockPool.release\n"
        "def wrong(self, blocks, sequence):\n"
        "    right(self, blocks, sequence)\n"
        "    self.shared_blocks += 1\n"
        "BlockPool.release = wrong\n"
    )
    done = kvtop(
        "run", "--batch", "--model", "none", "--scenario", "full-house-swap", "--check", "--summary",
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert "I1" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_one_line(kvtop):
    with open("/dev/full", "w") as full:
        done = kvtop(*NONE, stdout=full)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["kvtop: cannot write: No space left on device"]


def test_the_scenario_is_not_overwritten(kvtop, tmp_path):
    scenario = tmp_path / "mine.toml"
    scenario.write_text("[[request]]\nprompt_tokens = 8\n")
    before = scenario.read_text()
    done = kvtop(*NONE, "--scenario", str(scenario), "--outputs", str(scenario))
    assert done.returncode == 2 and "is the scenario file" in done.stderr
    assert scenario.read_text() == before

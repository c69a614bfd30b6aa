"""Batch mode on scripted tokens: keys and meanings, formats, determinism, pipes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import pytest

NONE = ("run", "--batch", "--model", "none")


def lines(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_line_has_every_key(kvtop):
    (line,) = lines(kvtop(*NONE, "-n", "1", "--json"))
    assert list(line) == [
        "step", "blocks", "tokens", "host_blocks", "sequences", "preemptions", "cow_copies", "evictions",
        "prefix", "generated_tokens", "timing",
    ]  # fmt: skip
    assert list(line["blocks"]) == ["total", "used", "cached", "free"]
    assert list(line["tokens"]) == ["stored", "slots"]
    assert list(line["host_blocks"]) == ["total", "used"]
    assert list(line["sequences"]) == ["running", "waiting", "swapped", "finished", "aborted", "rejected"]
    assert list(line["preemptions"]) == ["swap", "recompute"]
    assert list(line["prefix"]) == ["queries", "hits"]


def test_the_same_seed_gives_the_same_bytes_outside_timing(kvtop):
    first, second, other = (
        lines(kvtop(*NONE, "-n", "400", "--json", "--tables", "--seed", seed)) for seed in ("1", "1", "2")
    )
    for run in (first, second, other):
        for line in run:
            del line["timing"]
    assert first == second
    assert first != other


def test_the_books_balance_on_every_line(kvtop):
    run = lines(kvtop(*NONE, "-n", "400", "--json", "--tables", "--seed", "1", "--check"))
    assert len(run) == 400
    for line in run:
        blocks, tokens = line["blocks"], line["tokens"]
        assert blocks["used"] + blocks["cached"] + blocks["free"] == blocks["total"]
        assert tokens["slots"] == 16 * blocks["used"]
        assert 0 <= tokens["stored"] <= tokens["slots"]
        entries = [block for table in line["tables"].values() for block in table]
        assert len(line["ref_counts"]) == blocks["used"]
        assert {int(block): count for block, count in line["ref_counts"].items()} == {
            block: entries.count(block) for block in set(entries)
        }
    assert sum(run[-1]["preemptions"].values()) > 0
    assert run[-1]["evictions"] > 0 and run[-1]["cow_copies"] > 0 and run[-1]["prefix"]["hits"] > 0


def test_a_swapped_sequence_has_no_table(kvtop):
    run = lines(kvtop(*NONE, "--scenario", "full-house-swap", "--json", "--tables"))
    swapped = [line for line in run if line["sequences"]["swapped"]]
    assert swapped
    for line in swapped:
        live = line["sequences"]["running"]
        assert len(line["tables"]) == live
        assert line["host_blocks"]["used"] > 0


def test_one_floor_per_guest(kvtop):
    run = lines(kvtop(*NONE, "--scenario", "one-floor-per-guest", "--json"))
    still = [
        line
        for line in run
        if line["sequences"]["running"] == 8
        and line["blocks"]["used"] == 328
        and line["tokens"]["stored"] == 5190
    ]
    assert still and all(line["tokens"]["slots"] == 5248 for line in still)
    assert run[-1]["sequences"]["finished"] == 8 and run[-1]["blocks"]["used"] == 0


def test_four_drafts(kvtop):
    (summary,) = lines(kvtop(*NONE, "--scenario", "four-drafts", "--summary", "--json"))
    assert summary["peak_blocks_used"] == 114
    assert summary["cow_copies"] == 3
    assert summary["generated_tokens"] == 800
    assert summary["steps"] == summary["step"] and summary["requests"] == 1
    assert summary["timing"]["tokens_per_s"] > 0


@pytest.mark.parametrize("scenario", ["full-house-swap", "full-house-recompute"])
def test_outputs_are_those_of_a_pool_that_never_fills(kvtop, tmp_path, scenario):
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    (full,) = lines(kvtop(*NONE, "--scenario", scenario, "--summary", "--json", "--outputs", str(small)))
    (empty,) = lines(
        kvtop(
            *NONE, "--scenario", scenario, "--blocks", "1000", "--summary", "--json", "--outputs", str(large)
        )
    )
    assert full["preemptions"][scenario.removeprefix("full-house-")] > 0
    assert sum(empty["preemptions"].values()) == 0
    assert full["blocks"]["used"] == 0
    assert small.read_bytes() == large.read_bytes()
    outputs = json.loads(small.read_text())
    assert list(outputs) == ["1", "2", "3", "4.1", "4.2", "5", "6", "7", "8.1", "8.2", "8.3", "9", "10"]
    assert sum(map(len, outputs.values())) == full["generated_tokens"]


def test_outputs_to_a_pipe(kvtop):
    done = kvtop(*NONE, "--scenario", "beams", "--summary", "--json", "--outputs", "/dev/stderr")
    assert done.returncode == 0
    assert set(json.loads(done.stderr)) >= {"1.1", "1.2"}


def test_csv_has_dotted_names(kvtop):
    done = kvtop(*NONE, "-n", "3", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["step"] for row in rows] == ["1", "2", "3"]
    assert rows[2]["blocks.total"] == "512" and "timing.run_s" in rows[2]


def test_text_is_one_line_a_step_without_escapes(kvtop):
    done = kvtop(*NONE, "-n", "5", TERM="xterm-256color", FORCE_COLOR="1")
    assert len(done.stdout.splitlines()) == 5
    assert "\x1b" not in done.stdout
    assert "running" in done.stdout


def test_no_steps_is_no_lines(kvtop):
    assert lines(kvtop(*NONE, "-n", "0", "--json")) == []


def test_a_closed_pipe_is_quiet():
    kvtop = subprocess.Popen(
        [sys.executable, "-m", "kvtop", *NONE, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert kvtop.stdout is not None and kvtop.stderr is not None
    assert kvtop.stdout.readline().startswith(b'{"step":1,')
    kvtop.stdout.close()
    assert kvtop.stderr.read() == b""
    assert kvtop.wait(timeout=20) != 0


def test_an_interrupt_ends_with_130():
    kvtop = subprocess.Popen(
        [sys.executable, "-m", "kvtop", *NONE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert kvtop.stdout is not None
    kvtop.stdout.readline()
    os.kill(kvtop.pid, 2)
    _, errors = kvtop.communicate(timeout=20)
    assert kvtop.returncode == 130
    assert errors == ""


def test_a_million_blocks(kvtop):
    (summary,) = lines(kvtop(*NONE, "--blocks", "1000000", "-n", "50", "--summary", "--json"))
    assert summary["blocks"]["total"] == 1_000_000
    assert summary["generated_tokens"] > 0

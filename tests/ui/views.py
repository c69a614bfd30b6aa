"""Frames of a scripted session, and the lines of the inspector's pages as text."""

from __future__ import annotations

import dataclasses

from kvtop.ui.draw.palette import load_palette
from kvtop.ui.draw.text import visible
from kvtop.ui.frame.row import RowKey
from kvtop.ui.frame.rows import table_rows
from kvtop.ui.frame.view import View
from kvtop.ui.panels.inspector.sequence import sequence_page

PALETTE = load_palette("dark")
PLAIN = PALETTE.style("text")


def view_of(session, **selected):
    """A frame of a scripted session, with something selected."""
    session.select(**selected)
    snapshot = session.published

    def decode(ids):
        return visible(session.text(ids))

    return View(session.status, PALETTE, decode, snapshot=snapshot, rows=table_rows(snapshot))


def texts(lines):
    return ["".join(text for text, _ in line) for line in lines]


def row_of(view, request, branch=0):
    return next(row for row in view.rows if row.key == RowKey(request, branch))


def with_snapshot(view, **fields):
    return dataclasses.replace(view, snapshot=dataclasses.replace(view.snapshot, **fields))


def sequence_lines(view, row, width=78, height=None):
    return texts(sequence_page(view, view.snapshot, row, width, height))

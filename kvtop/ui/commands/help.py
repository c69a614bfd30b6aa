"""What the help says: keys from the table of actions, how to read the screen, and the field's words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvtop.ui.commands.actions import Action, key_label
from kvtop.ui.frame.columns import BY_ID


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a term, what it means, and how the term is drawn."""

    term: str
    text: str
    ink: str = "text"
    """Key of the palette that the term is drawn in."""
    ground: str = ""
    """Key of the palette behind it; empty leaves it on the dialog."""
    also: str = ""
    """More words that a search finds it by."""

    def matches(self, words: str) -> bool:
        """Whether every word stands in the entry, whatever its case."""
        line = f"{self.term} {self.text} {self.also}".lower()
        return all(word in line for word in words.lower().split())


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the help; sections are headed by their names."""

    title: str
    sections: tuple[tuple[str, tuple[Entry, ...]], ...]


READING = (
    Entry("█", "a used block, in the colour of its owner; lower when partly filled", "used"),
    Entry("3", "a shared block, bright, with its reference count (+ above 9)", "background", "shared"),
    Entry("·", "cached: reference count 0, can still be found by its hash", "cached", "cached_track"),
    Entry(" ", "free", "text", "track"),
    Entry("▀", "two blocks in a cell: bright is shared, dark partly filled, grey cached", "used", "track"),
    Entry("▀", "many blocks in a cell: the fuller the brighter, in the colour of the largest owner", "used"),
    Entry("aA1", "without colours: used, shared, partly filled, by the owner's letter; + ^ ! flash"),
    Entry("00512", "the first block of the line; the frame says how many blocks a cell stands for"),
)
FLASHES = (
    Entry("»", "a copy on write was made here", "background", "flash_copied"),
    Entry("×", "a cached block was evicted here", "background", "flash_evicted"),
    Entry("!", "a preempted group gave this block up", "background", "flash_preempted"),
)
ROWS = (
    Entry("▌", "the colour of its blocks in the map", "used"),
    Entry("▾", "a group of samples, beams or forks; ▸ is folded"),
    Entry("◆", "tagged", "tag"),
    Entry("»", "found by the search", "match"),
    Entry("◂", "holds the selected block", "primary"),
    Entry("cursor", "stays on its sequence when rows change their order; the view stays where it is"),
)
METERS = (
    Entry("Pool", "blocks: shared, used by one, cached, free"),
    Entry("Slots", "token slots of used blocks: stored, wasted"),
    Entry("Host", "blocks of host memory that swapped groups are in"),
    Entry("hits", "share of prompt tokens found in the prefix cache, first admissions only"),
)
WORDS = (
    Entry("block", "room for a fixed number of tokens' keys and values, in all layers"),
    Entry("block table", "a sequence's physical blocks by logical index"),
    Entry("reference count", "how many table entries point at a block"),
    Entry("copy-on-write", "a shared block is copied before a sequence writes to it"),
    Entry("prefix cache", "full blocks that can be found by a hash of everything up to their end"),
    Entry("evict", "take a cached block, the one idle for longest, for something else"),
    Entry("preempt", "take all blocks of a group: by swap to host memory, or to be recomputed"),
    Entry("prefill", "computing the keys and values of many tokens at once"),
    Entry("decode", "computing one token for each sequence"),
    Entry("internal waste", "slots of a region or block that its owner does not fill"),
)


def key_page(actions: Iterable[Action]) -> Page:
    """Every action with its keys, by section."""
    sections: dict[str, list[Entry]] = {}
    for action in actions:
        keys = " ".join(map(key_label, action.keys)) or "no key"
        sections.setdefault(action.section, []).append(Entry(keys, action.help, also=action.id))
    return Page("Keys", tuple((name, tuple(entries)) for name, entries in sections.items()))


def column_entries() -> tuple[Entry, ...]:
    """What every column of the sequences means, from their one table."""
    return tuple(Entry(column.title, column.meaning, also=column.name) for column in BY_ID.values())


def pages(actions: Iterable[Action], panels: tuple[Entry, ...] = ()) -> tuple[Page, ...]:
    """The help, page by page; `panels` are the words of the panels."""
    return (
        key_page(actions),
        Page(
            "Screen",
            (
                ("Block map", READING),
                ("Flashes", FLASHES),
                ("Sequences", column_entries()),
                ("Rows", ROWS),
                ("Meters", METERS),
                ("Other panels", panels),
            ),
        ),
        Page("Words", (("Memory", WORDS),)),
    )


def found(all_pages: Iterable[Page], words: str) -> Page:
    """The entries of all pages that match, under their sections' names."""
    sections = []
    for page in all_pages:
        for name, entries in page.sections:
            if matching := tuple(entry for entry in entries if entry.matches(words)):
                sections.append((name, matching))
    return Page(f"“{words}”", tuple(sections))

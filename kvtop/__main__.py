"""`python -m kvtop` is the command `kvtop`."""

from __future__ import annotations

from kvtop.cli import main

if __name__ == "__main__":
    main()

"""`python -m simfl`."""

from __future__ import annotations

from simfl.cli import main

main()

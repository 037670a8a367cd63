"""One line of the package, replaced."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = "dsv4_npu_tree"


class StaleMutant(Exception):
    """The package no longer has the line that a mutant replaces, or has it more than once."""


@dataclass(frozen=True)
class Mutant:
    """rule: what the line keeps. file: inside the package. original, mutated: whole lines without their indentation.
    test: pytest node id of the test that must fail."""

    rule: str
    file: str
    original: str
    mutated: str
    test: str

    def line(self, root: Path) -> int:
        """Number of the line under ``root``, the folder that holds the package. Raises StaleMutant."""
        lines = (root / PACKAGE / self.file).read_text().splitlines()
        found = [number for number, line in enumerate(lines, 1) if line.strip() == self.original]
        if len(found) != 1:
            raise StaleMutant(f"{self.rule}: {self.file} has {len(found)} lines {self.original!r}; expected one")
        return found[0]

    def apply(self, root: Path) -> None:
        path, number = root / PACKAGE / self.file, self.line(root)
        lines = path.read_text().splitlines(keepends=True)
        lines[number - 1] = lines[number - 1].replace(self.original, self.mutated)
        path.write_text("".join(lines))

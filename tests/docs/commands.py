"""The command lines of a Markdown page, as a reader would type them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "src/easerve/builtin/README.md"]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
ENDS = {"|", "||", "&&", ";", ">"}


@dataclass(frozen=True)
class Line:
    """`whole`: from a block, to be typed as it stands; else it may only name a command or an option."""

    words: Sequence[str]
    whole: bool

    def arguments(self, program: str) -> list[str] | None:
        """What a program gets that the line calls by its name, its path or `python -m`; None if it calls none.

        `[options]` stands for what one may give.
        """
        for place, word in enumerate(self.words):
            called = word.endswith(f"/{program}") or (place == 0 and word == program)
            if called or self.words[max(0, place - 1) : place + 1] == ["-m", program]:
                return [one for one in self.words[place + 1 :] if not one.startswith("[")]
        return None

    def script(self) -> tuple[str, list[str]] | None:
        """The path of a script that Python runs, and its arguments."""
        for place, word in enumerate(self.words[1:], 1):
            if word.endswith(".py") and self.words[place - 1].rsplit("/")[-1] == "python":
                return word, list(self.words[place + 1 :])
        return None


def lines(page: str) -> list[Line]:
    """Of fenced and indented blocks, and of code within the text."""
    text = FENCED.sub("", page)
    blocks = [block for _, block in FENCED.findall(page)] + INDENTED.findall(text)
    spans = [" ".join(span.split()) for span in INLINE.findall(INDENTED.sub("", text))]
    return [
        *(Line(words, True) for block in blocks for words in _words(block)),
        *(Line(words, False) for span in spans for words in _words(span)),
    ]


def _words(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # an apostrophe of a text or a program
            continue
        end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
        if words:
            yield words[:end]

"""Words of a text, and which word translates which.

**What is a word.** In the text punctuation leans on the word before it ("Hund,"). Alignments count words without it:
`word_spans` finds them in any text, by letters, digits and what joins them inside a word (o'clock, twenty-one,
teacher's).
"""

import re
from typing import NamedTuple

Link = tuple[int, int]
_WORD = re.compile(r"\w+(?:['’-]\w+)*['’]?")
_LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})", re.ASCII)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words are: (start, end) in characters, punctuation left out. Alignments number these, from 0."""
    return [match.span() for match in _WORD.finditer(text)]


class Alignment(NamedTuple):
    """Links (source word, target word), counted from 0 and sorted; the sure ones are among the possible ones.

    Sure links say the same; possible ones (Och and Ney 2003) are the words that one language needs beside them, as "of"
    beside the genitive in "the roof of the house". Some words have no link: "does" in a question.
    """

    sure: tuple[Link, ...]
    possible: tuple[Link, ...]

    def __str__(self) -> str:
        """Pharaoh format: "0-0 1-2 3p4", where p marks a link that is possible but not sure."""
        sure = set(self.sure)
        return " ".join(f"{i}{'-' if (i, j) in sure else 'p'}{j}" for i, j in self.possible)

    @classmethod
    def parse(cls, text: str) -> "Alignment":
        """The alignment that `str` writes so. Raises ValueError for a link that is none."""
        sure, possible = [], []
        for item in text.split():
            link = _LINK.fullmatch(item)
            if link is None:
                raise ValueError(f"{item!r} is no link of Pharaoh format, as 0-0 or 3p4 are")
            possible.append((int(link[1]), int(link[3])))
            if link[2] == "-":
                sure.append(possible[-1])
        return cls(tuple(sorted(sure)), tuple(sorted(possible)))

    def reversed(self) -> "Alignment":
        """The same links, from target to source."""
        return Alignment(*(tuple(sorted((j, i) for i, j in links)) for links in self))

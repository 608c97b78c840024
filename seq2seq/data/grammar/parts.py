"""The parts of the built-in corpus: training, validation and test data, and challenge sets.

**Who sees what.** Every sentence belongs to one of four shares, by a hash of its German text: training, validation,
test, challenge. So no sentence, on either side, is in two of them, whatever the counts and seeds. A fiftieth of all
templates (sentences with their open-class words blanked) and a twentieth of all combinations of an adjective or a verb
with a noun are seen only in the parts named after them.

| part                        | what is new in it                                                          |
|-----------------------------|----------------------------------------------------------------------------|
| train, valid, test          | sentences of 3 to 20 words                                                 |
| new_templates               | the template                                                               |
| new_combinations            | an adjective and its noun, or a verb and its object: each known, not both  |
| length_*_coordination       | 21 to 40, 41 to 60 words, by more and more main clauses                    |
| length_*_embedding          | 21 to 40, 41 to 60 words, by clauses within clauses                        |
| depth_3, depth_4            | one and two more levels of clauses in clauses than in training             |
| agreement                   | as training; subject and verb 1 to 12 words apart (1: neighbours)           |
| bracket                     | as training; the ends of the verb bracket 1 to 12 words apart               |
| pronouns                    | pairs of sentences that differ in one adjective, and so in what "it" means |

German to English is not a function; the package's docstring says where and how often.
"""

import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from seq2seq.data.grammar.clauses import TENSES, arrange
from seq2seq.data.grammar.embedding import relative_clause
from seq2seq.data.grammar.events import Actor, event
from seq2seq.data.grammar.lexicon import load_lexicon
from seq2seq.data.grammar.morphology import NOM
from seq2seq.data.grammar.nouns import noun_phrase
from seq2seq.data.grammar.pair import Pair, realise
from seq2seq.data.grammar.phrases import Derivation, Phrase, Style, join
from seq2seq.data.grammar.riddles import ask, draw_riddle
from seq2seq.data.grammar.sentences import Rule, coordinated, derive, reported, statement
from seq2seq.data.grammar.times import time_phrase
from seq2seq.errors import UserError

DEFAULT = Style()
LENGTHS = (3, 20)  # English words, as in training
DISTANCES = range(1, 13)
_REPEATS = 20_000  # of sentences that were there before, in a row: then there are no more

Accept = Callable[[Pair], bool]


def share(pair: Pair) -> str:
    """Which of the four shares a sentence belongs to."""
    bucket = zlib.crc32(pair.tgt.encode()) % 100
    return "train" if bucket < 84 else "valid" if bucket < 89 else "test" if bucket < 94 else "challenge"


def is_new_template(pair: Pair) -> bool:
    """Whether the template is kept out of everything but the part named after it."""
    return zlib.crc32(pair.tags.template.encode()) % 50 == 0


def _ordinary(name: str) -> Accept:
    return lambda pair: share(pair) == name and _is_ordinary(pair)


def _is_ordinary(pair: Pair) -> bool:
    return _is_short(pair) and not is_new_template(pair)


def _is_short(pair: Pair) -> bool:
    return LENGTHS[0] <= pair.tags.length <= LENGTHS[1] and pair.tgt.count(" ") < LENGTHS[1]


def _is_long(low: int, high: int) -> Accept:
    return lambda pair: low <= pair.tags.length <= high and not is_new_template(pair)


def _drawn(style: Style, accept: Accept, *rules: Rule) -> Callable[[random.Random], Iterator[Pair]]:
    """Pairs by the rules, drawn until they please."""

    def draw(rng: random.Random) -> Iterator[Pair]:
        while True:
            pair = derive(rng, style, rules[int(rng.random() * len(rules))] if rules else None)
            if accept(pair):
                yield pair

    return draw


def _combinations(rng: random.Random) -> Iterator[Pair]:
    """By turns an adjective with a noun, and a verb with an object, that never meet in training."""
    styles = replace(DEFAULT, unseen="adjective", adjective=0.9), replace(DEFAULT, unseen="object")
    sources = [_drawn(style, _has_tag("unseen_" + style.unseen))(rng) for style in styles]
    while True:
        for source in sources:
            yield next(source)


def _has_tag(tag: str) -> Accept:
    return lambda pair: tag in pair.tags.phenomena and _is_ordinary(pair)


def _by_distance(measure: str, far: Rule) -> Callable[[random.Random], Iterator[Pair]]:
    """Equally many pairs of each distance, in cycles from near to far; `far` is a rule that makes it long."""
    style = replace(DEFAULT, relative=0.5, postmodifier=0.6, adverbial=0.9, time=0.8, adjective=0.6, front=0.1)

    def draw(rng: random.Random) -> Iterator[Pair]:
        waiting: dict[int, list[Pair]] = {distance: [] for distance in DISTANCES}
        source = _drawn(style, lambda pair: _is_ordinary(pair) and share(pair) == "challenge", statement, far, far)(rng)
        while True:
            for distance in DISTANCES:
                while not waiting[distance]:
                    pair = next(source)
                    found = getattr(pair.tags, measure)
                    if found in waiting:
                        waiting[found].append(pair)
                yield waiting[distance].pop()

    return draw


def _wide_bracket(d: Derivation) -> tuple[Phrase, str]:
    """Much between the auxiliary and the end of the clause."""
    tense = d.pick(("perfect", "future", "must", "can", "would like", "wanted to", "was able"))
    clause = event(d, frames=("double", "put", "acc", "prep"), tense=TENSES[tense])
    if TENSES[tense].time:
        clause.put("time", time_phrase(d, TENSES[tense].time))
    return arrange(d, clause, "statement", "verb second"), "."


def _far_subject(d: Derivation) -> tuple[Phrase, str]:
    """A subject with a clause of its own before the verb comes."""
    verb = d.lexicon.verbs_that(("acc", "none", "goal", "dat")).draw(d.rng)
    noun = d.lexicon.nouns_of(verb.subjects).draw(d.rng)
    subject = noun_phrase(d, noun, NOM)
    tense = TENSES[d.pick(("present", "perfect", "future"))]
    relative = relative_clause(d, subject, "not past")
    if relative is not None:
        subject = subject._replace(phrase=join(subject.phrase, relative))
    clause = event(d, verb=verb, subject=Actor(subject, noun), tense=tense, plain=True)
    return arrange(d, clause, "statement", "verb second"), "."


def _pronouns(rng: random.Random) -> Iterator[Pair]:
    """Two by two: the same sentence about its subject and about its object; as many as there are."""
    lexicon = load_lexicon()
    seen: set[str] = set()
    repeats = 0
    while repeats < _REPEATS:
        repeats += 1
        riddle = draw_riddle(rng, lexicon, held_out=True)
        both = []
        for about_subject in (True, False):
            d = Derivation(rng, lexicon, DEFAULT)
            both.append(realise(d, ask(d, riddle, about_subject=about_subject), "."))
        if seen.isdisjoint(pair.src for pair in both):
            repeats = 0
            seen.update(pair.src for pair in both)
            yield from both


def _grown(low: int, high: int, *, clauses: tuple[int, int]) -> Callable[[random.Random], Iterator[Pair]]:
    return _drawn(replace(DEFAULT, clauses=clauses), _is_long(low, high), coordinated)


def _nested(low: int, high: int, *, depth: int) -> Callable[[random.Random], Iterator[Pair]]:
    style = replace(DEFAULT, depth=depth, embed=0.85, relative=0.5, adjective=0.5)
    return _drawn(style, _is_long(low, high), statement, reported, reported)


def _deep(depth: int) -> Callable[[random.Random], Iterator[Pair]]:
    style = replace(
        DEFAULT,
        depth=depth,
        embed=0.8,
        relative=0.4,
        adjective=0.15,
        adverbial=0.2,
        time=0.2,
        postmodifier=0.0,
    )
    return _drawn(style, lambda pair: pair.tags.depth == depth and _is_ordinary(pair), statement, reported, reported)


PARTS: dict[str, Callable[[random.Random], Iterator[Pair]]] = {
    "train": _drawn(DEFAULT, _ordinary("train")),
    "valid": _drawn(DEFAULT, _ordinary("valid")),
    "test": _drawn(DEFAULT, _ordinary("test")),
    "new_templates": _drawn(DEFAULT, lambda pair: is_new_template(pair) and _is_short(pair)),
    "new_combinations": _combinations,
    "length_21_40_coordination": _grown(21, 40, clauses=(2, 5)),
    "length_41_60_coordination": _grown(41, 60, clauses=(4, 8)),
    "length_21_40_embedding": _nested(21, 40, depth=5),
    "length_41_60_embedding": _nested(41, 60, depth=9),
    "depth_3": _deep(3),
    "depth_4": _deep(4),
    "agreement": _by_distance("agreement", _far_subject),
    "bracket": _by_distance("bracket", _wide_bracket),
    "pronouns": _pronouns,
}


def check_parts(names: Iterable[str]) -> None:
    """Raise UserError for a name that is not in `PARTS`."""
    for name in names:
        if name not in PARTS:
            raise UserError(f"the built-in language has no part {name!r}: choose from {', '.join(PARTS)}")


def part(name: str, *, count: int, seed: int) -> Iterator[Pair]:
    """The first `count` pairs of a part, no two with the same English; the same for the same seed, on any machine.

    Raises UserError for a name that is not in `PARTS`, or if the part has not so many sentences.
    """
    check_parts([name])
    rng = random.Random(f"{name} {seed}")  # seeded with a string, through SHA-512: parts do not repeat one another
    seen: set[str] = set()
    repeats = 0
    for pair in PARTS[name](rng):
        if len(seen) == count:
            return
        repeats += 1
        if pair.src not in seen:
            repeats = 0
            seen.add(pair.src)
            yield pair
        elif repeats == _REPEATS:
            break
    if len(seen) < count:
        raise UserError(f"the part {name} of the built-in language has no more than {len(seen)} pairs: ask for fewer")

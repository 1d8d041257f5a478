"""Whether a ledger's past was changed: its chain of hashes, against heads of it that were kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from money.chain import digest
from money.ledger import Ledger
from spec.ledger import read


@dataclass(frozen=True)
class Verified:
    lines: int
    shows: tuple[str, ...]
    """What is shown, and what cannot be, in plain words."""
    faults: tuple[str, ...]


def verify(ledger: Ledger, heads: Mapping[str, str]) -> Verified:
    """`heads`: name of a receipt, and the head of the chain that it holds."""
    lines = ledger.lines()
    places = {digest(line): number for number, line in enumerate(lines, 1)}
    named = {name: head for name, head in heads.items() if head}
    known = {name: places[head] for name, head in named.items() if head in places}
    faults = (
        *_breaks(lines),
        *(
            f"receipt {name}: the line with hash {head} is not in the ledger: lines were changed or cut off after that "
            "receipt was written, or it belongs to another ledger; compare with a copy of the ledger"
            for name, head in named.items()
            if name not in known
        ),
    )
    return Verified(len(lines), () if faults else tuple(_shows(len(lines), known)), faults)


def _breaks(lines: Sequence[bytes]) -> Iterator[str]:
    """Each line that does not follow from the one before it."""
    previous = ""
    for number, line in enumerate(lines):
        try:
            event = read(line)
        except ValueError as error:
            yield f"line {number + 1}: it is no event: {error}"
        else:
            if event.seq != number:
                yield f"line {number + 1}: it says that it is number {event.seq + 1}: lines are missing or moved"
            if event.previous != previous:
                yield f"line {number + 1}: it does not hold the hash of line {number}: one of the two was changed"
        previous = digest(line)


def _shows(lines: int, known: Mapping[str, int]) -> Iterator[str]:
    if not lines:
        yield "the ledger holds no line: nothing to verify, and nothing that tells an unused ledger from a lost one"
        return
    yield f"shown: each of the {lines} lines holds the hash of the one before, so none was changed without all after it"
    last = max(known.values(), default=0)
    if last:
        yield (
            f"shown: {len(known)} receipts hold the hash of a line of this ledger, the latest that of line {last}: "
            f"lines 1 to {last} are as they were when that receipt was written"
        )
        yield (
            "not shown: that nobody rewrote the ledger who could also change every copy of every receipt; keep a copy "
            "where the ledger's writers cannot reach it"
        )
    else:
        yield "not shown: that the ledger was not rewritten as a whole: no receipt holds a hash of it"
    yield f"not shown: what came after line {last}: lines there may have been changed, or the last of them cut off"

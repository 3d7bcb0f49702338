"""What somebody probably meant by a word that is not known."""

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that is most like it, whatever its upper and lower case; None where none is like it."""
    by_lower = {item.lower(): item for item in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None

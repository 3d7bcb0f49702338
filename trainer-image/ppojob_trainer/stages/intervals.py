"""How sure a share is."""

import math

Z95 = 1.959963984540054
"""The normal distribution's 97.5 % quantile."""


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; it stays in 0 to 1 and says something also where all trials ended the same.

    `successes` need not be whole (a tie is half of one): the interval is then wider than it had to be, since halves
    vary less.
    """
    if trials <= 0:
        return 0.0, 1.0
    share = successes / trials
    denominator = 1 + Z95**2 / trials
    middle = (share + Z95**2 / (2 * trials)) / denominator
    half = Z95 / denominator * math.sqrt(share * (1 - share) / trials + Z95**2 / (4 * trials**2))
    return max(0.0, middle - half), min(1.0, middle + half)

"""Figures that grow by their nature, out of measurements that do not all."""

from __future__ import annotations

from collections.abc import Iterable


def rising(figures: Iterable[float]) -> list[float]:
    """Figures that never fall, as near to the given ones as such figures can be.

    Neighbours in the wrong order take their mean, and so on with what comes before them: the least
    squares under that order (Barlow et al. 1972, pool adjacent violators). The largest so far would
    let one late sample of a small copy slow all down that are a little bigger, the smallest of all
    that follow one lucky sample of a big one hurry all that are smaller.

    >>> rising([1.0, 4.0, 2.0, 5.0])
    [1.0, 3.0, 3.0, 5.0]
    """
    pools: list[tuple[float, int]] = []
    for figure in figures:
        mean, count = figure, 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean = (before * many + mean * count) / (many + count)
            count += many
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]

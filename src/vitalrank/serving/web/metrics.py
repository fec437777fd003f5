"""Counters of the server in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Requests by path and status, their seconds, requests in progress, reloads.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.observe("/recommend", 200, 0.004)
    >>> print(metrics.text({}).splitlines()[2])
    vitalrank_requests_total{path="/recommend",status="200"} 1
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.reloads = 0
        self.failed_reloads = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is one of the server's own, so that callers cannot make new series."""
        self._requests[path, status] += 1
        self._buckets.setdefault(path, [0] * (len(SECONDS) + 1))[bisect_left(SECONDS, seconds)] += 1
        self._sums[path] += seconds  # type: ignore[assignment]

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """Everything, with more values by name: ``(help, value)``."""
        lines = _head("vitalrank_requests_total", "counter", "Requests by path and status.")
        lines += [
            f'vitalrank_requests_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self._requests.items())
        ]
        name = "vitalrank_request_seconds"
        lines += _head(name, "histogram", "Seconds from the first byte of a request to the last of its answer.")
        for path, counts in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*SECONDS, "+Inf"), counts, strict=True):
                total += count
                lines.append(f'{name}_bucket{{path="{path}",le="{bound}"}} {total}')
            lines += [f'{name}_sum{{path="{path}"}} {self._sums[path]}', f'{name}_count{{path="{path}"}} {total}']
        own = {
            "vitalrank_requests_in_flight": ("Requests in progress.", self.in_flight),
            "vitalrank_reloads_total": ("Models loaded after the first.", self.reloads),
            "vitalrank_failed_reloads_total": ("Reloads that failed; the model before stayed.", self.failed_reloads),
        }
        for key, (meaning, value) in {**own, **gauges}.items():
            kind = "counter" if key.endswith("_total") else "gauge"
            lines += [*_head(key, kind, meaning), f"{key} {value}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]

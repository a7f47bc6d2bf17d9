"""What Tiltyard costs, measured as ratios in one run against the bare thing (docs/benchmarks.md)."""

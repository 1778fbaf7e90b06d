"""Benchmarks: ratios in one run against peers that do the same work, interleaved, medians."""

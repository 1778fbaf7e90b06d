"""Minimal pairs: made from treebanks and from templates, and read from public suites."""

"""The laboratory: benchmarks and studies of llrnn, with their verbs; not part of the installed library."""

"""The ground that every room stands on: errors, files, bundles of tensors, caches, and how results are shown."""

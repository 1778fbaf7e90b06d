"""From batches to a run folder: objectives, updates, records."""

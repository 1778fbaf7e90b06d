"""Files in, ids out: corpora, lexicons, tables, vocabularies."""

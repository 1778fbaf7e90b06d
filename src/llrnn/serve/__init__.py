"""The server: an HTTP API and a page over trained models. Thin: every number comes from the library (extra `serve`)."""

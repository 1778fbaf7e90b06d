"""Experiments: whole studies that one command runs and runs again."""

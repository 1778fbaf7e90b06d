"""A trained model judged and explained: evaluation, explanations, rescoring, adaptation."""

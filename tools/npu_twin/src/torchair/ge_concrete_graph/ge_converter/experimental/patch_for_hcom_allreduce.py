"""Imported by SGLang for its side effect on a card; none here."""

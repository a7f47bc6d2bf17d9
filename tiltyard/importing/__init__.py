"""Importers: somebody else's tasks as ours, with what is known to be wrong with them (docs/importing.md)."""

"""Episodes opened again: replayed, branched, graded anew, explained, kept as regression cases."""

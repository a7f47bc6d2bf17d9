"""Policies of other people: a child process an episode, spoken to in JSON lines."""

"""Error details of calls."""

"""The log as records: one reader of events.jsonl, what is found in it, and what it says."""

"""Who has which GPU: the table of claims, MPS, time slices, and use as it is now."""

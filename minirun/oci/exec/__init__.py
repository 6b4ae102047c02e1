"""`exec`: one more process in a container that runs."""

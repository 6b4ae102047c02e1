"""Namespaces that stage 1 does not make by itself: joined ones, and user namespaces."""

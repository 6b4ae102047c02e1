"""Figures 1, 2 and 3, drawn as SVG from recordings."""

"""`run --step`: a run that is held at each stage, shown on a screen, in lines, or on a page."""

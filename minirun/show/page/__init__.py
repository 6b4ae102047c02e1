"""A recording as a page of HTML: the document, what its script knows, and the script itself."""

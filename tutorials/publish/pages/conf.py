"""What Sphinx is to do; read by Sphinx alone."""

project = "minirun"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "minirun"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
myst_heading_anchors = 4
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]

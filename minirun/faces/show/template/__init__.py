"""Go's templates, as docker's --format has them: '{{.Names}}\\t{{.Status}}', '{{json .State}}'.

formats     --format: a line for each row, a table, or JSON
execution   a template, and its text for some data; reading: its parser
values      what a template prints, and how; functions: json, join, printf …
"""

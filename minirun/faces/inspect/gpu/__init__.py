"""What a living container has of GPUs: why, and what would change.

why         the findings: asked, given, in force, and what does not fit
observed    nodes, rules and mounts that the container has now
loading     whether its programs find the driver's libraries
report      the findings as data and as text
way         which way they came, and what has chosen it, in a line
diff        one request in both modes, legacy and cdi
"""

"""Writes them: `make reference`."""

import json

from tutorials.publish.reference import api, commands, conformance, docker, events
from tutorials.publish.tab import runs

for page in (api, commands, conformance, docker, events):
    page.PAGE.write_text(page.text())
events.SCHEMA.write_text(json.dumps(events.schema(), indent=1, ensure_ascii=False) + "\n")
runs.write()

"""The log as text: a row for each event, as lanes, columns or sentences; live or afterwards.

lanes       rows as a picture of two lanes
sentences   rows as sentences, for a screen reader
paint       rows as the text that goes out, with colours
live        while the run goes on; viewers: who looks on; pacing: --pace
played      a recording
dry_run     --dry-run
network_plan  --dry-run: what becomes of networks
network_picture   a network
explained   topics of minirun.faces.knowledge
"""

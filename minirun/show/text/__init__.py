"""The log as text: a row for each event, as lanes, columns or sentences; live or afterwards."""

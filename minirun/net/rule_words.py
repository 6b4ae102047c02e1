"""A rule of nftables in words, as nft(8) writes it, from what `nft -j list ruleset` says."""

from __future__ import annotations

from minirun.net import nft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def rule_words(rule: dict[str, Any]) -> str:
    """Return a rule as nft(8) writes it, without its counters and its comment."""
    parts = [_statement(*next(iter(one.items()))) for one in rule["expr"]]
    return " ".join(filter(None, parts))


def _statement(kind: str, body: Any) -> str:
    if kind == "match":
        left, right = expression_words(body["left"]), expression_words(body["right"])
        return f"{left} {right}" if body["op"] in ("==", "in") else f"{left} {body['op']} {right}"
    if kind in ("jump", "goto"):
        return f"{kind} {body['target']}"
    if kind in ("dnat", "snat") and body:
        port = f":{expression_words(body['port'])}" if "port" in body else ""
        family = f" {body['family']}" if "family" in body else ""
        return f"{kind}{family} to {expression_words(body['addr'])}{port}"
    if kind == "vmap":
        return f"{expression_words(body['key'])} vmap {expression_words(body['data'])}"
    if kind == "xt":
        return f"xt {body['name']}" if body and "name" in body else "xt"
    return "" if kind in ("counter", "log") else kind


def expression_words(body: Any) -> str:
    """Return an expression, or an element of a set, as nft(8) writes it."""
    if isinstance(body, list):
        return ",".join(map(expression_words, body))
    if not isinstance(body, dict):
        return str(body)
    kind, inner = next(iter(body.items()))
    if kind == "concat":
        *keys, last = inner  # a port comes last, a protocol before it
        named = [nft.PROTOCOLS.get(key, key) if isinstance(key, int) else key for key in keys]
        return " . ".join(map(expression_words, [*named, last]))
    if kind == "prefix":
        return f"{inner['addr']}/{inner['len']}"
    if kind == "range":
        return "-".join(map(expression_words, inner))
    if kind == "set":
        return f"{{ {', '.join(map(expression_words, inner))} }}"
    if kind == "meta":
        return str(inner["key"])
    if kind == "payload" and "field" in inner:
        return f"{inner['protocol']} {inner['field']}"
    if kind == "ct":
        return f"ct {inner['key']}"
    if kind == "fib":
        return f"fib {' . '.join(inner.get('flags', ()))} {inner.get('result')}"
    if kind == "map":
        return f"{expression_words(inner['key'])} map {expression_words(inner['data'])}"
    if kind == "elem":
        return expression_words(inner["val"])
    return str(kind)

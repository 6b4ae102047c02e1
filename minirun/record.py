"""Records: the plain tuples with names that carry everything between rooms.

A type checker sees :class:`typing.NamedTuple`; the interpreter runs the forty lines below,
because importing ``typing`` costs 4 ms and ``collections`` another 1 ms, on a start that should
take 18 ms altogether (design: "the hot path is sacred").

    class Point(Record):
        x: int
        y: int = 0
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    from _collections import _tuplegetter  # what collections.namedtuple itself uses

    class _RecordType(type):
        def __new__(mcls, name, bases, namespace):
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            namespace["_fields"] = fields
            namespace["_defaults"] = defaults
            namespace["_tail"] = tuple(defaults.values())
            namespace["__slots__"] = ()
            for index, field in enumerate(fields):
                namespace[field] = _tuplegetter(index, field)
            return type.__new__(mcls, name, bases, namespace)

    class Record(tuple, metaclass=_RecordType):
        """Base of all records."""

        def __new__(cls, *args, **named):
            """Take fields as a function takes its arguments."""
            if not named:
                missing = len(cls._fields) - len(args)
                if not missing:
                    return tuple.__new__(cls, args)
                if 0 < missing <= len(cls._tail):
                    return tuple.__new__(cls, (*args, *cls._tail[-missing:]))
            rest = cls._fields[len(args) :]
            known = {**cls._defaults, **named}
            lacking = [field for field in rest if field not in known]
            if lacking or len(args) > len(cls._fields) or [n for n in named if n not in rest]:
                raise TypeError(f"{cls.__name__} takes {cls._fields}, not {args} {named}")
            return tuple.__new__(cls, (*args, *[known[field] for field in rest]))

        def __repr__(self):
            pairs = zip(self._fields, self, strict=True)
            fields = ", ".join(f"{name}={value!r}" for name, value in pairs)
            return f"{type(self).__name__}({fields})"

        def __getnewargs__(self):
            return tuple(self)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **new):
            return type(self)(**{**self._asdict(), **new})


__all__ = ["Record"]

"""Records: the plain tuples with names that carry everything between rooms.

A type checker sees :class:`typing.NamedTuple`; the interpreter runs the thirty lines below,
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

    def _new(cls, *args, **named):
        if not named:
            missing = len(cls._fields) - len(args)
            if not missing:
                return tuple.__new__(cls, args)
            if 0 < missing <= len(cls._tail):
                return tuple.__new__(cls, (*args, *cls._tail[-missing:]))
        values = dict(zip(cls._fields, args, strict=False))
        if len(args) > len(cls._fields) or not named.keys() <= set(cls._fields) - values.keys():
            raise TypeError(f"{cls.__name__} takes {cls._fields}, not {args} {named}")
        values = {**cls._defaults, **values, **named}
        if len(values) != len(cls._fields):
            raise TypeError(f"{cls.__name__} lacks {sorted(set(cls._fields) - values.keys())}")
        return tuple.__new__(cls, (values[field] for field in cls._fields))

    def _repr(self):
        pairs = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    class _RecordType(type):
        def __new__(mcls, name, bases, namespace):
            if not bases:
                return type.__new__(mcls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            namespace["_defaults"] = {f: namespace.pop(f) for f in fields if f in namespace}
            namespace["_fields"] = fields
            namespace["_tail"] = tuple(namespace["_defaults"].values())
            namespace["__slots__"] = ()
            namespace["__new__"] = _new
            namespace["__repr__"] = _repr
            namespace["__getnewargs__"] = lambda self: tuple(self)
            namespace["_asdict"] = lambda self: dict(zip(self._fields, self, strict=True))
            namespace["_replace"] = lambda self, **new: type(self)(**{**self._asdict(), **new})
            for index, field in enumerate(fields):
                namespace[field] = _tuplegetter(index, field)
            return type.__new__(mcls, name, (tuple,), namespace)

    class Record(metaclass=_RecordType):
        """Base of all records."""


__all__ = ["Record"]

"""Records: tuples with named fields, which the rooms pass to each other.

A type checker sees :class:`typing.NamedTuple`; the interpreter runs the lines below,
because importing ``typing`` costs 4 ms and ``collections`` another 1 ms, at every start.

    class Point(Record):
        x: int
        y: int = 0
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    from _operator import itemgetter  # operator itself imports more

    class _RecordType(type):
        def __new__(mcls, name, bases, namespace):
            """Make the class: its annotations are the fields, its attributes their defaults."""
            # Since Python 3.14 the namespace has a function in place of the annotations: PEP 649.
            # The class answers for them in every version.
            cls = type.__new__(mcls, name, bases, {**namespace, "__slots__": ()})
            fields = tuple(cls.__annotations__)
            defaults = {field: namespace[field] for field in fields if field in namespace}
            cls._fields = fields
            cls._field_defaults = defaults
            cls._tail = tuple(defaults.values())
            for index, field in enumerate(fields):
                setattr(cls, field, property(itemgetter(index)))
            return cls

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
            known = {**cls._field_defaults, **named}
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
            """Return field → value."""
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **new):
            """Return a copy with other values in the fields that are named. Raises TypeError."""
            changed = tuple.__new__(type(self), map(new.pop, self._fields, self))
            if new:
                raise TypeError(f"{type(self).__name__} has {self._fields}, and no {list(new)}")
            return changed


__all__ = ["Record"]

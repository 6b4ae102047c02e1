"""System calls that are answered by their number alone, before libseccomp's program is asked.

Nearly every rule of a profile looks at no argument, so its answer is the same for a whole range of
numbers. Here each architecture gets a few comparisons a range, and libseccomp, which writes some
instructions for each call, and takes 6 ms for 400 calls on three architectures, has the rest:

    ld  [4]                          the architecture
    jeq #0xc000003e, +1, 0           x86_64?
    ja  next architecture
    ld  [0]                          the number of the call
    jge #0, 0, +2                    0 …
    jgt #38, +1, 0                   … to 38 …
    ret #ALLOW                       … are allowed
    …
    ja  program                      for the others libseccomp's program answers

Newer calls: a profile lists the calls that its author knew. A program built for a later kernel asks
for a later call, and falls back to an older one if the answer is ENOSYS, "no such call"; at EPERM
it gives up (glibc's clone3, faccessat2 and fchmodat2 each broke containers so). What is no newer
than the newest call of the profile was known, and its author meant the refusal.

What the spec says: of newer calls nothing. What the real stack does: runc puts instructions for
newer calls before libseccomp's program, as here; all others are libseccomp's there.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Range = tuple[int, int, int]
    """The first number, the last one, and the answer: SECCOMP_RET_*."""
    Instruction = tuple[int, int, int, int]

_LD_ABS, _JA, _JEQ, _JGT, _JGE, _RET = 0x20, 0x05, 0x15, 0x25, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data: seccomp(2)
_TO_THE_END = -1
ENOSYS = 0x00050000 | 38
_X86_64, _X32, _X32_BIT = 0xC000003E, 0x4000003E, 0x40000000
_HIGHEST = 0xFFFFFFFF


def before(answers: "Mapping[int, Mapping[int, int]]", newest: "Mapping[int, int]") -> bytes:
    """Return the instructions for {architecture's token: {number: answer}}.

    `newest` has each architecture's newest call that the profile names; newer ones get ENOSYS, but
    x32's. The kernel takes x32 for x86_64, with a bit set in the number.
    """
    if not (newest or any(answers.values())):
        return b""
    program: "list[Instruction]" = [(_LD_ABS, 0, 0, _ARCHITECTURE)]
    for token in answers:
        if token == _X32:
            continue
        ranges = _ranges(answers[token])
        if token in newest:
            last = _X32_BIT - 1 if token == _X86_64 else _HIGHEST
            ranges.append((newest[token] + 1, last, ENOSYS))
        if token == _X86_64:
            ranges += _ranges(answers.get(_X32, {}))
        body = _body(ranges)
        program += [(_JEQ, 1, 0, token), (_JA, 0, 0, len(body)), *body]
    return b"".join(_encode(*row, len(program) - n) for n, row in enumerate(program, 1))


def _ranges(answers: "Mapping[int, int]") -> "list[Range]":
    """Return numbers in their order, those together that have the same answer."""
    ranges: "list[Range]" = []
    for number in sorted(answers):
        first, last, answer = ranges[-1] if ranges else (-1, -1, -1)
        if (last + 1, answer) == (number, answers[number]):
            ranges[-1] = (first, number, answer)
        else:
            ranges.append((number, number, answers[number]))
    return ranges


def _body(ranges: "list[Range]") -> "list[Instruction]":
    """Return one architecture's instructions."""
    body = [(_LD_ABS, 0, 0, _NUMBER)]
    for first, last, answer in ranges:
        body += [(_JGE, 0, 2, first), (_JGT, 1, 0, last), (_RET, 0, 0, answer)]
    return [*body, (_JA, 0, 0, _TO_THE_END)]


def _encode(code: int, yes: int, no: int, value: int, to_the_end: int) -> bytes:
    """Return struct sock_filter: linux/filter.h."""
    value = to_the_end if value == _TO_THE_END else value
    return code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")

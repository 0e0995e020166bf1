"""Makes plans.bin, the numbering plans of the world, from the data of libphonenumber.

Usage: plans.py OUT, where a Python has `phonenumbers`, libphonenumber's port that its authors keep up with it.

A plan is a finite language of digits. All of them are one minimal acyclic automaton, and a number is valid if the automaton
takes its digits: calling code and national number, as `is_valid_number` has them, perhaps with the zero between that is
dialled within the country; numbers that are set aside for films and documents are valid, too.

The file, in numbers of two bytes with the high one first: how many states there are, how many of them are ends, and for each
state ten more, the state behind each digit. State 0 takes nothing, the ends come behind it, and the last state is the start.
"""

import re
import sys

import phonenumbers
from phonenumbers import PhoneMetadata
from phonenumbers.data import _COUNTRY_CODE_TO_REGION_CODE as REGIONS

try:
    from re import _parser as parser
except ImportError:
    import sre_parse as parser

# Set aside for films, books and documents by the regulators of the United Kingdom, France, Ireland and North America, and
# the area code of films. Those of other countries are valid as they are.
RESERVED = [
    r"44(?:1632960|7700900|3069990)\d{3}",
    r"33(?:1990|2619|3530|4654|5364|6399)\d{5}",
    r"353209[12]\d{4,5}",
    r"1(?:[2-9]\d\d55501\d\d|555[2-9]\d{6})",
]

NODES = [(False, (0,) * 10)]
NUMBERS = {NODES[0]: 0}


def node(accept, children):
    key = (accept, tuple(children))
    if key not in NUMBERS:
        NUMBERS[key] = len(NODES)
        NODES.append(key)
    return NUMBERS[key]


END = node(True, (0,) * 10)


def memo(function):
    known = {}

    def ask(*arguments):
        if arguments not in known:
            known[arguments] = function(*arguments)
        return known[arguments]

    return ask


def both(decide):
    @memo
    def combine(left, right):
        (a, lefts), (b, rights) = NODES[left], NODES[right]
        if left == right == 0:
            return 0
        return node(decide(a, b), [combine(x, y) for x, y in zip(lefts, rights)])

    return combine


union = both(lambda a, b: a or b)
common = both(lambda a, b: a and b)
without = both(lambda a, b: a and not b)


@memo
def joined(left, right):
    if left == 0 or right == 0:
        return 0
    accept, children = NODES[left]
    rest = node(False, [joined(child, right) for child in children])
    return union(rest, right) if accept else rest


@memo
def any_behind(left, most):
    """What begins as a language has it, and goes on with any digits, at most so many in all."""
    if left == 0:
        return 0
    accept, children = NODES[left]
    if accept:
        return at_most(most)
    return node(False, [any_behind(child, most - 1) for child in children]) if most else 0


@memo
def at_most(digits):
    return node(True, [at_most(digits - 1)] * 10) if digits else END


@memo
def exactly(digits):
    return node(False, [exactly(digits - 1)] * 10) if digits else END


def language(parsed):
    total = END
    for kind, value in parsed:
        name = str(kind)
        if name == "LITERAL":
            one = node(False, [END if str(digit) == chr(value) else 0 for digit in range(10)])
        elif name == "IN":
            one = node(False, [END if re.fullmatch(digits_of(value), str(digit)) else 0 for digit in range(10)])
        elif name == "BRANCH":
            one = 0
            for branch in value[1]:
                one = union(one, language(branch))
        elif name == "SUBPATTERN":
            one = language(value[3])
        elif name == "MAX_REPEAT":
            low, high, inner = value
            once, one = language(inner), 0
            power = END
            for count in range(high + 1):
                one = union(one, power) if count >= low else one
                power = joined(power, once)
        else:
            raise ValueError(f"{name} in a pattern")
        total = joined(total, one)
    return total


def digits_of(items):
    signs = ""
    for kind, value in items:
        name = str(kind)
        if name == "LITERAL":
            signs += chr(value)
        elif name == "RANGE":
            signs += f"{chr(value[0])}-{chr(value[1])}"
        elif name == "CATEGORY":
            signs += r"\d"
        else:
            raise ValueError(f"{name} in a class")
    return f"[{signs}]"


def pattern(text):
    return language(parser.parse(text)) if text else 0


def described(description):
    if description is None or description.national_number_pattern is None:
        return 0
    numbers = pattern(description.national_number_pattern)
    lengths = 0
    for length in description.possible_length or ():
        lengths = union(lengths, exactly(length) if length > 0 else 0)
    return common(numbers, lengths) if lengths else numbers


KINDS = "fixed_line mobile toll_free premium_rate shared_cost personal_number voip pager uan voicemail".split()


def national(metadata):
    kinds = 0
    for kind in KINDS:
        kinds = union(kinds, described(getattr(metadata, kind)))
    return common(kinds, described(metadata.general_desc))


def plan(code):
    """The national numbers of a calling code: the first region that a number may belong to decides."""
    numbers, decided, trunk = 0, 0, 0
    for region in REGIONS[code]:
        metadata = (
            PhoneMetadata.metadata_for_nongeo_region(code)
            if region == "001"
            else PhoneMetadata.metadata_for_region(region)
        )
        own = national(metadata)
        if metadata.leading_digits:
            here = any_behind(pattern(metadata.leading_digits), 17)
            numbers = union(numbers, without(common(own, here), decided))
            decided = union(decided, here)
        else:
            numbers = union(numbers, without(own, decided))
        if metadata.national_prefix == "0":
            trunk = union(trunk, joined(pattern("0"), own))
    return union(numbers, trunk)


def main():
    world = 0
    for code in sorted(REGIONS):
        world = union(world, joined(pattern(str(code)), plan(code)))
    for text in RESERVED:
        world = union(world, pattern(text))
    reached, order = {}, []

    def visit(at):
        if at not in reached:
            reached[at] = None
            for child in NODES[at][1]:
                visit(child)
            order.append(at)

    reached[0] = None
    visit(world)
    ends = [at for at in order if NODES[at][0]]
    order = [0] + ends + [at for at in order if not NODES[at][0]]
    assert order[-1] == world and len(order) < 1 << 16
    place = {at: number for number, at in enumerate(order)}
    data = len(order).to_bytes(2, "big") + len(ends).to_bytes(2, "big")
    for at in order:
        data += b"".join(place[child].to_bytes(2, "big") for child in NODES[at][1])
    with open(sys.argv[1], "wb") as file:
        file.write(data)
    print(f"{len(order)} states, {len(ends)} ends, {len(data)} bytes, metadata of {phonenumbers.__version__}")


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    main()

"""Tells what libphonenumber thinks of examples of its own and of changed ones, one `number verdict` a line.

Usage: phone_oracle.py SEED COUNT

COUNT times, an example of a country and a kind is taken; two of three have one to three of their digits changed, lost or
doubled.
"""

import random
import sys

import phonenumbers
from phonenumbers import PhoneNumberType

KINDS = [PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE, PhoneNumberType.TOLL_FREE, PhoneNumberType.PREMIUM_RATE]


def changed(number, dice):
    place = dice.randrange(1, len(number))
    other = dice.choice(["", dice.choice("0123456789"), dice.choice("0123456789"), number[place] * 2])
    return number[:place] + other + number[place + 1 :]


def is_valid(number):
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number))
    except phonenumbers.NumberParseException:
        return False


def main():
    dice, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    regions = sorted(phonenumbers.SUPPORTED_REGIONS)
    for turn in range(count):
        example = phonenumbers.example_number_for_type(dice.choice(regions), dice.choice(KINDS))
        if example is None:
            continue
        number = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.E164)
        if turn % 3:
            for _ in range(dice.randint(1, 3)):
                number = changed(number, dice)
        if 9 <= len(number) <= 16 and len(set(number[3:])) > 1:
            print(number, int(is_valid(number)))


if __name__ == "__main__":
    main()

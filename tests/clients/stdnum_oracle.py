"""Tells what python-stdnum thinks of random and mutated identifiers, one `check value verdict` a line.

Usage: stdnum_oracle.py SEED COUNT

COUNT values are made for each check: some valid by their last symbols, a quarter as dice fall, and the rest from the
valid ones, each changed in one place or with two neighbours swapped. Runs of one repeated digit, which the gateway
refuses on purpose, are left out.
"""

import hashlib
import importlib
import random
import sys

DIGITS = "0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HEX = DIGITS + "abcdef"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
KINDS = {"d": DIGITS, "A": UPPER, "X": DIGITS + UPPER, "h": HEX, "z": BASE58, "s": BECH32}

# check: (module, shapes); d is a digit, A a letter, X either, h, z and s one of hexadecimal, base 58 and bech32, anything
# else stands for itself.
CHECKS = {
    "luhn": ("luhn", ["dddddddddddd", "dddddddddddddddd"]),
    "lei": ("lei", ["XXXXXXXXXXXXXXXXXXXX"]),
    "us_aba": ("us.rtn", ["ddddddddd"]),
    "us_ssn": ("us.ssn", ["ddd-dd-dddd"]),
    "ca_sin": ("ca.sin", ["ddddddddd"]),
    "br_cpf": ("br.cpf", ["ddddddddddd"]),
    "br_cnpj": ("br.cnpj", ["dddddddddddddd", "XXXXXXXXXXXXdd"]),
    "ar_cuit": ("ar.cuit", ["20ddddddddd", "27ddddddddd", "30ddddddddd"]),
    "ar_cbu": ("ar.cbu", ["dddddddddddddddddddddd"]),
    "pe_ruc": ("pe.ruc", ["10ddddddddd", "20ddddddddd"]),
    "fr_siret": ("fr.siret", ["dddddddddddddd"]),
    "fr_siren": ("fr.siren", ["ddddddddd"]),
    "fr_tva": ("fr.tva", ["dd123456ddd", "ddddddddddd"]),
    "nl_bsn": ("nl.bsn", ["ddddddddd"]),
    "nl_btw": ("nl.btw", ["dddddddddB0d"]),
    "uk_nhs": ("gb.nhs", ["dddddddddd"]),
    "uk_utr": ("gb.utr", ["dddddddddd"]),
    "gb_vat": ("gb.vat", ["ddddddddd"]),
    "ie_ppsn": ("ie.pps", ["dddddddA", "dddddddAA"]),
    "de_steuer_id": ("de.idnr", ["ddddddddddd"]),
    "de_vat": ("de.vat", ["ddddddddd"]),
    "at_uid": ("at.uid", ["Udddddddd"]),
    "be_vat": ("be.vat", ["0ddddddddd"]),
    "bg_eik": ("bg.vat", ["ddddddddd"]),
    "cy_vat": ("cy.vat", ["ddddddddA"]),
    "cz_dic": ("cz.dic", ["dddddddd"]),
    "dk_cvr": ("dk.cvr", ["dddddddd"]),
    "ee_kmkr": ("ee.kmkr", ["ddddddddd"]),
    "es_nif": ("es.dni", ["ddddddddA"]),
    "es_nie": ("es.nie", ["XdddddddA", "YdddddddA", "ZdddddddA"]),
    "es_cif": ("es.cif", ["Addddddddd"[:9], "BdddddddA", "Qddddddd" + "A"]),
    "fi_ytunnus": ("fi.ytunnus", ["dddddddd"]),
    "hu_anum": ("hu.anum", ["dddddddd"]),
    "hr_oib": ("hr.oib", ["ddddddddddd"]),
    "it_piva": ("it.iva", ["ddddddddddd"]),
    "lt_pvm": ("lt.pvm", ["ddddddd1d"]),
    "lu_tva": ("lu.tva", ["dddddddd"]),
    "lv_pvn": ("lv.pvn", ["4dddddddddd", "9dddddddddd"]),
    "mt_vat": ("mt.vat", ["dddddddd"]),
    "pl_nip": ("pl.nip", ["dddddddddd"]),
    "pl_pesel": ("pl.pesel", ["dd0dddddddd", "dd2dddddddd"]),
    "pl_regon": ("pl.regon", ["ddddddddd", "dddddddddddddd"]),
    "pt_nif": ("pt.nif", ["2dddddddd", "5dddddddd"]),
    "ro_cui": ("ro.cui", ["1ddddddddd", "2ddddddd", "3ddddd"]),
    "si_ddv": ("si.ddv", ["dddddddd"]),
    "sk_dph": ("sk.dph", ["ddd" + "ddddddd"]),
    "gr_afm": ("gr.vat", ["ddddddddd"]),
    "by_unp": ("by.unp", ["1dddddddd", "7dddddddd"]),
    "ch_uid": ("ch.uid", ["CHEddddddddd"]),
    "ch_ahv": ("ch.ssn", ["756dddddddddd"]),
    "cn_uscc": ("cn.uscc", ["91ddddddXXXXXXXXXX"]),
    "do_rnc": ("do.rnc", ["ddddddddd"]),
    "do_cedula": ("do.cedula", ["ddddddddddd"]),
    "ec_ci": ("ec.ci", ["0ddddddddd", "1ddddddddd"]),
    "jp_corporate": ("jp.cn", ["ddddddddddddd"]),
    "jp_my_number": ("jp.in_", ["dddddddddddd"]),
    "mk_edb": ("mk.edb", ["ddddddddddddd"]),
    "md_idno": ("md.idno", ["ddddddddddddd"]),
    "no_orgnr": ("no.orgnr", ["ddddddddd"]),
    "rs_pib": ("rs.pib", ["ddddddddd"]),
    "ru_inn": ("ru.inn", ["dddddddddd", "dddddddddddd"]),
    "ru_ogrn": ("ru.ogrn", ["1dddddddddddd"]),
    "th_tnin": ("th.pin", ["1dddddddddddd", "3dddddddddddd"]),
    "tr_tckn": ("tr.tckimlik", ["1dddddddddd", "7dddddddddd"]),
    "tr_vkn": ("tr.vkn", ["dddddddddd"]),
    "tw_ubn": ("tw.ubn", ["dddddddd"]),
    "uy_rut": ("uy.rut", ["21dddddd001d", "10dddddd001d"]),
    "ve_rif": ("ve.rif", ["Vddddddddd", "Jddddddddd"]),
    "vn_mst": ("vn.mst", ["dddddddddd"]),
    "in_aadhaar": ("in_.aadhaar", ["2ddddddddddd", "9ddddddddddd"]),
    "il_id": ("il.idnr", ["ddddddddd"]),
    "au_tfn": ("au.tfn", ["ddddddddd"]),
    "au_abn": ("au.abn", ["ddddddddddd"]),
    "au_acn": ("au.acn", ["ddddddddd"]),
    "nz_ird": ("nz.ird", ["dddddddd", "0dddddddd", "1dddddddd"]),
    "imei": ("imei", ["35ddddddddddddd", "86ddddddddddddd"]),
    "ro_cnp": ("ro.cnp", ["18001d0dddddd", "29002d1dddddd"]),
    "bg_egn": ("bg.egn", ["8001d0dddd"[:10], "7002d1dddd"]),
    "cn_resident_id": ("cn.ric", ["1101011980010dddd" + "d", "3205021991021ddddd"]),
    "iban": ("iban", ["DEdddddddddddddddddddd", "GBddAAAAdddddddddddddd", "CHddddddddddddddddddd", "NLddAAAAdddddddddd", "FRddddddddddddXXXXXXXXXXXdd"]),
    "isin": ("isin", ["USdddddddddd", "DEXXXXXXXXXd", "AAdddddddddd"]),
    "us_itin": ("us.itin", ["9dd-7d-dddd", "9dd-9d-dddd"]),
    "us_ein": ("us.ein", ["dd-ddddddd"]),
    "cl_rut": ("cl.rut", ["1dddddddd", "ddddddd" + "K"]),
    "co_nit": ("co.nit", ["dddddddddd"]),
    "mx_curp": ("mx.curp", ["GODE8001d0HDFRRLdd", "HEGG8002d1MVZRRLdd"]),
    "fr_nir": ("fr.nir", ["1dd0175dddddddd", "2dd122A1ddddddd"]),
    "be_nrn": ("be.nn", ["800115ddddd", "701231ddddd"]),
    "at_svnr": ("at.vnr", ["dddd150180", "dddd311270"]),
    "it_cf": ("it.codicefiscale", ["RSSMRA8dA01H50dA", "AAAAAA80A0dH501A"]),
    "gr_amka": ("gr.amka", ["1d0180ddddd"]),
    "fi_hetu": ("fi.hetu", ["1d0180-1ddX", "1d0110A8ddX"]),
    "se_personnummer": ("se.personnummer", ["80012d-dddd", "1980021d-dddd"]),
    "se_orgnr": ("se.orgnr", ["556ddddddd", "802ddddddd"]),
    "no_fnr": ("no.fodselsnummer", ["1d0180ddddd", "2d0295ddddd"]),
    "is_kennitala": ("is_.kennitala", ["1d0180ddd9", "1d0110ddd0"]),
    "baltic_code": ("ee.ik", ["38001d0dddd", "48002d1dddd"]),
    "cz_rc": ("cz.rc", ["8001d0dddd", "8051d0dddd"]),
    "si_emso": ("si.emso", ["1d01980dddddd"]),
    "ua_rnokpp": ("ua.rntrc", ["2ddddddddd", "3ddddddddd"]),
    "in_gstin": ("in_.gstin", ["27AAAPAddddA1ZX", "07AAACAddddA2ZX"]),
    "kr_rrn": ("kr.rrn", ["8001d0-1dddddd", "8001d0-2dddddd"]),
    "gt_nit": ("gt.nit", ["dddddddd", "ddddddK"]),
    "id_npwp": ("id.npwp", ["01ddddddddddddd", "ddddddddddddddd"]),
    "py_ruc": ("py.ruc", ["dddddddd", "ddddddd"]),
    "lv_pk": ("lv.pvn", ["1d01801dddd"]),
    "za_id": ("za.idnr", ["8001d0dddd08d", "8001d0dddd18d"]),
    "za_tin": ("za.tin", ["0ddddddddd", "1ddddddddd", "9ddddddddd"]),
    "pk_cnic": ("pk.cnic", ["ddddddddddddd"]),
    "my_nric": ("my.nric", ["8001d0dddddd"]),
    "in_pan": ("in_.pan", ["AAAPAddddA", "AAACAddddA", "AAAAAddddA"]),
    "dk_cpr": ("dk.cpr", ["1d0180dddd", "3d0170dddd"]),
    "id_nik": ("id.nik", ["3171011d1d80dddd", "3171015d0d95dddd"]),
    # Names that are left out because they read as insults have other letters at their ends.
    "mx_rfc": ("mx.rfc", ["AAAT8d0d1dXXX", "AAATddddddXXX"]),
    # The oracle does not know its check digit.
    "kr_brn": ("kr.brn", ["ddd-dd-ddddd", "1dd-0d-000dd"]),
    "bic": ("bic", ["AAAAAAXX", "AAAADEXX", "AAAAAAXXXXX", "AAAAFRXXXXX"]),
    "mac_address": ("mac", ["hh:hh:hh:hh:hh:hh", "hh-hh-hh-hh-hh-hh"]),
    # Taproot has a checksum of its own, which the oracle does not know.
    "btc": ("bitcoin", ["1" + "z" * 33, "3" + "z" * 33, "bc1q" + "s" * 38, "bc1q" + "s" * 58]),
}


def made(shape, dice):
    return "".join(dice.choice(KINDS[sign]) if sign in KINDS else sign for sign in shape)


def is_valid(module, value):
    """Asks the oracle; of a hardware address, whether it may be one device's, whoever made it."""
    if module.__name__ == "stdnum.mac":
        return module.is_valid(value, validate_manufacturer=False) and module.is_unicast(value)
    return module.is_valid(value)


def sealed(value, bitcoin):
    """Returns a Bitcoin address of the kind that a value begins like, with what it says for a hash."""
    if value.startswith("bc1"):
        data = [BECH32.index(sign) for sign in value[3:-6]]
        # What is left of the last symbol, behind whole bytes, is zero.
        data[-1] &= -1 << (len(data) - 1) * 5 % 8
        check = bitcoin.bech32_checksum(bitcoin._expand_hrp("bc") + data + [0] * 6) ^ 1
        data += [check >> 5 * place & 31 for place in range(5, -1, -1)]
        return "bc1" + "".join(BECH32[place] for place in data)
    payload = {"1": b"\0", "3": b"\5"}[value[0]] + hashlib.sha256(value.encode()).digest()[:20]
    payload += hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, digits = int.from_bytes(payload, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = BASE58[digit] + digits
    return "1" * (len(payload) - len(payload.lstrip(b"\0"))) + digits


def repaired(value, shape, module, dice):
    """Changes the last one or two free places until the value is valid, if that helps."""
    if module.__name__ == "stdnum.bitcoin":
        return sealed(value, module)
    places = [place for place, sign in enumerate(shape) if sign in KINDS][-2:]
    for first in dice.sample(KINDS[shape[places[0]]], len(KINDS[shape[places[0]]])):
        for second in dice.sample(KINDS[shape[places[-1]]], len(KINDS[shape[places[-1]]])):
            signs = list(value)
            signs[places[0]], signs[places[-1]] = first, second
            if is_valid(module, "".join(signs)):
                return "".join(signs)
    return value


def mutated(value, shape, dice):
    """Changes one free place, or swaps two free neighbours."""
    free = [place for place, sign in enumerate(shape[: len(value)]) if sign in KINDS]
    place = dice.choice(free)
    if dice.random() < 0.4 and place + 1 in free:
        return value[:place] + value[place + 1] + value[place] + value[place + 2 :]
    return value[:place] + dice.choice(KINDS[shape[place]]) + value[place + 1 :]


def values(module, shapes, count, dice):
    """Yields the values of a check."""
    valid = []
    for _ in range(max(count // 200, min(count // 4, 100))):
        shape = dice.choice(shapes)
        valid.append((repaired(made(shape, dice), shape, module, dice), shape))
    yield from (value for value, _ in valid)
    for turn in range(count - len(valid)):
        if turn % 4:
            yield mutated(*dice.choice(valid), dice)
        else:
            yield made(dice.choice(shapes), dice)


def main():
    dice, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    for check, (name, shapes) in CHECKS.items():
        module = importlib.import_module("stdnum." + name)
        for value in values(module, shapes, count, dice):
            if len(set(value) - set("-")) > 2:
                sys.stdout.write(f"{check} {value} {int(is_valid(module, value))}\n")


if __name__ == "__main__":
    main()

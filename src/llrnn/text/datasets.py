"""Public corpora by their official addresses: fetched once, checked, and there as a whole or not at all.

    from llrnn import datasets
    train, dev, test = datasets.get("ud-french-v1", "data/french")

A file that is already there and passes its check is not fetched again, so that a run that was cut off goes on with the
first file that is missing. What arrives goes to a temporary file, is read as CoNLL-U, counted, and only then renamed.

Only https is spoken, also where a server sends us on to another address. A file has a largest size, and a time by which
it must have arrived. Nobody publishes SHA-256 of these files, so the first time counts: what passed its other checks is
noted in `sha256.json` beside the files, and from then on a file must have the SHA-256 that it had.
Every address names a release, never the newest version.

`ud-french-v1` is UD French as the paper used it (release 1.3). Its sentences must be exactly the paper's 14,554, 1,596
and 298. The paper also gives 463,069 tokens, but 16,448 sentences of this treebank hold about 402,000 words (402,426 by
the README of release 2.2), 419,000 with ends of sentences: how the paper counted is unknown. So any total from 380,000
words to the paper's figure is accepted, with or without ends of sentences.

`ud-LANGUAGE` is a treebank of Universal Dependencies, release 2.16, the one that `TREEBANKS` names for the language;
`ud-LANGUAGE-TREEBANK` is any other (`ud-turkish-BOUN`, `ud-north_sami-Giella`), and `ud-LANGUAGE-TREEBANK@CODE` one of
a language that the table has not, with the code that its files begin with. A treebank may have no `train` or no `dev`.
"""

from __future__ import annotations

import difflib
import hashlib
import http
import http.client
import ipaddress
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from llrnn.ground.errors import CorpusError, DatasetError
from llrnn.ground.files import open_file, parse_json, read_file, replacing, write_atomically
from llrnn.text.corpus import read_conllu

__all__ = ["DATASETS", "TREEBANKS", "Dataset", "RemoteFile", "get"]

_BLOCK = 1 << 16
_LARGEST = 1_000_000_000  # bytes of one file
_NOTES = "sha256.json"  # beside the files: what each of them was when it first came
_clock = time.monotonic
_RAW = "https://raw.githubusercontent.com/UniversalDependencies"
_RELEASE = "r2.16"  # the tag of a release: what it names does not change, as the newest version does


@dataclass(frozen=True)
class RemoteFile:
    """A file of a downloadable corpus, and what it must contain to be accepted.

    name        the name of the file, on the server and on disk
    sentences   the least number of sentences that the file must have; of a file of vectors, how many words to keep
    exact       whether it must have exactly that many sentences; False by default
    optional    whether a server may lack the file without an error; False by default
    """

    name: str
    sentences: int
    exact: bool = False
    optional: bool = False  # a server that has no such file has none


@dataclass(frozen=True)
class Dataset:
    """A downloadable corpus: files under one address, in the order train, dev, test.

    name        as `get` takes it, such as "ud-french"
    files       a tuple of `RemoteFile`, at most one for each of train, dev and test; of vectors one
    what        a description for messages
    url         the address that the files' names are appended to
    words       (least, most) words in all files together; None: any number
    """

    name: str
    what: str
    url: str
    files: tuple[RemoteFile, ...]
    words: tuple[int, int] | None = None


# language: the code that names of files begin with, and the treebank that its name alone means; codes by
# https://github.com/UniversalDependencies/docs-automation
_TREEBANKS = """
afrikaans af AfriBooms, akkadian akk PISANDUB, akuntsu aqz TuDeT, albanian sq TSA, amharic am ATT, ancient_greek grc
Perseus, ancient_hebrew hbo PTNK, apurina apu UFPA, arabic ar PADT, armenian hy ArmTDP, assyrian aii AS, bambara bm CRB,
basque eu BDT, bavarian bar MaiBaam, belarusian be HSE, bengali bn BRU, bhojpuri bho BHTB, breton br KEB, bulgarian bg
BTB, buryat bxr BDT, cantonese yue HK, catalan ca AnCora, cebuano ceb GJA, chinese zh GSD, chukchi ckt HSE,
classical_armenian xcl CAVaL, classical_chinese lzh Kyoto, coptic cop Scriptorium, croatian hr SET, czech cs CAC, danish
da DDT, dutch nl Alpino, egyptian egy UJaen, english en EWT, erzya myv JR, estonian et EWT, faroese fo FarPaHC, finnish
fi TDT, french fr GSD, galician gl CTG, georgian ka GLC, german de GSD, gothic got PROIEL, greek el GDT, guajajara gub
TuDeT, hebrew he HTB, hindi hi HDTB, hittite hit HitTB, hungarian hu Szeged, icelandic is IcePaHC, indonesian id GSD,
irish ga IDT, italian it ISDT, japanese ja GSD, javanese jv CSUI, kaapor urb TuDeT, kangri xnr KDTB, karelian krl KKPP,
karo arr TuDeT, kazakh kk KTB, khunsari kfm AHA, kiche quc IU, komi_permyak koi UH, komi_zyrian kpv Lattice, korean ko
GSD, kurmanji kmr MG, kyrgyz ky KTMU, latin la ITTB, latvian lv LVTB, ligurian lij GLT, lithuanian lt ALKSNIS, livvi olo
KKPP, low_saxon nds LSDC, macedonian mk MTB, makurap mpu TuDeT, malayalam ml UFAL, maltese mt MUDT, manx gv Cadhan,
marathi mr UFAL, mbya_guarani gun Thomas, moksha mdf JR, munduruku myu TuDeT, naija pcm NSC, nayini nyq AHA, neapolitan
nap RB, north_sami sme Giella, norwegian no Bokmaal, old_church_slavonic cu PROIEL, old_east_slavic orv TOROT,
old_french fro PROFITEROLE, persian fa PerDT, polish pl PDB, pomak qpm Philotis, portuguese pt Bosque, punjabi pa PunTB,
romanian ro RRT, russian ru GSD, sanskrit sa Vedic, scottish_gaelic gd ARCOSG, serbian sr SET, sindhi sd Isra, sinhala
si STB, skolt_sami sms Giellagas, slovak sk SNK, slovenian sl SSJ, soi soj AHA, spanish es AnCora, swedish sv Talbanken,
swedish_sign_language swl SSLC, swiss_german gsw UZH, tagalog tl TRG, tamil ta TTB, tatar tt NMCTT, telugu te MTG, thai
th PUD, tupinamba tpn TuDeT, turkish tr IMST, turkish_german qtd SAGT, ukrainian uk IU, umbrian xum IKUVINA,
upper_sorbian hsb UFAL, urdu ur UDTB, uyghur ug UDT, veps vep VWT, vietnamese vi VTB, warlpiri wbp UFAL, welsh cy CCG,
western_armenian hyw ArmTDP, wolof wo WTB, xibe sjo XDT, yakut sah YKTDT, yoruba yo YTB, yupik ess SLI, zaar say
Autogramm
"""
TREEBANKS: dict[str, tuple[str, str]] = {
    language: (code, treebank) for language, code, treebank in (row.split() for row in _TREEBANKS.split(","))
}
_TREEBANK = re.compile(r"ud-([a-z]+(?:[_-][a-z]+)*)(?:-([A-Z]\w*))?(?:@([a-z]{2,3}))?")


def _treebank_named(name: str) -> Dataset | None:
    """Return the treebank of a name `ud-LANGUAGE`, `ud-LANGUAGE-TREEBANK` or `ud-LANGUAGE-TREEBANK@CODE`.

    CODE is that of the language in file names, such as `fr`; code and treebank that are not given come from the table
    `TREEBANKS`. None if the name has another form; a DatasetError if the language is not in the table and not both are
    given.
    """
    found = _TREEBANK.fullmatch(name)
    if found is None:
        return None
    language = found[1].replace("-", "_")
    code, usual = TREEBANKS.get(language, ("", ""))
    code, treebank = found[3] or code, found[2] or usual
    if not (code and treebank):
        near = difflib.get_close_matches(language, TREEBANKS, n=1)
        meant = f"did you mean ud-{near[0]}?" if near else f"name its treebank and code: ud-{language}-TREEBANK@CODE"
        raise DatasetError(f"there is a table of languages for ud-LANGUAGE, and {language!r} is not in it; {meant}")
    title = "_".join(part.capitalize() for part in language.split("_"))
    parts = (("train", True), ("dev", True), ("test", False))
    files = tuple(
        RemoteFile(f"{code}_{treebank.lower()}-ud-{part}.conllu", 1, optional=optional) for part, optional in parts
    )
    return Dataset(name, f"UD {title}-{treebank}", f"{_RAW}/UD_{title}-{treebank}/{_RELEASE}", files)


_SENTENCES = {"train": 14_554, "dev": 1_596, "test": 298}  # of the corpus of the paper
_FILES = tuple(RemoteFile(f"fr-ud-{part}.conllu", count, exact=True) for part, count in _SENTENCES.items())
_PAPER, _PLACE = "UD French, release 1.3, the corpus of the paper", f"{_RAW}/UD_French-GSD/r1.3"
DATASETS = {"ud-french-v1": Dataset("ud-french-v1", _PAPER, _PLACE, _FILES, words=(380_000, 463_069))}


def get(
    name: str,
    folder: str | PathLike[str],
    *,
    base_url: str | None = None,
    timeout: float = 30.0,
    longest: float = 3_600.0,
    loopback: bool = False,
) -> tuple[Path, ...]:
    """Download the files of a corpus unless they are there; return their paths in the order train, dev, test.

    name        a name in `DATASETS`, `ud-LANGUAGE` (a Universal Dependencies treebank, which may lack train or dev)
    folder      where the files go; it is made if needed
    base_url    a mirror: the same files directly under another address
    timeout     seconds that the server may stay silent
    longest     seconds that one file may take in all
    loopback    whether http from this machine is allowed, to test a mirror

    Raises a DatasetError if the name is unknown, or a file cannot be fetched or fails its check. An existing file that
    fails is never overwritten; it may be somebody's work.

        train, dev, test = get("ud-french", "data")
    """
    dataset = DATASETS.get(name) or _treebank_named(name)
    if dataset is None:
        known = ", ".join(sorted(DATASETS))
        raise DatasetError(f"the corpora are {known} and ud-LANGUAGE (ud-north_sami, ...), found {name!r}; choose one")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise DatasetError(f"{folder}: the folder cannot be made: {cause.strerror or cause}") from cause
    words, asking, there = 0, _Asking(timeout, longest, loopback), []
    for file in dataset.files:
        url = f"{(base_url or dataset.url).rstrip('/')}/{file.name}"
        try:
            words += _Fetched(file, url, folder / file.name, asking).words()
        except DatasetError as error:
            if not (file.optional and getattr(error.__cause__, "code", None) == http.HTTPStatus.NOT_FOUND):
                raise
        else:
            there.append(folder / file.name)
    low, high = dataset.words or (words, words)
    if not low <= words <= high:
        raise DatasetError(
            f"{folder}: {dataset.what} must have {low:,} to {high:,} words in all, found {words:,}; "
            "the sentences are as many as expected, but not these: remove the files and fetch them from another address"
        )
    return tuple(there)


class _Asking(urllib.request.HTTPRedirectHandler):
    """An opener of https addresses that refuses redirects to anything else, with time limits in seconds.

    timeout     seconds that the server may stay silent
    longest     seconds that one file may take in all; the caller keeps to it
    loopback    whether http addresses on this machine are allowed

    `open(url)` returns the response; a DatasetError for an address that is not allowed.
    """

    def __init__(self, timeout: float, longest: float, loopback: bool) -> None:
        self.timeout, self.longest, self._loopback = timeout, longest, loopback

    def open(self, url: str) -> http.client.HTTPResponse:
        self.require_secure(url)
        request = urllib.request.Request(url, headers={"User-Agent": "llrnn"})
        found: http.client.HTTPResponse = urllib.request.build_opener(self).open(request, timeout=self.timeout)
        return found

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        self.require_secure(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def require_secure(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        is_loopback = self._loopback and parts.scheme == "http" and _is_this_machine(parts.hostname)
        if parts.scheme != "https" and not is_loopback:
            wanted = "an address with https:// is required"
            raise DatasetError(f"{wanted}, found {url!r}: what comes otherwise may be anybody's")


def _is_this_machine(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class _Fetched:
    """A file to download: what it must contain (`file`), its `url`, and the `path` to write it to.

    `asking`: opens the url, with time limits. `words(progress)` downloads and checks the file.
    """

    file: RemoteFile
    url: str
    path: Path
    asking: _Asking

    def words(self) -> int:
        """Download the file unless it is at its path; return its number of words after checking it.

        A DatasetError if it cannot be fetched or is not what is expected; then nothing is at its path that was not
        there before.
        """
        if self.path.exists():
            remedy = "remove or rename it, and it is fetched anew"
            return self.checked(self.path, f"{self.path}: ", remedy, remedy)
        try:
            with replacing(self.path) as file:
                self.download(file)
                file.flush()
                place = f"what {self.url} sent is not {self.file.name}: "
                moved = f"the address may have changed; {self.by_hand}"
                return self.checked(
                    Path(file.name), place, moved, f"if the newest version is wanted, remove {self.notes}"
                )
        except OSError as cause:
            raise DatasetError(f"{self.path}: cannot be written: {cause.strerror or cause}") from cause

    @property
    def by_hand(self) -> str:
        return f"or fetch {self.url} by hand and put it at {self.path}"

    @property
    def notes(self) -> Path:
        return self.path.parent / _NOTES

    def download(self, target: BinaryIO) -> None:
        try:
            with self.asking.open(self.url) as response:
                self.copy(response, target)
        except urllib.error.HTTPError as cause:
            cause.close()
            reason = f"the server answers {cause.code} ({cause.reason})"
            raise DatasetError(f"{self.url}: {reason}; the file may have moved: find it, {self.by_hand}") from cause
        except (http.client.HTTPException, ValueError) as cause:  # no HTTP at all, cut short, no address
            raise DatasetError(f"{self.url}: no proper answer ({cause!r}); try again, {self.by_hand}") from cause
        except OSError as cause:  # urllib's URLError and TimeoutError are such
            why = getattr(cause, "reason", None) or cause.strerror or cause
            raise DatasetError(
                f"{self.url} could not be reached: {why}; are you online, is a proxy needed (https_proxy)? "
                f"Try again, {self.by_hand}"
            ) from cause

    def copy(self, response: http.client.HTTPResponse, target: BinaryIO) -> None:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        done, end = 0, _clock() + self.asking.longest
        while block := response.read1(_BLOCK):
            target.write(block)
            done += len(block)
            if max(done, total or 0) > _LARGEST:
                raise DatasetError(f"{self.url}: more than {_LARGEST:,} bytes come, so not the file; {self.by_hand}")
            if _clock() > end:
                raise DatasetError(
                    f"{self.url}: not there after {self.asking.longest:,.0f} seconds; try again, {self.by_hand}"
                )
        if total is not None and done != total:
            raise http.client.IncompleteRead(b"", total - done)

    def require_same(self, path: Path, place: str, remedy: str) -> None:
        """Raise a DatasetError if the file's SHA-256 differs from the one noted in sha256.json at the first download.

        sha256.json is beside `self.path`, {file name: SHA-256}. If none is noted for the file, note it.

        path        the file to check
        place       the beginning of the message
        remedy      its end
        """
        try:
            noted = parse_json(read_file(self.notes)) if self.notes.exists() else {}
            with open_file(path) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            wanted = noted.get(self.file.name, found)
            if found != wanted:
                raise DatasetError(f"{place}its SHA-256 must be {wanted}, found {found}; {remedy}")
            if noted.get(self.file.name) != found:
                noted[self.file.name] = found
                write_atomically(self.notes, json.dumps(noted, indent=1, sort_keys=True).encode())
        except (OSError, ValueError, AttributeError) as cause:
            raise DatasetError(f"{self.notes}: cannot be read or written ({cause}); remove it") from cause

    def checked(self, path: Path, place: str, remedy: str, remedy_of_another: str) -> int:
        """Return the number of words of a CoNLL-U file after checking its number of sentences and its SHA-256.

        path        where the file is now; it need not be `self.path`
        place       the beginning of messages
        remedy      their end, if the content is wrong; `remedy_of_another`: if only the SHA-256 is. Both raise a
                    DatasetError
        """
        sentences = words = 0
        try:
            for sentence in read_conllu(path):
                sentences += 1
                words += len(sentence.tokens)
        except CorpusError as cause:
            where = "" if cause.line is None else f"line {cause.line}: "
            raise DatasetError(f"{place}{where}{cause.reason}; {remedy}") from cause
        if sentences < self.file.sentences or (self.file.exact and sentences != self.file.sentences):
            least = "" if self.file.exact else "at least "
            wanted = f"{least}{self.file.sentences:,} sentences are required, found {sentences:,}"
            raise DatasetError(f"{place}{wanted}; {remedy}")
        self.require_same(path, place, remedy_of_another)
        return words

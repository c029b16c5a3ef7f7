"""Turn text into comparable words: stems, numbers in one form, names, stop words."""
# ruff: noqa: RUF001 - the letters of other languages are meant

# ruff: noqa: RUF001 - the punctuation of other languages is meant
from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

_STOP_WORDS = """
a an the of to in on at by for from with without into onto over under about as and or but nor if so
then than that this these those it its it's he she they them his her hers their theirs him we us our
you your yours i me my mine is are was were be been being am do does did doing done have has had
having will would shall should can could may might must there here who whom whose which what when
where why how all any both each few more most other some such only own same too very just also s t d
ll m re ve not no yes while during before after because through between out up down off again once
however therefore according per via etc percent
"""


# --- function words ---
# Words that carry no information in languages other than English.


# Words that English texts use as well ("die", "come", "la") are left out.
_BY_LANGUAGE = {
    "German": """
der ein eine einen einem einer eines und oder aber nicht kein keine keinen ist sind waren
sein wird werden wurde wurden haben hatte kann können könnte muss müssen soll sollte darf
ich du er sie es ihr mir mich dir dich ihm ihn uns euch ihnen mein meine dein seine ihre
unser im auf aus bei mit nach von vom vor zu zum zur über unter für durch gegen ohne um seit
während wegen wie wer wo wann warum welche welcher welches dass ob wenn weil als auch nur
noch schon sehr mehr dann hier dort diese dieser dieses diesem sich
""",
    "French": """
les une au aux ou mais ne est sont était étaient être sera ont avait avoir peut peuvent doit
doivent je tu elle nous vous ils elles te leur mon mes ta tes ses notre votre vos leurs ce
cet cette ces ça cela sous avec entre vers chez depuis pendant avant après qui que quoi dont
où quand pourquoi combien quel quelle quels quelles comme aussi très bien tout tous toute
toutes même ainsi donc
""",
    "Spanish": """
una unos unas pero eran ser está están fue fueron ha había hay puede pueden debe deben yo tú
él ella nosotros ustedes ellos ellas lo mis tus su sus nuestro nuestra este esta estos estas
ese esa eso esto por para sobre hasta desde durante según qué quién quien cuál cuándo cuando
dónde donde cómo como cuánto cuántos cuánta cuántas también muy más menos ya todo todos toda
todas
""",
    "Portuguese": """
os uma umas mas não é são eram estão foi foram tem têm tinha há pode podem deve devem ele
ela nós você vocês eles elas lhe meu minha seu sua seus suas nosso nossa esse essa isso isto
aquele na nas ao à aos às sem pelo pela até quem qual quando onde quanto quantos porque
também muito já
""",
    "Italian": """
gli uno è sono erano essere sarà hanno aveva avere può possono devono io noi voi loro ti ci
mio mia tuo suo suoi nostro questo questa questi queste quello quella di dello della dei
degli delle allo alla agli alle dal nel nella nei nelle senza sul sulla tra fra che cui
quali perché quanti anche molto più meno già tutto tutti
""",
    "Dutch": """
het een maar niet geen zijn wordt worden werd heeft hebben kan kunnen moet moeten ik jij hij
zij ze wij jullie mij haar ons mijn uw deze dit aan bij naar voor onder uit om zonder tegen
sinds tijdens wat waar wanneer waarom hoe welke ook nog zeer meer
""",
    "Polish": """
oraz lub ale nie jest są był była było były być będzie będą mają może mogą ja ty ona ono wy
oni mnie się jego jej mój moja twój tego tej tym od po za przez przed nad dla bez przy kto
który która które kiedy gdzie jak dlaczego ile czy że jeśli gdy także też bardzo tylko już
""",
    "Swedish": """
och eller inte är vara blir blev har hade skulle måste jag mig deras denna detta dessa ett
av på från med för utan mellan vad vem vilken när hur varför som att också mycket mer
""",
    "Turkish": """
veya ama fakat değil bir bu şu sen biz onlar mı mu mü için gibi kadar göre sonra önce nerede
nasıl neden niçin kaç hangi çok daha ise yok olan olarak olduğu
""",
    "Russian": """
и или но а не ни это этот эта эти тот та те я ты он она оно мы вы они мне меня тебя его её
их нас вас им мой моя твой свой наш ваш в во на с со к ко у о об от до из за по под над для
без при через между перед после что кто какой какая какие когда где как почему сколько чтобы
если же ли бы был была было были быть есть будет может могут также очень уже только
""",
    "Ukrainian": """
і й або але це цей ця ці той ти він вона воно ми ви вони мені мене його її їх з із від під
між що хто який яка які коли де як чому скільки щоб якщо ж чи був була було були бути є буде
може можуть також дуже вже тільки
""",
}
FUNCTION_WORDS = frozenset(word for listed in _BY_LANGUAGE.values() for word in listed.split())
STOP_WORDS = frozenset(_STOP_WORDS.split()) | FUNCTION_WORDS
NEGATIONS = frozenset(
    {"not", "no", "never", "none", "nobody", "nothing", "neither", "nor", "without", "cannot"}
)
_TWO_TO_TWENTY = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty
"""
_SIXTH_TO_TWENTIETH = """
sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
seventeenth eighteenth nineteenth twentieth
"""
_NUMBER_WORDS = {
    **{word: str(number) for number, word in enumerate(_TWO_TO_TWENTY.split(), start=2)},
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
    "first": "1",
    "second": "2",
    "third": "3",
    "fourth": "4",
    "fifth": "5",
    **{word: str(number) for number, word in enumerate(_SIXTH_TO_TWENTIETH.split(), start=6)},
    "twice": "2",
}


# --- unicode ---
# Bring text into one form of Unicode, so that what reads the same counts the same.


_FIRST_MARK, _AFTER_LAST_MARK = 0x300, 0x20000  # beyond it there are only variation selectors
_LETTERS_THAT_BECOME_MARKS = frozenset({0xFF9E, 0xFF9F})
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _marks() -> str:
    """Write the combining marks of all scripts as ranges of a character class."""
    ranges: list[list[int]] = []
    for code in range(_FIRST_MARK, _AFTER_LAST_MARK):
        if unicodedata.category(chr(code))[0] == "M" or code in _LETTERS_THAT_BECOME_MARKS:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


#: Combining marks of all scripts, for use inside a character class.
MARKS = _marks()
# Normalising sorts the marks of a letter in quadratic time; no script has thirty of them.
_MARKS_ON_END = re.compile(rf"([{MARKS}]{{30}})[{MARKS}]+")


def canonical(text: str) -> str:
    """Compose letters and marks (NFC): reads the same, letter for letter."""
    return _normalised("NFC", text)


def compatible(text: str) -> str:
    """Write full-width, joined and styled letters plainly (NFKC), to compare text."""
    return _normalised("NFKC", text)


def storable(text: str, limit: int) -> str:
    """Leave out what a database column refuses: control characters and half characters."""
    return _CONTROLS.sub("", text[: 2 * limit])[:limit].strip()


def _normalised(form: str, text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize(form, _MARKS_ON_END.sub(r"\1", text))  # type: ignore[arg-type]


_LETTERS = rf"[^\W\d_]++(?:[{MARKS}]++[^\W\d_]*+)*+"  # vowels of many scripts are marks
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*|{_LETTERS}(?:['’]{_LETTERS})*")
# Scripts written without spaces: every character stands for itself.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_IRREGULAR_NOT = re.compile(r"\b(ca|wo)(?=n['’]t\b)", re.IGNORECASE)
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
#: French and Italian write "l'article", "dell'acquisto": the noun is what counts.
_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|un|quest|quell|(?:d|n)ell|[ds]?all|sull)'(?=\w{3})")
#: "U.S.", "p.m.", "F.E.A.R."
_DOTTED = re.compile(r"(?<![.\w])(?:[^\W\d_]\.){2,10}(?!\w)")
_LONG_NUMBER = 15
#: Reading a kept word takes a tenth of the time. 20,000 are what most of a text consists of, and
#: 6 MB in each process; with 50,000 a text was read 10 % faster. None is longer than 40 characters.
_MOST_KEPT, _LONGEST_KEPT = 20_000, 40


class Word(NamedTuple):
    """A word of a text, ready to be compared."""

    stem: str
    content: bool  #: it carries information: neither a stop word nor a single letter
    number: bool
    capital: bool
    surface: str


def words(text: str) -> tuple[Word, ...]:
    """Split *text* into words, the same for all ways of writing it in Unicode."""
    text = compatible(html.unescape(text) if "&" in text else text)
    if "." in text:
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
    if "'" in text or "’" in text:
        text = _IRREGULAR_NOT.sub(lambda m: "can" if m[1].lower() == "ca" else "will", text)
        text = _NOT.sub(" not", text)
    return tuple([_word(surface) for surface in _WORD.findall(spaced(text))])


def has_words(text: str) -> bool:
    """Say whether *text* holds any word, without reading all of it."""
    return _WORD.search(compatible(text)) is not None


def spaced(text: str) -> str:
    """Put spaces around the characters of scripts that are written without spaces."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def _word(surface: str) -> Word:
    return _kept_word(surface) if len(surface) <= _LONGEST_KEPT else _made_word(surface)


def _made_word(surface: str) -> Word:
    if surface[0].isdigit():
        return Word(
            _plain_number(surface), content=True, number=True, capital=False, surface=surface
        )
    lower = surface.lower().replace("’", "'").removesuffix("'s")
    if elided := _ELIDED.match(lower):
        lower = lower[elided.end() :]
    if lower in _NUMBER_WORDS:
        return Word(_NUMBER_WORDS[lower], content=True, number=True, capital=False, surface=surface)
    alone = len(lower) == 1 and lower.isascii()
    content = lower not in STOP_WORDS and not alone
    return Word(
        stem(lower),
        content,
        number=False,
        capital=surface[0].isupper() and content,
        surface=surface,
    )


_kept_word = lru_cache(maxsize=_MOST_KEPT)(_made_word)


def _plain_number(surface: str) -> str:
    """Write 1,000 and 1000.0 as 1000, whatever the language of the thousands mark."""
    number = surface.replace(",", "") if re.search(r",\d{3}\b", surface) else surface
    if "." in number and ":" not in number:
        number = number.rstrip("0").rstrip(".") if number.count(".") == 1 else number
    return number.lstrip("0")[:_LONG_NUMBER] or "0"


# --- stems ---
# Cut English endings off words, so that forms of one word are equal.


_ENDINGS = (
    ("ization", "iz"), ("isation", "iz"), ("ational", "at"), ("fulness", "ful"), ("ations", "at"),
    ("ation", "at"), ("ments", "ment"), ("iness", "y"), ("ising", "iz"), ("izing", "iz"),
    ("ise", "iz"), ("ize", "iz"), ("ised", "iz"), ("ized", "iz"), ("ises", "iz"), ("izes", "iz"),
    ("ies", "y"), ("ied", "y"), ("ily", "y"), ("sses", "ss"), ("ating", "at"), ("ated", "at"),
    ("ates", "at"), ("ate", "at"), ("ing", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""),
    ("e", ""),
)  # fmt: skip
#: What makes another kind of word: "remove" and "removal", "safe" and "safety" are told alike.
_DERIVING = (
    "ability", "ibility", "ically", "ement", "ment", "ness", "abl", "ibl", "ical", "anc", "enc",
    "ity", "iv", "ion", "ism", "ist", "ous", "ful", "al", "ic", "or", "er", "ant", "ent",
)  # fmt: skip
_BRITISH = (
    (re.compile(r"(?<=\w\w)our(?=$|s$|ed$|ing$|able|ite)"), "or"),
    (re.compile(r"(?<=\w\w)([tb])re(?=s?$)"), r"\1er"),
    (re.compile(r"(?<=\w\w)ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=al)ys(?=e|ing)"), "yz"),
)
_SHORTEST_STEM, _SHORTEST_ROOT = 3, 5
_LONG = 6
_TRIED = re.compile(r"([^aeiou]{2})ie[ds]")


def stem(word: str) -> str:
    """
    Cut English endings off a *word* in lower case.

    Words of other languages mostly stay as they are. What is left is no word of its own, and
    now and then two words share one ("import" and "important").
    """
    if len(word) <= _SHORTEST_STEM or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    if tried := _TRIED.fullmatch(word):
        return f"{tried[1]}y"
    if len(word) >= _LONG:
        word = _american(word.removesuffix("ly") if word.endswith("ely") else word)
    bare = _uninflected(word)
    return _root(bare) if len(bare) > _LONG else bare


def _american(word: str) -> str:
    for british, american in _BRITISH:
        word = british.sub(american, word)
    return word


def _uninflected(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            bare = word[: -len(ending)] + instead
            doubled = ending in {"ing", "ed"} and bare[-1] == bare[-2] and bare[-1] not in "lsz"
            return bare[:-1] if doubled else bare
    return word


def _root(bare: str) -> str:
    ending = next((each for each in _DERIVING if bare.endswith(each)), "")
    return bare[: -len(ending)] if ending and len(bare) - len(ending) >= _SHORTEST_ROOT else bare

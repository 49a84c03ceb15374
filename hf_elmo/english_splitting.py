r"""Splitting raw English text into the tokens of `spacy.blank("en")`, as a pre-tokenizer that needs no spaCy.

A run of characters without white space loses its prefixes, then its suffixes, then its clitics; what is left is split
at infixes.  Each step is one regular expression (Oniguruma, Ruby syntax): a match is a piece, and so is what lies
between matches.  `\G` is the end of the previous match.
"""

import functools
import re
from collections.abc import Iterable

from tokenizers import Regex, pre_tokenizers

_KEPT_WHOLE = r"""
Adm. Ak. Ala. Apr. Ariz. Ark. Aug. Bros. Calif. Co. Colo. Conn. Corp. D.C. Dec. Del. Dr. E.G. E.g. Feb. Fla.
Ga. Gen. Gov. I.E. I.e. Ia. Id. Ill. Inc. Ind. Jan. Jr. Jul. Jun. Kan. Kans. Ky. La. Ltd. Mar. Mass. Md.
Messrs. Mich. Minn. Miss. Mo. Mont. Mr. Mrs. Ms. Mt. N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct.
Okla. Ore. Pa. Ph.D. Prof. Rep. Rev. S.C. Sen. Sep. Sept. St. Tenn. Va. Wash. Wis. a.m. co. e.g. i.e. p.m.
v.s. vs. ä. ö. ü. and/or w/o C++ <space> \")
doin' goin' havin' lovin' nothin' nuthin' ol' somethin' Doin' Goin' Havin' Lovin' Nothin' Nuthin' Ol'
Somethin'
' '' 'Cause 'Cos 'Coz 'Cuz 'S 'bout 'cause 'cos 'coz 'cuz 'd 'em 'll 'nuff 're 's ‘S ‘s
(*_*) (-8 (-: (-; (-_-) (._.) (: (; (= (>_<) (^_^) (o: (¬_¬) (ಠ_ಠ) (╯°□°）╯︵┻━┻ )-: ): -_- -__- ._. 0.0 0.o
0_0 0_o 8) 8-) 8-D 8D :'( :') :'-( :'-) :( :(( :((( :() :) :)) :))) :* :-( :-(( :-((( :-) :-)) :-))) :-* :-/
:-0 :-3 :-> :-D :-O :-P :-X :-] :-o :-p :-x :-| :-} :/ :0 :1 :3 :> :D :O :P :X :] :o :o) :p :x :| :} ;) ;-)
;-D ;D ;_; <.< </3 <3 <33 <333 =( =) =/ =3 =D =[ =] =| >.< >.> >:( >:o ><(((*> @_@ O.O O.o O_O O_o V.V V_V
[-: [: [= ]= ^_^ ^__^ ^___^ o.0 o.O o.o o_0 o_O o_o v.v v_v xD xDD XD XDD ¯\(ツ)/¯ ಠ_ಠ ಠ︵ಠ
"""
_CLITICS = {  # after which words spaCy splits off which clitics, with and without the apostrophe
    "i": "m ma ll llve d dve ve",
    "you we they": "ll llve d dve ve re",
    "he she it": "ll llve d dve s",
    "that this": "ll llve d dve s",
    "these those": "ll llve d dve ve re",
    "who what when where why how there": "ll llve d dve ve re s",
    "could might must should would": "nt ntve ve",
    "ca do does did had may need ought sha wo": "nt ntve",
    "ai are is was were have has dare": "nt",
    "not": "ve",
}
_NO_CLITICS = "Ill ill Its its Hell hell Shell shell Shed shed were Were Well well Whore whore"
_PUNCTUATION = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
_DASHES = "—–"
_QUOTES = "'\"”“`‘´’‚„»«「」『』（）〔〕【】《》〈〉〈〉⟦⟧"
_UNITS = (
    "km² km³ km/h kmh km m² m³ mph mbar mb mm² mm³ mm mg m/s m dm² dm³ dm cm² cm³ cm ha hPa µm µg nm yd in "
    "ft kg kb g t lb oz Pa MB KB GB gb TB tb T G M K %"
)
_LONGEST_TAIL = 50  # suffixes looked ahead for: bounds the time a freak run of punctuation can take


@functools.cache
def english_splitting() -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that splits raw text as `spacy.blank("en")` does, leaving white space out."""
    lower, upper, letter, symbol = r"\p{Ll}\p{Lo}", r"\p{Lu}\p{Lo}", r"\p{L}", r"\p{So}"
    punctuation, quotes = _escaped(_PUNCTUATION + _QUOTES), _escaped(_QUOTES)
    marks = punctuation + _DASHES + symbol
    currency = r"(?:(?:US|C|A)?\$|[£€¥฿﷼₠-₿])"
    kept = _KEPT_WHOLE.split()
    joined = _any(word for word in kept if len(word) > 1 and set(word) <= set(_PUNCTUATION + _QUOTES))
    whole = rf"(?:{_any(kept)}|[a-z]\.|(?:1[0-2]|[1-9])[ap]\.m\.)"

    prefix = rf"(?:{joined}|[{marks}§%=]|\+(?![0-9])|\.\.+|{currency})"
    suffix = (
        rf"(?:(?=[{marks}.+]|(?<=[0-9])\S)(?:['’][sS]|{joined}|[{marks}]|(?<!\.)\.\.++"
        rf"|(?<=[0-9])(?:\+|{currency}|{_any(_UNITS.split())})|(?<=°[FfCcKk])\."
        rf"|(?<=[0-9{lower}%²\-+|{punctuation}])\.(?!\.)"
        rf"|(?<=[{upper}][{upper}])\.(?!\.)))"
    )
    tail = rf"(?>{suffix}{{0,{_LONGEST_TAIL}}})\z"
    abbreviation = rf"(?:{_any(word for word in kept if word[-1] == '.' and word[-2].islower())}|[a-z]\.)"
    hyphen = "(?:---|--|——|[-–—~])"
    infix_start = rf"[.…:<>=/,+\-*^–—~{symbol}]"
    infixes = (
        rf"\A{abbreviation}(?=[{upper}{quotes}])|(?={infix_start})(?:\.\.+|[…{symbol}]|(?<=[0-9])[+\-*^](?=[0-9\-])|(?<=[{lower}{quotes}])\.(?=[{upper}{quotes}])"
        rf"|(?<=[{letter}]),(?=[{letter}])|(?<=[{letter}0-9])(?:{hyphen}|[:<>=/])(?=[{letter}]))"
    )
    # The look-aheads that only name characters change nothing but the speed.
    steps = (
        rf"\G(?=[{marks}§%=+.$£€¥฿﷼₠-₿UCA])(?:{whole}(?={tail})|{prefix})|\G(?<=°)[FfCcKk](?=\.{tail})",
        rf"\A(?=\S*?[{marks}.]){whole}(?={tail})|\G(?!\A){suffix}|{suffix}(?={tail})",
        _clitics(),
        rf"\A(?=\S*?{infix_start})(?:{whole}|{_url(lower)})\z|{infixes}",
    )
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[\s\x1c-\x1f]+"), "removed"),  # what str.split() splits at
            *(pre_tokenizers.Split(Regex(step), "isolated") for step in steps),
        ]
    )


def _clitics() -> str:
    """Matches the parts of a contraction but the last: do|n't, I|'d|'ve, can|not, 10|am."""
    quote = "['’]"
    spelled = {"nt": f"n{quote}?t", "ntve": f"n{quote}?t{quote}?ve", "llve": f"{quote}?ll{quote}?ve"}
    spelled |= {"dve": f"{quote}?d{quote}?ve"}
    first = [
        rf"(?:{_any(form for word in words.split() for form in (word, word.title()))})"
        rf"(?=(?:{'|'.join(spelled.get(clitic, f'{quote}?{clitic}') for clitic in clitics.split())})\z)"
        for words, clitics in _CLITICS.items()
    ]
    first += [rf"[Ll]et(?={quote}s\z)|[Cc]an(?=not\z)|[Gg]on(?=na\z)|[Gg]ot(?=ta\z)|y{quote}?(?=all\z)"]
    first += [rf"[Cc]{quote}m(?=on\z)|[Hh]ow(?={quote}d{quote}y\z)|(?:1[0-2]|[1-9])(?=[ap](?:m|\.m\.)\z)"]
    middle = rf"(?:n{quote}?t|{quote}?ll|{quote}?d)(?={quote}?ve\z)|{quote}?m(?=a\z)|{quote}d(?={quote}y\z)"
    return rf"\A(?!{_any(_NO_CLITICS.split())}\z)(?:{'|'.join(first)})|\G(?!\A)(?:{middle})"


def _url(lower: str) -> str:
    label = r"(?:[A-Za-z0-9¡-\x{ffff}][A-Za-z0-9¡-\x{ffff}_\-]{0,62})?[A-Za-z0-9¡-\x{ffff}]\."
    host = rf"(?:[1-9][0-9]{{0,2}}(?:\.[0-9]{{1,3}}){{3}}|(?:{label})+[{lower}]{{2,63}})"
    return rf"(?:(?>[\w+\-.]{{2,}})://)?(?:(?>[^\s@]+)@)?{host}(?::[0-9]{{2,5}})?(?:[/?#]\S*)?"


def _escaped(characters: str) -> str:
    """Characters to stand between brackets."""
    return "".join("\\" + c if c in r"\[]^-&" else c for c in characters)


def _any(words: Iterable[str]) -> str:
    """One of these words, the longest first, with straight or with curly apostrophes."""
    spellings = {spelling for word in words for spelling in (word, word.replace("'", "’"))}
    return "(?:" + "|".join(re.escape(word) for word in sorted(spellings, key=lambda w: (-len(w), w))) + ")"

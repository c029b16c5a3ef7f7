"""How people and models decline to answer, in the languages that most of them write."""

# ruff: noqa: RUF001 - the letters and marks of other languages are meant
from __future__ import annotations

import re

from monitor.scoring.words import has_words

_SOURCES = (
    r"(?:passages?|contexts?|documents?|texts?|articles?|sources?|information|data|excerpts?)"
)
_ENGLISH = (
    r"\b(?:i(?:'m| am)|we(?:'re| are)) (?:sorry|unable|afraid|not (?:sure|able|certain))\b",
    r"\bi apologi[sz]e\b|\bunable to (?:answer|find|provide|determine)\b",
    (
        r"\b(?:i|we) (?:can ?not|can't|could not|couldn't)"
        r" (?:answer|find|help|provide|say|tell|determine)"
    ),
    (
        r"\b(?:i|we) (?:do not|don't)"
        r" (?:know|have (?:any |enough |that |the )?(?:information|details|data))"
    ),
    (
        rf"\b{_SOURCES}(?: \w+){{0,3}} (?:do|does|did)(?: not|n't) (?:\w+ )?"
        r"(?:mention|contain|provide|say|specify|include|state|explain|discuss|cover|give|tell|answer)"
    ),
    (
        rf"\bnot (?:\w+ )?(?:mentioned|specified|provided|stated|included|covered|available|found)"
        rf"(?: \w+){{0,3}} (?:in|by|from)(?: \w+){{0,3}} {_SOURCES}\b"
    ),
    r"\b(?:there is|there's) (?:no|not enough|insufficient) (?:information|mention|data)\b",
    r"\bno (?:relevant )?information (?:is |was )?(?:available|provided|given|found)\b",
    r"\b(?:cannot|can't|can not) be (?:determined|answered)\b",
)
#: "I do not know", "I cannot answer", "I have no information", "the documents do not say".
_OTHERS = {
    "German": (
        r"\bwei(?:ß|ss) ich (?:leider |es )?nicht\b|\bich wei(?:ß|ss) (?:das |es )?nicht\b",
        r"\bkann ich (?:\w+ ){0,3}nicht (?:beantworten|sagen)\b|\btut mir leid\b",
        r"\bkeine (?:informationen|angaben|auskunft)\b|\bnicht (?:angegeben|erwähnt|enthalten)\b",
    ),
    "French": (
        r"\bje (?:ne |n')(?:sais|peux|dispose|trouve|ai) (?:malheureusement )?pas\b",
        r"\b(?:je suis |)désolée?\b|\baucune (?:information|mention)\b",
        r"\b(?:n'est|ne sont) pas (?:mentionnée?s?|précisée?s?|indiquée?s?)\b",
    ),
    "Spanish": (
        r"\blo siento\b|\bno (?:lo sé|sé la respuesta|puedo (?:responder|ayudar|contestar))\b",
        r"\bno (?:tengo|dispongo de|hay|encuentro) (?:suficiente |ninguna |esa )?información\b",
        r"\bno (?:se )?(?:menciona|especifica|indica)n?\b",
    ),
    "Portuguese": (
        r"\bnão (?:sei|posso (?:responder|ajudar)|consigo (?:responder|encontrar))\b",
        r"\bnão (?:tenho|há|encontrei) (?:informaç(?:ão|ões)|essa informação)",
        r"\b(?:lamento|desculpe)\b|\bnão (?:é )?(?:menciona|especifica|indica)d?[ao]?\b",
    ),
    "Italian": (
        r"\bmi dispiace\b|\bnon (?:lo so|posso (?:rispondere|aiutar))",
        r"\bnon (?:ho|ci sono|dispongo di) (?:abbastanza )?informazioni\b",
        r"\bnon (?:è|viene|sono) (?:menzionat|specificat|indicat)[oaie]\b",
    ),
    "Dutch": (
        r"\b(?:dat )?weet ik (?:helaas |het )?niet\b|\bik weet (?:het|dat) (?:helaas )?niet\b",
        r"\bkan ik (?:\w+ ){0,3}niet (?:beantwoorden|zeggen)\b|\bgeen informatie\b",
        r"\b(?:het )?spijt me\b|\bniet (?:vermeld|genoemd)\b",
    ),
    "Polish": (
        r"\bnie (?:wiem|mogę (?:odpowiedzieć|pomóc)|mam (?:informacji|danych))",
        r"\bprzykro mi\b|\bbrak informacji\b",
    ),
    "Turkish": (
        r"\bbilmiyor(?:um|uz)\b|\bbilgi(?:m|miz)? (?:yok|bulunmuyor|bulunmamaktadır)\b",
        r"\b(?:cevap|yanıt)layam(?:am|ıyorum|ıyoruz)\b|\büzgünüm\b",
    ),
    "Russian": (
        r"\bне (?:знаю|могу (?:ответить|помочь|сказать))\b|\bк сожалению, (?:я |у меня )",
        r"\bнет (?:информации|данных|сведений)\b|\bне (?:указан|упомина)",
    ),
    "Ukrainian": (r"\bне (?:знаю|можу (?:відповісти|допомогти))\b|\bнемає (?:інформації|даних)\b",),
    "Arabic": (
        r"لا أعرف|لا أعلم|لا أستطيع (?:الإجابة|المساعدة)|لا يمكنني (?:الإجابة|المساعدة)",
        r"لا (?:توجد|تتوفر|أملك) (?:أي )?معلومات|عذر[اًا]+|آسف",
    ),
    "Hindi": (
        r"(?:पता|मालूम) नहीं|नहीं (?:पता|जानता|जानती)|(?:जानकारी|उत्तर) (?:उपलब्ध )?नहीं|क्षमा करें|माफ़ करें",
    ),
    "Chinese": (
        r"我不知道|我不清楚|无法(?:回答|提供|确定)|無法(?:回答|提供|確定)|抱歉|对不起|對不起",
        r"没有(?:相关|提及|提到|找到)|沒有(?:相關|提及|提到|找到)|未(?:提及|提到|说明)",
    ),
    "Japanese": (
        r"わかりません|分かりません|存じません|お答えできません|回答できません",
        r"情報(?:が|は)(?:ありません|ございません|含まれていません)|申し訳(?:あり|ござい)ません",
        r"(?:記載|言及)(?:が|は|されて)?(?:ありません|いません)",
    ),
    "Korean": (
        r"모르겠습니다|알 수 없습니다|답변(?:할 수|드릴 수|이) (?:없|어렵)|죄송",
        r"정보가 (?:없|포함되어 있지)|언급되(?:지|어 있지)",
    ),
}
_REFUSAL = re.compile(
    "|".join([*_ENGLISH, *(each for phrases in _OTHERS.values() for each in phrases)]),
    re.IGNORECASE,
)
#: What joins a refusal to something else; both sides of it are looked at.
_BUT = re.compile(
    r"\b(?:but|however|aber|jedoch|sondern|mais|cependant|toutefois|pero|sin embargo|sino"
    r"|mas|porém|contudo|ma|però|tuttavia|maar|echter|ale|jednak|lecz|ama|fakat|ancak"
    r"|но|однако|але|однак)\b"
    r"|لكن|लेकिन|परंतु|但是?|不过|不過|然而|(?<=せん)が|しかし|ただし|하지만|그러나",
    re.IGNORECASE,
)
#: What leads to a statement within the same sentence.
_BESIDES = re.compile(r"\b(?:although|though|instead|except)\b", re.IGNORECASE)


def is_refusal(sentence: str) -> bool:
    """
    Say whether *sentence* only declines to answer or says that the sources are silent.

    "I'm sorry, but I don't know" declines; "I don't know, but it is open" states something.
    The turns of phrase are those of fifteen languages besides English; in others a
    refusal is read as a statement, which the passages then do not hold.
    """
    if not _REFUSAL.search(sentence) or _BESIDES.search(sentence):
        return False
    parts = [part for part in _BUT.split(sentence) if has_words(part)]
    return all(_REFUSAL.search(part) for part in parts)

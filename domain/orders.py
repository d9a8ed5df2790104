"""Telling a fact about the user from an order to the assistant. Pure.

The prompt says that what is read is data; this holds when the model does not listen. It knows the
usual forms in English and Chinese and no more: what else slips through is remembered as a sentence
about the user, shown to a model as data again, and gives nobody any right.
"""

import re
import unicodedata

_NOUN = r"(?:instructions?|rules?|prompts?|guidelines|directions|orders|messages?|restrictions)"
_TAKEOVER = (
    rf"\b(?:ignore|disregard|forget|override|bypass|drop)\b.{{0,40}}\b{_NOUN}\b",
    r"\byou(?:'re| are)\b.{0,20}\b(?:now|no longer|an? (?:admin|root|developer|system|super))",
    r"\b(?:reveal|print|show|repeat|leak)\b.{0,30}\b(?:system|hidden|secret) (?:prompt|message)",
    r"\bsystem prompt\b",
    r"\b(?:new|updated) (?:system )?instructions?\s*:",
    r"\b(?:grant|give)\b.{0,30}\b(?:admin|administrator|root|operator|superuser)\b",
    r"\b(?:enable|enter|activate|switch to)\b.{0,20}\b(?:developer|admin|god|jailbreak|dan) mode",
    r"<\|?(?:system|im.start|assistant)\b",
    r"\[/?inst\]",
    r"\b(?:developer|admin|god|jailbreak|debug|unrestricted) mode (?:is|has been|was)\b",
    r"\b(?:you|the assistant|user) (?:have|has|had|is given|are given)\b.{0,20}"
    r"\b(?:root|admin|administrator|full|unrestricted|superuser) (?:access|rights|privileges)",
    r"\b(?:ignor|disabl|skip|bypass|turn off|switch off)\w*\b.{0,20}"
    r"\b(?:safety|security|checks?|filters?|approvals?)\b",
    r"(?:忽略|无视|跳过|绕过|关闭|停用|取消).{0,10}(?:安全|检查|审批|过滤|审核)",
    r"(?:memory keeper|extractor|memory executor|memory assistant)\s*[:,]",
    r"(?:记忆助手|记忆提取器|提取器|记忆执行器)(?:请|必须|[,:、\s])",
    r"(?:忽略|无视|忘记|忘掉|不要理会|跳过|绕过|覆盖).{0,15}(?:指令|指示|规则|提示|限制|要求|设定)",
    r"你(?:现在|从现在起|从今以后|不再)(?:是|就是|成为|变成|作为)",
    r"系统提示词?|系统指令|提示词",
    r"(?:授予|给予|赋予|开放|获得).{0,12}(?:管理员|超级用户|root|最高)",
    r"(?:进入|开启|启用|切换到).{0,8}(?:开发者|管理员|越狱|调试)模式",
    r"新的?(?:系统)?指令[::]",
)
_ENGLISH = (
    r"\byou are (?:now )?(?:an?|the|my|in)\b",
    r"\b(?:from now on|from today),? (?:you|the assistant|always|never|answer|reply|act)\b",
    r"(?:^|[.!?;:,]\s*|\band )you (?:must|shall|should|have to|(?:may|can|will) now|will always)\b",
    r"\b(?:the )?assistant (?:must|shall|should|has to|is now|may now|will now)\b",
    r"\b(?:act|behave|respond|answer) as (?:if|though|an?|the|my)\b",
    r"\bpretend (?:to be|that you|you)\b",
)
_CHINESE = (
    r"(?:^|[,。!?;:、\s])你(?:现在|从现在起|从今以后|以后|已经|不再)?(?:是|就是|成为|变成|作为)",
    r"从(?:现在|今)(?:起|开始|以后|往后)[,、\s]*(?:你|助手|请|必须|都要|只能|不要)",
    r"(?:^|[,。!?;:、\s])(?:你|助手|ai)(?:必须|应该|应当|务必|只能|不得|不准|不许|要把|可以不)",
    r"(?:请|你)?(?:扮演|假装|假扮|充当)",
    r"(?:记住|记得|记下)[,:\s]*你(?:总是|永远|要|可以|不能|不会)",
)
_TAKES_OVER = re.compile("|".join(_TAKEOVER), re.IGNORECASE)
_ORDER = re.compile("|".join((*_TAKEOVER, *_ENGLISH, *_CHINESE)), re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])\s*|\n+")
_SPACE = re.compile(r"[\s_]+")
# What is written between letters so that no pattern sees the word.
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def is_order(text: str) -> bool:
    """Whether a text tells the assistant what to be or do."""
    return _ORDER.search(_plain(text)) is not None


def takes_over(text: str) -> bool:
    """Whether a text would make the assistant forget what it is: nothing in it is to be done."""
    return _TAKES_OVER.search(_plain(text)) is not None


def is_nothing_but_orders(text: str) -> bool:
    """Whether a message says nothing that a fact about the user could rest on.

    One sentence that would take the assistant over spoils all of it: what stands beside it is
    likely part of the attempt. An ordinary order ("answer as a pirate") spoils only itself.
    """
    if takes_over(text):
        return True
    sentences = [plain for each in _SENTENCE.split(text) if (plain := _plain(each).strip())]
    return bool(sentences) and all(_ORDER.search(sentence) for sentence in sentences)


def _plain(text: str) -> str:
    plain = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).replace("’", "'")
    return _SPACE.sub(" ", plain)

"""Writes lines.bin.gz: 10,000 lines of mixed languages, code, emoji, white space,
special tokens and broken UTF-8, each behind its length in two bytes."""

import gzip
import random
import struct

SENTENCES = """
The expert that a token goes to is chosen by the router, isn't it? We'll see; they've said I'd know.
DON'T SHOUT: IT'S WHAT WE'VE DONE, AND I'M SURE THEY'LL AGREE. You're right, she'd say.
Der Router wählt für jedes Token die besten Experten; größere Maße heißen Straße, Übung und Ärger.
L'expert choisi reçoit l'élève à l'école, où ça coûte très peu d'être naïf, n'est-ce pas ?
El niño pequeño comió piñas en la montaña; ¿cuántos años tiene usted? ¡Qué bien!
Il perché della città è più lungo di un’idea già detta.
A língua não é só coração: são ações, irmãs e manhãs.
Маршрутизатор выбирает экспертов для каждого слова, и это быстро. Ёлка, подъезд, объём.
Η γλώσσα των ελληνικών είναι όμορφη· ΟΔΟΣ, οδός και Σίσυφος.
專家路由器為每個詞選擇最佳的專家。這是一個測試，看看它是否有效！
专家路由器为每个词选择最佳的专家，并且在两台机器上运行。你好，世界。
ルーターはトークンごとに最適なエキスパートを選びます。カタカナとひらがなと漢字。
라우터는 각 토큰에 대해 가장 좋은 전문가를 선택합니다. 안녕하세요 세계.
الموجه يختار أفضل الخبراء لكل رمز، وهذا اختبار للغة العربية. كَتَبَ الوَلَدُ
הנתב בוחר את המומחים הטובים ביותר לכל אסימון. שָׁלוֹם עוֹלָם
राउटर हर टोकन के लिए सबसे अच्छे विशेषज्ञ चुनता है। क्षत्रिय ज्ञान।
เราเตอร์เลือกผู้เชี่ยวชาญที่ดีที่สุดสำหรับแต่ละโทเค็น น้ำ
Bộ định tuyến chọn các chuyên gia tốt nhất cho mỗi từ. Tiếng Việt rất đẹp.
Yönlendirici her sözcük için en iyi uzmanları seçer. İstanbul'da ılık bir gün.
Směrovač vybírá nejlepší experty; příliš žluťoučký kůň úpěl ďábelské ódy.
ரூட்டர் ஒவ்வொரு சொல்லுக்கும் சிறந்த நிபுணர்களைத் தேர்ந்தெடுக்கிறது.
როუტერი ირჩევს საუკეთესო ექსპერტებს. የተሻለ ባለሙያ ይመርጣል።
""".strip().split("\n")

CODE = """
for i := range n {
	if err := f(ctx, &x[i]); err != nil { return nil, fmt.Errorf("rank %d: %w", i, err) }
def route(self, x: Tensor, top_k=2) -> tuple[Tensor, ...]:
    return sum((a * b) % 7 for a, b in zip(xs, ys) if a != b)
#include <stdio.h>  // int main(void) { printf("%s\\n", argv[0]); }
SELECT id, COUNT(*) FROM experts WHERE load >= 0.75 GROUP BY id;
<div class="row" id='x1'>&nbsp;<b>bold</b></div>
{"name": "gomoe", "sizes": [1, 22, 333, 4444, 55555], "ok": true}
let x = await fetch(`https://example.org/a/b?c=${d}&e=1#f`);
std::vector<std::pair<int, float>> v{{1, 2.5e-3f}};
camelCase snake_case SCREAMING_CASE kebab-case PascalCaseHTTPServer iPhone XMLHttpRequest2
x=1;y+=2;z**=3;a<<=4;b->c;d::e;f=>g;h!==i;j<=>k;(((())))[[[]]]{{{}}}
""".strip("\n").split("\n")

ODD = [
    " ", "  ", "   ", "      ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\x85", "\v", "\f", "\x00", "\x7f",
    "0", "12", "123", "1234", "1234567", "3.14159", "1,000,000", "٣٤٥", "४५", "Ⅷ", "½", "²", "①", "0x1F", "-7", "1e-5",
    "😀", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪🇯🇵", "❤️", "🤷‍♀️", "🏳️‍🌈", "✨✨✨", "☃", "→⇒∀∃∑√∞", "$€£¥₿", "©®™", "𝕳𝖊𝖑𝖑𝖔", "𓀀𓁐", "𠀀𠮷", "ﬁﬂﬃ", "Å Å Å", "e\u0301e\u0302\u0323", "Ａｂｃ１２３", "ｶﾞｷﾞ", "㎏㏒", "ǅǈ", "ʰˠ", "ªº",
    "'s", "'T", "'Re", "'VE", "'ll", "'ſ", "’s", "n't", "K", "ß", "İ", "ı",
    "…", "—", "–", "«»", "“”", "„‟", "!?", "...", "---", "===", "//", "/*", "\\n", "\\", "`", "~", "^", "#", "@", "&", "*", "%", "|", "_", "__", "▁", "▁▁", "Ġ", "<", ">", "<0x41>", "<0xE4>",
    "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<mask>", "[TOOL]", " [TOOL] ", "<|im", "user\n", "word", "added", " added", "preadded", "addedpost", "Añadido", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ababababababababababababababab",
]

BROKEN = [b"\xff", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x98", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe4\xb8\xe4\xb8\xad", b"\xf0\x9f", b"\xfe\xfe"]


def line(r):
    """One line, as bytes."""
    kind = r.random()
    if kind < 0.3:
        words = r.choice(SENTENCES).split(" ")
        i = r.randrange(len(words))
        out = " ".join(words[i : i + r.randint(1, 9)])
    elif kind < 0.45:
        text = r.choice(CODE)
        i = r.randrange(len(text))
        out = text[i : i + r.randint(1, 50)] if r.random() < 0.5 else text
    elif kind < 0.6:
        out = "".join(r.choice(ODD) for _ in range(r.randint(1, 7)))
    else:
        parts = []
        for _ in range(r.randint(1, 6)):
            k = r.random()
            if k < 0.5:
                parts.append(r.choice(r.choice(SENTENCES).split(" ")))
            elif k < 0.7:
                text = r.choice(CODE)
                i = r.randrange(len(text))
                parts.append(text[i : i + r.randint(1, 12)])
            else:
                parts.append(r.choice(ODD))
        out = r.choice(["", " ", " ", "  ", "\n"]).join(parts)
    data = out.encode()
    if r.random() < 0.06:
        for _ in range(r.randint(1, 3)):
            i = r.randrange(len(data) + 1)
            data = data[:i] + r.choice(BROKEN) + data[i:]
    return data


def lines(n=10_000, seed=1):
    r = random.Random(seed)
    return [line(r) for _ in range(n)]


if __name__ == "__main__":
    with open("lines.bin.gz", "wb") as f:
        f.write(gzip.compress(b"".join(struct.pack("<H", len(x)) + x for x in lines()), 9, mtime=0))

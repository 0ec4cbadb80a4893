package tokenizer

// words describes how a value of tokenizer.ggml.pre in a GGUF file splits text into words.
type words struct {
	cuts    []string // patterns, each splitting the results of the preceding ones
	compose bool     // convert text to form NFC first
	whole   bool     // keep a word that is itself a token
	begins  bool     // add the BOS token by default
}

// known lists the names of patterns, for errors.
const known = "gpt-2, olmo, llama-bpe, dbrx, glm4, qwen2, qwen35, gpt-4o, llama4, tekken, deepseek-llm, deepseek-coder, deepseek-v3, bailingmoe or starcoder"

// patterns returns the words of a name. The names are llama.cpp's; the patterns are taken from the models'
// tokenizer.json.
func patterns(name string) (words, bool) {
	const (
		short   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
		rest    = ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		llama   = short + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` + rest
		qwen    = short + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` + rest
		qwen35  = short + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		bailing = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
		upper   = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
		lower   = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
		slash   = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		o200k   = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+` + short + `?|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower + `*` + short + `?|\p{N}{1,3}|` + slash
		tekken  = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower + `*|\p{N}|` + slash
		marks   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
		latin   = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212Dℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
		signs   = `\s?[!-/:-~！-／：-～‘-‟　-。]+`
	)
	switch name {
	case "", "default": // llama.cpp's default, for files of converters that set no name
		return words{cuts: []string{`[\p{P}\$\+<=>\^~\|]+`, `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`, `\p{N}+`, `[0-9][0-9][0-9]`}}, true
	case "gpt-2", "mpt", "jais":
		return words{cuts: []string{wordsOfGPT2}}, true
	case "olmo":
		return words{cuts: []string{wordsOfGPT2}, compose: true}, true
	case "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano":
		return words{cuts: []string{llama}, whole: true, begins: true}, true
	case "dbrx", "smaug-bpe", "glm4", "chatglm-bpe":
		return words{cuts: []string{llama}}, true
	case "qwen2", "deepseek-r1-qwen", "hunyuan", "solar-open":
		return words{cuts: []string{qwen}, compose: true}, true
	case "qwen35":
		return words{cuts: []string{qwen35}, compose: true}, true
	case "gpt-4o", "llama4", "minimax-m2":
		return words{cuts: []string{o200k}}, true
	case "tekken":
		return words{cuts: []string{tekken}, whole: true, begins: true}, true
	case "deepseek-llm":
		return words{cuts: []string{"[\r\n]", latin, signs, `\s+$`, "[一-龥ࠀ-一가-퟿]+", `\p{N}`}}, true
	case "deepseek-coder":
		return words{cuts: []string{"[\r\n]", `\s?\p{L}+`, `\s?\p{P}+`, "[一-龥ࠀ-一가-퟿]+", `\p{N}`}}, true
	case "deepseek-v3", "hunyuan-dense", "joyai-llm":
		return words{cuts: []string{`\p{N}{1,3}`, "[一-龥぀-ゟ゠-ヿ]+", marks}}, true
	case "bailingmoe", "bailingmoe2", "llada-moe":
		return words{cuts: []string{bailing}}, true
	case "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b":
		return words{cuts: []string{`\p{N}`, wordsOfGPT2}}, true
	}
	return words{}, false
}

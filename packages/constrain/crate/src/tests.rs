//! Vocabularies, matchers, and what nobody should ask for.

use crate::compile::{Kind, compile};
use crate::guard::guarded;
use crate::matcher::{Matcher, write};
use crate::patterns::Patterns;
use crate::vocabulary::Vocabulary;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

const END: u32 = 300;

/// Bytes, some words, and the token that ends a text.
fn tokenizer() -> Value {
    let mut next = 0x100..;
    let letter = |byte: u8| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        _ => char::from_u32(next.next().unwrap()).unwrap(),
    };
    let letters = (0..=u8::MAX).map(letter).map(String::from);
    let words = ["\":", "name", "Ġtrue", "value", "Ġ\"", "\",", "12"].map(String::from);
    let ids: serde_json::Map<String, Value> = letters.chain(words).enumerate().map(|(id, text)| (text, json!(id))).collect();
    json!({
        "decoder": { "type": "ByteLevel" },
        "model": { "type": "BPE", "vocab": ids, "merges": [] },
        "added_tokens": [{ "id": END, "content": "<end>", "special": true }],
    })
}

fn vocabulary() -> Arc<Vocabulary> {
    static MADE: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    MADE.get_or_init(|| Arc::new(Vocabulary::read(&tokenizer().to_string(), &[END]).unwrap())).clone()
}

fn begin(kind: Kind, text: &str) -> Result<Matcher, String> {
    let (vocabulary, text) = (vocabulary(), text.to_owned());
    let of_matcher = vocabulary.clone();
    let mut start = guarded(move || compile(&vocabulary, kind, &text, &Patterns::default()))?;
    Ok(Matcher::new(start.parser(), of_matcher))
}

fn allowed(matcher: &mut Matcher) -> Result<Vec<u32>, String> {
    let mut words = vec![u32::MAX; vocabulary().words() + 1];
    write(matcher.allowed()?, &mut words);
    Ok((0..32 * words.len() as u32).filter(|id| words[*id as usize / 32] >> (id % 32) & 1 == 1).collect())
}

/// A text by chance; nothing if it is not complete soon.
fn text(matcher: &mut Matcher, mut random: impl FnMut(usize) -> usize) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::new();
    for _ in 0..300 {
        let tokens = allowed(matcher)?;
        let id = tokens[random(tokens.len())];
        matcher.push(&[id])?;
        if id != END {
            bytes.extend(vocabulary().trie().decode_raw(&[id]));
        }
        if matcher.is_done() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Numbers below a bound, from a seed.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    }
}

#[test]
fn tokens_are_allowed_as_far_as_the_text_goes() {
    let mut matcher = begin(Kind::Regex, "ab|c").unwrap();
    assert_eq!(allowed(&mut matcher).unwrap(), [b'a', b'c'].map(u32::from));
    matcher.push(&[u32::from(b'a')]).unwrap();
    assert_eq!(allowed(&mut matcher).unwrap(), [u32::from(b'b')]);
    assert!(!matcher.is_done());
    matcher.push(&[u32::from(b'b')]).unwrap();
    assert!(matcher.is_done());
    assert_eq!(allowed(&mut matcher).unwrap(), [END]);
    // It may end here, and go on.
    let mut matcher = begin(Kind::Regex, "a+").unwrap();
    matcher.push(&[u32::from(b'a')]).unwrap();
    assert_eq!(allowed(&mut matcher).unwrap(), [u32::from(b'a'), END]);
    matcher.push(&[END]).unwrap();
    assert!(matcher.is_done());
}

#[test]
fn what_may_not_come_is_an_error_from_then_on() {
    for id in [u32::from(b'x'), END, END + 1, u32::MAX] {
        let mut matcher = begin(Kind::Regex, "ab").unwrap();
        assert!(matcher.push(&[id]).is_err(), "{id}");
        assert!(matcher.push(&[u32::from(b'a')]).is_err() && matcher.allowed().is_err() && matcher.forced_text().is_none());
    }
}

#[test]
fn forced_text_becomes_the_tokens_that_are_it() {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "boolean" } }, "required": ["name"] }).to_string();
    let id = |text: &str| vocabulary().trie().token_id(text.as_bytes()).unwrap();
    let mut matcher = begin(Kind::Schema, &schema).unwrap();
    matcher.push(&[id("{")]).unwrap();
    assert_eq!(matcher.forced_text(), Some(("{".to_owned(), "\"name\": ".to_owned())));
    // What is before belongs to it, and the last token could be the beginning of a longer one (` true`).
    let ids = ["{", "\"", "name", "\":", " "].map(id);
    assert_eq!(matcher.force(&ids).unwrap(), ids[1..4]);
    assert!(allowed(&mut matcher).unwrap().contains(&id(" true")));
    matcher.push(&[id(" true")]).unwrap();
    // Other tokens are not it, nor such as begin within one.
    let mut matcher = begin(Kind::Schema, &schema).unwrap();
    matcher.push(&[id("{")]).unwrap();
    matcher.forced_text().unwrap();
    for ids in [vec![id("name")], vec![id("{"), id("value")], vec![], vec![u32::MAX], vec![END; 8]] {
        assert_eq!(matcher.force(&ids).unwrap(), [0; 0]);
    }
    matcher.push(&[id("\"")]).unwrap();
}

#[test]
fn letters_of_tokenizers_are_bytes() {
    let read = |json: Value, ends: &[u32]| Vocabulary::read(&json.to_string(), ends);
    let pieces = |decoder: Value| json!({ "decoder": decoder, "model": { "vocab": [["<unk>", 0.0], ["▁a", -1.0], ["<0xE2>", -2.0], ["_b", -3.0]] }, "added_tokens": [] });
    let replace = json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " });
    for decoder in [
        json!({ "type": "Metaspace", "replacement": "▁" }),
        json!({ "type": "Sequence", "decoders": [replace, { "type": "ByteFallback" }] }),
    ] {
        let read = read(pieces(decoder), &[0]).unwrap();
        assert_eq!([1, 2, 3].map(|id| read.trie().token(id).to_vec()), [b" a".to_vec(), vec![0xE2], b"_b".to_vec()]);
    }
    assert_eq!(vocabulary().trie().token(258), b" true");
    assert!(vocabulary().trie().is_special_token(END));
    let wrong = [
        (pieces(json!({ "type": "WordPiece" })), vec![], "found a decoder"),
        (pieces(json!({ "type": "Metaspace" })), vec![4], "found 4"),
        (json!({ "decoder": { "type": "ByteLevel" }, "model": {} }), vec![], "found no model.vocab"),
        (json!({ "decoder": { "type": "ByteLevel" }, "model": { "vocab": { "a": -1 } } }), vec![], "found no model.vocab"),
        (json!({ "decoder": { "type": "ByteLevel" }, "model": { "vocab": { "a": 4_294_967_295u32 } } }), vec![], "found token"),
        (
            json!({ "decoder": { "type": "ByteLevel" }, "model": { "vocab": { "a": 0 } }, "added_tokens": [{ "id": 1_000_000, "content": "b" }] }),
            vec![],
            "found token 1000000, allowed numbers below 65536",
        ),
        (json!({ "decoder": { "type": "ByteLevel" }, "model": { "vocab": {} } }), vec![], "found no tokens"),
        (json!([]), vec![], "found a decoder"),
    ];
    for (json, ends, message) in wrong {
        let error = read(json.clone(), &ends).map(drop).unwrap_err();
        assert!(error.contains(message), "{json}: {error}");
    }
}

#[test]
fn errors_have_their_place() {
    let cases = [
        (json!({ "properties": { "a": { "items": { "not": {} } } } }), "at #/properties/a/items: "),
        (json!({ "properties": { "a/b~": { "anyOf": [{}, { "uniqueItems": true }] } } }), "at #/properties/a~1b~0/anyOf/1: "),
        (json!({ "$defs": { "x": { "pattern": "(?=a)", "type": "string" } }, "$ref": "#/$defs/x" }), "at #/$defs/x: "),
        (json!({ "type": "wrong" }), "at #: "),
        (json!(false), "at #: "),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string", "minLength": 5, "maxLength": 3 } }, "required": ["a"] }),
            "at #/properties/a: Unsatisfiable schema: minLength",
        ),
        (json!({ "type": "string", "format": "telephone" }), "at #: Unknown format: telephone"),
    ];
    for (schema, place) in cases {
        let error = begin(Kind::Schema, &schema.to_string()).map(drop).unwrap_err();
        assert!(error.starts_with(place), "{schema}: {error}");
    }
    let error = begin(Kind::Grammar, "start: \"a\" b\nb: /x/\nc: (((\n").map(drop).unwrap_err();
    assert!(error.starts_with("3(7)"), "{error}");
}

/// Whatever the bytes are, there is a text, no end, or an error.
#[test]
fn nonsense_never_panics() {
    let parts = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"type\"",
        "\"object\"",
        "\"string\"",
        "\"array\"",
        "\"properties\"",
        "\"items\"",
        "\"$ref\"",
        "\"#\"",
        "\"#/$defs/a\"",
        "\"$defs\"",
        "\"a\"",
        "\"anyOf\"",
        "\"allOf\"",
        "\"oneOf\"",
        "\"enum\"",
        "\"const\"",
        "\"pattern\"",
        "\"(a|b)*\"",
        "\"minimum\"",
        "\"maximum\"",
        "\"multipleOf\"",
        "\"minItems\"",
        "\"maxItems\"",
        "\"required\"",
        "\"additionalProperties\"",
        "1e308",
        "-1",
        "0",
        "0.1",
        "3",
        "null",
        "true",
        "false",
        "\"\\u0000\"",
        "\"ä\"",
        "\"format\"",
        "\"date\"",
        "\"minLength\"",
        "9999999999",
    ];
    let letters = [
        "a", "(", ")", "[", "]", "{1,3}", "{9999}", "*", "+", "?", "|", "\\", "^", "$", ".", "start", ":", "\n", "\"x\"", "/y/",
        "%json", "%ignore", " ", "ä", "\0", "-", "&", "~", "<x>",
    ];
    for seed in 0..600 {
        let mut random = random(seed);
        let nested = schema(&mut random, 4);
        let cases = [
            (Kind::Schema, nested.to_string()),
            (Kind::Schema, (0..random(40)).map(|_| parts[random(parts.len())]).collect()),
            (Kind::Regex, (0..random(20)).map(|_| letters[random(letters.len())]).collect()),
            (Kind::Grammar, format!("start: {}", (0..random(30)).map(|_| letters[random(letters.len())]).collect::<String>())),
        ];
        for (kind, text_of) in cases {
            let made = begin(kind, &text_of).and_then(|mut matcher| text(&mut matcher, &mut random));
            let error = made.err().unwrap_or_default();
            assert!(!error.contains("internal error"), "{kind:?} {text_of}: {error}");
        }
    }
}

/// Something like a schema, with values of other types where some are expected.
fn schema(random: &mut impl FnMut(usize) -> usize, depth: usize) -> Value {
    const KEYS: [&str; 28] = [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "oneOf",
        "enum",
        "const",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "required",
        "additionalProperties",
        "patternProperties",
        "prefixItems",
        "$ref",
        "$defs",
        "minProperties",
        "maxProperties",
        "x-guidance",
    ];
    match random(if depth == 0 { 8 } else { 14 }) {
        0 => json!(random(5) as i64 - 2),
        1 => json!([1e308, -0.5, 1e-9, 9_007_199_254_740_993.0][random(4)]),
        2 => json!(random(2) == 0),
        3 => Value::Null,
        4..8 => json!(
            ["string", "object", "array", "number", "integer", "#", "#/$defs/a", "^a+$", "[", "date-time", "ä", ""][random(12)]
        ),
        8 => (0..random(4)).map(|_| schema(random, depth - 1)).collect(),
        _ => (0..random(5))
            .map(|_| (KEYS[random(KEYS.len())].to_owned(), schema(random, depth - 1)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[test]
fn texts_are_as_they_must_be() {
    let schema = json!({ "type": "object", "properties": { "a": { "enum": ["x", 5, null] }, "b": { "type": "array", "items": { "type": "integer" }, "maxItems": 2 } }, "required": ["a", "b"], "additionalProperties": false });
    let mut complete = 0;
    for seed in 0..100 {
        let mut matcher = begin(Kind::Schema, &schema.to_string()).unwrap();
        let Some(text) = text(&mut matcher, random(seed)).unwrap() else { continue };
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert!(value["a"] == "x" || value["a"] == 5 || value["a"].is_null());
        assert!(value["b"].as_array().unwrap().len() <= 2);
        complete += 1;
    }
    assert!(complete > 50, "{complete}");
}

/// What would take too long, or a deeper stack than there is.
#[test]
fn what_is_too_much_is_refused() {
    let chain = |count: usize| {
        let next = |i: usize| json!({ "type": "object", "properties": { "a": { "$ref": format!("#/$defs/d{}", i + 1) } }, "required": ["a"] });
        let mut all: serde_json::Map<String, Value> = (0..count).map(|i| (format!("d{i}"), next(i))).collect();
        all.insert(format!("d{count}"), json!({ "type": "null" }));
        json!({ "$defs": all, "$ref": "#/$defs/d0" })
    };
    assert!(begin(Kind::Schema, &chain(4000).to_string()).is_ok());
    let all = |count: usize| json!({ "type": "string", "allOf": (0..count).map(|i| json!({ "pattern": format!("a.{{{i}}}b") })).collect::<Vec<_>>() });
    let names: serde_json::Map<String, Value> = (0..65).map(|i| (format!("^a{{{i}}}"), json!(true))).collect();
    let cases = [
        (Kind::Schema, chain(20_000).to_string(), "found more than 10000 schemas"),
        (Kind::Schema, all(30).to_string(), "found 30 patterns"),
        (
            Kind::Schema,
            json!({ "$defs": { "a": all(8) }, "properties": { "x": { "$ref": "#/$defs/a", "allOf": [all(6)] } } }).to_string(),
            "found 14 patterns",
        ),
        (
            Kind::Schema,
            json!({ "properties": { "x": { "type": "object", "patternProperties": names } } }).to_string(),
            "at #/properties/x/patternProperties: ",
        ),
        (
            Kind::Schema,
            json!({ "properties": { "x": { "pattern": "a?".repeat(5000) } } }).to_string(),
            "at #/properties/x: found a pattern of 10000 bytes",
        ),
        (Kind::Schema, json!({ "items": { "multipleOf": 5003 } }).to_string(), "found a multipleOf"),
        (Kind::Schema, json!({ "allOf": [{ "multipleOf": 71 }, { "multipleOf": 0.73 }] }).to_string(), "found a multipleOf"),
        (Kind::Regex, "a?".repeat(5000), "found 10000 bytes"),
        (
            Kind::Grammar,
            format!("start: \"/\" X\nX: /{}/", "a?".repeat(5000)),
            "line 2: found a regular expression of 10000 bytes",
        ),
    ];
    for (kind, text, message) in cases {
        let error = begin(kind, &text).map(drop).unwrap_err();
        assert!(error.starts_with(message), "{}: {error}", text.chars().take(80).collect::<String>());
    }
    // Alternatives and members do not come together.
    let many: serde_json::Map<String, Value> =
        (0..40).map(|i| (format!("p{i}"), json!({ "type": "string", "pattern": "^a+$" }))).collect();
    let any = (0..40).map(|i| json!({ "type": "string", "pattern": format!("^a{{{i}}}$") })).collect::<Vec<_>>();
    assert!(
        begin(
            Kind::Schema,
            &json!({ "type": "object", "properties": many, "additionalProperties": { "anyOf": any } }).to_string()
        )
        .is_ok()
    );
}

/// The same of lists, optional members and grammars.
#[test]
fn lists_and_grammars_that_are_too_much_are_refused() {
    let all = |count: usize| json!({ "type": "string", "allOf": (0..count).map(|i| json!({ "pattern": format!("a.{{{i}}}b") })).collect::<Vec<_>>() });
    let optional = |count: usize| json!({ "properties": (0..count).map(|i| (format!("a{i}"), json!({}))).collect::<serde_json::Map<_, _>>() });
    let cases = [
        (
            Kind::Schema,
            json!({ "items": { "const": (0..11_000).map(|i| json!(i)).collect::<Vec<_>>() } }).to_string(),
            "at #/items: found more than 10000 values",
        ),
        (
            Kind::Schema,
            json!({ "enum": [{ "a": (0..11_000).map(|i| (i.to_string(), json!(i))).collect::<serde_json::Map<_, _>>() }] })
                .to_string(),
            "at #: found more than 10000 values",
        ),
        (
            Kind::Schema,
            json!({ "required": (0..11_000).map(|i| i.to_string()).collect::<Vec<_>>() }).to_string(),
            "at #: found more than 10000 values",
        ),
        (Kind::Schema, json!({ "items": optional(2001) }).to_string(), "at #/items/properties: found 2001 that are not required"),
        (
            Kind::Grammar,
            format!("start: X\nX: /{}\n{}/", "a?".repeat(2500), "b?".repeat(2500)),
            "line 2: found a regular expression of 10001 bytes",
        ),
        (
            Kind::Grammar,
            format!("# & \"&\" is none\nstart: \"&\" X // & & &\nX: {}", ["/.*a/"; 13].join("\n & ")),
            "line 15: found more than 12 patterns joined by &",
        ),
        (
            Kind::Grammar,
            format!("start: x\nx: %json {} | y\ny: %json {}", json!({ "type": "null" }), all(30)),
            "line 3: found 30 patterns",
        ),
    ];
    for (kind, text, message) in cases {
        let error = begin(kind, &text).map(drop).unwrap_err();
        assert!(error.starts_with(message), "{}: {error}", text.chars().take(80).collect::<String>());
    }
    // Values of their own.
    assert!(begin(Kind::Schema, &json!({ "enum": (0..11_000).map(|i| format!("{i}")).collect::<Vec<_>>() }).to_string()).is_ok());
    assert!(begin(Kind::Grammar, &format!("start: X\nX: {}", ["/a+/"; 12].join(" & "))).is_ok());
}

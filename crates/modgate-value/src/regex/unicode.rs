//! The names of Unicode classes that Go knows.
//!
//! Go compares them without regard to case, spaces, hyphens and underscores; the lists are in that
//! form. The `regex` crate knows more properties, which Go refuses.

/// The characters that a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A property in the `regex` crate's spelling.
    Property(String),
    /// The surrogates: no text contains any.
    Nothing,
}

/// The class called `name`.
pub(super) fn class(name: &str) -> Option<Class> {
    let name: String = name
        .chars()
        .filter(|c| !matches!(c, ' ' | '_' | '-'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if let Ok(at) = CATEGORIES.binary_search_by(|(known, _)| known.cmp(&name.as_str())) {
        let (_, category) = CATEGORIES.get(at)?;
        return Some(match *category {
            "Cs" => Class::Nothing,
            category => Class::Property(format!("gc={category}")),
        });
    }
    if matches!(name.as_str(), "any" | "ascii" | "assigned") {
        return Some(Class::Property(name));
    }
    let script = SCRIPTS.binary_search(&name.as_str()).is_ok();
    script.then(|| Class::Property(format!("sc={name}")))
}

/// Categories, short and long names (Unicode 15, as Go 1.25 and later accept them).
const CATEGORIES: [(&str, &str); 80] = [
    ("c", "C"),
    ("casedletter", "LC"),
    ("cc", "Cc"),
    ("cf", "Cf"),
    ("closepunctuation", "Pe"),
    ("cn", "Cn"),
    ("cntrl", "Cc"),
    ("co", "Co"),
    ("combiningmark", "M"),
    ("connectorpunctuation", "Pc"),
    ("control", "Cc"),
    ("cs", "Cs"),
    ("currencysymbol", "Sc"),
    ("dashpunctuation", "Pd"),
    ("decimalnumber", "Nd"),
    ("digit", "Nd"),
    ("enclosingmark", "Me"),
    ("finalpunctuation", "Pf"),
    ("format", "Cf"),
    ("initialpunctuation", "Pi"),
    ("l", "L"),
    ("lc", "LC"),
    ("letter", "L"),
    ("letternumber", "Nl"),
    ("lineseparator", "Zl"),
    ("ll", "Ll"),
    ("lm", "Lm"),
    ("lo", "Lo"),
    ("lowercaseletter", "Ll"),
    ("lt", "Lt"),
    ("lu", "Lu"),
    ("m", "M"),
    ("mark", "M"),
    ("mathsymbol", "Sm"),
    ("mc", "Mc"),
    ("me", "Me"),
    ("mn", "Mn"),
    ("modifierletter", "Lm"),
    ("modifiersymbol", "Sk"),
    ("n", "N"),
    ("nd", "Nd"),
    ("nl", "Nl"),
    ("no", "No"),
    ("nonspacingmark", "Mn"),
    ("number", "N"),
    ("openpunctuation", "Ps"),
    ("other", "C"),
    ("otherletter", "Lo"),
    ("othernumber", "No"),
    ("otherpunctuation", "Po"),
    ("othersymbol", "So"),
    ("p", "P"),
    ("paragraphseparator", "Zp"),
    ("pc", "Pc"),
    ("pd", "Pd"),
    ("pe", "Pe"),
    ("pf", "Pf"),
    ("pi", "Pi"),
    ("po", "Po"),
    ("privateuse", "Co"),
    ("ps", "Ps"),
    ("punct", "P"),
    ("punctuation", "P"),
    ("s", "S"),
    ("sc", "Sc"),
    ("separator", "Z"),
    ("sk", "Sk"),
    ("sm", "Sm"),
    ("so", "So"),
    ("spaceseparator", "Zs"),
    ("spacingmark", "Mc"),
    ("surrogate", "Cs"),
    ("symbol", "S"),
    ("titlecaseletter", "Lt"),
    ("unassigned", "Cn"),
    ("uppercaseletter", "Lu"),
    ("z", "Z"),
    ("zl", "Zl"),
    ("zp", "Zp"),
    ("zs", "Zs"),
];

/// Scripts (Unicode 15).
const SCRIPTS: [&str; 163] = [
    "adlam",
    "ahom",
    "anatolianhieroglyphs",
    "arabic",
    "armenian",
    "avestan",
    "balinese",
    "bamum",
    "bassavah",
    "batak",
    "bengali",
    "bhaiksuki",
    "bopomofo",
    "brahmi",
    "braille",
    "buginese",
    "buhid",
    "canadianaboriginal",
    "carian",
    "caucasianalbanian",
    "chakma",
    "cham",
    "cherokee",
    "chorasmian",
    "common",
    "coptic",
    "cuneiform",
    "cypriot",
    "cyprominoan",
    "cyrillic",
    "deseret",
    "devanagari",
    "divesakuru",
    "dogra",
    "duployan",
    "egyptianhieroglyphs",
    "elbasan",
    "elymaic",
    "ethiopic",
    "georgian",
    "glagolitic",
    "gothic",
    "grantha",
    "greek",
    "gujarati",
    "gunjalagondi",
    "gurmukhi",
    "han",
    "hangul",
    "hanifirohingya",
    "hanunoo",
    "hatran",
    "hebrew",
    "hiragana",
    "imperialaramaic",
    "inherited",
    "inscriptionalpahlavi",
    "inscriptionalparthian",
    "javanese",
    "kaithi",
    "kannada",
    "katakana",
    "kawi",
    "kayahli",
    "kharoshthi",
    "khitansmallscript",
    "khmer",
    "khojki",
    "khudawadi",
    "lao",
    "latin",
    "lepcha",
    "limbu",
    "lineara",
    "linearb",
    "lisu",
    "lycian",
    "lydian",
    "mahajani",
    "makasar",
    "malayalam",
    "mandaic",
    "manichaean",
    "marchen",
    "masaramgondi",
    "medefaidrin",
    "meeteimayek",
    "mendekikakui",
    "meroiticcursive",
    "meroitichieroglyphs",
    "miao",
    "modi",
    "mongolian",
    "mro",
    "multani",
    "myanmar",
    "nabataean",
    "nagmundari",
    "nandinagari",
    "newa",
    "newtailue",
    "nko",
    "nushu",
    "nyiakengpuachuehmong",
    "ogham",
    "olchiki",
    "oldhungarian",
    "olditalic",
    "oldnortharabian",
    "oldpermic",
    "oldpersian",
    "oldsogdian",
    "oldsoutharabian",
    "oldturkic",
    "olduyghur",
    "oriya",
    "osage",
    "osmanya",
    "pahawhhmong",
    "palmyrene",
    "paucinhau",
    "phagspa",
    "phoenician",
    "psalterpahlavi",
    "rejang",
    "runic",
    "samaritan",
    "saurashtra",
    "sharada",
    "shavian",
    "siddham",
    "signwriting",
    "sinhala",
    "sogdian",
    "sorasompeng",
    "soyombo",
    "sundanese",
    "sylotinagri",
    "syriac",
    "tagalog",
    "tagbanwa",
    "taile",
    "taitham",
    "taiviet",
    "takri",
    "tamil",
    "tangsa",
    "tangut",
    "telugu",
    "thaana",
    "thai",
    "tibetan",
    "tifinagh",
    "tirhuta",
    "toto",
    "ugaritic",
    "vai",
    "vithkuqi",
    "wancho",
    "warangciti",
    "yezidi",
    "yi",
    "zanabazarsquare",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        assert!(CATEGORIES.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(SCRIPTS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn names() {
        let property = |text: &str| Some(Class::Property(text.to_owned()));
        assert_eq!(class("L"), property("gc=L"));
        assert_eq!(class("uppercase_letter"), property("gc=Lu"));
        assert_eq!(class("Greek"), property("sc=greek"));
        assert_eq!(class("Old Italic"), property("sc=olditalic"));
        assert_eq!(class("Any"), property("any"));
        assert_eq!(class("Cs"), Some(Class::Nothing));
        for unknown in ["", "Foo", "Script=Greek", "Alphabetic", "Emoji", "L&"] {
            assert_eq!(class(unknown), None, "{unknown}");
        }
    }
}

//! Output that tries to take over a terminal, a reader's eye or a web page; and text that must come through as it is.

#![allow(clippy::disallowed_methods)]

use proptest::prelude::*;
use ringfence_screen::scrub::{HostPaths, Html, Scrub, Scrubber};

#[track_caller]
fn shown(input: &str, expected: &str) {
    assert_eq!(Scrub::default().bytes(input.as_bytes()).text, expected, "{input:?}");
}

#[track_caller]
fn untouched(input: &str) {
    shown(input, input);
}

#[test]
fn terminal_escapes_become_visible_and_inert() {
    shown("\x1b[31mred\x1b[0m", "␛[31mred␛[0m");
    shown("\x1b]0;title\x07", "␛]0;title␇");
    shown("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "␛]8;;http://x␛\\link␛]8;;␛\\");
    shown("\x1bP+q544e\x1b\\", "␛P+q544e␛\\");
    shown("a\u{9b}31mb\u{9d}", "a⟨U+009B⟩31mb⟨U+009D⟩");
    shown("a\x08b\x7f\x0c\x0e", "a␈b␡␌␎");
    untouched("line\r\ntab\tprogress\r100%\n");
}

#[test]
fn text_that_hides_or_reorders_is_shown_by_number() {
    shown("\u{202e}evil\u{202c}", "⟨U+202E⟩evil⟨U+202C⟩");
    shown("\u{2066}x\u{2069}", "⟨U+2066⟩x⟨U+2069⟩");
    shown("pay\u{200b}pal", "pay⟨U+200B⟩pal");
    shown("a\u{200d}b", "a⟨U+200D⟩b");
    shown("a\u{2060}b\u{feff}c", "a⟨U+2060⟩b⟨U+FEFF⟩c");
    shown("x\u{e0069}\u{e0067}", "x⟨U+E0069⟩⟨U+E0067⟩");
    shown("a\u{fe01}", "a⟨U+FE01⟩");
    shown("name\u{3164}", "name⟨U+3164⟩");
    shown("a\u{2028}b", "a⟨U+2028⟩b");
    shown("abc\u{200f}!", "abc⟨U+200F⟩!");
    // Many selectors on one character carry bytes that nobody sees.
    shown("😀\u{fe0f}\u{fe0e}", "😀\u{fe0f}⟨U+FE0E⟩");
    shown("क\u{200d}\u{200d}", "क\u{200d}⟨U+200D⟩");
    shown("🏴\u{e0067}x", "🏴⟨U+E0067⟩x");
}

#[test]
fn text_in_any_script_passes_untouched() {
    for text in [
        "naïve café, Größe, Ελλάδα, Москва, 日本語, 한국어, ไทย, ქართული, አማርኛ",
        "می\u{200c}خواهم",                      // Persian
        "क\u{94d}\u{200d}ष, श\u{94d}\u{200c}र", // Hindi
        "ශ\u{dca}\u{200d}රී",                    // Sinhala
        "👩\u{200d}💻 👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 🏳\u{fe0f}\u{200d}🌈",
        "👍🏽 1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3} ☀\u{fe0f}",
        "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}", // Scotland
        "葛\u{e0100}城",                                            // an ideograph with its variant
        "שלום\u{200f}! \u{200f}עולם",
        "العربية\u{200e} (x)",
        "ភាសា\u{200b}ខ្មែរ", // Khmer words
        "e\u{301} a\u{308}\u{304}",
    ] {
        untouched(text);
    }
}

#[test]
fn paths_of_the_host_are_replaced_with_what_is_below_them_kept() {
    let scrub = Scrub {
        paths: HostPaths::from_iter([
            ("/home/ada".into(), "~".into()),
            ("/home/ada/work/".into(), "/workspace".into()),
            ("/tmp/ringfence-9f3a".into(), "/tmp".into()),
            ("/".into(), "never".into()),
            (String::new(), "never".into()),
        ]),
        ..Scrub::default()
    };
    let text = |input: &str| scrub.bytes(input.as_bytes()).text;
    assert_eq!(
        text("File \"/home/ada/work/m.py\", line 1\n"),
        "File \"/workspace/m.py\", line 1\n"
    );
    assert_eq!(text("/home/ada/.ssh /home/ada: /home/ada."), "~/.ssh ~: ~.");
    assert_eq!(
        text("/home/adam /home/ada2 /home/ada-x /home/ada.bak"),
        "/home/adam /home/ada2 /home/ada-x /home/ada.bak"
    );
    assert_eq!(text("/home/ada/workshop"), "~/workshop");
    assert_eq!(text("-I/home/ada/include:/tmp/ringfence-9f3a"), "-I~/include:/tmp");
    assert_eq!(text("/usr/lib/python3"), "/usr/lib/python3");
}

#[test]
fn markup_is_escaped_when_asked() {
    let scrub = Scrub {
        html: Html::Escape,
        paths: HostPaths::from_iter([("/h".into(), "<h>".into())]),
        ..Scrub::default()
    };
    assert_eq!(
        scrub.bytes(b"<script>alert('&\"')</script> /h").text,
        "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt; &lt;h&gt;"
    );
    untouched("<b>&amp;</b>");
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let binary = |bytes: &[u8]| Scrub::default().bytes(bytes).binary;
    assert!(binary(b"\x89PNG\r\n\x1a\n"));
    assert!(binary(b"a\0b"));
    assert!(binary(b"caf\xe9 au lait"));
    assert!(!binary("café".as_bytes()));
    assert!(!binary(b"\x1b[0m"));
    let cut = Scrub::default().bytes(&"café".as_bytes()[..4]);
    assert_eq!((cut.binary, cut.text.as_str()), (false, "caf\u{fffd}"));
    assert_eq!(Scrub::default().bytes(b"a\xff\xfeb").text, "a\u{fffd}\u{fffd}b");
    let marked =
        Scrub::default().bytes("x\u{200f}".bytes().chain([0xff]).collect::<Vec<_>>().as_slice());
    assert_eq!(marked.text, "x⟨U+200F⟩\u{fffd}");
}

#[test]
fn head_and_tail_are_kept_and_the_rest_is_counted() {
    let scrub = Scrub { bytes_max: Some(10), ..Scrub::default() };
    let scrubbed = scrub.bytes(b"0123456789");
    assert_eq!((scrubbed.text.as_str(), scrubbed.dropped_bytes), ("0123456789", 0));
    let scrubbed = scrub.bytes(b"0123456789abcdefghij");
    assert_eq!(
        (scrubbed.text.as_str(), scrubbed.dropped_bytes),
        ("01234\n[10 bytes dropped]\nfghij", 10)
    );
    let scrubbed = scrub.bytes("äöüßäöüß".as_bytes());
    assert_eq!((scrubbed.text.as_str(), scrubbed.dropped_bytes), ("äö\n[8 bytes dropped]\nüß", 8));
}

#[test]
fn a_running_stream_can_be_shown_as_it_comes() {
    let scrub = Scrub {
        paths: HostPaths::from_iter([("/home/ada".into(), "~".into())]),
        ..Scrub::default()
    };
    let mut scrubber = Scrubber::new(&scrub);
    scrubber.push(b"cd /home/ada/x; rm -rf everything that is long enough");
    let first = scrubber.drain();
    assert!(first.starts_with("cd ~/x; rm"), "{first}");
    scrubber.push(b" \x1b[0m");
    assert_eq!(
        first + &scrubber.finish().text,
        "cd ~/x; rm -rf everything that is long enough ␛[0m"
    );
}

/// Pieces from which interesting streams are made.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        4 => any::<u8>().prop_map(|b| vec![b]),
        2 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        2 => proptest::sample::select(vec![
            "/home/ada", "/home/ada/work", "/home/adam", "/", ".", "x", "<b>", "\x1b[", "\u{200d}", "\u{200f}", "\u{5d0}",
            "\u{1f3f4}", "\u{e0067}", "\u{e007f}", "\u{fe0f}", "é", "\u{202e}", "\n", "\u{200b}", "\u{e01}",
        ])
        .prop_map(|s| s.as_bytes().to_vec()),
    ];
    proptest::collection::vec(word, 0..200).prop_map(|words| words.concat())
}

fn options() -> impl Strategy<Value = Scrub> {
    (any::<bool>(), any::<bool>(), proptest::option::of(0_usize..300)).prop_map(
        |(paths, html, bytes_max)| Scrub {
            paths: if paths {
                let home = ("/home/ada".into(), "~".into());
                HostPaths::from_iter([home, ("/home/ada/work".into(), "/w".into())])
            } else {
                HostPaths::default()
            },
            html: if html { Html::Escape } else { Html::Keep },
            bytes_max,
        },
    )
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same_result(bytes in stream(), scrub in options(), sizes in proptest::collection::vec(1_usize..9, 1..40)) {
        let whole = scrub.bytes(&bytes);
        let mut scrubber = Scrubber::new(&scrub);
        let mut rest = &bytes[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            scrubber.push(piece);
            rest = after;
        }
        prop_assert_eq!(scrubber.finish(), whole);
    }

    #[test]
    fn draining_changes_nothing_but_when(bytes in stream(), scrub in options(), size in 1_usize..9) {
        let scrub = Scrub { bytes_max: None, ..scrub };
        let mut scrubber = Scrubber::new(&scrub);
        let mut text = String::new();
        for piece in bytes.chunks(size) {
            scrubber.push(piece);
            text += &scrubber.drain();
        }
        text += &scrubber.finish().text;
        prop_assert_eq!(text, scrub.bytes(&bytes).text);
    }

    #[test]
    fn nothing_dangerous_is_left(bytes in stream(), scrub in options()) {
        let scrubbed = scrub.bytes(&bytes);
        for c in scrubbed.text.chars() {
            prop_assert!(!c.is_control() || matches!(c, '\n' | '\t' | '\r'), "{c:?}");
            prop_assert!(!matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'), "{c:?}");
            prop_assert!(scrub.html == Html::Keep || !matches!(c, '<' | '>' | '"' | '\''), "{c:?}");
        }
        if let Some(max) = scrub.bytes_max {
            prop_assert!(scrubbed.text.len() <= max + "\n[18446744073709551615 bytes dropped]\n".len());
        }
    }

    #[test]
    fn scrubbing_twice_changes_nothing_more(bytes in stream()) {
        let once = Scrub::default().bytes(&bytes).text;
        prop_assert_eq!(&Scrub::default().bytes(once.as_bytes()).text, &once);
    }
}

//! Text from outside, made visible before a terminal or a log shows it.
//!
//! A name, a label or an error message may contain anything: escape sequences that move the cursor,
//! line ends that begin a line of their own, marks that turn the direction of writing. Characters
//! that would not be seen as they are become escapes, `\n` or `\u{202e}`.

use std::borrow::Cow;
use std::fmt::Write;
use std::iter::successors;

/// A piece of text on one line.
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |_| false, push_debug)
}

/// The most bytes that [`brief`] leaves of a text.
const BRIEF_BYTES: usize = 1 << 10;

/// A piece of text on one line, cut where it is long: for texts of other programs in errors.
pub fn brief(given: &str) -> Cow<'_, str> {
    let end = given.floor_char_boundary(BRIEF_BYTES);
    match end == given.len() {
        true => text(given),
        false => format!("{}…", text(&given[..end])).into(),
    }
}

/// Text of several lines.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n', push_debug)
}

/// JSON with the same meaning: only its strings can contain invisible characters.
pub fn json(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n', push_json)
}

/// Lines of this program: keeps its styles, and escapes everything else that is not visible. A
/// style that hides or disguises text is not one of its styles.
pub fn styled(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, after) = rest.split_at(at);
        let style = style_len(after);
        seen.push_str(&lines(before));
        match style {
            0 => push_debug(&mut seen, '\u{1b}'),
            len => seen.push_str(&after[..len]),
        }
        rest = &after[style.max(1)..];
    }
    seen.push_str(&lines(rest));
    seen
}

fn escape(
    text: &str,
    keep: impl Fn(char) -> bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let is_seen = |c: char| is_visible(c) || keep(c);
    if text.chars().all(is_seen) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_seen(c) {
            true => seen.push(c),
            false => push(&mut seen, c),
        }
    }
    Cow::Owned(seen)
}

fn push_debug(seen: &mut String, c: char) {
    seen.extend(c.escape_debug());
}

fn push_json(seen: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(seen, "\\u{unit:04x}");
    }
}

/// Returns whether a character is seen as it is. Beyond ASCII the standard library decides: control
/// and format characters, odd spaces and line ends, and unassigned characters are not visible.
/// Marks that belong to the letter before are visible.
fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut buffer = [b'x'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let after_a_letter = std::str::from_utf8(&buffer[..end]);
    after_a_letter.is_ok_and(|text| text.escape_debug().nth(1) == Some(c))
}

/// Returns the length of the style at the start of a text: `ESC [`, numbers and semicolons, `m`.
/// Returns 0 if there is no style, or one that this program does not use. It uses bold, dimmed,
/// italic, underlined and coloured text.
fn style_len(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let Some((numbers, _)) = numbers.split_once('m') else {
        return 0;
    };
    let is_own = |number| matches!(number, "" | "0" | "1" | "2" | "3" | "4") || is_colour(number);
    match numbers.split(';').all(is_own) {
        true => 2 + numbers.len() + 1,
        false => 0,
    }
}

/// Returns whether a number of a style is one of the 16 colours of text.
fn is_colour(number: &str) -> bool {
    let number: Result<u8, _> = number.parse();
    matches!(number, Ok(30..=37 | 90..=97))
}

/// The messages of an error and its causes, without messages that an earlier one contains.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    for error in successors(Some(error), |error| error.source()) {
        let message = error.to_string();
        if !text.contains(&message) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&message);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_is_not_seen_is_escaped() {
        for (given, shown) in [
            ("plain", "plain"),
            ("quotes \" ' and \\ stay", "quotes \" ' and \\ stay"),
            (
                "Grüße, 東京, नमस्ते, cafe\u{301}",
                "Grüße, 東京, नमस्ते, cafe\u{301}",
            ),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            (
                "\u{1b}[2J\u{1b}]0;title\u{7}",
                "\\u{1b}[2J\\u{1b}]0;title\\u{7}",
            ),
            ("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\0"),
            (
                "\u{202e}abc\u{2066}\u{200f}",
                "\\u{202e}abc\\u{2066}\\u{200f}",
            ),
            (
                "\u{2028}\u{200b}\u{feff}\u{e0041}",
                "\\u{2028}\\u{200b}\\u{feff}\\u{e0041}",
            ),
        ] {
            assert_eq!(text(given), shown, "{given:?}");
        }
        assert_eq!(lines("a\nb\u{1b}"), "a\nb\\u{1b}");
    }

    #[test]
    fn json_says_the_same() {
        let given = serde_json::json!({"k\u{9b}": "a\u{202e}\n\u{e0041}\u{1b}"});
        let written = serde_json::to_string_pretty(&given).expect("it is JSON");
        let shown = json(&written);
        assert!(shown.chars().all(|c| c == '\n' || is_visible(c)), "{shown}");
        let read: Value = serde_json::from_str(&shown).expect("it is JSON still");
        assert_eq!(read, given);
    }

    #[test]
    fn styles_stay_and_nothing_else_that_escapes() {
        for (given, shown) in [
            ("\u{1b}[1;31mred\u{1b}[0m\n", "\u{1b}[1;31mred\u{1b}[0m\n"),
            ("\u{1b}[2J\u{1b}", "\\u{1b}[2J\\u{1b}"),
            ("\u{1b}[1\u{202e}m", "\\u{1b}[1\\u{202e}m"),
            ("\u{1b}[8mhidden", "\\u{1b}[8mhidden"),
            ("\u{1b}[1;7m\u{1b}[38;5;0m", "\\u{1b}[1;7m\\u{1b}[38;5;0m"),
            ("é\u{1b}é\u{1b}[mé", "é\\u{1b}é\u{1b}[mé"),
        ] {
            assert_eq!(styled(given), shown, "{given:?}");
        }
    }
}

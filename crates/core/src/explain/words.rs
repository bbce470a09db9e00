//! The forms of numbers, names and lists in sentences.

/// The number of names that a sentence lists.
const LISTED: usize = 3;

/// A number with separators: `4,950`.
pub fn number(count: impl TryInto<i64>) -> String {
    let count = count.try_into().unwrap_or(i64::MAX);
    let digits = count.unsigned_abs().to_string();
    let mut text = String::from(if count < 0 { "-" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 node`, `4,950 nodes`, `2 entries`.
pub fn plural(count: impl TryInto<i64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(i64::MAX);
    let number = number(count);
    match what.strip_suffix('y') {
        _ if count == 1 => format!("{number} {what}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {what}s"),
    }
}

/// The form of a verb for a count: `is` or `are`.
pub fn verb(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// A number with its noun and a verb: `1 node has`, `4,950 nodes have`.
pub fn so_many(count: usize, what: &str, one: &'static str, many: &'static str) -> String {
    format!("{} {}", plural(count, what), verb(count, one, many))
}

/// The first names of a list: `a, b, c and 4 more`.
pub fn among<T: AsRef<str>>(names: &[T]) -> String {
    let quoted = |name: &T| quoted(name.as_ref());
    let named: Vec<String> = names.iter().take(LISTED).map(quoted).collect();
    match names.len().saturating_sub(LISTED) {
        0 => joined(&named),
        more => format!("{} and {} more", named.join(", "), number(more)),
    }
}

/// All parts of a list: `a`, `a and b`, `a, b and c`.
pub fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// The value of a topology key as it is, or `""` if it is empty.
pub fn quoted(value: &str) -> String {
    match value {
        "" => "\"\"".to_owned(),
        value => value.to_owned(),
    }
}

/// The clause at the end of a verdict that says which fields were not checked.
pub fn but_for(unchecked: &[String]) -> String {
    match unchecked {
        [] => String::new(),
        fields => format!(
            ", but {} {} not checked",
            joined(fields),
            verb(fields.len(), "was", "were")
        ),
    }
}

/// The sentence about a decision: the verdict, the causes, and the remedy.
pub fn sentence(verdict: &str, causes: &[String], remedy: Option<&String>) -> String {
    match (causes, remedy) {
        ([], _) => format!("{verdict}."),
        (causes, None) => format!("{verdict}: {}.", joined(causes)),
        (causes, Some(remedy)) => format!("{verdict}: {}; {remedy}.", joined(causes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        let cases = [
            (0, "0 nodes"),
            (1, "1 node"),
            (999, "999 nodes"),
            (4_950, "4,950 nodes"),
            (-1_234_567, "-1,234,567 nodes"),
        ];
        for (count, text) in cases {
            assert_eq!(plural(count, "node"), text);
        }
        assert_eq!(plural(2, "entry"), "2 entries");
    }
}

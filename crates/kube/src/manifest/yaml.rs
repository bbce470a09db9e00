//! The settings of the YAML parsers.

use granit_parser::{Parser, StrInput};

/// The settings for reading values.
///
/// The parser's budget protects servers from hostile input. These are the user's own files, which
/// may be of any size. Comments are skipped, because the parser keeps only a few of them at a time.
/// Repeated keys are an error, as in kubectl.
pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { budget: None, emit_comments: false }
}

/// The parser of the events of `text`, without comments.
pub(super) fn events(text: &str) -> Parser<'_, StrInput<'_>> {
    let options = granit_parser::options! { emit_comments: false };
    Parser::new_from_str_with_options(text, options)
}

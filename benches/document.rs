//! Sections of figures in a Markdown document, between `<!-- NAME -->` and `<!-- /NAME -->`.

use std::path::Path;

/// Replaces the text between the marks.
///
/// # Errors
/// The file cannot be read or written, or lacks the marks.
pub fn replace_section(document: &Path, name: &str, section: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(document)?;
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let parts = text.split_once(&start).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        let message = format!("{} has no {start:?} and {end:?}", document.display());
        return Err(std::io::Error::other(message));
    };
    std::fs::write(document, format!("{before}{start}{section}{end}{after}"))
}

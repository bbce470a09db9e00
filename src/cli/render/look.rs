//! How pieces of text look, and their styles on a terminal.

use anstyle::{AnsiColor, Style};

use crate::visible;

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Look {
    /// As the text around it.
    #[default]
    Plain,
    /// A heading.
    Strong,
    /// All is well.
    Good,
    /// It could be better, or not everything was checked.
    Fair,
    /// Something is wrong.
    Bad,
}

impl Look {
    /// The look of a good or bad verdict.
    pub(super) fn of(is_well: bool) -> Self {
        match is_well {
            true => Self::Good,
            false => Self::Bad,
        }
    }

    /// The look of a verdict, which is only fair if fields were not checked.
    pub(super) fn of_verdict(is_well: bool, unchecked: &[String]) -> Self {
        match is_well && !unchecked.is_empty() {
            true => Self::Fair,
            false => Self::of(is_well),
        }
    }

    /// The style of text on a terminal.
    pub(super) const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Fair => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
        }
    }

    /// `text`, made visible, in this style. An empty text stays empty.
    pub(super) fn paint(self, text: &str) -> String {
        styled(self.style(), &visible::text(text))
    }
}

/// `text` in `style`. An empty text stays empty.
pub(super) fn styled(style: Style, text: &str) -> String {
    match text.is_empty() || style == Style::new() {
        true => text.to_owned(),
        false => format!("{style}{text}{style:#}"),
    }
}

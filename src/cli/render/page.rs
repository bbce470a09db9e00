//! An answer for a person, as parts, and how they look. [`super::text`] writes it for a terminal, and
//! [`super::html`] as a page. Both make texts from outside visible, and escape them, so that whoever
//! makes a part need not.

use anstyle::{AnsiColor, Style};

use super::text::Bar;
use crate::explain::plural;
use crate::proto::v1::DefaultsKind;
use crate::visible;

/// The number of nodes that a table lists, unless all are requested.
const LISTED_NODES: usize = 50;

/// The source of an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    /// The subject, e.g. `snapshot "default"`.
    pub(crate) title: String,
    /// Name of the snapshot.
    pub(crate) snapshot: String,
    /// The address of the server, or the files.
    pub(crate) asked: String,
}

/// The state that an answer is of.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) source: Source,
    pub(super) revision: i64,
    pub(super) defaults: DefaultsKind,
}

impl Stamp {
    /// The revision and the default constraints, in words.
    pub(super) fn words(&self) -> String {
        format!(
            "revision {}, {}",
            self.revision,
            defaults_text(self.defaults)
        )
    }
}

/// The kind of default constraints, in words.
fn defaults_text(defaults: DefaultsKind) -> &'static str {
    match defaults {
        DefaultsKind::Unspecified => "default constraints: none",
        DefaultsKind::System => "default constraints: system",
        DefaultsKind::List => "default constraints: a list",
    }
}

/// An answer as parts.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The command that gives the answer.
    pub(super) command: &'static str,
    /// The title of the page.
    pub(super) title: String,
    /// The pod or workload that the question is about.
    pub(super) subject: Option<String>,
    pub(super) state: Option<Stamp>,
    /// Lines before the verdict.
    pub(super) remarks: Vec<String>,
    /// The answer in a sentence.
    pub(super) verdict: Option<(Look, String)>,
    pub(super) parts: Parts,
}

/// Parts of an answer, one below the other.
#[derive(Debug, Default)]
pub(super) struct Parts(pub(super) Vec<PagePart>);

/// A part of an answer.
#[derive(Debug)]
pub(super) enum PagePart {
    /// A line, which is wrapped.
    Line(Look, String),
    /// Words with their values.
    Facts(Vec<Fact>),
    /// Lines with a bullet each.
    Bullets(Vec<String>),
    Table(Table),
    /// Parts below a heading, of which each piece has its look. Without a heading they are only
    /// indented.
    Section(Vec<(Look, String)>, Parts),
    /// Parts that the page shows when its summary is opened, and text leaves out.
    Folded(String, Parts),
    /// Names, one beside the other.
    Names(Vec<String>),
    /// Parts that only text has, because the page has better.
    InText(Parts),
    /// Parts that only the page has.
    OnPage(Parts),
}

/// A word with its value.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) look: Look,
    pub(super) value: String,
}

impl Page {
    /// An empty answer of a command.
    pub(super) fn new(command: &'static str, title: impl Into<String>) -> Self {
        Self {
            command,
            title: title.into(),
            ..Self::default()
        }
    }

    /// Says of which state the answer is.
    pub(super) fn of(mut self, source: &Source, revision: i64, defaults: DefaultsKind) -> Self {
        self.state = Some(Stamp {
            source: source.clone(),
            revision,
            defaults,
        });
        self
    }

    pub(super) fn verdict(mut self, look: Look, text: impl Into<String>) -> Self {
        self.verdict = Some((look, text.into()));
        self
    }

    /// Adds parts.
    pub(super) fn with(mut self, parts: Parts) -> Self {
        self.parts.0.extend(parts.0);
        self
    }
}

impl Parts {
    pub(super) fn line(&mut self, text: impl Into<String>) -> &mut Self {
        self.styled(Look::Plain, text)
    }

    pub(crate) fn styled(&mut self, look: Look, text: impl Into<String>) -> &mut Self {
        self.push(PagePart::Line(look, text.into()))
    }

    pub(super) fn lines(&mut self, lines: impl IntoIterator<Item = String>) -> &mut Self {
        self.0
            .extend(lines.into_iter().map(|it| PagePart::Line(Look::Plain, it)));
        self
    }

    /// Adds lines that are indented.
    pub(super) fn indented(&mut self, lines: impl IntoIterator<Item = String>) -> &mut Self {
        let mut below = Self::default();
        below.lines(lines);
        self.push(PagePart::Section(Vec::new(), below))
    }

    /// Adds a line that stands apart.
    pub(super) fn apart(&mut self, look: Look, text: impl Into<String>) -> &mut Self {
        self.push(PagePart::Section(
            vec![(look, text.into())],
            Self::default(),
        ))
    }

    pub(super) fn facts(
        &mut self,
        facts: impl IntoIterator<Item = (&'static str, String)>,
    ) -> &mut Self {
        let plain = |(name, value)| Fact {
            name,
            look: Look::Plain,
            value,
        };
        self.push(PagePart::Facts(facts.into_iter().map(plain).collect()))
    }

    /// Adds a table, unless it is empty.
    pub(super) fn table(&mut self, table: Table) -> &mut Self {
        match table.rows.is_empty() && table.more.is_none() {
            true => self,
            false => self.push(PagePart::Table(table)),
        }
    }

    /// Adds a section with a plain heading, unless it is empty.
    pub(super) fn section(&mut self, heading: impl Into<String>, parts: Parts) -> &mut Self {
        match parts.0.is_empty() {
            true => self,
            false => self.push(PagePart::Section(
                vec![(Look::Strong, heading.into())],
                parts,
            )),
        }
    }

    /// Adds a table under a heading, unless it is empty.
    pub(super) fn listed(&mut self, heading: impl Into<String>, table: Table) -> &mut Self {
        let mut below = Self::default();
        below.table(table);
        self.section(heading, below)
    }

    pub(super) fn push(&mut self, part: PagePart) -> &mut Self {
        self.0.push(part);
        self
    }
}

/// Rows under headings.
#[derive(Debug)]
pub(super) struct Table {
    /// The noun for a row.
    pub(super) noun: &'static str,
    /// The headings, in capitals.
    pub(super) headings: Vec<&'static str>,
    pub(super) rows: Vec<Vec<TableCell>>,
    /// The number of rows that are not listed, and how to see them.
    pub(super) more: Option<(usize, &'static str)>,
    /// What the parts of bars are, each with its class.
    pub(super) legend: Vec<(&'static str, String)>,
}

/// A cell of a table.
#[derive(Debug)]
pub(super) enum TableCell {
    Text {
        look: Look,
        text: String,
        /// True if the text stays on one line.
        is_whole: bool,
    },
    /// A bar, and what it says.
    Bar(Look, Bar, String),
    /// A bar that grows or shrinks.
    Change(Bar, Bar),
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self::styled(Look::Plain, text)
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl TableCell {
    pub(crate) fn styled(look: Look, text: impl Into<String>) -> Self {
        Self::Text {
            look,
            text: text.into(),
            is_whole: false,
        }
    }

    /// A text that stays on one line.
    pub(super) fn whole(look: Look, text: impl Into<String>) -> Self {
        Self::Text {
            look,
            text: text.into(),
            is_whole: true,
        }
    }

    /// A bar that says how many pods it stands for.
    pub(super) fn bar(look: Look, bar: Bar) -> Self {
        let added = match bar.added {
            0 => String::new(),
            added => format!(", {} with what is added", bar.count + added),
        };
        let limit = bar.limit.map(|limit| format!(", limit {limit}"));
        let said = plural(bar.count, "pod") + &added + &limit.unwrap_or_default();
        Self::Bar(look, bar, said)
    }
}

impl Table {
    /// A table whose rows are `noun`s.
    pub(super) fn new<const N: usize, C: Into<TableCell>>(
        noun: &'static str,
        headings: [&'static str; N],
        rows: impl IntoIterator<Item = [C; N]>,
    ) -> Self {
        let rows = rows.into_iter();
        Self {
            noun,
            headings: headings.to_vec(),
            rows: rows.map(|row| row.map(Into::into).into()).collect(),
            more: None,
            legend: Vec::new(),
        }
    }

    /// Says that there are more rows, and how to see them.
    pub(super) fn more(mut self, count: i64, how: &'static str) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        self.more = (count > 0).then_some((count, how));
        self
    }

    /// The line that says that there are more rows.
    pub(super) fn more_text(&self) -> Option<String> {
        let (count, how) = self.more?;
        let more = plural(count, &format!("more {}", self.noun));
        Some(match how {
            "" => format!("... and {more}"),
            how => format!("... and {more} ({how})"),
        })
    }

    pub(super) fn legend(mut self, legend: Vec<(&'static str, String)>) -> Self {
        self.legend = legend;
        self
    }
}

/// What the lines above an answer about a pod say.
pub(crate) struct Head<'a> {
    /// Kind and name of the pod or workload.
    pub(crate) pod: &'a str,
    /// The source of the answer.
    pub(crate) source: Source,
    /// True if all nodes are listed.
    pub(crate) all: bool,
    /// True if the pod was taken out of the snapshot for the answer.
    pub(crate) taken_out: bool,
    /// The number of pods of the workload that name no controller and were found by a selector.
    pub(crate) selected: i64,
}

/// The message about a pod that was taken out of the snapshot for the answer.
pub(crate) const TAKEN_OUT: &str = "the pod is in the snapshot: it was taken out first";

/// A line with the number of pods that name no controller, if there are any.
pub(crate) fn found_by_selector(pods: i64) -> Option<String> {
    let said = || {
        format!(
            "found by a selector, as they name no controller: {}",
            plural(pods, "pod")
        )
    };
    (pods > 0).then(said)
}

/// A line that names the fields of a pod that were not checked, if there are any.
pub(super) fn not_checked(fields: &[String]) -> Option<String> {
    (!fields.is_empty()).then(|| format!("not checked: {}", fields.join(", ")))
}

impl Head<'_> {
    /// The beginning of an answer.
    pub(super) fn page(
        &self,
        command: &'static str,
        revision: i64,
        defaults: DefaultsKind,
    ) -> Page {
        let mut page = Page::new(command, format!("{command}: {}", self.pod));
        page.subject = Some(self.pod.to_owned());
        let taken_out = self.taken_out.then(|| TAKEN_OUT.to_owned());
        let selected = found_by_selector(self.selected);
        page.remarks.extend(taken_out.into_iter().chain(selected));
        page.of(&self.source, revision, defaults)
    }

    /// Lists the first rows of a table, unless all are requested; `how` says how to see the others.
    pub(super) fn listed(&self, mut table: Table, how: &'static str) -> Table {
        let listed = match self.all {
            true => table.rows.len(),
            false => table.rows.len().min(LISTED_NODES),
        };
        let more = table.rows.split_off(listed).len() as i64;
        table.more(more, how)
    }
}

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
    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Fair => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
        }
    }

    /// `text`, made visible, in this style. An empty text stays empty.
    pub(crate) fn paint(self, text: &str) -> String {
        styled(self.style(), &visible::text(text))
    }
}

/// `text` in `style`. An empty text stays empty.
pub(crate) fn styled(style: Style, text: &str) -> String {
    match text.is_empty() || style == Style::new() {
        true => text.to_owned(),
        false => format!("{style}{text}{style:#}"),
    }
}

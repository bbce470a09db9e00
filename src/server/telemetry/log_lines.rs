//! Log lines as text or as JSON, for every event of the program and its libraries. Each field is
//! made visible while it is formatted, and cut where it is too long.

use std::fmt::{self, Debug, Write};

use serde::Serializer as _;
use serde::ser::SerializeMap;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::visible;

/// The longest field in bytes.
const MAX_FIELD_BYTES: usize = 4 << 10;
/// The most bytes of all fields of a line together.
const MAX_LINE_BYTES: usize = 16 << 10;

/// The most detailed levels at which some libraries may log; `None` silences a library. Beyond that
/// they log the bytes that they read or send, and so the content of pods, tokens and headers.
const LIBRARIES: [(&str, Option<Level>); 9] = [
    ("kube_client", None),
    ("kube_runtime", None),
    ("async_nats", None),
    ("h2", Some(Level::INFO)),
    ("hyper", Some(Level::INFO)),
    ("hyper_util", Some(Level::INFO)),
    ("rustls", Some(Level::INFO)),
    ("tonic", Some(Level::INFO)),
    ("tower", Some(Level::INFO)),
];

/// Returns whether an event may be logged, whatever level is set.
pub(super) fn may_be_heard(metadata: &Metadata<'_>) -> bool {
    let root = metadata.target().split("::").next().unwrap_or_default();
    let found = LIBRARIES.iter().find(|(name, _)| *name == root);
    found.is_none_or(|(_, most)| most.is_some_and(|most| *metadata.level() <= most))
}

/// Formats events.
pub(super) struct LogLines {
    /// True if lines are JSON.
    pub(super) are_json: bool,
}

/// The fields of an event.
#[derive(Default)]
struct LineFields {
    /// The values, in the order in which they were logged.
    values: Vec<(&'static str, Value)>,
    /// The target of an event of the crate `log`: the module that logged it.
    target: Option<String>,
    bytes: usize,
}

impl LineFields {
    fn add(&mut self, field: &Field, value: Value) {
        let name = field.name().trim_start_matches("r#");
        match (name, value) {
            ("log.target", Value::String(target)) => self.target = Some(target),
            (name, _) if name.starts_with("log.") => {}
            (name, value) => self.values.push((name, value)),
        }
    }

    fn write(&mut self, field: &Field, write: impl FnOnce(&mut Bounded) -> fmt::Result) {
        let room = MAX_FIELD_BYTES.min(MAX_LINE_BYTES.saturating_sub(self.bytes));
        let mut text = Bounded {
            text: String::new(),
            room,
        };
        // Writing fails only when there is no room left, and then ends the formatting.
        if write(&mut text).is_err() {
            text.text.push('…');
        }
        self.bytes += text.text.len();
        self.add(field, Value::String(text.text));
    }
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, |text| write!(text, "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, |text| text.write_str(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// Visible text of limited length.
struct Bounded {
    text: String,
    room: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = more.floor_char_boundary(self.room.saturating_sub(self.text.len()));
        self.text.push_str(&visible::text(&more[..end]));
        match end == more.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

impl LogLines {
    fn json(level: Level, target: &str, fields: &LineFields) -> serde_json::Result<String> {
        let mut time = String::new();
        // Writing a time to a string cannot fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let mut json = Vec::new();
        let mut writer = serde_json::Serializer::new(&mut json);
        let mut line = writer.serialize_map(None)?;
        line.serialize_entry("timestamp", &time)?;
        line.serialize_entry("level", level.as_str())?;
        for (name, value) in &fields.values {
            line.serialize_entry(name, value)?;
        }
        line.serialize_entry("target", target)?;
        line.end()?;
        Ok(String::from_utf8_lossy(&json).into_owned())
    }

    fn text(mut to: Writer<'_>, level: Level, target: &str, mut fields: LineFields) -> fmt::Result {
        let is_coloured = to.has_ansi_escapes();
        let style = |code: &'static str| if is_coloured { code } else { "" };
        let colour = match level {
            Level::ERROR => "\u{1b}[31m",
            Level::WARN => "\u{1b}[33m",
            Level::INFO => "\u{1b}[32m",
            Level::DEBUG => "\u{1b}[34m",
            Level::TRACE => "\u{1b}[35m",
        };
        let (dim, end, colour) = (style("\u{1b}[2m"), style("\u{1b}[0m"), style(colour));
        to.write_str(dim)?;
        SystemTime.format_time(&mut to)?;
        write!(to, "{end} {colour}{level:>5}{end} {dim}{target}:{end}")?;
        let message = fields
            .values
            .iter()
            .position(|(name, _)| *name == "message");
        if let Some((_, Value::String(message))) = message.map(|at| fields.values.remove(at)) {
            write!(to, " {message}")?;
        }
        for (name, value) in &fields.values {
            match value {
                Value::String(text) if text.contains([' ', '"', '=']) || text.is_empty() => {
                    write!(to, " {name}={value}")?;
                }
                Value::String(text) => write!(to, " {name}={text}")?,
                value => write!(to, " {name}={value}")?,
            }
        }
        writeln!(to)
    }
}

impl<S, N> FormatEvent<S, N> for LogLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        let target = fields.target.take();
        let target = target.unwrap_or_else(|| event.metadata().target().to_owned());
        if !self.are_json {
            return Self::text(to, level, &target, fields);
        }
        let line = Self::json(level, &target, &fields).map_err(|_| fmt::Error)?;
        writeln!(to, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that never ends.
    struct Endless;

    impl Debug for Endless {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                to.write_str("a\nb\u{202e}")?;
            }
        }
    }

    #[test]
    fn json_keeps_the_order_of_fields() {
        let fields = LineFields {
            values: vec![("message", "listening".into()), ("address", 1.into())],
            ..LineFields::default()
        };
        let line = LogLines::json(Level::INFO, "port", &fields).expect("JSON");
        let (_, line) = line.split_once(',').expect("a time, and more");
        let expected = r#""level":"INFO","message":"listening","address":1,"target":"port"}"#;
        assert_eq!(line, expected);
    }

    #[test]
    fn a_value_is_visible_and_cut_while_it_is_formatted() {
        let mut text = Bounded {
            text: String::new(),
            room: 20,
        };
        assert!(write!(text, "{Endless:?}").is_err());
        assert!(text.text.starts_with("a\\nb\\u{202e}a"), "{}", text.text);
        assert!(text.text.len() < 40, "{}", text.text);
    }
}

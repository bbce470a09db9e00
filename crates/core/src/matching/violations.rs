//! The faults of a request: field paths and the list of faults.

use std::fmt;

use crate::limits::{Limit, Limits, Unit};

/// The path of a field, as in the JSON of the request, e.g.
/// `pod.spec.topologySpreadConstraints[0].maxSkew`.
///
/// A path borrows its parent and becomes text only for a fault, so checking a valid object costs
/// nothing.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The path of a top-level field.
    pub const fn root(field: &'a str) -> Self {
        Self {
            parent: None,
            segment: Segment::Field(field),
        }
    }

    /// A field of the object at this path.
    pub const fn field(&'a self, name: &'a str) -> Self {
        self.child(Segment::Field(name))
    }

    /// An element of the list at this path.
    pub const fn index(&'a self, index: usize) -> Self {
        self.child(Segment::Index(index))
    }

    /// The elements of a list at this path, each with its own path.
    pub fn each<T>(&'a self, list: &'a [T]) -> impl Iterator<Item = (Path<'a>, &'a T)> {
        let elements = list.iter().enumerate();
        elements.map(|(i, element)| (self.index(i), element))
    }

    const fn child(&'a self, segment: Segment<'a>) -> Self {
        Self {
            parent: Some(self),
            segment,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.segment {
            Segment::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            Segment::Field(name) => f.write_str(name),
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// One fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field.
    pub field: String,
    /// The fault.
    pub description: String,
    /// The configured limit that the value exceeds; `None` for other faults.
    pub limit: Option<Limit>,
    /// True if the value is none of a fixed set. A newer version of Kubernetes may know it.
    pub is_unknown_value: bool,
}

/// The number of faults that are kept with their text. Further ones are only counted.
const MAX_KEPT: usize = 1_000;

/// The number of faults that are written out in one text.
const MAX_WRITTEN: usize = 20;

/// All faults of a request, in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations {
    /// The first faults, at most a thousand.
    kept: Vec<Violation>,
    /// The number of all faults.
    total: usize,
    /// The number of faults other than exceeded limits.
    wrong: usize,
}

impl Violations {
    /// Adds a fault.
    pub fn add(&mut self, path: Path<'_>, description: impl Into<String>) {
        self.push(path, || description.into(), None);
    }

    /// Adds the fault of a value that is none of the `known` ones.
    pub fn unknown_value(&mut self, path: Path<'_>, value: &str, known: &str) {
        let kept = self.kept.len();
        self.add(path, known);
        if let Some(fault) = self.kept.get_mut(kept) {
            fault.is_unknown_value = !value.is_empty();
        }
    }

    /// Returns whether the length of a list or a text is within a limit; adds a fault
    /// when it is not.
    pub fn within(&mut self, path: Path<'_>, limits: &Limits, limit: Limit, length: usize) -> bool {
        let too_much = || match limit.row().unit {
            Unit::Count => format!("has {length} entries,"),
            Unit::Bytes => format!("is {length} bytes long,"),
        };
        self.limited(path, limits, limit, length, too_much)
    }

    /// Returns whether a number that a field gives is within a limit; adds a fault when it
    /// is not.
    pub fn at_most(&mut self, path: Path<'_>, limits: &Limits, limit: Limit, given: usize) -> bool {
        self.limited(path, limits, limit, given, || format!("{given} is"))
    }

    /// The fault of a list or an object that is over its limit of `most`, and was not read to its end.
    pub fn too_long(path: Path<'_>, limit: Limit, most: usize) -> Self {
        let mut faults = Self::default();
        let name = limit.name();
        let what = match limit.row().unit {
            Unit::Count => "has too many entries",
            Unit::Bytes => "is too long",
        };
        let description = || format!("{what}, over {name} of {most}");
        faults.push(path, description, Some(limit));
        faults
    }

    fn limited(
        &mut self,
        path: Path<'_>,
        limits: &Limits,
        limit: Limit,
        actual: usize,
        too_much: impl FnOnce() -> String,
    ) -> bool {
        let most = limits.get(limit);
        let is_within = actual <= most;
        if !is_within {
            let name = limit.name();
            let description = || format!("{} over {name} of {most}", too_much());
            self.push(path, description, Some(limit));
        }
        is_within
    }

    fn push(&mut self, path: Path<'_>, description: impl FnOnce() -> String, limit: Option<Limit>) {
        self.total += 1;
        self.wrong += usize::from(limit.is_none());
        if self.kept.len() < MAX_KEPT {
            self.kept.push(Violation {
                field: path.to_string(),
                description: description(),
                limit,
                is_unknown_value: false,
            });
        }
    }

    /// The value of a result. For an error, adds its faults to these and returns `None`.
    pub fn collect<T>(&mut self, result: Result<T, Self>) -> Option<T> {
        let add = |faults: Self| {
            let room = MAX_KEPT - self.kept.len();
            self.kept.extend(faults.kept.into_iter().take(room));
            self.total += faults.total;
            self.wrong += faults.wrong;
        };
        result.map_err(add).ok()
    }

    /// Returns whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the number of faults.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns whether every fault exceeds a limit.
    pub fn are_limits(&self) -> bool {
        self.wrong == 0
    }

    /// The first faults, in the order in which they were found; at most a thousand.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.kept.iter()
    }

    /// Returns `value` when there are no faults.
    ///
    /// # Errors
    /// The faults, when there are any.
    pub fn finish<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.kept.iter().take(MAX_WRITTEN).enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(
                f,
                "{separator}{}: {}",
                violation.field, violation.description
            )?;
        }
        match self.total.saturating_sub(MAX_WRITTEN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Violations {}

//! Where a request is wrong: field paths and the list of faults found.

use std::fmt;

/// The path of a field, as in the JSON of the request, e.g.
/// `pod.spec.topologySpreadConstraints[0].maxSkew`.
///
/// A path borrows its parent and is only written out when something is wrong,
/// so walking a valid object costs nothing.
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
    /// What is wrong with it.
    pub description: String,
    /// The configured limit that the value is too much for, if it is not
    /// simply wrong.
    pub limit: Option<&'static str>,
}

/// All faults of a request, in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Adds a fault.
    pub fn add(&mut self, path: Path<'_>, description: impl Into<String>) {
        self.push(path, description.into(), None);
    }

    /// Adds the fault of exceeding the limit that is configured as `name`.
    pub fn over_limit(&mut self, path: Path<'_>, name: &'static str, limit: usize, actual: usize) {
        self.push(
            path,
            format!("is {actual} long, over {name} of {limit}"),
            Some(name),
        );
    }

    fn push(&mut self, path: Path<'_>, description: String, limit: Option<&'static str>) {
        self.0.push(Violation {
            field: path.to_string(),
            description,
            limit,
        });
    }

    /// The value of a result, or `None` with its faults added to these.
    pub fn collect<T>(&mut self, result: Result<T, Self>) -> Option<T> {
        result.map_err(|faults| self.0.extend(faults.0)).ok()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.0.iter()
    }

    /// `value` when nothing is wrong, else the faults.
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
        for (i, violation) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(
                f,
                "{separator}{}: {}",
                violation.field, violation.description
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}

//! The text of one object of a file.

use std::rc::Rc;

use super::item::ObjectOrigin;
use super::list_type::ListType;
use super::position::Position;
use super::source::Syntax;

/// The text of one object of a file, or of a whole document that could not be
/// taken apart.
#[derive(Debug, Clone)]
pub(crate) struct ObjectText<'t> {
    /// Number of the document in the file, from 1.
    pub(super) document: u32,
    /// Number of the object in the document's list, from 1; 0 when the part is
    /// the whole document.
    pub(super) item: u32,
    /// What the list says of its items.
    pub(super) list: Rc<ListType>,
    /// What the text is written in.
    pub(super) syntax: Syntax,
    /// The text, from the first character of the value on.
    pub(super) text: &'t str,
    /// Where that character is.
    pub(super) start: Position,
}

impl ObjectText<'_> {
    /// Path of the object in its document: empty, or that of a list's item.
    pub(super) fn path(&self) -> String {
        self.origin().path()
    }

    /// Where it is in a source that is the only one.
    pub(super) fn origin(&self) -> ObjectOrigin {
        ObjectOrigin {
            source: 0,
            document: self.document,
            item: self.item,
        }
    }

    /// The text with its first line indented as in the file. So lines of a block
    /// stay one block, and columns are those of the file.
    pub(super) fn indented(&self) -> String {
        format!("{:1$}{2}", "", self.start.column - 1, self.text)
    }
}

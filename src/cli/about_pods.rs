//! The fields that all answers about a pod have.

use crate::proto::v1::{
    ExplainResponse, FilterResponse, ObjectReference, PlaceResponse, ScoreResponse,
};

/// The fields that all answers about a pod have.
pub(crate) trait Answer {
    /// The candidates that do not exist.
    fn unknown_candidates(&self) -> &[String];
    /// The deletions of the overlay whose objects do not exist.
    fn unknown_deletes(&mut self) -> &mut Vec<ObjectReference>;
    /// Returns the fields that were not checked.
    fn unchecked(&mut self) -> &mut Vec<String>;
}

macro_rules! answers {
    ($($answer:ident)*) => {$(
        impl Answer for $answer {
            fn unknown_candidates(&self) -> &[String] {
                &self.unknown_candidates
            }

            fn unknown_deletes(&mut self) -> &mut Vec<ObjectReference> {
                &mut self.unknown_deletes
            }

            fn unchecked(&mut self) -> &mut Vec<String> {
                &mut self.unchecked
            }
        }
    )*};
}

answers! { FilterResponse ScoreResponse ExplainResponse PlaceResponse }

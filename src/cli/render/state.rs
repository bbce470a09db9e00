//! State directories.

use super::snapshot::yes_no;
use super::text::{number, table};
use crate::store::{Described, Loss, Repaired};

/// A line for each snapshot of a state directory.
pub(crate) fn states(all: &[Described]) -> String {
    if all.is_empty() {
        return "no snapshots\n".to_owned();
    }
    let rows = all.iter().map(|snapshot| {
        [
            snapshot.name.clone(),
            snapshot.epoch.clone(),
            snapshot.revision.to_string(),
            yes_no(snapshot.synced).to_owned(),
            number(snapshot.objects),
            number(snapshot.reservations),
            humantime::format_rfc3339_seconds(snapshot.updated).to_string(),
        ]
    });
    let headings = [
        "NAME",
        "EPOCH",
        "REVISION",
        "SYNCED",
        "OBJECTS",
        "RESERVATIONS",
        "UPDATED",
    ];
    table("", headings, rows)
}

/// What is missing of a state directory that is not damaged.
pub(crate) fn loss(loss: Option<Loss>) -> String {
    match loss {
        None => "everything is whole\n".to_owned(),
        Some(loss) => format!("what is there is whole, but {loss}; snapshots get new epochs\n"),
    }
}

/// What a repair did.
pub(crate) fn repaired(repaired: &Repaired) -> String {
    let Some(kept_aside) = &repaired.kept_aside else {
        return format!("nothing to repair: {}", loss(repaired.loss));
    };
    let mut text = String::new();
    for name in &repaired.whole {
        text += &format!("kept  {name:?}\n");
    }
    for (name, why) in &repaired.lost {
        text += &format!("lost  {name:?}: {why}; feed it again\n");
    }
    if let Some(why) = &repaired.unreadable {
        text += &format!("lost  all snapshots that are not named here: {why}\n");
    }
    if repaired.loss.is_some() {
        text += &loss(repaired.loss);
    }
    text + &format!("the damaged file is {}\n", kept_aside.display())
}

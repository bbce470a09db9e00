//! What a replay came to.

use super::text::{BAD, GOOD, HEADING, number, styled};
use crate::cli::replayed::{Different, Replayed};

/// A summary, and each decision that differs with both values.
pub(crate) fn replayed(replayed: &Replayed) -> String {
    let count = |count: usize| number(i64::try_from(count).unwrap_or(i64::MAX));
    let state = match replayed.revision {
        Some(revision) => format!("revision {revision}"),
        None => "of which the revision is not known".to_owned(),
    };
    let different = replayed.different.len();
    let all = replayed.same + different;
    let verdict = match different {
        0 => styled(
            GOOD.bold(),
            &format!("same: all of {} decisions", count(all)),
        ),
        _ => {
            let line = format!(
                "different: {} of {} decisions",
                count(different),
                count(all)
            );
            styled(BAD.bold(), &line)
        }
    };
    let mut text = format!("snapshot {:?}, {state}\n{verdict}\n", replayed.snapshot);
    let aside = [
        (replayed.left_out, "left out, of other revisions"),
        (replayed.of_other_snapshots, "left out, of other snapshots"),
        (replayed.unreadable, "lines that are no decision"),
    ];
    for (number, what) in aside.into_iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!("  {} {what}\n", count(number)));
    }
    text.extend(replayed.different.iter().map(one));
    text
}

fn one(different: &Different) -> String {
    let revision = match different.same_revision {
        Some(true) => "the same revision".to_owned(),
        Some(false) => format!("another revision, {}", different.revision),
        None => format!("revision {}", different.revision),
    };
    let title = format!("{} {} of {}", different.id, different.rpc, different.pod);
    let title = styled(HEADING, &title);
    let mut text = format!("\n{title}, {}, on {revision}\n", different.time);
    for found in &different.differences {
        text.push_str(&format!(
            "  {}: was {}, is {}\n",
            found.part,
            said(&found.here),
            said(&found.there)
        ));
    }
    if let Some(refused) = &different.refused {
        text.push_str(&format!("  refused now: {refused}\n"));
    }
    text
}

fn said(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

//! Blocks of pods return the pods and names that were put into them.

use std::collections::BTreeMap;

use super::*;

/// A pod that shows its number.
fn pod(number: u128) -> PodRecord {
    let rare = Rare::nominated_to(&format!("node-{number}"));
    PodRecord {
        labels: LabelSetId::at(number as usize % 7),
        node: (!number.is_multiple_of(3)).then(|| Slot::at(number as usize)),
        life: Life {
            uid: Uuid::from_u128(number),
            phase: Phase::of_number((number % 6) as u8),
            template: TemplateId::ABSENT,
            rare: number.is_multiple_of(5).then(|| Arc::new(rare)),
        },
    }
}

fn name(random: &mut fastrand::Rng) -> String {
    let number = random.u32(..1_000_000);
    match random.usize(..5) {
        0 => format!("alone{number}"),
        1 => format!("db-{number}"),
        2 => format!("{}-{number}", "long".repeat(60)),
        other => format!("web-{:x}-{other}-{number}", random.u32(..40)),
    }
}

#[test]
fn a_block_holds_what_was_put_last_whatever_comes_and_goes() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut block = PodBlock::default();
        let mut model: BTreeMap<usize, (String, PodRecord)> = BTreeMap::new();
        for step in 0..3_000 {
            let (len, fresh) = (model.len(), name(&mut random));
            match random.usize(..10) {
                0..5 if len < 256 => {
                    block.push(&fresh, pod(step));
                    model.insert(len, (fresh, pod(step)));
                }
                0..7 if len > 0 => {
                    let at = random.usize(..len);
                    block.replace(at, &fresh, pod(step));
                    model.insert(at, (fresh, pod(step)));
                }
                7 if len > 0 => {
                    let at = random.usize(..len);
                    block.set(at, pod(step));
                    let (_, kept) = model.get_mut(&at).expect("it is there");
                    *kept = pod(step);
                }
                8 => assert_eq!(block.pop(), model.pop_last().map(|(_, last)| last)),
                _ => block.fit(),
            }
        }
        for (at, (name, pod)) in &model {
            assert_eq!(block.name(*at).to_string(), *name, "{seed}");
            assert!(block.name(*at).is(name));
            assert!(!block.name(*at).is(&format!("{name}x")));
            assert_eq!(block.pod(*at), *pod, "{seed}");
        }
    }
}

#[test]
fn names_that_begin_alike_share_that() {
    let text = |names: &[String]| {
        let mut block = PodBlock::default();
        names.iter().for_each(|name| block.push(name, pod(1)));
        block.text.len()
    };
    let of = |prefix: &str| {
        (0..256)
            .map(|n| format!("{prefix}{n:05}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(text(&of("web-5d4f8c9b7-")), 14 + 256 * 5);
    assert_eq!(text(&of("web")), 256 * 8);
}

#[test]
fn what_went_leaves_nothing_behind() {
    // Replaced names take no room.
    let mut block = PodBlock::default();
    block.push("first", pod(1));
    block.push("last", pod(1));
    for number in 0..1_000 {
        block.replace(0, &format!("alone{number:0200}"), pod(1));
    }
    assert!(block.text.len() < 1_000, "{} bytes", block.text.len());

    // Rare fields of a removed pod take no room.
    let memory_after = |block: &mut PodBlock, last: u128| {
        block.push("more", pod(last));
        block.pop();
        block.memory_bytes()
    };
    let after_rare = memory_after(&mut block, 5);
    assert_eq!(memory_after(&mut block, 1), after_rare);
}

/// Removing the last name of the text frees most of its used bytes.
#[test]
fn a_name_can_be_replaced_while_the_text_is_made_anew() {
    let mut block = PodBlock::default();
    for (letter, length) in [("a", 118), ("b", 60), ("c", 60)] {
        block.push(&letter.repeat(length), pod(1));
    }
    block.replace(0, &"d".repeat(60), pod(1));
    block.pop();
    block.replace(0, "e", pod(1));
    let names = [0, 1].map(|at| block.name(at).to_string());
    assert_eq!(names, ["e".to_owned(), "b".repeat(60)]);
    assert_eq!(block.text.len(), 61);
}

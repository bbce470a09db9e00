//! The codes of Kubernetes' words for refusals: a second table, so that the table of the service
//! cannot change alone.

use evenkeel::proto::v1::{NodeVerdict, ReasonCode, ReasonCount, RefusalReason};

const WORDS: [(&str, ReasonCode); 26] = [
    ("node(s) were unschedulable", ReasonCode::Unschedulable),
    (
        "node(s) didn't match the requested node name",
        ReasonCode::NodeName,
    ),
    (
        "node(s) didn't satisfy plugin(s) [NodeName]",
        ReasonCode::NodeName,
    ),
    (
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        ReasonCode::NodeAffinity,
    ),
    (
        "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]",
        ReasonCode::NodeName,
    ),
    (
        "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously",
        ReasonCode::NodeAffinity,
    ),
    ("pod affinity terms conflict", ReasonCode::NodeAffinity),
    ("node(s) had untolerated taint(s)", ReasonCode::Taint),
    (
        "node(s) didn't match Pod's node affinity/selector",
        ReasonCode::NodeAffinity,
    ),
    (
        "node(s) didn't have free ports for the requested pod ports",
        ReasonCode::HostPort,
    ),
    ("Too many pods", ReasonCode::TooManyPods),
    (
        "node(s) didn't match pod topology spread constraints (missing required label)",
        ReasonCode::MissingLabel,
    ),
    (
        "node(s) didn't match pod topology spread constraints",
        ReasonCode::Skew,
    ),
    (
        "node(s) didn't match pod affinity rules",
        ReasonCode::PodAffinity,
    ),
    (
        "node(s) didn't match pod anti-affinity rules",
        ReasonCode::PodAntiAffinity,
    ),
    (
        "node(s) didn't satisfy existing pods anti-affinity rules",
        ReasonCode::ExistingAntiAffinity,
    ),
    (
        "node(s) didn't match Pod's required features",
        ReasonCode::DeclaredFeatures,
    ),
    ("node(s) had no available disk", ReasonCode::DiskConflict),
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
         another pod",
        ReasonCode::ClaimInUse,
    ),
    (
        "node(s) didn't match PersistentVolume's node affinity",
        ReasonCode::VolumeNodeAffinity,
    ),
    (
        "node(s) didn't find available persistent volumes to bind",
        ReasonCode::VolumeBinding,
    ),
    (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ReasonCode::VolumeNotReady,
    ),
    (
        "node(s) had no available volume zone",
        ReasonCode::VolumeZone,
    ),
    (
        "pod has unbound immediate PersistentVolumeClaims",
        ReasonCode::VolumeNotReady,
    ),
    ("node(s) had no capacity left", ReasonCode::Capacity),
    ("cluster(s) hold the placement", ReasonCode::HoldsPlacement),
];

const PREFIXES: [(&str, ReasonCode); 8] = [
    ("persistentvolumeclaim \"", ReasonCode::VolumeNotReady),
    ("persistentvolume \"", ReasonCode::VolumeNotReady),
    (
        "waiting for ephemeral volume controller",
        ReasonCode::VolumeNotReady,
    ),
    ("PVC ", ReasonCode::VolumeNotReady),
    ("VolumeBindingMode not set", ReasonCode::VolumeNotReady),
    (
        "waiting for scheduling gates: [",
        ReasonCode::SchedulingGated,
    ),
    ("Insufficient ", ReasonCode::InsufficientResource),
    (
        "violated doNotSchedule topology spread constraint ",
        ReasonCode::Skew,
    ),
];

/// The code of words, and the resource that they name.
pub fn code_of(words: &str) -> RefusalReason {
    let whole = WORDS.iter().find(|(known, _)| *known == words);
    let begun = PREFIXES.iter().find(|(start, _)| words.starts_with(start));
    let (_, code) = whole
        .or(begun)
        .unwrap_or_else(|| panic!("no code has the words {words:?}"));
    let resource = match code {
        ReasonCode::InsufficientResource => &words["Insufficient ".len()..],
        _ => "",
    };
    RefusalReason {
        code: (*code).into(),
        resource: resource.into(),
    }
}

/// The codes of a verdict's words.
pub fn codes_of(reason: &str) -> Vec<RefusalReason> {
    reason.split(", ").map(code_of).collect()
}

/// Checks that verdicts and counts have the codes of their words.
pub fn check(verdicts: &[NodeVerdict], counts: &[ReasonCount]) {
    for verdict in verdicts {
        assert_eq!(verdict.reasons, codes_of(&verdict.reason), "{verdict:?}");
    }
    for count in counts {
        let code = code_of(&count.reason);
        assert_eq!((count.code, &count.resource), (code.code, &code.resource));
    }
}

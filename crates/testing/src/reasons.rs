//! The codes of Kubernetes' words for refusals: a second table, so that the table of the service
//! cannot change alone.

use evenkeel::proto::v1::{NodeVerdict, ReasonCode, ReasonCount, RefusalReason};

/// Each code with the whole words of a reason.
const WORDS: &str = r#"
    UNSCHEDULABLE: node(s) were unschedulable
    NODE_NAME: node(s) didn't match the requested node name
    NODE_NAME: node(s) didn't satisfy plugin(s) [NodeName]
    NODE_AFFINITY: node(s) didn't satisfy plugin(s) [NodeAffinity]
    NODE_NAME: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]
    NODE_AFFINITY: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously
    NODE_AFFINITY: pod affinity terms conflict
    TAINT: node(s) had untolerated taint(s)
    NODE_AFFINITY: node(s) didn't match Pod's node affinity/selector
    HOST_PORT: node(s) didn't have free ports for the requested pod ports
    TOO_MANY_PODS: Too many pods
    MISSING_LABEL: node(s) didn't match pod topology spread constraints (missing required label)
    SKEW: node(s) didn't match pod topology spread constraints
    POD_AFFINITY: node(s) didn't match pod affinity rules
    POD_ANTI_AFFINITY: node(s) didn't match pod anti-affinity rules
    EXISTING_ANTI_AFFINITY: node(s) didn't satisfy existing pods anti-affinity rules
    DECLARED_FEATURES: node(s) didn't match Pod's required features
    DISK_CONFLICT: node(s) had no available disk
    CLAIM_IN_USE: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod
    VOLUME_NODE_AFFINITY: node(s) didn't match PersistentVolume's node affinity
    VOLUME_BINDING: node(s) didn't find available persistent volumes to bind
    VOLUME_NOT_READY: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)
    VOLUME_ZONE: node(s) had no available volume zone
    VOLUME_NOT_READY: pod has unbound immediate PersistentVolumeClaims
    CAPACITY: node(s) had no capacity left
    HOLDS_PLACEMENT: cluster(s) hold the placement
"#;

/// Each code with the words that a reason begins with.
const STARTS: &str = r#"
    VOLUME_NOT_READY: persistentvolumeclaim "
    VOLUME_NOT_READY: persistentvolume "
    VOLUME_NOT_READY: waiting for ephemeral volume controller
    VOLUME_NOT_READY: PVC
    VOLUME_NOT_READY: VolumeBindingMode not set
    SCHEDULING_GATED: waiting for scheduling gates: [
    INSUFFICIENT_RESOURCE: Insufficient
    SKEW: violated doNotSchedule topology spread constraint
"#;

/// The first row with such words.
fn row(rows: &'static str, is_it: impl Fn(&str) -> bool) -> Option<ReasonCode> {
    let mut rows = rows
        .lines()
        .filter_map(|row| row.trim_start().split_once(": "));
    let (code, _) = rows.find(|(_, words)| is_it(words))?;
    let code = ReasonCode::from_str_name(&format!("REASON_CODE_{code}"));
    Some(code.expect("a code of the protocol"))
}

/// The code of words, and the resource that they name.
pub fn code_of(words: &str) -> RefusalReason {
    let whole = row(WORDS, |known| known == words);
    let code = whole.or_else(|| row(STARTS, |start| words.starts_with(start)));
    let code = code.unwrap_or_else(|| panic!("no code has the words {words:?}"));
    let resource = match code {
        ReasonCode::InsufficientResource => &words["Insufficient ".len()..],
        _ => "",
    };
    RefusalReason {
        code: code.into(),
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

//! Tests of properties that every page must have.

use serde_json::{Value, json};

use super::*;
use crate::cli::render::text::{Head, Provenance};
use crate::proto::v1::ExplainResponse;

const HEAD: Head<'static> = Head {
    pod: HOSTILE,
    snapshot: HOSTILE,
    all: false,
    taken_out: false,
    selected: 0,
};

/// A hostile name of a node or a label.
const HOSTILE: &str = r#"</title></style><script>alert("1")</script><img src=x onerror='a()'>&"#;

fn page() -> String {
    let report = json!({
        "constraintIndex": 0, "domainCount": 2, "selfMatch": 1, "globalMinimum": 0,
        "constraint": {"maxSkew": 1, "topologyKey": HOSTILE, "whenUnsatisfiable": HOSTILE,
            "labelSelector": {"matchLabels": {HOSTILE: HOSTILE}}},
        "domains": [
            {"value": "", "matchingPods": 0, "skew": 1, "feasible": true, "eligibleNodes": 1},
            {"value": HOSTILE, "matchingPods": 3, "skew": 4, "eligibleNodes": 1},
        ],
    });
    let insight = json!({
        "minimum": "MINIMUM_BY_DOMAINS", "minimumDomains": [HOSTILE], "minimumDomainCount": 1,
        "leftOut": [{"cause": "CAUSE_MISSING_KEY", "nodeCount": 1, "nodes": [HOSTILE]}],
        "domains": [
            {"value": "", "matchingPodsAfter": 1, "usableNodeCount": 1},
            {"value": HOSTILE, "matchingPodsAfter": 4, "usableNodeCount": 1},
        ],
    });
    let answer: Value = json!({
        "summary": HOSTILE, "constraints": [report], "insights": [insight],
        "hints": [{"kind": "KIND_MAX_SKEW", "message": HOSTILE}],
        "reasons": [{"reason": HOSTILE, "count": 1}], "feasible": [HOSTILE],
        "infeasible": [{"node": HOSTILE, "reason": HOSTILE}],
    });
    let answer: ExplainResponse = serde_json::from_value(answer).expect("the fixture is an answer");
    explain_html(&HEAD, &origin(), &answer)
}

fn origin() -> Provenance<'static> {
    Provenance {
        snapshot: HOSTILE,
        asked: HOSTILE.to_owned(),
        at: "2026-01-02T03:04:05Z".to_owned(),
    }
}

#[test]
fn names_cannot_break_out_of_the_text() {
    let page = page();
    for tag in ["<script", "<img", "</title></style>"] {
        assert!(!page.contains(tag), "{tag} in {page}");
    }
    let escaped = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;";
    assert!(page.matches(escaped).count() >= 12, "{page}");
}

#[test]
fn a_page_needs_nothing_else() {
    let page = page().replace(&maud::html! { (HOSTILE) }.into_string(), "");
    for from_elsewhere in [
        "src=", "href=", "url(", "@import", "<link", "<script", "http:",
    ] {
        assert!(!page.contains(from_elsewhere), "{from_elsewhere} in {page}");
    }
    assert!(page.contains("default-src 'none'"), "{page}");
}

//! The first decision of docs/api.md, of the server whose address is the argument.

use evenkeel_core::proto::v1;
use evenkeel_core::proto::v1::spread_service_client::SpreadServiceClient;

#[tokio::main(flavor = "current_thread")]
#[rustfmt::skip]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("an address is needed"))?;
    let mut client = SpreadServiceClient::connect(format!("http://{address}")).await?;
    let web = std::collections::HashMap::from([("app".to_owned(), "web".to_owned())]);
    let (max_skew, topology_key, when_unsatisfiable) = (1, "topology.kubernetes.io/zone".into(), "DoNotSchedule".into());
    let label_selector = Some(v1::LabelSelector { match_labels: web.clone().into_iter().collect(), ..Default::default() });
    let constraint = v1::TopologySpreadConstraint { max_skew, topology_key, when_unsatisfiable, label_selector, ..Default::default() };
    let metadata = v1::ObjectMeta { namespace: "shop".into(), labels: web.into_iter().collect(), ..Default::default() };
    let spec = v1::PodSpec { topology_spread_constraints: vec![constraint], ..Default::default() };
    let pod = v1::Pod { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
    let answer = client.filter(v1::FilterRequest { pod: Some(pod), ..Default::default() }).await?.into_inner();
    println!("[{}]", answer.feasible.join(" "));
    Ok(())
}

//! `evenkeel reservation`: lists, confirms, renews and releases reservations.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::args;
use super::backend::{Client, all_pages};
use super::exit::Exit;
use super::output;
use super::render;
use crate::manifest::ObjectName;
use crate::misspelt::nearest;
use crate::proto::v1::{
    ConfirmReservationsRequest, Confirmation, HeldPlacement, ListReservationsRequest,
    ListReservationsResponse, ReleaseReservationsRequest, RenewReservationsRequest, ReservedPod,
};

/// A command about reservations.
#[derive(Debug, Subcommand)]
pub(crate) enum ReservationCommand {
    /// List reservations, oldest first
    List(ListReservations),
    /// Say which pods reservations became
    Confirm(Confirm),
    /// Hold reservations for longer
    Renew(Renew),
    /// Give reservations up
    Release(Held),
}

impl ReservationCommand {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            ReservationCommand::List(list) => list.run().await,
            ReservationCommand::Confirm(it) => {
                let total = it.confirmations.len();
                let request = ConfirmReservationsRequest {
                    snapshot: it.target.name.snapshot,
                    confirmations: it.confirmations,
                };
                let answer = it.target.server.client().await?.call(request).await?;
                report("confirmed", total, &answer.unknown_ids, answer.revision)
            }
            ReservationCommand::Renew(Renew { ttl, held }) => {
                let total = held.ids.len();
                let request = RenewReservationsRequest {
                    snapshot: held.target.name.snapshot,
                    ids: held.ids,
                    ttl: ttl.map(Into::into),
                };
                let answer = held.target.server.client().await?.call(request).await?;
                report("renewed", total, &answer.unknown_ids, answer.revision)
            }
            ReservationCommand::Release(held) => {
                let total = held.ids.len();
                let request = ReleaseReservationsRequest {
                    snapshot: held.target.name.snapshot,
                    ids: held.ids,
                };
                let answer = held.target.server.client().await?.call(request).await?;
                report("released", total, &answer.unknown_ids, answer.revision)
            }
        }
    }
}

/// Flags of `evenkeel reservation list`.
#[derive(Debug, Args)]
pub(crate) struct ListReservations {
    /// Only reservations of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    #[command(flatten)]
    target: args::ServedSnapshot,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl ListReservations {
    async fn run(self) -> Result<Exit> {
        let client = self.target.server.client().await?;
        let owner = self.owner.as_deref().unwrap_or_default();
        let reservations = self.of_owner(&client, owner).await?;
        if reservations.is_empty() && !owner.is_empty() {
            let all = self.of_owner(&client, "").await?;
            let owners = all.iter().map(|held| held.owner.as_str());
            let owners: BTreeSet<&str> = owners.collect();
            // Without any reservation there is nothing that could have been meant.
            anyhow::ensure!(
                owners.is_empty(),
                "no reservation of owner {owner}{}",
                nearest(owner, owners)
            );
        }
        let all = ListReservationsResponse {
            reservations,
            ..Default::default()
        };
        let held = &all.reservations;
        self.output.print(
            &all,
            || render::reservations(held),
            || held.iter().map(|held| held.id.clone()).collect(),
        )?;
        Ok(Exit::Success)
    }

    /// The reservations of an owner; of all with an empty name.
    async fn of_owner(&self, client: &Client, owner: &str) -> Result<Vec<HeldPlacement>> {
        let reservations = all_pages(async |page_token| {
            let request = ListReservationsRequest {
                snapshot: self.target.name.snapshot.clone(),
                page_size: 0,
                page_token,
                owner: owner.to_owned(),
            };
            let page = client.call(request).await?;
            Ok((page.reservations, page.next_page_token))
        });
        reservations.await
    }
}

/// Flags of `evenkeel reservation confirm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Confirm before you put the pod on its node. When the pod arrives there, it takes over from the
reservation and is counted once.

Examples:
  evenkeel reservation confirm 1f=web-7d9c-x2x8p 20=web-7d9c-p4kq2")]
pub(crate) struct Confirm {
    /// A reservation and the name of the pod that it became
    #[arg(value_name = "ID=POD", required = true, value_parser = confirmation)]
    confirmations: Vec<Confirmation>,

    #[command(flatten)]
    target: args::ServedSnapshot,
}

/// Flags of `evenkeel reservation renew`.
#[derive(Debug, Args)]
#[command(after_help = "\
A reservation that would end later anyway stays as it is.

Examples:
  evenkeel reservation renew 1f 20 --for 5m")]
pub(crate) struct Renew {
    /// How long to hold them from now on, e.g. 5m; as long as before if not given
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,

    #[command(flatten)]
    held: Held,
}

/// Reservations of a snapshot.
#[derive(Debug, Args)]
pub(crate) struct Held {
    /// The reservations
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    target: args::ServedSnapshot,
}

/// Prints how many of `total` reservations were `done`, and names those that had ended before.
fn report(done: &str, total: usize, unknown: &[String], revision: i64) -> Result<Exit> {
    let count = total - unknown.len();
    output::print(&format!("{done} {count} of {total}, revision {revision}\n"))?;
    if unknown.is_empty() {
        return Ok(Exit::Success);
    }
    output::warn(&format!("ended before: {}", unknown.join(", ")));
    Ok(Exit::Negative)
}

/// Parses an argument of `confirm`: a reservation and its pod.
fn confirmation(text: &str) -> Result<Confirmation, String> {
    let parts = text.split_once('=').filter(|(id, _)| !id.is_empty());
    let (id, pod) = parts.ok_or("want ID=POD")?;
    Ok(Confirmation {
        id: id.to_owned(),
        pod: Some(ReservedPod {
            name: ObjectName::name_of("Pod", pod)?,
            uid: String::new(),
        }),
    })
}

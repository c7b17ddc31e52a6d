//! `softband fault`: injects a fault into a running fabric.

use crate::{output, record};
use clap::{Args, Subcommand};
use softband_engine::Remote;

#[derive(Args)]
pub(crate) struct FaultArguments {
    /// Name of the fabric
    #[arg(long, global = true, env = record::NAME_VARIABLE, default_value = record::NAME_DEFAULT)]
    name: String,
    #[command(subcommand)]
    fault: Fault,
}

/// Links are named by a port at either end, as in the fabric file: `a/mlx5_0/1` or `sw/1`.
#[derive(Subcommand)]
enum Fault {
    /// Take a link down
    LinkDown { link: String },
    /// Bring a link up
    LinkUp { link: String },
    /// Retrain a link for this number of microseconds; its ports stay Active
    LinkRecovers {
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
        microseconds: u64,
        link: String,
    },
    /// Corrupt bits that cross a cable with this probability; 0 stops it
    BitErrors { rate: f64, link: String },
    /// Lose the next packet of a kind that leaves a port, or the packet with this number from now on
    Drop {
        /// any, send, write, read_request, read_response, atomic, atomic_ack, datagram, ack, nak or cn
        packet: String,
        port: String,
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        number: u64,
    },
    /// Kill a host and all programs on it
    HostDies { host: String },
    /// Kill a switch: all its links go down
    SwitchDies { switch: String },
}

impl Fault {
    /// Returns the words that `FaultKind::of_words` reads.
    fn words(&self) -> Vec<String> {
        match self {
            Self::LinkDown { link } => vec!["link_down".into(), link.clone()],
            Self::LinkUp { link } => vec!["link_up".into(), link.clone()],
            Self::LinkRecovers { microseconds, link } => {
                vec!["link_recovers".into(), (u128::from(*microseconds) * 1_000_000).to_string(), link.clone()]
            }
            Self::BitErrors { rate, link } => vec!["bit_errors".into(), format!("{rate:e}"), link.clone()],
            Self::Drop { packet, port, number } => vec!["drop".into(), packet.clone(), number.to_string(), port.clone()],
            Self::HostDies { host } => vec!["host_dies".into(), host.clone()],
            Self::SwitchDies { switch } => vec!["switch_dies".into(), switch.clone()],
        }
    }
}

pub(crate) fn run(arguments: &FaultArguments) -> anyhow::Result<i32> {
    let record = record::wanted(&arguments.name)?;
    let Some(remote) = Remote::connect(&record.engine)? else {
        anyhow::bail!("the fabric '{}' has just ended\n  help: softband up --name {0} brings it up again", arguments.name)
    };
    let words = arguments.fault.words();
    remote.fault(&words)?;
    output::say(format_args!("fabric '{}': {}\n", arguments.name, words.join(" ")))?;
    Ok(0)
}

//! The text of a first fabric file.

use super::{Answers, Topology};
use softband_catalog::host_name;
use softband_types::{LinkLayer, counted};

/// Most hosts of InfiniBand that are written out. Larger fabrics are clearer as `[generate]`.
const WRITTEN_OUT_MAX: u32 = 8;

pub(super) fn title(answers: &Answers) -> String {
    let layer = if answers.link_layer == LinkLayer::Ethernet { " (RoCE)" } else { "" };
    let joined = match answers.topology {
        Topology::BackToBack => "back to back".to_owned(),
        Topology::Star => format!("on one switch {}", answers.parts.switch),
        Topology::FatTree => format!("in a fat tree of {}", answers.parts.switch),
    };
    format!("{} with {}{layer} {joined}", counted(answers.hosts, "host", "hosts"), answers.hca)
}

pub(super) fn of(answers: &Answers) -> String {
    let mut text = format!(
        "# A fabric of `softband init`. `softband parts show NAME` prints the values of a part.\n\
         [fabric]\nedition = \"2026\"\ntitle = \"{}\"\n\n",
        title(answers)
    );
    text.push_str(match answers.link_layer {
        LinkLayer::Infiniband => "[subnet]\nmax_op_vls = 5  # virtual lanes: 1 = VL0, 2 = VL0-1, 3 = VL0-3, 4 = VL0-7, 5 = VL0-14\n\n",
        LinkLayer::Ethernet => {
            "[ethernet]\nmtu = 4200  # carries RDMA packets of 4 KiB; the usual 1500 carries 1 KiB\n\
             flow_control = \"pfc\"  # \"none\": full buffers drop packets\n\n"
        }
    });
    let is_written_out = answers.topology != Topology::FatTree && (answers.hosts <= WRITTEN_OUT_MAX || answers.link_layer == LinkLayer::Ethernet);
    text.push_str(&if is_written_out { written_out(answers) } else { generated(answers) });
    text
}

fn written_out(answers: &Answers) -> String {
    let parts = &answers.parts;
    let layer = if answers.link_layer == LinkLayer::Ethernet { "link_layer = \"ethernet\"\n" } else { "" };
    let port = |host: u32| format!("{}/{}/1", host_name(host as usize), parts.device);
    let mut text = String::new();
    for host in 0..answers.hosts {
        let name = host_name(host as usize);
        let hint = if host == 0 { "  # processor, memory, slot" } else { "" };
        text.push_str(&format!(
            "[hosts.{name}]\npart = \"{}\"{hint}\n\n[[hosts.{name}.hcas]]\ndevice = \"{}\"\npart = \"{}\"\n{layer}\n",
            parts.host, parts.device, answers.hca
        ));
    }
    let mut cable = |from: &str, to: &str| {
        text.push_str(&format!("[[cables]]\npart = \"{}\"\nlength = \"{}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\n", parts.cable, parts.cable_length));
    };
    if answers.topology == Topology::BackToBack {
        cable(&port(0), &port(1));
        return text;
    }
    (0..answers.hosts).for_each(|host| cable(&port(host), &format!("sw/{}", host + 1)));
    format!("[switches.sw]\npart = \"{}\"\n\n{text}", parts.switch)
}

fn generated(answers: &Answers) -> String {
    let parts = &answers.parts;
    let kind = answers.topology.name();
    format!(
        "# Stands for all hosts, switches and cables. To write them out:\n\
         # softband fabric generate {kind} --hosts {} --hca {} --host {} --device {} --switch {} --host-cable {} --host-cable-length '{}' --expand\n\
         [generate]\nkind = \"{kind}\"\nhosts = {}\nhost = \"{}\"\nhca = \"{}\"\ndevice = \"{}\"\nswitch = \"{}\"\nhost_cable = \"{}\"\nhost_cable_length = \"{}\"\n",
        answers.hosts,
        answers.hca,
        parts.host,
        parts.device,
        parts.switch,
        parts.cable,
        parts.cable_length,
        answers.hosts,
        parts.host,
        answers.hca,
        parts.device,
        parts.switch,
        parts.cable,
        parts.cable_length
    )
}

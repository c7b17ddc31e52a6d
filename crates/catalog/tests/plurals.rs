//! Messages with the number one use the singular.

use crate::common;

use crate::common::error_of;

const PARTS: &str =
    "host = \"qdr-host\"\nhca = \"connectx2-qdr\"\nswitch = \"infiniscale-iv\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n";

#[test]
fn what_a_generated_fabric_cannot_have_once_is_named_in_the_singular() {
    for (form, message) in [
        ("kind = \"back-to-back\"\nhosts = 1", "1 host is not back to back"),
        ("kind = \"back-to-back\"\nhosts = 3", "3 hosts are not back to back"),
        ("kind = \"star\"\nports = 1\nhosts = 2", "2 hosts do not fit on a switch of 1 port"),
        ("kind = \"star\"\nhosts = 40", "40 hosts do not fit on a switch of 36 ports"),
        ("kind = \"fat-tree\"\nports = 1", "a fat tree cannot use 1 port of each switch"),
        ("kind = \"fat-tree\"\nlevels = 1", "a fat tree cannot have 1 level here"),
        ("kind = \"fat-tree\"\nlevels = 4", "a fat tree cannot have 4 levels here"),
        ("kind = \"torus\"\ndimensions = [4]", "a torus cannot have 1 dimension here"),
        ("kind = \"torus\"\ndimensions = [4, 4]\nhosts_per_switch = 99", "99 ports to hosts and 4 to switches do not fit on a switch of 36 ports"),
        (
            "kind = \"dragonfly\"\nhosts_per_switch = 1\nswitches_per_group = 2\nglobal_links = 1\ngroups = 9",
            "9 groups need 8 links from each to the others, and a group has 2",
        ),
    ] {
        let error = error_of(&format!(
            "[generate]\n{form}\n{}",
            if form.contains("back") { PARTS.replace("switch = \"infiniscale-iv\"\n", "") } else { PARTS.into() }
        ));
        assert!(error.contains(&format!("error: {message}\n")), "{form}: {error}");
    }
}

#[test]
fn a_table_with_a_single_entry_says_so() {
    let table = "[subnet.congestion_control]\nccti_limit = 1\ncct = [\"0:0\"]\n";
    let error = error_of(&format!("{}{table}", common::HOSTS_AND_SWITCH));
    assert!(error.contains("`cct` has 1 entry, and indices go from 0 to `ccti_limit` 1"), "{error}");
}

//! Complete drawings as a reader sees them.

use crate::common;

use crate::common::{catalog, parse, root};
use softband_catalog::{LoadOptions, draw_svg, draw_text, load_fabric};

#[test]
fn a_fabric_with_a_switch_is_drawn_port_by_port() {
    let path = root().join("fabrics/ddr-through-switch.toml");
    let spec = load_fabric(&path, &catalog(), &LoadOptions::default()).unwrap().spec;
    assert_eq!(
        draw_text(&spec),
        "\
DDR through a switch, host b over 100 m
2 hosts, 1 switch, 2 cables; max_op_vls 5, MTU up to 4096

host a  (se7520jr23d)
  mthca0  (voltaire-ddr in pcie-gen1-x8: PCI Express gen 1 x8, GUID 0002:c902:0000:0004)
    port 1 ──[ cx4, 8 m, 4X DDR, VL0-7, MTU 2048 ]── sw/1
    port 2 has no cable

host b  (se7520jr23d)
  mthca0  (voltaire-ddr in pcie-gen1-x8: PCI Express gen 1 x8, GUID 0002:c902:0000:0008)
    port 1 ──[ intel-connects-100m, 100 m, 4X DDR, VL0-7, MTU 2048 ]── sw/2
    port 2 has no cable

switch sw  (flextronics-f-x430046, GUID 0002:c902:4000:0004)
  port 1 ──[ cx4, 8 m, 4X DDR, VL0-7, MTU 2048 ]── a/mthca0/1
  port 2 ──[ intel-connects-100m, 100 m, 4X DDR, VL0-7, MTU 2048 ]── b/mthca0/1
  ports 3-24 have no cable
"
    );
}

#[test]
fn a_drawing_shows_options_and_one_lane() {
    let path = root().join("fabrics/cables/woodcrest-quad-100m-vl1-tune-pci.toml");
    let text = draw_text(&load_fabric(&path, &catalog(), &LoadOptions::default()).unwrap().spec);
    assert!(text.contains("mthca0  (voltaire-sdr-memfree in pcie-gen1-x8: PCI Express gen 1 x8, tune_pci, GUID"), "{text}");
    assert!(text.contains("[ intel-connects-100m, 100 m, 4X SDR, VL0, MTU 2048 ]── b/mthca0/1"), "{text}");
}

#[test]
fn the_svg_names_every_node_and_cable_and_escapes_the_title() {
    let cables =
        "[[cables]]\npart = \"cx4\"\nfrom = \"a/mthca0/1\"\nto = \"sw/7\"\n[[cables]]\npart = \"cx4\"\nfrom = \"sw/9\"\nto = \"b/mthca0/2\"\n";
    let text = format!("[fabric]\ntitle = \"a < b & c\\u0007\"\n{}{cables}", common::HOSTS_AND_SWITCH);
    let spec = parse(&text).unwrap().spec;
    let svg = draw_svg(&spec);
    assert_eq!(svg, draw_svg(&spec));
    for piece in [
        "<title>a &lt; b &amp; c</title>",
        "role=\"img\" aria-label=\"a &lt; b &amp; c\"",
        "<desc>2 hosts, 1 switch, 2 cables; max_op_vls 5, MTU up to 4096. Hosts: a, b. Switches: sw. \
         Cables: 2 of cx4, 8 m, 4X DDR, VL0-7, MTU 2048.</desc>",
        "@media (prefers-color-scheme: dark)",
        "class=\"middle\">a</text>",
        "class=\"head middle\">sw</text>",
        "class=\"port\">7</text>",
        "class=\"port\">9</text>",
        "<title>a/mthca0/1 to sw/7: cx4, 8 m, 4X DDR, VL0-7, MTU 2048</title>",
        ">2 cables: cx4, 8 m, 4X DDR, VL0-7, MTU</text>",
    ] {
        assert!(svg.contains(piece), "{piece} is missing:\n{svg}");
    }
    assert_eq!(svg.matches("class=\"cable copper\"").count(), 3, "two cables and one in the legend");
}

#[test]
fn unlike_cables_have_letters_that_the_legend_explains() {
    let path = root().join("fabrics/ddr-through-switch.toml");
    let svg = draw_svg(&load_fabric(&path, &catalog(), &LoadOptions::default()).unwrap().spec);
    for letter in ["A", "B"] {
        assert_eq!(svg.matches(&format!("class=\"mark\">{letter}</text>")).count(), 2, "at the cable and in the legend:\n{svg}");
    }
    assert!(svg.contains("class=\"cable optical\"") && svg.contains("class=\"cable copper\""), "{svg}");
}

#[test]
fn the_resolved_fabric_has_every_value_with_its_source() {
    let path = root().join("fabrics/cables/woodcrest-dual-cx4.toml");
    let resolved = load_fabric(&path, &catalog(), &LoadOptions::default()).unwrap().resolved_toml();
    let document: toml_edit::DocumentMut = resolved.parse().unwrap();
    let host = &document["parts"]["host"]["s5000xal-dual"];
    assert_eq!(host["read_request"]["value"].as_integer(), Some(128));
    assert_eq!(host["read_request"]["on"][0].as_str(), Some("A040"));
    assert_eq!(document["cables"][0]["rate"].as_str(), Some("SDR"));
    assert_eq!(document["cables"][0]["delay_ps"].as_integer(), Some(40_000));
    for kind in ["bus", "cable", "hca", "host", "limit"] {
        assert!(document["parts"][kind].is_table(), "{kind} is missing:\n{resolved}");
    }
}

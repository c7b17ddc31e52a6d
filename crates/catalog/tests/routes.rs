//! Routes through other hosts in fabric files, and every kind of mistake.

use crate::common::{error_of, parse};
use softband_catalog::{LoadOptions, draw_text, parse_fabric};
use softband_spec::{InterfaceAddress, RouteSpec};

/// Host `b` has two interfaces, `a` and `c` one each.
fn with(routes: &str) -> String {
    let host = |name: &str, keys: &str| format!("[hosts.{name}]\npart = \"se7520jr23d\"\n{keys}\n[[hosts.{name}.hcas]]\npart = \"voltaire-ddr\"\n");
    let address = |name: &str, interface: &str, port: u8, address: &str| {
        format!("[hosts.{name}.interfaces.{interface}]\nkind = \"ipoib\"\nport = {port}\naddresses = [\"{address}\"]\n")
    };
    let cable = |from: &str, to: &str| format!("[[cables]]\npart = \"cx4\"\nfrom = \"{from}\"\nto = \"{to}\"\n");
    host("a", routes)
        + &host("b", "")
        + &host("c", "routes = [\"default via 10.2.0.2\"]")
        + &cable("a/mthca0/1", "b/mthca0/1")
        + &cable("b/mthca0/2", "c/mthca0/1")
        + &address("a", "ib0", 1, "10.1.0.1/16")
        + &address("b", "ib0", 1, "10.1.0.2/16")
        + &address("b", "ib1", 2, "10.2.0.2/16")
        + &address("c", "ib1", 1, "10.2.0.3/16")
}

#[test]
fn a_route_leads_through_a_host_that_forwards() {
    let text = with("routes = [\"10.2.0.0/16 via 10.1.0.2\"]");
    let loaded = parse(&text).unwrap_or_else(|error| panic!("{}", error.to_text()));
    let route = |address: [u8; 4], prefix: u8, gateway: [u8; 4]| RouteSpec {
        network: InterfaceAddress { address: address.into(), prefix },
        gateway: gateway.into(),
        interface: 1,
    };
    assert_eq!(loaded.spec.hosts[0].routes, [route([10, 2, 0, 0], 16, [10, 1, 0, 2])]);
    assert_eq!(loaded.spec.hosts[2].routes, [route([0, 0, 0, 0], 0, [10, 2, 0, 2])]);
    assert_eq!([0, 1, 2].map(|host| loaded.spec.forwards(host)), [false, true, false]);
    let drawn = draw_text(&loaded.spec);
    assert!(drawn.contains("\n  10.2.0.0/16 via 10.1.0.2 (ib0)\n") && drawn.contains("\n  default via 10.2.0.2 (ib1)\n"), "{drawn}");
    let resolved = loaded.resolved_toml();
    let second = parse_fabric("fabric.toml", &resolved, &softband_catalog::Catalog::default(), &LoadOptions::default());
    let second = second.unwrap_or_else(|error| panic!("{}\n{resolved}", error.to_text()));
    assert_eq!((loaded.spec, resolved), (second.spec.clone(), second.resolved_toml()));
}

#[test]
fn a_default_route_has_the_family_of_its_gateway() {
    let with_v6 = |routes: &str| {
        let text = with(routes).replace("\"10.1.0.1/16\"", "\"10.1.0.1/16\", \"fd00::1/64\"");
        text.replace("\"10.1.0.2/16\"", "\"10.1.0.2/16\", \"fd00::2/64\"")
    };
    for network in ["default", "::/0"] {
        let text = with_v6(&format!("routes = [\"{network} via fd00::2\", \"default via 10.1.0.2\"]"));
        let loaded = parse(&text).unwrap_or_else(|error| panic!("{}", error.to_text()));
        let networks: Vec<String> =
            loaded.spec.hosts[0].routes.iter().map(|route| format!("{}/{}", route.network.address, route.network.prefix)).collect();
        assert_eq!(networks, ["::/0", "0.0.0.0/0"]);
        let second = parse_fabric("fabric.toml", &loaded.resolved_toml(), &softband_catalog::Catalog::default(), &LoadOptions::default());
        assert_eq!(loaded.spec, second.unwrap_or_else(|error| panic!("{}", error.to_text())).spec);
    }
    let error = error_of(&with_v6("routes = [\"::/0 via 10.1.0.2\"]"));
    assert!(error.contains("the network and the gateway are of two families"), "{error}");
}

#[test]
fn mistakes_in_routes_are_refused() {
    let cases = [
        ("\"10.2.0.0/16\"", "test.toml:3:11: error: this is not a route\n  help: write a network and the host that leads there, such as"),
        ("\"10.2.0.0/33 via 10.1.0.2\"", "this is not a route"),
        ("\"10.2.0.0/16 via b\"", "this is not a route"),
        ("7", "this is not a route"),
        ("\"10.2.0.3/16 via 10.1.0.2\"", "10.2.0.3 has bits behind the 16 of its network\n  help: write \"10.2.0.0/16 via 10.1.0.2\""),
        ("\"127.0.0.0/8 via 10.1.0.2\"", "no route leads to 127.0.0.0"),
        ("\"fd00::/64 via 10.1.0.2\"", "the network and the gateway are of two families"),
        ("\"10.2.0.0/16 via 10.1.0.2\", \"10.2.0.0/16 via 10.1.0.2\"", "the host has a route to 10.2.0.0/16 already"),
        ("\"10.2.0.0/16 via 10.1.0.1\"", "10.1.0.1 is an address of host `a` itself"),
        ("\"10.1.0.0/16 via 10.1.0.2\"", "host `a` has an interface in 10.1.0.0/16"),
        (
            "\"10.9.0.0/16 via 10.2.0.2\"",
            "no interface of host `a` reaches the gateway 10.2.0.2\n  help: name a host in a network of `a`: 198.18.0.0/16, 10.1.0.0/16",
        ),
        ("\"10.2.0.0/16 via 10.1.0.9\"", "no host has the address 10.1.0.9"),
    ];
    for (routes, message) in cases {
        let error = error_of(&with(&format!("routes = [{routes}]")));
        assert!(error.contains(message), "{routes}\n{error}");
    }
    let error = error_of(&with("routes = \"default\""));
    assert!(error.contains("`routes` must be a list of routes"), "{error}");
    let many = vec!["\"10.2.0.0/16 via 10.1.0.2\""; 65].join(", ");
    assert!(error_of(&with(&format!("routes = [{many}]"))).contains("a host cannot have 65 routes"));
}

#[test]
fn the_management_network_alone_has_no_routes() {
    let text = with("routes = [\"10.2.0.0/16 via 198.18.0.2\"]");
    let (plain, _) = text.split_once("[hosts.a.interfaces").expect("interfaces");
    let error = error_of(&plain.replace("routes = [\"default via 10.2.0.2\"]", ""));
    assert!(error.contains("only modelled networks have routes\n  help: add an interface of kind"), "{error}");
}

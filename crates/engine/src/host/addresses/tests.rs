use super::*;
use softband_model::parts::{CablePart, HcaPart, HostPart};
use softband_spec::{FabricBuilder, InterfaceAddress, IpoibMode};
use softband_types::{PKey, PortNumber};

fn fabric() -> FabricSpec {
    let mut builder = FabricBuilder::new("names");
    let [a, b] = ["a", "a-ib0"].map(|name| builder.host(name, HostPart::ideal()));
    let hcas = [a, b].map(|host| builder.hca(host, HcaPart::ideal()));
    builder.cable(hcas[0], hcas[1], CablePart::ideal(1_000));
    for (host, last) in [(a, 1), (b, 2)] {
        let address = InterfaceAddress { address: Ipv4Addr::new(10, 0, 0, last).into(), prefix: 24 };
        let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(1), mode: IpoibMode::Datagram, pkey: PKey::DEFAULT_FULL };
        builder.interface(host, InterfaceSpec { name: "ib0".into(), kind, addresses: vec![address], mtu_bytes: 2_044 });
    }
    builder.build().unwrap()
}

#[test]
fn a_host_has_a_name_for_each_interface() {
    let spec = fabric();
    let address = |text: &str| Some((Some(text.parse().unwrap()), None));
    assert_eq!(addresses_of(&spec, "a"), address("198.18.0.1"));
    // The name of a host wins against that of another host's interface.
    assert_eq!(addresses_of(&spec, "a-ib0"), address("198.18.0.2"));
    assert_eq!(addresses_of(&spec, "a-ib0-ib0"), address("10.0.0.2"));
    assert_eq!((addresses_of(&spec, "a-ib1"), addresses_of(&spec, "c")), (None, None));
}

#[test]
fn an_address_leads_to_its_host_and_name() {
    let spec = fabric();
    let (name, host) = (|text: &str| name_of(&spec, text.parse().unwrap()), |text: &str| host_of(&spec, text.parse().unwrap()));
    assert_eq!((name("198.18.0.2").as_deref(), host("198.18.0.2")), (Some("a-ib0"), Some(1)));
    assert_eq!((name("10.0.0.2").as_deref(), host("10.0.0.2")), (Some("a-ib0-ib0"), Some(1)));
    assert_eq!((name("10.0.0.3"), host("::1")), (None, None));
}

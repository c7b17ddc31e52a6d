use super::*;

fn value(number: u32) -> [u8; 4] {
    number.to_ne_bytes()
}

#[test]
fn short_values_are_refused_and_unknown_options_left_to_others() {
    for (level, name) in [
        (libc::SOL_SOCKET, libc::SO_LINGER),
        (libc::SOL_SOCKET, libc::SO_SNDBUF),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF),
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
        (libc::IPPROTO_IP, libc::MCAST_JOIN_GROUP),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    ] {
        assert_eq!(parse(level, name, &[]), Err(libc::EINVAL), "{level} {name}");
    }
    assert_eq!(parse(libc::SOL_SOCKET, libc::SO_LINGER, &value(1)), Err(libc::EINVAL));
    assert_eq!(parse(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &[0; 16]), Err(libc::ENOPROTOOPT));
    assert_eq!(parse(9_999, 1, &[0; 16]), Err(libc::ENOPROTOOPT));
}

#[test]
fn values_have_the_units_of_the_manual_pages() {
    let parsed = |level, name, bytes: &[u8]| parse(level, name, bytes).unwrap();
    let linger = [value(1), value(3)].concat();
    assert_eq!(parsed(libc::SOL_SOCKET, libc::SO_LINGER, &linger), Setting::Option(SocketOption::Linger(Some(seconds(3)))));
    let longest = [value(1), value(u32::MAX)].concat();
    assert_eq!(parsed(libc::SOL_SOCKET, libc::SO_LINGER, &longest), Setting::Option(SocketOption::Linger(Some(SimDuration::MAX))));
    let idle = Setting::Option(SocketOption::KeepAliveIdle(SimDuration::MAX));
    assert_eq!(parsed(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &value(u32::MAX)), idle);
    let timeout = SocketOption::UserTimeout(SimDuration::from_micros(1_500_000));
    assert_eq!(parsed(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &value(1_500)), Setting::Option(timeout));
    assert_eq!(parse(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &value(u32::MAX)), Err(libc::EINVAL));
    let reno = Setting::Option(SocketOption::Congestion(CongestionControl::Reno));
    assert_eq!(parsed(libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"reno\0junk"), reno);
    assert_eq!(parse(libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"vegas"), Err(libc::ENOENT));
    assert_eq!(parsed(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, b"ib0\0\0"), Setting::Device("ib0".into()));
}

#[test]
fn a_membership_names_its_interface_by_number_address_or_not_at_all() {
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let membership = |interface| Ok(Setting::Membership { joins: true, group: group.into(), interface });
    let asked = |rest: &[u8]| parse(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &[&group.octets()[..], rest].concat());
    assert_eq!(asked(&[0; 4]), membership(Named::Any));
    assert_eq!(asked(&[10, 0, 0, 1]), membership(Named::Address(Ipv4Addr::new(10, 0, 0, 1))));
    assert_eq!(asked(&[&[10, 0, 0, 1][..], &value(3)].concat()), membership(Named::Index(3)));
    let mut request = [0; 136];
    request[..4].copy_from_slice(&value(2));
    request[8..10].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    request[12..16].copy_from_slice(&group.octets());
    assert_eq!(parse(libc::IPPROTO_IP, libc::MCAST_JOIN_GROUP, &request), membership(Named::Index(2)));
}

//! The host's network interfaces: `getifaddrs`, the functions for names and numbers, and `ioctl`.

use super::address::{self, inet};
use super::ethtool;
use super::open::socket_option;
use super::relayed::is_relayed;
use crate::clib::args::{In, InOut, Out, Text};
use crate::clib::buffers::Writable;
use crate::clib::real;
use crate::runtime::world::{active, fail, set_errno, walled};
use crate::socket::resolver::named;
use libc::{c_char, c_int, c_uint, c_ulong, ifaddrs, ifconf, ifreq, sockaddr, sockaddr_in6};
use softband_client as client;
use softband_ipc::calls::{Endpoint, InterfacePlace, op};
use softband_ipc::interfaces::{Address, Interface, Route, of_host};
use std::ffi::CString;

/// Interfaces of a host, at most. The engine has fewer.
const INTERFACES_MAX: u32 = 1 << 10;

/// Returns whether the engine describes the interfaces of this host.
fn are_described() -> bool {
    let header = client::header();
    let has_rdma = header.has_rdma_addresses != 0;
    (header.has_modelled_network != 0 || has_rdma) && active() || walled() && (is_relayed() || has_rdma)
}

/// Returns the interfaces of this host.
pub fn own() -> Vec<Interface> {
    if !are_described() {
        return of_host(client::header().host_address);
    }
    let described = |place| client::call::<op::ReadInterface>(&InterfacePlace { place, reserved: 0 }).ok();
    (0..INTERFACES_MAX).map_while(described).map(|record| Interface::from(&record)).collect()
}

/// Returns the routes of this host through other hosts.
pub fn routes() -> Vec<Route> {
    if !are_described() {
        return Vec::new();
    }
    let described = |place| client::call::<op::ReadRoute>(&InterfacePlace { place, reserved: 0 }).ok();
    (0..INTERFACES_MAX).map_while(described).map(|record| Route::from(&record)).collect()
}

/// An entry of the result of `getifaddrs`. All entries are in one allocation, because glibc's
/// `freeifaddrs` is one `free`.
#[repr(C)]
struct Entry {
    head: ifaddrs,
    address: sockaddr_in6,
    mask: sockaddr_in6,
    broadcast: sockaddr_in6,
    name: [c_char; libc::IFNAMSIZ],
}

fn write_name(room: &mut [c_char], name: &str) {
    for (room, byte) in room.iter_mut().zip(name.bytes().chain([0])) {
        *room = byte as c_char;
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn getifaddrs(out: Out<*mut ifaddrs>) -> c_int {
    if !named() {
        return real::getifaddrs(out);
    }
    let interfaces = own();
    let each = descriptions(&interfaces);
    // SAFETY: the call returns null or room for all entries, for which all zero is a value.
    let first = unsafe { libc::calloc(each.len().max(1), size_of::<Entry>()).cast::<Entry>() };
    if first.is_null() {
        return fail(libc::ENOMEM);
    }
    // SAFETY: the room has this many entries, and nothing else knows it.
    let entries = unsafe { std::slice::from_raw_parts_mut(first, each.len()) };
    for (entry, (interface, [own, mask, broadcast])) in entries.iter_mut().zip(&each) {
        (entry.address, entry.mask, entry.broadcast) =
            (own.unwrap_or(entry.address), mask.unwrap_or(entry.mask), broadcast.unwrap_or(entry.broadcast));
        write_name(&mut entry.name, &interface.name);
        entry.head.ifa_name = entry.name.as_mut_ptr();
        entry.head.ifa_flags = interface.flags;
        entry.head.ifa_addr = (&raw mut entry.address).cast();
        entry.head.ifa_netmask = (&raw mut entry.mask).cast();
        if broadcast.is_some() {
            entry.head.ifa_ifu = (&raw mut entry.broadcast).cast();
        }
    }
    let mut next: *mut ifaddrs = std::ptr::null_mut();
    for entry in entries.iter_mut().rev() {
        entry.head.ifa_next = next;
        next = &raw mut entry.head;
    }
    out.set(next);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn if_nametoindex(name: Text) -> c_uint {
    if !named() {
        return real::if_nametoindex(name);
    }
    match of_name(name.bytes().unwrap_or_default()) {
        Some(interface) => interface.index,
        None => {
            set_errno(libc::ENODEV);
            0
        }
    }
}

/// Implements `if_indextoname`.
///
/// # Safety
/// `out` has room for `IF_NAMESIZE` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_indextoname(index: c_uint, out: *mut c_char) -> *mut c_char {
    if !named() {
        // SAFETY: the caller's room is the C library's requirement too.
        return unsafe { real::if_indextoname(index, out) };
    }
    let Some(interface) = of_index(index) else {
        set_errno(libc::ENXIO);
        return std::ptr::null_mut();
    };
    // SAFETY: the caller has room for the longest name.
    unsafe { Writable::new(out.cast(), libc::IF_NAMESIZE) }.put_text_at(0, interface.name.as_bytes());
    out
}

/// Returns a list and names in the allocations that the C library's `if_freenameindex` frees.
#[unsafe(no_mangle)]
pub extern "C" fn if_nameindex() -> *mut libc::if_nameindex {
    if !named() {
        return real::if_nameindex();
    }
    let all = own();
    // SAFETY: the call returns null or zeroed room for the list and its end.
    let list = unsafe { libc::calloc(all.len() + 1, size_of::<libc::if_nameindex>()).cast::<libc::if_nameindex>() };
    if !list.is_null() {
        for (place, interface) in all.into_iter().enumerate() {
            let Ok(name) = CString::new(interface.name) else { continue };
            // SAFETY: the list has room for each interface; the name is a string.
            unsafe { list.add(place).write(libc::if_nameindex { if_index: interface.index, if_name: libc::strdup(name.as_ptr()) }) };
        }
    }
    list
}

/// Returns the entries of `getifaddrs` as the C library orders them: each with its address, mask and
/// broadcast address.
fn descriptions(interfaces: &[Interface]) -> Vec<(&Interface, [Option<sockaddr_in6>; 3])> {
    let v4 = each_address(interfaces).map(|(interface, own)| {
        let of = |address: u32| socket_address(libc::AF_INET, &Endpoint::v4((address, 0)));
        (interface, [Some(of(own.address)), Some(of(own.mask())), interface.broadcast(own).map(of)])
    });
    let each_v6 = interfaces.iter().flat_map(|interface| interface.addresses_v6.iter().map(move |own| (interface, *own)));
    let v6 = each_v6.map(|(interface, own)| {
        let scope = if own.is_of_link() { interface.index } else { 0 };
        let of = |ip: [u8; 16], scope: u32| socket_address(libc::AF_INET6, &Endpoint { ip, port: 0, scope });
        (interface, [Some(of(own.address.octets(), scope)), Some(of(own.mask().octets(), 0)), None])
    });
    v4.chain(v6).collect()
}

/// Returns an address of either family in the room of the longer one.
fn socket_address(family: c_int, at: &Endpoint) -> sockaddr_in6 {
    let (bytes, _) = address::encode(family, at);
    // SAFETY: the structure consists of numbers, and has the size of the array.
    unsafe { std::mem::transmute(bytes) }
}

/// Returns each address with its interface.
fn each_address(interfaces: &[Interface]) -> impl Iterator<Item = (&Interface, Address)> {
    interfaces.iter().flat_map(|interface| interface.addresses.iter().map(move |own| (interface, *own)))
}

/// Returns the interface of this name. A label behind a colon belongs to the name before it.
pub fn of_name(name: &[u8]) -> Option<Interface> {
    let name = name.split(|byte| *byte == b':').next()?;
    own().into_iter().find(|interface| interface.name.as_bytes() == name)
}

pub fn of_index(index: u32) -> Option<Interface> {
    own().into_iter().find(|interface| interface.index == index)
}

// Requests that change interfaces or routes: sockios.h.
const SIOCDELRT: c_ulong = 0x890C;
const SIOCADDRT: c_ulong = 0x890B;
const SETTERS: [c_ulong; 14] = [
    SIOCADDRT,
    SIOCDELRT,
    libc::SIOCSIFFLAGS,
    libc::SIOCSIFADDR,
    libc::SIOCSIFDSTADDR,
    libc::SIOCSIFBRDADDR,
    libc::SIOCSIFNETMASK,
    libc::SIOCSIFMETRIC,
    libc::SIOCSIFMTU,
    0x8923, // SIOCSIFNAME
    libc::SIOCSIFHWADDR,
    libc::SIOCADDMULTI,
    0x8936, // SIOCDIFADDR
    0x8943, // SIOCSIFTXQLEN
];
const SIOCGIFTXQLEN: c_ulong = 0x8942;

/// Answers a request about interfaces. Returns `None` for other requests.
///
/// # Safety
/// The argument has the type of the request.
pub unsafe fn control(fd: c_int, request: c_ulong, argument: usize) -> Option<c_int> {
    if !(0x8900..0x8A00).contains(&request) || !named() || socket_option::<c_int>(fd, libc::SO_TYPE).is_none() {
        return None;
    }
    if SETTERS.contains(&request) {
        return Some(fail(libc::EPERM));
    }
    if request == libc::SIOCGIFCONF {
        // SAFETY: the request takes an `ifconf`.
        return Some(unsafe { list(InOut::of((argument as *mut ifconf).as_mut()?)) });
    }
    if !is_about_one(request) {
        return None;
    }
    // SAFETY: the request takes an `ifreq`.
    let (given, out) = unsafe { (In::from_raw(argument as *const ifreq), Out::from_raw(argument as *mut ifreq)) };
    let Some(mut about) = given.get() else { return Some(fail(libc::EFAULT)) };
    Some(match answer(request, &mut about) {
        Ok(()) => {
            out.set(about);
            0
        }
        Err(errno) => fail(errno),
    })
}

fn is_about_one(request: c_ulong) -> bool {
    let known = [
        libc::SIOCGIFNAME,
        libc::SIOCGIFINDEX,
        libc::SIOCGIFADDR,
        libc::SIOCGIFDSTADDR,
        libc::SIOCGIFBRDADDR,
        libc::SIOCGIFNETMASK,
        libc::SIOCGIFFLAGS,
        libc::SIOCGIFHWADDR,
        libc::SIOCGIFMTU,
        libc::SIOCGIFMETRIC,
        SIOCGIFTXQLEN,
        SIOCETHTOOL,
    ];
    known.contains(&request)
}

/// Facts of an interface's driver ([`super::ethtool`]).
const SIOCETHTOOL: c_ulong = 0x8946;

fn answer(request: c_ulong, about: &mut ifreq) -> Result<(), c_int> {
    if request == libc::SIOCGIFNAME {
        // SAFETY: this request passes the number in the union.
        let interface = of_index(unsafe { about.ifr_ifru.ifru_ifindex } as u32).ok_or(libc::ENODEV)?;
        write_name(&mut about.ifr_name, &interface.name);
        return Ok(());
    }
    let name: Vec<u8> = about.ifr_name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0).collect();
    let interface = of_name(&name).ok_or(libc::ENODEV)?;
    let own = interface.addresses.first().copied().ok_or(libc::EADDRNOTAVAIL);
    match request {
        libc::SIOCGIFINDEX => about.ifr_ifru.ifru_ifindex = interface.index as c_int,
        libc::SIOCGIFADDR | libc::SIOCGIFDSTADDR => about.ifr_ifru.ifru_addr = plain(own?.address),
        libc::SIOCGIFBRDADDR => about.ifr_ifru.ifru_broadaddr = plain(interface.broadcast(own?).unwrap_or(0)),
        libc::SIOCGIFNETMASK => about.ifr_ifru.ifru_netmask = plain(own?.mask()),
        libc::SIOCGIFFLAGS => about.ifr_ifru.ifru_flags = interface.flags as u16 as i16,
        libc::SIOCGIFHWADDR => about.ifr_ifru.ifru_hwaddr = hardware(&interface),
        libc::SIOCGIFMTU => about.ifr_ifru.ifru_mtu = interface.mtu as c_int,
        libc::SIOCGIFMETRIC => about.ifr_ifru.ifru_metric = 0,
        SIOCGIFTXQLEN => about.ifr_ifru.ifru_metric = interface.queue_packets as c_int,
        // SAFETY: this request has the address of a command, which begins with its number.
        SIOCETHTOOL => unsafe { command(&interface, about.ifr_ifru.ifru_data.cast()) }?,
        _ => return Err(libc::EOPNOTSUPP),
    }
    Ok(())
}

/// Carries out a command of ethtool in the caller's room.
///
/// # Safety
/// `room` is null or has a command with the room for its answer.
unsafe fn command(interface: &Interface, room: *mut u8) -> Result<(), c_int> {
    if room.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: each command has a number.
    let number = unsafe { room.cast::<u32>().read_unaligned() };
    let mut head = [number, 0, 0];
    for (place, word) in head.iter_mut().enumerate().take(ethtool::words(number)).skip(1) {
        // SAFETY: the command has this many words.
        *word = unsafe { room.cast::<u32>().add(place).read_unaligned() };
    }
    let answer = ethtool::answer(interface, head)?;
    // SAFETY: the command has room for its answer.
    unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), room, answer.len()) };
    Ok(())
}

fn plain(v4: u32) -> sockaddr {
    // SAFETY: both structures consist of numbers and have one size.
    unsafe { std::mem::transmute(inet(v4, 0)) }
}

fn hardware(interface: &Interface) -> sockaddr {
    let mut address = sockaddr { sa_family: interface.hardware, sa_data: [0; 14] };
    for (room, byte) in address.sa_data.iter_mut().zip(&interface.hardware_address) {
        *room = *byte as c_char;
    }
    address
}

/// Answers `SIOCGIFCONF`: the interfaces with their addresses, as many as there is room for. Null in
/// place of the list asks for its length.
///
/// # Safety
/// The list of the request has room for the bytes that the request states.
unsafe fn list(request: InOut<ifconf>) -> c_int {
    let Some(mut given) = request.get() else { return fail(libc::EFAULT) };
    // SAFETY: both members of the union are the address of the list.
    let room = unsafe { given.ifc_ifcu.ifcu_req };
    let fit = given.ifc_len.max(0) as usize / size_of::<ifreq>();
    let interfaces = own();
    let all: Vec<(&Interface, Address)> = each_address(&interfaces).collect();
    let count = if room.is_null() { all.len() } else { fit.min(all.len()) };
    for (place, (interface, own)) in all.iter().enumerate().take(if room.is_null() { 0 } else { count }) {
        let address = libc::__c_anonymous_ifr_ifru { ifru_addr: plain(own.address) };
        let mut entry = ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: address };
        write_name(&mut entry.ifr_name, &interface.name);
        // SAFETY: the list has room for `count` entries.
        unsafe { room.add(place).write_unaligned(entry) };
    }
    given.ifc_len = (count * size_of::<ifreq>()) as c_int;
    request.set(given);
    0
}

//! The host's network interfaces: `getifaddrs`, the functions for names and numbers, and `ioctl`.

use super::address::inet;
use super::open::socket_option;
use crate::clib::args::{In, InOut, Out, Text};
use crate::clib::buffers::Writable;
use crate::clib::real;
use crate::runtime::world::{fail, set_errno};
use crate::socket::resolver::named;
use libc::{c_char, c_int, c_uint, c_ulong, ifaddrs, ifconf, ifreq, sockaddr, sockaddr_in};
use softband_client as client;
use softband_ipc::interfaces::{Interface, of_host};
use std::ffi::CString;

const COUNT: usize = 2;

/// Returns the interfaces of this host.
pub fn own() -> [Interface; COUNT] {
    of_host(client::header().host_address)
}

/// The result of `getifaddrs`, in one allocation, because glibc's `freeifaddrs` is one `free`.
#[repr(C)]
struct Interfaces {
    list: [ifaddrs; COUNT],
    addresses: [sockaddr_in; COUNT],
    masks: [sockaddr_in; COUNT],
    broadcasts: [sockaddr_in; COUNT],
    names: [[c_char; libc::IFNAMSIZ]; COUNT],
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
    // SAFETY: the call returns null or room for one `Interfaces`, for which all zero is a value.
    let Some(all) = (unsafe { libc::calloc(1, size_of::<Interfaces>()).cast::<Interfaces>().as_mut() }) else { return fail(libc::ENOMEM) };
    for (place, interface) in own().into_iter().enumerate() {
        all.addresses[place] = inet(interface.address, 0);
        all.masks[place] = inet(interface.mask(), 0);
        write_name(&mut all.names[place], interface.name);
        let entry = &mut all.list[place];
        entry.ifa_name = all.names[place].as_mut_ptr();
        entry.ifa_flags = interface.flags;
        entry.ifa_addr = (&raw mut all.addresses[place]).cast();
        entry.ifa_netmask = (&raw mut all.masks[place]).cast();
        if let Some(broadcast) = interface.broadcast() {
            all.broadcasts[place] = inet(broadcast, 0);
            entry.ifa_ifu = (&raw mut all.broadcasts[place]).cast();
        }
    }
    all.list[0].ifa_next = &raw mut all.list[1];
    out.set(std::ptr::from_mut(all).cast());
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
    // SAFETY: the call returns null or zeroed room for the list and its end.
    let list = unsafe { libc::calloc(COUNT + 1, size_of::<libc::if_nameindex>()).cast::<libc::if_nameindex>() };
    if !list.is_null() {
        for (place, interface) in own().into_iter().enumerate() {
            let Ok(name) = CString::new(interface.name) else { continue };
            // SAFETY: the list has room for each interface; the name is a string.
            unsafe { list.add(place).write(libc::if_nameindex { if_index: interface.index, if_name: libc::strdup(name.as_ptr()) }) };
        }
    }
    list
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
/// Packets that an interface may queue, as Linux sets it for Ethernet.
const QUEUE_PACKETS: c_int = 1_000;

/// Answers a request about interfaces. Returns `None` for other requests.
///
/// # Safety
/// The argument is what the request takes.
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

/// Facts of an interface's driver. The interfaces have no driver.
const SIOCETHTOOL: c_ulong = 0x8946;

fn answer(request: c_ulong, about: &mut ifreq) -> Result<(), c_int> {
    if request == libc::SIOCGIFNAME {
        // SAFETY: this request passes the number in the union.
        let interface = of_index(unsafe { about.ifr_ifru.ifru_ifindex } as u32).ok_or(libc::ENODEV)?;
        write_name(&mut about.ifr_name, interface.name);
        return Ok(());
    }
    let name: Vec<u8> = about.ifr_name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0).collect();
    let interface = of_name(&name).ok_or(libc::ENODEV)?;
    match request {
        libc::SIOCGIFINDEX => about.ifr_ifru.ifru_ifindex = interface.index as c_int,
        libc::SIOCGIFADDR | libc::SIOCGIFDSTADDR => about.ifr_ifru.ifru_addr = plain(interface.address),
        libc::SIOCGIFBRDADDR => about.ifr_ifru.ifru_broadaddr = plain(interface.broadcast().unwrap_or(0)),
        libc::SIOCGIFNETMASK => about.ifr_ifru.ifru_netmask = plain(interface.mask()),
        libc::SIOCGIFFLAGS => about.ifr_ifru.ifru_flags = interface.flags as u16 as i16,
        libc::SIOCGIFHWADDR => about.ifr_ifru.ifru_hwaddr = hardware(&interface),
        libc::SIOCGIFMTU => about.ifr_ifru.ifru_mtu = interface.mtu as c_int,
        libc::SIOCGIFMETRIC => about.ifr_ifru.ifru_metric = 0,
        SIOCGIFTXQLEN => about.ifr_ifru.ifru_metric = QUEUE_PACKETS,
        _ => return Err(libc::EOPNOTSUPP),
    }
    Ok(())
}

fn plain(v4: u32) -> sockaddr {
    // SAFETY: both structures consist of numbers and have one size.
    unsafe { std::mem::transmute(inet(v4, 0)) }
}

fn hardware(interface: &Interface) -> sockaddr {
    let mut address = sockaddr { sa_family: interface.hardware, sa_data: [0; 14] };
    for (room, byte) in address.sa_data.iter_mut().zip(interface.hardware_address) {
        *room = byte as c_char;
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
    let all = own();
    let count = if room.is_null() { all.len() } else { fit.min(all.len()) };
    for (place, interface) in all.iter().enumerate().take(if room.is_null() { 0 } else { count }) {
        let address = libc::__c_anonymous_ifr_ifru { ifru_addr: plain(interface.address) };
        let mut entry = ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: address };
        write_name(&mut entry.ifr_name, interface.name);
        // SAFETY: the list has room for `count` entries.
        unsafe { room.add(place).write_unaligned(entry) };
    }
    given.ifc_len = (count * size_of::<ifreq>()) as c_int;
    request.set(given);
    0
}

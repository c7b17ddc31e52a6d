//! Host names. The engine resolves names of the fabric; all others resolve natively.

use crate::clib::real;
use crate::runtime::world::{active, fail, walled};
use crate::socket::address;
use libc::{addrinfo, c_char, c_int, c_void, hostent, ifaddrs, size_t, sockaddr, sockaddr_in, socklen_t, utsname};
use softband_client as client;
use softband_ipc::calls::{AddressReply, Name, op};
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString};

/// Interface by which a host of the fabric reaches the others.
const INTERFACE: &CStr = c"eth0";
const LOOPBACK_INTERFACE: &CStr = c"lo";

/// Returns whether the calling thread knows the names of the fabric.
fn named() -> bool {
    active() || walled()
}

/// Returns the name of this host.
pub fn own_name() -> &'static [u8] {
    let name = &client::header().host_name;
    &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())]
}

/// Returns the address of a host of the fabric.
fn resolve(name: &[u8]) -> Option<u32> {
    if name.is_empty() || name.len() > 255 || is_numeric(name) {
        return None;
    }
    if name == b"localhost" {
        return Some(address::LOOPBACK);
    }
    if walled() {
        return client::host_address(name);
    }
    let mut request = Name { len: name.len() as u32, bytes: [0; 256] };
    request.bytes[..name.len()].copy_from_slice(name);
    client::call::<op::Resolve>(&request).ok().map(|reply| reply.address)
}

/// Returns whether the name is an address: digits and dots, or any text with a colon.
fn is_numeric(name: &[u8]) -> bool {
    name.contains(&b':') || name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Returns the name of the host with this address.
fn reverse(v4: u32) -> Option<Vec<u8>> {
    if walled() {
        return client::host_name(v4).map(<[u8]>::to_vec);
    }
    let reply = client::call::<op::ReverseResolve>(&AddressReply { address: v4, reserved: 0 }).ok()?;
    reply.bytes.get(..reply.len as usize).map(<[u8]>::to_vec)
}

fn dotted(v4: u32) -> String {
    let [a, b, c, d] = v4.to_be_bytes();
    format!("{a}.{b}.{c}.{d}")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, out: *mut *mut addrinfo) -> c_int {
    if !named() || node.is_null() {
        let own = own_family(node, hints);
        return real::getaddrinfo(node, service, own.as_ref().map_or(hints, std::ptr::from_ref), out);
    }
    let name = CStr::from_ptr(node);
    let numeric = is_numeric(name.to_bytes()) || (!hints.is_null() && (*hints).ai_flags & libc::AI_NUMERICHOST != 0);
    let Some(v4) = (if numeric { None } else { resolve(name.to_bytes()) }) else {
        return if numeric {
            real::getaddrinfo(node, service, hints, out)
        } else {
            crate::runtime::world::away(|| real::getaddrinfo(node, service, hints, out))
        };
    };
    // The original knows services, socket types and the list layout, so it gets the address as
    // text.
    let mut own: addrinfo = if hints.is_null() { std::mem::zeroed() } else { *hints };
    let family = own.ai_family;
    let wants_name = own.ai_flags & libc::AI_CANONNAME != 0;
    own.ai_flags = (own.ai_flags | libc::AI_NUMERICHOST) & !(libc::AI_ADDRCONFIG | libc::AI_CANONNAME);
    let text = if family == libc::AF_INET6 { format!("::ffff:{}", dotted(v4)) } else { dotted(v4) };
    let Ok(text) = CString::new(text) else { return libc::EAI_NONAME };
    let status = real::getaddrinfo(text.as_ptr(), service, &raw const own, out);
    if status == 0 && wants_name && !(*out).is_null() {
        (**out).ai_canonname = libc::strdup(node); // freeaddrinfo frees it
    }
    status
}

/// Returns other hints for an address of this host itself. The fabric has only IPv4. A server that
/// also binds an IPv6 address would collide with those of other hosts.
unsafe fn own_family(node: *const c_char, hints: *const addrinfo) -> Option<addrinfo> {
    let any_family = hints.is_null() || (*hints).ai_family == libc::AF_UNSPEC;
    (walled() && node.is_null() && any_family).then(|| {
        let mut own: addrinfo = if hints.is_null() { std::mem::zeroed() } else { *hints };
        own.ai_family = libc::AF_INET;
        own
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getnameinfo(
    of: *const sockaddr,
    len: socklen_t,
    host: *mut c_char,
    host_len: socklen_t,
    service: *mut c_char,
    service_len: socklen_t,
    flags: c_int,
) -> c_int {
    let wants_name = named() && !host.is_null() && host_len > 0 && flags & libc::NI_NUMERICHOST == 0;
    let name = if wants_name { address::read(of, len).and_then(|(v4, _)| reverse(v4)) } else { None };
    let Some(name) = name else {
        return if wants_name {
            crate::runtime::world::away(|| real::getnameinfo(of, len, host, host_len, service, service_len, flags))
        } else {
            real::getnameinfo(of, len, host, host_len, service, service_len, flags)
        };
    };
    if name.len() >= host_len as usize {
        return libc::EAI_OVERFLOW;
    }
    put_string(host, &name);
    if service.is_null() || service_len == 0 { 0 } else { real::getnameinfo(of, len, std::ptr::null_mut(), 0, service, service_len, flags) }
}

unsafe fn put_string(out: *mut c_char, text: &[u8]) {
    std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
    out.add(text.len()).write(0);
}

/// Parts of a `hostent` in one buffer: two null-terminated pointer lists and the address; the name
/// follows.
#[repr(C)]
struct HostParts {
    aliases: [*mut c_char; 1],
    addresses: [*mut c_char; 2],
    address: [u8; 16],
}

/// Fills `out` and puts its parts into `buffer`. Returns false if `buffer` is too small.
unsafe fn fill(out: *mut hostent, buffer: *mut u8, room: usize, name: &[u8], v4: u32) -> bool {
    let skip = buffer.align_offset(align_of::<HostParts>());
    if skip + size_of::<HostParts>() + name.len() + 1 > room {
        return false;
    }
    let parts = buffer.add(skip).cast::<HostParts>();
    let text = buffer.add(skip + size_of::<HostParts>()).cast::<c_char>();
    put_string(text, name);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&v4.to_be_bytes());
    parts.write(HostParts { aliases: [std::ptr::null_mut()], addresses: [std::ptr::null_mut(); 2], address: bytes });
    (*parts).addresses[0] = (&raw mut (*parts).address).cast();
    *out = hostent {
        h_name: text,
        h_aliases: (&raw mut (*parts).aliases).cast(),
        h_addrtype: libc::AF_INET,
        h_length: 4,
        h_addr_list: (&raw mut (*parts).addresses).cast(),
    };
    true
}

/// Answer of the calls that return static data.
struct Static(UnsafeCell<(hostent, [u8; 512])>);
// SAFETY: the documentation declares these calls unsafe with several threads.
unsafe impl Sync for Static {}
// SAFETY: all zero is a hostent of null pointers.
static STATIC: Static = Static(UnsafeCell::new(unsafe { std::mem::zeroed() }));

unsafe fn static_answer(name: &[u8], v4: u32) -> *mut hostent {
    let (out, buffer) = &mut *STATIC.0.get();
    if fill(out, buffer.as_mut_ptr(), buffer.len(), name, v4) { out } else { std::ptr::null_mut() }
}

unsafe fn lookup(name: *const c_char, family: c_int) -> Option<u32> {
    if !named() || name.is_null() || family != libc::AF_INET {
        return None;
    }
    resolve(CStr::from_ptr(name).to_bytes())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut hostent {
    match lookup(name, libc::AF_INET) {
        Some(v4) => static_answer(CStr::from_ptr(name).to_bytes(), v4),
        None => crate::runtime::world::away(|| real::gethostbyname(name)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent {
    match lookup(name, family) {
        Some(v4) => static_answer(CStr::from_ptr(name).to_bytes(), v4),
        None => crate::runtime::world::away(|| real::gethostbyname2(name, family)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname_r(
    name: *const c_char,
    out: *mut hostent,
    buffer: *mut c_char,
    len: size_t,
    result: *mut *mut hostent,
    error: *mut c_int,
) -> c_int {
    match lookup(name, libc::AF_INET) {
        Some(v4) => reentrant(name, v4, out, buffer, len, result),
        None => crate::runtime::world::away(|| real::gethostbyname_r(name, out, buffer, len, result, error)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname2_r(
    name: *const c_char,
    family: c_int,
    out: *mut hostent,
    buffer: *mut c_char,
    len: size_t,
    result: *mut *mut hostent,
    error: *mut c_int,
) -> c_int {
    match lookup(name, family) {
        Some(v4) => reentrant(name, v4, out, buffer, len, result),
        None => crate::runtime::world::away(|| real::gethostbyname2_r(name, family, out, buffer, len, result, error)),
    }
}

unsafe fn reentrant(name: *const c_char, v4: u32, out: *mut hostent, buffer: *mut c_char, len: size_t, result: *mut *mut hostent) -> c_int {
    let fits = fill(out, buffer.cast(), len, CStr::from_ptr(name).to_bytes(), v4);
    *result = if fits { out } else { std::ptr::null_mut() };
    if fits { 0 } else { libc::ERANGE }
}

/// Returns an address of the fabric with its name.
unsafe fn reverse_lookup(of: *const c_void, len: socklen_t, family: c_int) -> Option<(u32, Vec<u8>)> {
    if !named() || of.is_null() || family != libc::AF_INET || len != 4 {
        return None;
    }
    let v4 = u32::from_be_bytes(of.cast::<[u8; 4]>().read());
    reverse(v4).map(|name| (v4, name))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyaddr(of: *const c_void, len: socklen_t, family: c_int) -> *mut hostent {
    match reverse_lookup(of, len, family) {
        Some((v4, name)) => static_answer(&name, v4),
        None => crate::runtime::world::away(|| real::gethostbyaddr(of, len, family)),
    }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // as many as in the C library
pub unsafe extern "C" fn gethostbyaddr_r(
    of: *const c_void,
    of_len: socklen_t,
    family: c_int,
    out: *mut hostent,
    buffer: *mut c_char,
    len: size_t,
    result: *mut *mut hostent,
    error: *mut c_int,
) -> c_int {
    match reverse_lookup(of, of_len, family) {
        Some((v4, name)) => {
            let name = CString::new(name).unwrap_or_default();
            reentrant(name.as_ptr(), v4, out, buffer, len, result)
        }
        None => crate::runtime::world::away(|| real::gethostbyaddr_r(of, of_len, family, out, buffer, len, result, error)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(out: *mut c_char, len: size_t) -> c_int {
    if !named() || own_name().is_empty() {
        return real::gethostname(out, len);
    }
    let name = own_name();
    if name.len() >= len {
        return fail(libc::ENAMETOOLONG);
    }
    put_string(out, name);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn uname(out: *mut utsname) -> c_int {
    let status = real::uname(out);
    if status == 0 && named() && !own_name().is_empty() {
        let node = &raw mut (*out).nodename;
        put_string(node.cast(), &own_name()[..own_name().len().min(64)]);
    }
    status
}

/// The result of `getifaddrs`, in one allocation, because glibc's `freeifaddrs` is one `free`.
#[repr(C)]
struct Interfaces {
    list: [ifaddrs; 2],
    addresses: [sockaddr_in; 2],
    masks: [sockaddr_in; 2],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getifaddrs(out: *mut *mut ifaddrs) -> c_int {
    if !named() {
        return real::getifaddrs(out);
    }
    let all = libc::calloc(1, size_of::<Interfaces>()).cast::<Interfaces>();
    if all.is_null() {
        return fail(libc::ENOMEM);
    }
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let each = [
        (LOOPBACK_INTERFACE, address::LOOPBACK, 0xff00_0000, up | libc::IFF_LOOPBACK as u32),
        (INTERFACE, client::header().host_address, 0xffff_0000, up | (libc::IFF_BROADCAST | libc::IFF_MULTICAST) as u32),
    ];
    for (index, (name, v4, mask, flags)) in each.into_iter().enumerate() {
        (*all).addresses[index] = address::inet(v4, 0);
        (*all).masks[index] = address::inet(mask, 0);
        let entry = &mut (*all).list[index];
        entry.ifa_name = name.as_ptr().cast_mut();
        entry.ifa_flags = flags;
        entry.ifa_addr = (&raw mut (*all).addresses[index]).cast();
        entry.ifa_netmask = (&raw mut (*all).masks[index]).cast();
    }
    (*all).list[0].ifa_next = &raw mut (*all).list[1];
    *out = all.cast();
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_names() {
        for text in ["127.0.0.1", "10.1", "::1", "fe80::1%eth0"] {
            assert!(is_numeric(text.as_bytes()), "{text}");
        }
        for text in ["a", "node-7", "10gig.example"] {
            assert!(!is_numeric(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_hostent_is_laid_into_any_buffer_that_has_room() {
        let mut buffer = [0u8; 128];
        // SAFETY: the buffer has the given room.
        unsafe {
            let mut out: hostent = std::mem::zeroed();
            assert!(!fill(&raw mut out, buffer.as_mut_ptr().add(1), 20, b"node", 0x7f4d_0001));
            assert!(fill(&raw mut out, buffer.as_mut_ptr().add(1), 127, b"node", 0x7f4d_0001));
            assert_eq!(CStr::from_ptr(out.h_name), c"node");
            assert_eq!((*out.h_addr_list).cast::<[u8; 4]>().read(), [127, 77, 0, 1]);
            assert!((*out.h_addr_list.add(1)).is_null() && (*out.h_aliases).is_null());
        }
    }
}

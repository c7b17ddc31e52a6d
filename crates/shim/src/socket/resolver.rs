//! Host names. The engine resolves names of the fabric; all others resolve natively.

use crate::clib::args::{In, InOut, Out, Text, Zeroed};
use crate::clib::buffers::Writable;
use crate::clib::real;
use crate::runtime::world::{active, walled};
use crate::socket::address::{self, Given};
use libc::{addrinfo, c_char, c_int, c_void, hostent, size_t, sockaddr, socklen_t};
use softband_client as client;
use softband_ipc::calls::{AddressReply, Name, op};
use std::cell::UnsafeCell;
use std::ffi::CString;
use std::mem::offset_of;
use std::net::Ipv6Addr;

/// Returns whether the calling thread knows the names of the fabric.
pub fn named() -> bool {
    active() || walled()
}

/// Addresses of a name of the fabric.
#[derive(Clone, Copy)]
struct Found {
    v4: Option<u32>,
    v6: Option<Ipv6Addr>,
}

/// Returns the addresses of a host of the fabric.
fn resolve(name: &[u8]) -> Option<Found> {
    let v4 = |v4| Found { v4: Some(v4), v6: None };
    if name.is_empty() || name.len() > 255 || is_numeric(name) {
        return None;
    }
    if name == b"localhost" {
        return Some(v4(address::LOOPBACK));
    }
    if walled() {
        return client::host_address(name).map(v4);
    }
    let mut request = Name { len: name.len() as u32, bytes: [0; 256] };
    request.bytes[..name.len()].copy_from_slice(name);
    let reply = client::call::<op::Resolve>(&request).ok()?;
    let v6 = Ipv6Addr::from(reply.v6);
    Some(Found { v4: (reply.address != 0).then_some(reply.address), v6: (!v6.is_unspecified()).then_some(v6) })
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
    name_of(&AddressReply { address: v4, v6: [0; 16] })
}

/// Returns the name of the host with an address that a program passes.
fn reverse_of(given: Given) -> Option<Vec<u8>> {
    if let Some((v4, _)) = given.read() {
        return reverse(v4);
    }
    let at = given.endpoint().ok().filter(|_| !walled())?;
    name_of(&AddressReply { address: 0, v6: at.ip })
}

fn name_of(address: &AddressReply) -> Option<Vec<u8>> {
    let reply = client::call::<op::ReverseResolve>(address).ok()?;
    reply.bytes.get(..reply.len as usize).map(<[u8]>::to_vec)
}

fn dotted(v4: u32) -> String {
    let [a, b, c, d] = v4.to_be_bytes();
    format!("{a}.{b}.{c}.{d}")
}

#[unsafe(no_mangle)]
pub extern "C" fn getaddrinfo(node: Text, service: Text, hints: In<addrinfo>, out: InOut<*mut addrinfo>) -> c_int {
    let Some(name) = node.bytes().filter(|_| named()) else {
        let own = own_family(node, hints);
        return real::getaddrinfo(node, service, own.as_ref().map_or(hints, In::of), out);
    };
    let numeric = is_numeric(name) || hints.get().is_some_and(|hints| hints.ai_flags & libc::AI_NUMERICHOST != 0);
    let Some(found) = (if numeric { None } else { resolve(name) }) else {
        return if numeric {
            real::getaddrinfo(node, service, hints, out)
        } else {
            crate::runtime::world::away(|| real::getaddrinfo(node, service, hints, out))
        };
    };
    // The original knows services, socket types and the list layout, so it gets the address as
    // text.
    let mut own = hints.get().unwrap_or_else(addrinfo::zeroed);
    let family = own.ai_family;
    let wants_name = own.ai_flags & libc::AI_CANONNAME != 0;
    own.ai_flags = (own.ai_flags | libc::AI_NUMERICHOST) & !(libc::AI_ADDRCONFIG | libc::AI_CANONNAME);
    let status = both(texts(family, found), service, &own, out);
    if let Some(first) = out.get().filter(|first| status == 0 && wants_name && !first.is_null()) {
        // SAFETY: the list is new and the caller's. `freeaddrinfo` frees the copy of the name.
        unsafe { (*first).ai_canonname = libc::strdup(node.as_ptr()) };
    }
    status
}

/// Returns the addresses of a name as texts, IPv6 first (RFC 6724). A program that wants IPv6 gets a
/// mapped address if there is no other.
fn texts(family: c_int, found: Found) -> Vec<String> {
    let (v4, v6) = (found.v4.map(dotted), found.v6.map(|v6| v6.to_string()));
    match family {
        libc::AF_INET => v4.into_iter().collect(),
        libc::AF_INET6 => v6.or_else(|| v4.map(|v4| format!("::ffff:{v4}"))).into_iter().collect(),
        _ => v6.into_iter().chain(v4).collect(),
    }
}

/// Returns the lists of all addresses as one.
fn both(texts: Vec<String>, service: Text, hints: &addrinfo, out: InOut<*mut addrinfo>) -> c_int {
    let mut first: *mut addrinfo = std::ptr::null_mut();
    for text in texts.into_iter().rev() {
        let Ok(text) = CString::new(text) else { return libc::EAI_NONAME };
        let mut list: *mut addrinfo = std::ptr::null_mut();
        let status = real::getaddrinfo(Text::of(&text), service, In::of(hints), InOut::of(&mut list));
        if status != 0 {
            if !first.is_null() {
                // SAFETY: the lists so far are of the C library.
                unsafe { libc::freeaddrinfo(first) };
            }
            return status;
        }
        let mut last = list;
        // SAFETY: `list` is a new list of the C library, whose elements are this thread's.
        while let Some(next) = unsafe { last.as_ref() }.map(|one| one.ai_next).filter(|next| !next.is_null()) {
            last = next;
        }
        if !last.is_null() {
            // SAFETY: `last` is the last element. `freeaddrinfo` frees each element alone.
            unsafe { (*last).ai_next = first };
            first = list;
        }
    }
    if first.is_null() {
        return libc::EAI_NONAME;
    }
    out.set(first);
    0
}

/// Returns other hints for an address of this host itself, in wall pace. All hosts share the machine's
/// IPv6 addresses, so servers of two hosts would collide there.
fn own_family(node: Text, hints: In<addrinfo>) -> Option<addrinfo> {
    let mut own = hints.get().unwrap_or_else(addrinfo::zeroed); // zero is AF_UNSPEC
    (walled() && node.is_null() && own.ai_family == libc::AF_UNSPEC).then(|| {
        own.ai_family = libc::AF_INET;
        own
    })
}

/// Implements `getnameinfo`.
///
/// # Safety
/// `of` has `len` bytes. `host` and `service` are null or have room for `host_len` and
/// `service_len` bytes.
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
    // SAFETY: the caller's address has `len` bytes.
    let given = unsafe { Given::new(of, len) };
    let name = if wants_name { reverse_of(given) } else { None };
    // SAFETY: the C library gets the caller's rooms with their lengths, or no room for the host.
    let original = |host, host_len| unsafe { real::getnameinfo(of, len, host, host_len, service, service_len, flags) };
    let Some(name) = name else {
        return if wants_name { crate::runtime::world::away(|| original(host, host_len)) } else { original(host, host_len) };
    };
    if name.len() >= host_len as usize {
        return libc::EAI_OVERFLOW;
    }
    // SAFETY: `host` is not null, so it has room for `host_len` bytes.
    unsafe { Writable::new(host.cast(), host_len as usize) }.put_text_at(0, &name);
    if service.is_null() || service_len == 0 { 0 } else { original(std::ptr::null_mut(), 0) }
}

/// Parts of a `hostent` in one buffer: two null-terminated pointer lists and the address; the name
/// follows.
#[repr(C)]
struct HostParts {
    aliases: [*mut c_char; 1],
    addresses: [*mut c_char; 2],
    address: [u8; 16],
}

/// Returns a `hostent` whose parts lie in `room`, for an address of 4 or 16 bytes. Returns `None` if the
/// room is too small.
fn fill(room: &Writable, name: &[u8], own: &[u8]) -> Option<hostent> {
    let skip = room.as_ptr().cast::<u8>().align_offset(align_of::<HostParts>());
    let text = skip + size_of::<HostParts>();
    if text + name.len() + 1 > room.len() {
        return None;
    }
    room.put_text_at(text, name);
    let at = |offset: usize| room.as_ptr().cast::<c_char>().wrapping_add(offset);
    let mut address = [0; 16];
    address[..own.len().min(16)].copy_from_slice(&own[..own.len().min(16)]);
    let addresses = [at(skip + offset_of!(HostParts, address)), std::ptr::null_mut()];
    let parts = HostParts { aliases: [std::ptr::null_mut()], addresses, address };
    // SAFETY: the parts and the name behind them fit into the room, and `skip` aligns the parts.
    unsafe { at(skip).cast::<HostParts>().write(parts) };
    Some(hostent {
        h_name: at(text),
        h_aliases: at(skip + offset_of!(HostParts, aliases)).cast(),
        h_addrtype: if own.len() == 4 { libc::AF_INET } else { libc::AF_INET6 },
        h_length: own.len() as c_int,
        h_addr_list: at(skip + offset_of!(HostParts, addresses)).cast(),
    })
}

/// Answer of the calls that return static data.
struct Static(UnsafeCell<(hostent, [u8; 512])>);
// SAFETY: the documentation declares these calls unsafe with several threads.
unsafe impl Sync for Static {}
// SAFETY: all zero is a hostent of null pointers.
static STATIC: Static = Static(UnsafeCell::new(unsafe { std::mem::zeroed() }));

/// Errors of lookups (netdb.h): a name without an address of the family, and the number in `errno`.
const NO_DATA: c_int = 4;
const INTERNAL: c_int = -1;

unsafe extern "C" {
    safe fn __h_errno_location() -> *mut c_int;
}

fn static_answer(name: &[u8], own: Option<&[u8]>) -> *mut hostent {
    let Some(own) = own else {
        // SAFETY: the C library returns the place of the thread's own number.
        unsafe { __h_errno_location().write(NO_DATA) };
        return std::ptr::null_mut();
    };
    // SAFETY: one thread at a time uses these calls, and no reference outlives this function.
    let (out, buffer) = unsafe { &mut *STATIC.0.get() };
    // SAFETY: the buffer lives as long as the process.
    let room = unsafe { Writable::new(buffer.as_mut_ptr().cast(), buffer.len()) };
    let Some(answer) = fill(&room, name, own) else { return std::ptr::null_mut() };
    *out = answer;
    out
}

/// Returns a name of the fabric with its address of a family, or with none if it has others alone.
fn lookup(name: Text<'_>, family: c_int) -> Option<(&[u8], Option<Vec<u8>>)> {
    let name = name.bytes().filter(|_| named() && matches!(family, libc::AF_INET | libc::AF_INET6))?;
    let found = resolve(name)?;
    let v6 = found.v6.or((name == b"localhost").then_some(Ipv6Addr::LOCALHOST));
    Some((name, if family == libc::AF_INET { found.v4.map(|v4| v4.to_be_bytes().to_vec()) } else { v6.map(|v6| v6.octets().to_vec()) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn gethostbyname(name: Text) -> *mut hostent {
    match lookup(name, libc::AF_INET) {
        Some((name, own)) => static_answer(name, own.as_deref()),
        None => crate::runtime::world::away(|| real::gethostbyname(name)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gethostbyname2(name: Text, family: c_int) -> *mut hostent {
    match lookup(name, family) {
        Some((name, own)) => static_answer(name, own.as_deref()),
        None => crate::runtime::world::away(|| real::gethostbyname2(name, family)),
    }
}

/// Implements `gethostbyname_r`.
///
/// # Safety
/// `buffer` has room for `len` bytes, which live as long as the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname_r(
    name: Text,
    out: InOut<hostent>,
    buffer: *mut c_char,
    len: size_t,
    result: Out<*mut hostent>,
    error: Out<c_int>,
) -> c_int {
    match lookup(name, libc::AF_INET) {
        // SAFETY: the caller's buffer has room for `len` bytes.
        Some((name, own)) => reentrant(name, own.as_deref(), out, &unsafe { Writable::new(buffer.cast(), len) }, (result, error)),
        // SAFETY: the C library uses at most `len` bytes of the buffer.
        None => crate::runtime::world::away(|| unsafe { real::gethostbyname_r(name, out, buffer, len, result, error) }),
    }
}

/// Implements `gethostbyname2_r`.
///
/// # Safety
/// `buffer` has room for `len` bytes, which live as long as the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname2_r(
    name: Text,
    family: c_int,
    out: InOut<hostent>,
    buffer: *mut c_char,
    len: size_t,
    result: Out<*mut hostent>,
    error: Out<c_int>,
) -> c_int {
    match lookup(name, family) {
        // SAFETY: nobody else uses the caller's buffer, which is `len` bytes long.
        Some((name, own)) => reentrant(name, own.as_deref(), out, &unsafe { Writable::new(buffer.cast(), len) }, (result, error)),
        // SAFETY: the length that goes to the C library is that of the buffer.
        None => crate::runtime::world::away(|| unsafe { real::gethostbyname2_r(name, family, out, buffer, len, result, error) }),
    }
}

fn reentrant(name: &[u8], own: Option<&[u8]>, out: InOut<hostent>, room: &Writable, (result, error): (Out<*mut hostent>, Out<c_int>)) -> c_int {
    match own.map(|own| fill(room, name, own)) {
        Some(Some(answer)) => {
            out.set(answer);
            result.set(out.as_ptr());
            return 0;
        }
        Some(None) => error.set(INTERNAL),
        None => error.set(NO_DATA),
    }
    result.set(std::ptr::null_mut());
    if own.is_some() { libc::ERANGE } else { 0 }
}

/// Returns an address of the fabric with its name.
///
/// # Safety
/// `of` is null or has `len` bytes.
unsafe fn reverse_lookup(of: *const c_void, len: socklen_t, family: c_int) -> Option<(Vec<u8>, Vec<u8>)> {
    if !named() || !matches!((family, len), (libc::AF_INET, 4) | (libc::AF_INET6, 16)) {
        return None;
    }
    // SAFETY: the address has `len` bytes.
    let own = unsafe { crate::clib::args::slice(of.cast::<u8>(), len as usize) };
    let name = match (own.first_chunk::<4>(), own.first_chunk::<16>()) {
        (Some(v4), None) => reverse(u32::from_be_bytes(*v4)),
        (_, Some(v6)) => match address::to_v4(*v6) {
            Some(v4) => reverse(v4),
            None if walled() => None,
            None => name_of(&AddressReply { address: 0, v6: *v6 }),
        },
        _ => None,
    };
    name.map(|name| (own.to_vec(), name))
}

/// Implements `gethostbyaddr`.
///
/// # Safety
/// `of` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyaddr(of: *const c_void, len: socklen_t, family: c_int) -> *mut hostent {
    // SAFETY: the address is the caller's.
    match unsafe { reverse_lookup(of, len, family) } {
        Some((own, name)) => static_answer(&name, Some(&own)),
        // SAFETY: the C library reads `len` bytes of the address.
        None => crate::runtime::world::away(|| unsafe { real::gethostbyaddr(of, len, family) }),
    }
}

/// Implements `gethostbyaddr_r`.
///
/// # Safety
/// `of` has `of_len` bytes. `buffer` has room for `len` bytes, which live as long as the result.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // as many as in the C library
pub unsafe extern "C" fn gethostbyaddr_r(
    of: *const c_void,
    of_len: socklen_t,
    family: c_int,
    out: InOut<hostent>,
    buffer: *mut c_char,
    len: size_t,
    result: Out<*mut hostent>,
    error: Out<c_int>,
) -> c_int {
    // SAFETY: the address has `of_len` bytes.
    match unsafe { reverse_lookup(of, of_len, family) } {
        // SAFETY: the buffer of the caller is `len` bytes long.
        Some((own, name)) => reentrant(&name, Some(&own), out, &unsafe { Writable::new(buffer.cast(), len) }, (result, error)),
        // SAFETY: the address and the buffer go to the C library with their lengths.
        None => crate::runtime::world::away(|| unsafe { real::gethostbyaddr_r(of, of_len, family, out, buffer, len, result, error) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

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
    fn a_name_has_addresses_of_both_families() {
        let both = Found { v4: Some(0x0a01_0001), v6: Some("2001:db8::1".parse().unwrap()) };
        assert_eq!(texts(libc::AF_UNSPEC, both), ["2001:db8::1", "10.1.0.1"]);
        assert_eq!(texts(libc::AF_INET, both), ["10.1.0.1"]);
        let v4 = Found { v6: None, ..both };
        assert_eq!((texts(libc::AF_UNSPEC, v4), texts(libc::AF_INET6, v4)), (vec!["10.1.0.1".into()], vec!["::ffff:10.1.0.1".into()]));
    }

    #[test]
    fn a_hostent_is_laid_into_any_buffer_that_has_room() {
        let mut buffer = [0u8; 128];
        // SAFETY: the array has that many bytes behind the first.
        let mut room = |len| unsafe { Writable::new(buffer.as_mut_ptr().wrapping_add(1).cast(), len) };
        assert!(fill(&room(20), b"node", &[127, 77, 0, 1]).is_none());
        let out = fill(&room(127), b"node", &[127, 77, 0, 1]).unwrap();
        // SAFETY: the parts of the answer lie in the array.
        unsafe {
            assert_eq!(CStr::from_ptr(out.h_name), c"node");
            assert_eq!((*out.h_addr_list).cast::<[u8; 4]>().read(), [127, 77, 0, 1]);
            assert!((*out.h_addr_list.add(1)).is_null() && (*out.h_aliases).is_null());
        }
    }
}

//! The list of devices.

use crate::guard::{guarded, lock, not_null, object};
use crate::unsupported::not_attached;
use bytemuck::Zeroable;
use libc::{c_char, c_int};
use softband_abi::verbs::{_ibv_device_ops, IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_device};
use softband_client::{Errno, call_with_tail};
use softband_ipc::calls::{Device as DeviceFacts, op};
use std::sync::Mutex;

/// A device: the header's structure, and the engine's description.
#[repr(C)]
pub(crate) struct Device {
    abi: ibv_device,
    pub(crate) facts: DeviceFacts,
}

/// Most HCAs of a host that fit into one reply; no host has as many.
const DEVICES_MAX: usize = 32;

/// All devices. They live as long as the process, because programs may keep pointers after they
/// have freed the list.
static KNOWN: Mutex<Vec<KnownDevice>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
struct KnownDevice(*mut Device);

// SAFETY: nobody writes to a device after its creation.
unsafe impl Send for KnownDevice {}

impl Device {
    fn new(index: usize, facts: DeviceFacts) -> Self {
        let name = text_of(&facts.name);
        let abi = ibv_device {
            _ops: _ibv_device_ops { _dummy1: None, _dummy2: None },
            node_type: IBV_NODE_CA as c_int,
            transport_type: IBV_TRANSPORT_IB as c_int,
            name: c_text(&name),
            dev_name: c_text(&format!("uverbs{index}")),
            dev_path: c_text(&format!("/sys/class/infiniband_verbs/uverbs{index}")),
            ibdev_path: c_text(&format!("/sys/class/infiniband/{name}")),
        };
        Self { abi, facts }
    }
}

/// Returns the engine's description of the device that `abi_device` points to.
///
/// # Safety
/// `abi_device` points to a device of ours.
pub(crate) unsafe fn facts<'a>(abi_device: *mut ibv_device) -> Result<&'a DeviceFacts, Errno> {
    let device = not_null(abi_device)?.cast::<Device>();
    // SAFETY: the caller promises a device of ours; devices live for ever and do not change.
    Ok(unsafe { &(*device).facts })
}

/// Returns the text up to the first NUL.
pub(crate) fn text_of(padded: &[u8]) -> String {
    let end = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// Returns `text`, cut to leave room for a NUL.
pub(crate) fn c_text<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (to, from) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    field
}

/// Returns all devices. Asks the engine once, because the HCAs of a host do not change while a
/// program runs.
fn known_devices() -> Result<Vec<KnownDevice>, Errno> {
    let known = lock(&KNOWN).clone();
    if !known.is_empty() {
        return Ok(known);
    }
    if !softband_client::is_attached() {
        not_attached();
        return Ok(Vec::new());
    }
    let mut facts = vec![DeviceFacts::zeroed(); DEVICES_MAX];
    let (list, _) = call_with_tail::<op::DeviceList>(&(), &[], &mut facts)?;
    let count = (list.count as usize).min(DEVICES_MAX);
    let mut known = lock(&KNOWN);
    if known.is_empty() {
        let devices = facts[..count].iter().enumerate();
        known.extend(devices.map(|(index, facts)| KnownDevice(Box::into_raw(Box::new(Device::new(index, *facts))))));
    }
    Ok(known.clone())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    object(|| {
        let devices = known_devices()?;
        // SAFETY: the C library allocates the list, and `ibv_free_device_list` frees it.
        let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) }.cast::<*mut ibv_device>();
        if list.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        for (index, device) in devices.iter().enumerate() {
            // SAFETY: the list has room for every device and a NULL.
            unsafe { list.add(index).write(device.0.cast()) };
        }
        if !num_devices.is_null() {
            // SAFETY: the pointer is not NULL, and the caller gives it writable.
            unsafe { num_devices.write(devices.len() as c_int) };
        }
        Ok(list)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: `ibv_get_device_list` allocated it, or it is NULL.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the pointer names a device of ours, which lives for ever.
    unsafe { (&raw const (*device).name).cast() }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: the caller names a device of ours.
    guarded(0, || unsafe { facts(device) }.map_or(0, |facts| facts.node_guid.to_be()))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: the caller names a device of ours.
    guarded(-1, || unsafe { facts(device) }.map_or(-1, |facts| facts.hca as c_int))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_leave_room_for_the_nul() {
        let field: [c_char; 4] = c_text("mthca0");
        assert_eq!(field, [b'm' as c_char, b't' as c_char, b'h' as c_char, 0]);
        assert_eq!(text_of(b"mlx4_0\0\0"), "mlx4_0");
        assert_eq!(text_of(b"full"), "full");
    }

    #[test]
    fn a_device_shows_its_place_in_sysfs() {
        let mut facts = DeviceFacts::zeroed();
        facts.name[..6].copy_from_slice(b"mthca0");
        let device = Device::new(1, facts);
        let path: Vec<u8> = device.abi.ibdev_path.iter().map(|c| *c as u8).collect();
        assert_eq!(text_of(&path), "/sys/class/infiniband/mthca0");
    }
}

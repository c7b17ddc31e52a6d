//! Memory regions.

use crate::context::context;
use crate::guard::{guarded, not_null, object, set_errno, status};
use crate::query::device_of;
use crate::unsupported::refuse;
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::{Errno, call, process_id, regions, shared_memory};
use softband_ipc::calls::{Device, Handle, RegisterMr, RegisterMrReply, ReregisterMr, op};

/// Rights by which peers, or our receives, write.
const WRITABLE: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
/// Bits that a device may ignore (`IB_UVERBS_ACCESS_OPTIONAL_RANGE`).
const OPTIONAL: u32 = 0x3FF0_0000;
/// Bits that the engine knows.
const KNOWN: u32 = WRITABLE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND;
/// Results of `ibv_rereg_mr` (`enum ibv_rereg_mr_err_code`): wrong arguments, or refused by the
/// device.
const REREG_BAD_INPUT: c_int = -1;
const REREG_FAILED: c_int = -4;

/// Rights that only some HCAs offer.
#[derive(Clone, Copy, Default)]
struct Offered {
    on_demand: bool,
    windows: bool,
}

impl Offered {
    fn by(device: &Device) -> Self {
        Self { on_demand: device.on_demand_paging != 0, windows: device.max_mw != 0 }
    }
}

/// Checks the arguments that kernel and drivers check before they access the memory.
fn check_registration(address: u64, len_bytes: u64, access: u32, offered: Offered) -> Result<u32, Errno> {
    if access & IBV_ACCESS_ON_DEMAND != 0 && !offered.on_demand {
        return Err(refuse("on-demand paging (ibv_reg_mr, IBV_ACCESS_ON_DEMAND) on this HCA"));
    }
    if access & IBV_ACCESS_MW_BIND != 0 && !offered.windows {
        return Err(refuse("a memory window (ibv_reg_mr, IBV_ACCESS_MW_BIND) on this HCA"));
    }
    let writes_from_afar = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) != 0;
    let is_wrong = writes_from_afar && access & IBV_ACCESS_LOCAL_WRITE == 0
        || access & !(KNOWN | OPTIONAL | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB) != 0
        || len_bytes == 0
        || address.checked_add(len_bytes).is_none();
    if is_wrong { Err(Errno(libc::EINVAL)) } else { Ok(access & KNOWN) }
}

/// A region as this library keeps it. The program knows the first field.
#[repr(C)]
struct Region {
    mr: ibv_mr,
    /// The process that registered it.
    owner: u32,
    access: u32,
    listing: regions::Listing,
}

/// Lists a range with these rights.
fn list(address: usize, length: usize, access: u32) -> regions::Listing {
    regions::add(address, length, access & WRITABLE != 0, access)
}

unsafe fn register(pd: *mut ibv_pd, address: *mut c_void, length: usize, iova: u64, access: u32) -> *mut ibv_mr {
    object(|| {
        // SAFETY: the caller names a PD of ours, and so an open context.
        let (abi_context, pd_handle, hca, offered) = unsafe {
            let pd = &*not_null(pd)?;
            (pd.context, pd.handle, context(pd.context)?.hca, Offered::by(device_of(pd.context)?))
        };
        let iova = if access & IBV_ACCESS_ZERO_BASED == 0 { iova } else { 0 };
        let access = check_registration(address as u64, length as u64, access, offered)?;
        let shared = shared_memory::register(address as usize, length, access & IBV_ACCESS_ON_DEMAND != 0);
        let request = RegisterMr { pd: pd_handle, hca, address: address as u64, len_bytes: length as u64, iova, access, shared: u32::from(shared) };
        // The engine looks at the access rights of the pages. In simulated time this library has
        // taken rights away from some, and gives those of listed regions back before each call.
        let listing = list(address as usize, length, access);
        let reply = call::<op::RegisterMr>(&request).inspect_err(|_| {
            regions::remove(listing);
            shared_memory::unregister(address as usize, length);
        })?;
        let RegisterMrReply { handle, lkey, rkey, .. } = reply;
        let mr = ibv_mr { context: abi_context, pd, addr: address, length, handle, lkey, rkey };
        Ok(Box::into_raw(Box::new(Region { mr, owner: process_id(), access, listing })).cast())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr(pd: *mut ibv_pd, address: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr {
    // SAFETY: the caller names a PD of ours; the address is only a number here.
    unsafe { register(pd, address, length, address as u64, access as u32) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova(pd: *mut ibv_pd, address: *mut c_void, length: usize, iova: u64, access: c_int) -> *mut ibv_mr {
    // SAFETY: the caller names a PD of ours; the address is only a number here.
    unsafe { register(pd, address, length, iova, access as u32) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova2(pd: *mut ibv_pd, address: *mut c_void, length: usize, iova: u64, access: u32) -> *mut ibv_mr {
    // SAFETY: the caller names a PD of ours; the address is only a number here.
    unsafe { register(pd, address, length, iova, access) }
}

/// Returns the engine's request for a change of a region.
///
/// # Safety
/// `mr` is a region of ours, and `pd` a PD of ours if the flags name it.
unsafe fn change_of(mr: &ibv_mr, flags: u32, pd: *mut ibv_pd, range: (u64, u64), access: u32) -> Result<ReregisterMr, Errno> {
    let has = |flag: u32| flags & flag != 0;
    let (address, len_bytes) = range;
    if flags == 0 || flags & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut request = ReregisterMr { mr: mr.handle, change: flags, ..bytemuck::Zeroable::zeroed() };
    if has(IBV_REREG_MR_CHANGE_PD) {
        // SAFETY: the flags name a new PD, so the caller passes one of ours.
        request.pd = unsafe { (*not_null(pd)?).handle };
    }
    if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
        check_registration(address, len_bytes, 0, Offered::default())?;
        (request.address, request.len_bytes, request.iova) = (address, len_bytes, address);
    }
    if has(IBV_REREG_MR_CHANGE_ACCESS) {
        // SAFETY: the caller promises a region of ours, and so an open context.
        let offered = Offered::by(unsafe { device_of(mr.context) }?);
        request.access = check_registration(0, 1, access, offered)?;
    }
    Ok(request)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_rereg_mr(
    abi_mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    guarded(REREG_FAILED, || {
        let fail = |code: c_int| {
            move |errno: Errno| {
                set_errno(errno);
                code
            }
        };
        let flags = flags as u32;
        let outcome = not_null(abi_mr).map_err(fail(REREG_BAD_INPUT)).and_then(|mr| {
            // SAFETY: the caller names a region of ours, and a PD of ours if the flags require it.
            let request = unsafe { change_of(&*mr, flags, pd, (address as u64, length as u64), access as u32) }.map_err(fail(REREG_BAD_INPUT))?;
            // SAFETY: the caller names a region of ours. By the manual page, no other thread uses it during this call.
            let region = unsafe { &mut *mr.cast::<Region>() };
            // As for a registration. `note_change` lists the changed region. An unchanged place has
            // length 0 here, which nobody lists.
            let listing = regions::add(request.address as usize, request.len_bytes as usize, true, region.access);
            let reply = call::<op::ReregisterMr>(&request);
            regions::remove(listing);
            let reply = reply.map_err(fail(REREG_FAILED))?;
            note_change(region, &request, pd, &reply);
            Ok(0)
        });
        outcome.unwrap_or_else(|code| code)
    })
}

/// Updates the program's region after a change.
fn note_change(region: &mut Region, request: &ReregisterMr, pd: *mut ibv_pd, reply: &RegisterMrReply) {
    let Region { mr, access, listing, .. } = region;
    let place = (mr.addr as usize, mr.length);
    regions::remove(*listing);
    if request.change & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
        (mr.addr, mr.length) = (request.address as *mut c_void, request.len_bytes as usize);
    }
    if request.change & IBV_REREG_MR_CHANGE_PD != 0 {
        mr.pd = pd;
    }
    if request.change & IBV_REREG_MR_CHANGE_ACCESS != 0 {
        *access = request.access;
    }
    *listing = list(mr.addr as usize, mr.length, *access);
    shared_memory::reregister(place, (mr.addr as usize, mr.length));
    (mr.lkey, mr.rkey) = (reply.lkey, reply.rkey);
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        let region = not_null(mr)?.cast::<Region>();
        // SAFETY: the caller names a region of ours.
        let (handle, address, length, owner, listing) = unsafe {
            let Region { mr, owner, listing, .. } = &*region;
            (mr.handle, mr.addr as usize, mr.length, *owner, *listing)
        };
        // A forked child has only a copy of its parent's record. The region stays with the parent.
        // UCX releases all records in a child that is about to run another program.
        if owner == process_id() {
            call::<op::DeregisterMr>(&Handle { handle, reserved: 0 })?;
            regions::remove(listing);
            shared_memory::unregister(address, length);
        }
        // SAFETY: `register` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(region) });
        Ok(())
    })
}

/// Checks advice on pages that are found at each access. No page needs a prefetch, so this does
/// nothing else.
pub(crate) unsafe extern "C" fn advise_mr(pd: *mut ibv_pd, advice: u32, flags: u32, list: *mut ibv_sge, count: u32) -> c_int {
    status(|| {
        // SAFETY: the caller names a PD of ours, and so an open context.
        let device = unsafe { device_of((*not_null(pd)?).context) }?;
        if device.on_demand_paging == 0 {
            return Err(refuse("advice on memory (ibv_advise_mr) on this HCA"));
        }
        if advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || count == 0 {
            return Err(Errno(libc::EINVAL));
        }
        not_null(list).map(|_| ())
    })
}

/// Returns 0: forked programs need no preparation, because the engine uses each process's own
/// mappings.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_fork_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_is_fork_initialized() -> u32 {
    IBV_FORK_UNNEEDED
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_writes_need_local_ones() {
        assert_eq!(check_registration(4096, 64, IBV_ACCESS_REMOTE_WRITE, Offered::default()), Err(Errno(libc::EINVAL)));
        assert_eq!(check_registration(4096, 64, IBV_ACCESS_REMOTE_READ, Offered::default()), Ok(IBV_ACCESS_REMOTE_READ));
        assert_eq!(
            check_registration(4096, 64, WRITABLE | IBV_ACCESS_RELAXED_ORDERING, Offered::default()),
            Ok(WRITABLE),
            "optional bits are dropped"
        );
    }

    #[test]
    fn nothing_and_more_than_the_address_space_cannot_be_registered() {
        assert_eq!(check_registration(4096, 0, 1, Offered::default()), Err(Errno(libc::EINVAL)));
        assert_eq!(check_registration(u64::MAX - 3, 8, 1, Offered::default()), Err(Errno(libc::EINVAL)));
    }
}

//! Address handles.

use crate::context::context;
use crate::convert::{address_vector, narrow};
use crate::direct::route_of;
use crate::guard::{not_null, object, status};
use libc::c_int;
use softband_abi::verbs::{IBV_LINK_LAYER_ETHERNET, ibv_ah, ibv_ah_attr, ibv_pd};
use softband_client::{Errno, call};
use softband_ipc::calls::{AhReply, CreateAh, Handle, op};
use softband_ipc::post::{self, GlobalRoute, PostRecord};

/// An address handle: the header's structure, and our part.
#[repr(C)]
struct Ah {
    abi: ibv_ah,
    pd: u32,
    /// Path for posting threads ([`post::path`]), or 0 if they cannot use it.
    path: u32,
    /// Global route, valid if the path has the flag `HAS_ROUTE`.
    route: GlobalRoute,
}

/// Writes the destination of a datagram into its record: the engine's handle, and the path if a
/// queue pair of domain `pd` sends it itself.
///
/// # Safety
/// `abi_ah` is NULL or an address handle of ours.
#[inline(always)]
pub(crate) unsafe fn address(record: &mut PostRecord, abi_ah: *mut ibv_ah, pd: u32) -> Result<(), Errno> {
    // SAFETY: the caller promises a valid handle, and programs keep the pointer to the whole box.
    let ah = unsafe { &*not_null(abi_ah)?.cast::<Ah>() };
    (record.ah, record.path) = (ah.abi.handle, if ah.pd == pd { ah.path } else { 0 });
    if record.path & post::HAS_ROUTE != 0 {
        record.set_route(&ah.route);
    }
    Ok(())
}

/// Returns the path to the destination. Its LID is the program's, or the engine's resolution of the
/// GID.
fn path_of(attributes: &ibv_ah_attr, reply: &AhReply) -> u32 {
    let dlid = narrow(reply.dlid);
    let is_plain = attributes.src_path_bits == 0 && (dlid < post::MULTICAST_LIDS || attributes.is_global != 0);
    let has_route = if attributes.is_global == 0 { 0 } else { post::HAS_ROUTE };
    let layer = if reply.link_layer == u32::from(IBV_LINK_LAYER_ETHERNET as u8) { post::ON_ETHERNET } else { 0 };
    if is_plain { post::path(dlid, attributes.sl) | has_route | layer } else { 0 }
}

/// Creates an address handle.
///
/// # Safety
/// `pd` is NULL or a PD of ours.
pub(crate) unsafe fn create(pd: *mut ibv_pd, attributes: &ibv_ah_attr) -> Result<*mut ibv_ah, Errno> {
    // SAFETY: the caller promises a PD of ours, and so an open context.
    let (abi_context, pd_handle, hca) = unsafe {
        let known = &*not_null(pd)?;
        (known.context, known.handle, context(known.context)?.hca)
    };
    let reply = call::<op::CreateAh>(&CreateAh { pd: pd_handle, hca, vector: address_vector(attributes) })?;
    let abi = ibv_ah { context: abi_context, pd, handle: reply.handle };
    let route = route_of(attributes, reply.source_ipv4);
    Ok(Box::into_raw(Box::new(Ah { abi, pd: pd_handle, path: path_of(attributes, &reply), route })).cast())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller names a PD of ours and readable attributes.
    object(|| unsafe { create(pd, &*not_null(attributes)?) })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_ah(abi_ah: *mut ibv_ah) -> c_int {
    status(|| {
        // SAFETY: the caller names an address handle of ours.
        let handle = unsafe { (*not_null(abi_ah)?).handle };
        call::<op::DestroyAh>(&Handle { handle, reserved: 0 })?;
        // SAFETY: `create` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(abi_ah.cast::<Ah>()) });
        Ok(())
    })
}

//! Address handles.

use crate::context::context;
use crate::convert::address_vector;
use crate::guard::{not_null, object, status};
use libc::c_int;
use softband_abi::verbs::{ibv_ah, ibv_ah_attr, ibv_pd};
use softband_client::{Errno, call, call_void};
use softband_ipc::calls::{CreateAh, Handle, Op};

/// The engine's handle of an address handle.
///
/// # Safety
/// `shown` is NULL or an address handle of ours.
pub(crate) unsafe fn handle(shown: *mut ibv_ah) -> Result<u32, Errno> {
    // SAFETY: the caller's promise.
    Ok(unsafe { (*not_null(shown)?).handle })
}

/// Makes an address handle.
///
/// # Safety
/// `pd` is NULL or a PD of ours.
pub(crate) unsafe fn create(pd: *mut ibv_pd, attributes: &ibv_ah_attr) -> Result<*mut ibv_ah, Errno> {
    // SAFETY: the caller's promise, and with it an open context.
    let (shown, pd_handle, hca) = unsafe {
        let known = &*not_null(pd)?;
        (known.context, known.handle, context(known.context)?.hca)
    };
    let Handle { handle, .. } = call(Op::CreateAh, &CreateAh { pd: pd_handle, hca, vector: address_vector(attributes) })?;
    Ok(Box::into_raw(Box::new(ibv_ah { context: shown, pd, handle })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller names a PD of ours and gives the attributes to be read.
    object(|| unsafe { create(pd, &*not_null(attributes)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(shown: *mut ibv_ah) -> c_int {
    status(|| {
        // SAFETY: the caller names an address handle of ours.
        let handle = unsafe { handle(shown) }?;
        call_void(Op::DestroyAh, &Handle { handle, reserved: 0 })?;
        // SAFETY: `create` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(shown) });
        Ok(())
    })
}

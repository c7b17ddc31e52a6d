//! Attributes of devices and ports.

use crate::context::context;
use crate::convert::narrow;
use crate::device::{self, c_text, text_of};
use crate::guard::{guarded, minus_one, not_null, status};
use crate::unsupported::refuse;
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{Device, PortQuery, PortReply, op};

/// Entries of a port's P_Key table. Entries that the subnet manager did not set are 0.
const PKEY_TABLE_LEN: u16 = 32;
/// Rate of the HCA's clock: one tick per nanosecond of simulated time.
const HCA_CLOCK_KHZ: u64 = 1_000_000;
/// Longest message of the specification: 2^31 bytes (IBTA C9-8).
const MESSAGE_BYTES_MAX: u32 = 1 << 31;
/// Supported page sizes: 4 KiB and larger.
const PAGE_SIZES: u64 = 0xFFFF_F000;
/// Time code that most HCAs of the period reported: 4.096 us x 2^15.
const CA_ACK_DELAY_CODE: u8 = 15;
/// Time code that OpenSM sets: 4.096 us x 2^18.
const SUBNET_TIMEOUT_CODE: u8 = 18;

/// Returns the present attributes of a port.
///
/// # Safety
/// `abi_context` is an open context of ours.
pub(crate) unsafe fn port(abi_context: *mut ibv_context, port: u32) -> Result<PortReply, Errno> {
    // SAFETY: an open context of ours knows its HCA.
    let hca = unsafe { context(abi_context) }?.hca;
    call::<op::PortQuery>(&PortQuery { hca, port })
}

/// Returns the engine's description of the device of `abi_context`.
///
/// # Safety
/// `abi_context` is an open context of ours.
pub(crate) unsafe fn device_of<'a>(abi_context: *mut ibv_context) -> Result<&'a Device, Errno> {
    // SAFETY: the caller promises an open context, and its device is ours.
    unsafe { device::facts((*not_null(abi_context)?).device) }
}

fn device_attributes(device: &Device) -> ibv_device_attr {
    let count = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    ibv_device_attr {
        fw_ver: c_text(&text_of(&device.firmware_version)),
        node_guid: device.node_guid.to_be(),
        sys_image_guid: device.node_guid.to_be(),
        max_mr_size: u64::MAX,
        page_size_cap: PAGE_SIZES,
        vendor_id: device.vendor_id,
        vendor_part_id: device.vendor_part_id,
        hw_ver: device.hardware_version,
        max_qp: count(device.max_qp),
        max_qp_wr: count(device.max_qp_wr),
        device_cap_flags: capability_flags(device),
        max_sge: count(device.max_sge),
        max_sge_rd: count(device.max_sge),
        max_cq: count(device.max_cq),
        max_cqe: count(device.max_cqe),
        max_mr: count(device.max_mr),
        max_pd: count(device.max_pd),
        max_qp_rd_atom: count(device.max_rd_atomic),
        max_ee_rd_atom: 0,
        max_res_rd_atom: count(device.max_rd_atomic.saturating_mul(device.max_qp)),
        max_qp_init_rd_atom: count(device.max_rd_atomic),
        max_ee_init_rd_atom: 0,
        atomic_cap: IBV_ATOMIC_HCA,
        max_ee: 0,
        max_rdd: 0,
        max_mw: count(device.max_mw),
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: count(device.max_multicast_groups),
        max_mcast_qp_attach: count(device.max_multicast_members),
        max_total_mcast_qp_attach: count(device.max_multicast_groups.saturating_mul(device.max_multicast_members)),
        max_ah: count(device.max_ah),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: count(device.max_srq),
        max_srq_wr: count(device.max_srq_wr),
        max_srq_sge: count(device.max_srq_sge),
        max_pkeys: PKEY_TABLE_LEN,
        local_ca_ack_delay: CA_ACK_DELAY_CODE,
        phys_port_cnt: narrow(device.ports),
    }
}

fn capability_flags(device: &Device) -> u32 {
    let offered = |count: u32, flags: u32| if count > 0 { flags } else { 0 };
    IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN
        | IBV_DEVICE_UD_AV_PORT_ENFORCE
        | offered(device.max_srq, IBV_DEVICE_SRQ_RESIZE)
        | offered(device.max_xrcd, IBV_DEVICE_XRC)
        | offered(device.max_mw, IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS)
}

/// Returns the on-demand capabilities. All accesses use the program's own page tables, so every
/// transport can fault.
fn on_demand_capabilities(device: &Device) -> (ibv_odp_caps, u32) {
    if device.on_demand_paging == 0 {
        return (ibv_odp_caps { general_caps: 0, per_transport_caps: [0; 3] }, 0);
    }
    let messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | if device.max_srq > 0 { IBV_ODP_SUPPORT_SRQ_RECV } else { 0 };
    let reliable = messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    let caps = ibv_odp_caps {
        general_caps: u64::from(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT),
        per_transport_caps: [reliable, messages | IBV_ODP_SUPPORT_WRITE, messages],
    };
    (caps, if device.max_xrcd > 0 { reliable } else { 0 })
}

fn extended_attributes(device: &Device) -> ibv_device_attr_ex {
    let (odp_caps, xrc_odp_caps) = on_demand_capabilities(device);
    ibv_device_attr_ex {
        orig_attr: device_attributes(device),
        comp_mask: 0,
        odp_caps,
        completion_timestamp_mask: u64::MAX,
        hca_core_clock: HCA_CLOCK_KHZ,
        device_cap_flags_ex: u64::from(device_attributes(device).device_cap_flags),
        tso_caps: ibv_tso_caps { max_tso: 0, supported_qpts: 0 },
        rss_caps: ibv_rss_caps {
            supported_qpts: 0,
            max_rwq_indirection_tables: 0,
            max_rwq_indirection_table_size: 0,
            rx_hash_fields_mask: 0,
            rx_hash_function: 0,
        },
        max_wq_type_rq: 0,
        packet_pacing_caps: ibv_packet_pacing_caps { qp_rate_limit_min: 0, qp_rate_limit_max: 0, supported_qpts: 0 },
        raw_packet_caps: 0,
        tm_caps: ibv_tm_caps { max_rndv_hdr_size: 0, max_num_tags: 0, flags: 0, max_ops: 0, max_sge: 0 },
        cq_mod_caps: ibv_cq_moderation_caps { max_cq_count: 0, max_cq_period: 0 },
        max_dm_size: 0,
        pci_atomic_caps: ibv_pci_atomic_caps { fetch_add: 0, swap: 0, compare_swap: 0 },
        xrc_odp_caps,
        phys_port_cnt_ex: device.ports,
    }
}

fn port_attributes(port: &PortReply, gid_table_len: u32) -> ibv_port_attr {
    let is_ethernet = port.link_layer == u32::from(IBV_LINK_LAYER_ETHERNET as u8);
    ibv_port_attr {
        state: port.state,
        max_mtu: port.mtu_max_code,
        active_mtu: port.mtu_active_code,
        gid_tbl_len: c_int::try_from(gid_table_len).unwrap_or(c_int::MAX),
        port_cap_flags: if is_ethernet { IBV_PORT_IP_BASED_GIDS } else { IBV_PORT_SL_MAP_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP },
        max_msg_sz: MESSAGE_BYTES_MAX,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: pkey_table_len(port),
        lid: narrow(port.lid),
        sm_lid: narrow(port.sm_lid),
        lmc: narrow(port.lmc),
        max_vl_num: narrow(port.vl_cap_code),
        sm_sl: 0,
        // Ethernet has no subnet manager that could set it.
        subnet_timeout: if is_ethernet { 0 } else { SUBNET_TIMEOUT_CODE },
        init_type_reply: 0,
        active_width: narrow(port.width_code),
        // As in the kernel: a value that does not fit into the old field stands only in the new
        // one.
        active_speed: u8::try_from(port.speed_code).unwrap_or(0),
        phys_state: narrow(port.physical_state),
        link_layer: narrow(port.link_layer),
        flags: 0,
        port_cap_flags2: 0,
    }
}

/// Returns the length of a P_Key table. An Ethernet port has only the default partition.
fn pkey_table_len(port: &PortReply) -> u16 {
    if port.link_layer == u32::from(IBV_LINK_LAYER_ETHERNET as u8) { 1 } else { PKEY_TABLE_LEN }
}

/// Port attributes of rdma-core since XDR, whose code exceeds `active_speed`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PortAttributes {
    known_to_44: ibv_port_attr,
    active_speed_ex: u32,
}

/// Copies the first `bytes` of `value` to `to`, because the caller may know another version of the
/// structure. Fills the rest with zeros.
///
/// # Safety
/// `to` points to `bytes` writable bytes.
unsafe fn copy_head<T: Copy>(value: &T, to: *mut c_void, bytes: usize) {
    let known = bytes.min(size_of::<T>());
    // SAFETY: the caller promises `bytes` writable bytes at `to`, and `known` does not
    // exceed the size of `value`.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), to.cast(), known);
        std::ptr::write_bytes(to.cast::<u8>().add(known), 0, bytes - known);
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_device(abi_context: *mut ibv_context, attributes: *mut ibv_device_attr) -> c_int {
    status(|| {
        // SAFETY: the caller names an open context and writable attributes.
        unsafe { not_null(attributes)?.write(device_attributes(device_of(abi_context)?)) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn query_device_ex(
    abi_context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the input is NULL or readable.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0) {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the caller names an open context and the number of writable bytes.
        unsafe { copy_head(&extended_attributes(device_of(abi_context)?), not_null(attributes)?.cast(), bytes) };
        Ok(())
    })
}

/// Entry point of programs built before 2019, whose structure ends before `port_cap_flags2`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_port(abi_context: *mut ibv_context, number: u8, attributes: *mut c_void) -> c_int {
    // SAFETY: the caller names an open context and a structure of at least this old size.
    unsafe { query_port(abi_context, number, attributes.cast(), COMPAT_PORT_ATTR_BYTES) }
}

pub(crate) unsafe extern "C" fn query_port(abi_context: *mut ibv_context, number: u8, attributes: *mut ibv_port_attr, bytes: usize) -> c_int {
    status(|| {
        // SAFETY: the caller names an open context and the number of writable bytes.
        unsafe {
            let port = port(abi_context, u32::from(number))?;
            let known_to_44 = port_attributes(&port, device_of(abi_context)?.gid_table_len);
            copy_head(&PortAttributes { known_to_44, active_speed_ex: port.speed_code }, not_null(attributes)?.cast(), bytes);
        };
        Ok(())
    })
}

/// Returns the filled entries of a port's GID table.
pub(crate) fn gid_entries(port: &PortReply, number: u32) -> impl Iterator<Item = ibv_gid_entry> {
    let is_ethernet = port.link_layer == u32::from(IBV_LINK_LAYER_ETHERNET as u8);
    let (gid_type, ndev_ifindex) = (if is_ethernet { IBV_GID_TYPE_ROCE_V2 } else { IBV_GID_TYPE_IB }, port.interface_index);
    let entry = move |(index, raw)| ibv_gid_entry { gid: ibv_gid { raw }, gid_index: index as u32, port_num: number, gid_type, ndev_ifindex };
    port.gids.into_iter().take(port.gid_count as usize).enumerate().map(entry)
}

/// Returns an entry of a GID table, or `None` if it is not filled.
///
/// # Safety
/// `abi_context` is an open context of ours.
unsafe fn gid_entry(abi_context: *mut ibv_context, number: u32, index: u32) -> Result<Option<ibv_gid_entry>, Errno> {
    // SAFETY: both come from the same open context.
    let (port, table_len) = unsafe { (port(abi_context, number)?, device_of(abi_context)?.gid_table_len) };
    if index >= table_len {
        return Err(Errno(libc::EINVAL));
    }
    Ok(gid_entries(&port, number).nth(index as usize))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_gid(abi_context: *mut ibv_context, number: u8, index: c_int, gid: *mut ibv_gid) -> c_int {
    minus_one(|| {
        let index = u32::try_from(index).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: the caller names an open context and a writable GID.
        unsafe { not_null(gid)?.write(gid_entry(abi_context, u32::from(number), index)?.map_or(ibv_gid { raw: [0; 16] }, |entry| entry.gid)) };
        Ok(0)
    })
}

/// Returns the GID type with the values of the kernel's files: 1 for RoCE v2, 0 for all others.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_gid_type(abi_context: *mut ibv_context, number: u8, index: u32, kind: *mut u32) -> c_int {
    minus_one(|| {
        // SAFETY: the caller names an open context and a writable type.
        unsafe {
            let entry = gid_entry(abi_context, u32::from(number), index)?;
            not_null(kind)?.write(u32::from(entry.is_some_and(|entry| entry.gid_type == IBV_GID_TYPE_ROCE_V2)));
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _ibv_query_gid_ex(
    abi_context: *mut ibv_context,
    number: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    bytes: usize,
) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(refuse("a flag of ibv_query_gid_ex"));
        }
        // SAFETY: the caller names an open context and the number of writable bytes.
        unsafe { copy_head(&gid_entry(abi_context, number, index)?.ok_or(Errno(libc::ENODATA))?, not_null(entry)?.cast(), bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _ibv_query_gid_table(
    abi_context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    entries_max: usize,
    flags: u32,
    bytes: usize,
) -> isize {
    let filled = || -> Result<isize, Errno> {
        if flags != 0 {
            return Err(refuse("a flag of ibv_query_gid_table"));
        }
        let mut filled = 0;
        // SAFETY: the caller names an open context.
        for number in 1..=unsafe { device_of(abi_context) }?.ports {
            // SAFETY: the caller names an open context.
            for entry in gid_entries(&unsafe { port(abi_context, number) }?, number) {
                if filled >= entries_max {
                    return Err(Errno(libc::EINVAL));
                }
                // SAFETY: the caller gives `entries_max` entries of `bytes` each, and the check
                // above ensures room.
                unsafe { copy_head(&entry, not_null(entries)?.cast::<u8>().add(filled * bytes).cast(), bytes) };
                filled += 1;
            }
        }
        Ok(filled as isize)
    };
    guarded(-(libc::EIO as isize), || filled().unwrap_or_else(|Errno(errno)| -(errno as isize)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_pkey(abi_context: *mut ibv_context, number: u8, index: c_int, pkey: *mut u16) -> c_int {
    minus_one(|| {
        // SAFETY: the caller names an open context.
        let port = unsafe { port(abi_context, u32::from(number)) }?;
        let table = &port.pkeys[..usize::from(pkey_table_len(&port))];
        let key = usize::try_from(index).ok().and_then(|index| table.get(index)).ok_or(Errno(libc::EINVAL))?;
        // SAFETY: the caller gives a writable key.
        unsafe { not_null(pkey)?.write(key.to_be()) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_pkey_index(abi_context: *mut ibv_context, number: u8, pkey: u16) -> c_int {
    minus_one(|| {
        // SAFETY: the caller names an open context.
        let port = unsafe { port(abi_context, u32::from(number)) }?;
        let known = &port.pkeys[..(port.pkey_count as usize).min(port.pkeys.len())];
        let index = known.iter().position(|key| key.to_be() == pkey);
        index.map(|index| index as c_int).ok_or(Errno(libc::EINVAL))
    })
}

/// Reads the HCA's clock, which shows simulated time. Its ticks are nanoseconds, as providers of
/// real HCAs return them.
pub(crate) unsafe extern "C" fn query_rt_values(abi_context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    status(|| {
        let values = not_null(values)?;
        // SAFETY: the caller names an open context and gives the values readable and writable.
        unsafe {
            context(abi_context)?;
            if (*values).comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
                return Err(Errno(libc::EINVAL));
            }
            if (*values).comp_mask & IBV_VALUES_MASK_RAW_CLOCK != 0 {
                (*values).raw_clock = libc::timespec { tv_sec: 0, tv_nsec: (softband_client::now_ps() / 1000) as i64 };
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn a_caller_that_knows_a_shorter_structure_gets_only_that_much() {
        let mut port = PortReply::zeroed();
        (port.state, port.lid, port.width_code, port.speed_code) = (4, 7, 2, 1);
        let attributes = port_attributes(&port, 1);
        let mut room = [0xAA_u8; 64];
        // SAFETY: the room has 64 bytes.
        unsafe { copy_head(&attributes, room.as_mut_ptr().cast(), COMPAT_PORT_ATTR_BYTES) };
        assert_eq!(room[0], 4);
        assert_eq!(u16::from_ne_bytes([room[34], room[35]]), 7);
        assert!(room[COMPAT_PORT_ATTR_BYTES..].iter().all(|byte| *byte == 0xAA));
        // SAFETY: the room has 64 bytes.
        unsafe { copy_head(&attributes, room.as_mut_ptr().cast(), 64) };
        assert!(room[size_of::<ibv_port_attr>()..].iter().all(|byte| *byte == 0), "what we do not know is zero");
    }

    #[test]
    fn a_speed_beyond_eight_bits_stands_in_the_new_field_alone() {
        let mut port = PortReply::zeroed();
        for (code, old) in [(128, 128), (256, 0)] {
            port.speed_code = code;
            assert_eq!(port_attributes(&port, 1).active_speed, old);
        }
        assert_eq!(std::mem::offset_of!(PortAttributes, active_speed_ex), 52);
    }

    #[test]
    fn a_device_says_what_the_engine_said() {
        let mut device = Device::zeroed();
        (device.node_guid, device.ports, device.max_qp, device.max_rd_atomic) = (0x0002_c903_0000_0001, 2, 65_536, 128);
        let attributes = device_attributes(&device);
        assert_eq!(attributes.node_guid.to_ne_bytes(), [0, 2, 0xc9, 3, 0, 0, 0, 1], "in network order");
        assert_eq!((attributes.phys_port_cnt, attributes.max_res_rd_atom), (2, 65_536 * 128));
    }
}

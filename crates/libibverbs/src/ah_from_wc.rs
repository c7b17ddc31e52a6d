//! The return address of a datagram.

use crate::convert::narrow;
use crate::guard::{minus_one, not_null, object};
use crate::{ah, query};
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::Errno;
use softband_types::Gid;

/// Fields of the first word of a GRH, from the top: version, traffic class, flow label.
const FLOW_LABEL_MASK: u32 = 0x000F_FFFF;
const TRAFFIC_CLASS_SHIFT: u32 = 20;
/// First byte of an IPv4 header without options. In a GRH, this place lies within the source's
/// interface ID.
const IPV4_WITHOUT_OPTIONS: u8 = 0x45;

/// Returns the source address of a completion. `grh` is given only if the completion has a GRH.
fn reply_address(wc: &ibv_wc, grh: Option<&ibv_grh>, port_num: u8) -> ibv_ah_attr {
    let mut address = ibv_ah_attr {
        grh: ibv_global_route { dgid: ibv_gid { raw: [0; 16] }, flow_label: 0, sgid_index: 0, hop_limit: 0, traffic_class: 0 },
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        static_rate: 0,
        is_global: 0,
        port_num,
    };
    if let Some(grh) = grh {
        let word = u32::from_be(grh.version_tclass_flow);
        address.is_global = 1;
        address.grh.dgid = grh.sgid;
        address.grh.flow_label = word & FLOW_LABEL_MASK;
        address.grh.traffic_class = (word >> TRAFFIC_CLASS_SHIFT) as u8;
        address.grh.hop_limit = grh.hop_limit;
    }
    address
}

/// Returns the header before a datagram's payload as a GRH. An IPv4 header stands in the last
/// twenty bytes, and this converts it.
fn as_grh(header: [u8; 40]) -> ibv_grh {
    let [saddr, daddr] = [&header[32..36], &header[36..]].map(|address| [address[0], address[1], address[2], address[3]]);
    if header[0] >> 4 == 6 || header[20] != IPV4_WITHOUT_OPTIONS {
        // SAFETY: any forty bytes are a GRH.
        return unsafe { header.as_ptr().cast::<ibv_grh>().read_unaligned() };
    }
    let gid = |address| ibv_gid { raw: Gid::of_ipv4(address).0 };
    ibv_grh {
        version_tclass_flow: (u32::from(header[21]) << TRAFFIC_CLASS_SHIFT).to_be(),
        paylen: u16::from_be_bytes([header[22], header[23]]).to_be(),
        next_hdr: header[29],
        hop_limit: header[28],
        sgid: gid(saddr),
        dgid: gid(daddr),
    }
}

/// # Safety
/// The pointers are what the manual page of `ibv_init_ah_from_wc` asks for.
unsafe fn from_completion(abi_context: *mut ibv_context, port_num: u8, wc: *mut ibv_wc, grh: *mut ibv_grh) -> Result<ibv_ah_attr, Errno> {
    // SAFETY: the program passes a completion that it polled.
    let wc = unsafe { &*not_null(wc)? };
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return Ok(reply_address(wc, None, port_num));
    }
    // SAFETY: the caller promises a valid header. It lies in the receive buffer, at any alignment.
    let grh = as_grh(unsafe { not_null(grh)?.cast::<[u8; 40]>().read_unaligned() });
    // SAFETY: the caller names an open context, and any sixteen bytes are a GID.
    let (port, wanted) = unsafe { (query::port(abi_context, u32::from(port_num))?, grh.dgid.raw) };
    // SAFETY: any sixteen bytes are a GID, so each view of the union is valid.
    let own = query::gid_entries(&port, u32::from(port_num)).find(|entry| unsafe { entry.gid.raw } == wanted);
    let is_of_group = Gid(wanted).is_multicast() && port.link_layer == u32::from(IBV_LINK_LAYER_ETHERNET as u8);
    let index = match own {
        Some(entry) => entry.gid_index,
        // A reply to a group's datagram uses the port's address of the same kind.
        None if is_of_group => u32::from(Gid(wanted).ipv4().is_some()),
        None => return Err(Errno(libc::ENOENT)),
    };
    let mut address = reply_address(wc, Some(&grh), port_num);
    address.grh.sgid_index = narrow(index);
    Ok(address)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_init_ah_from_wc(
    abi_context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    address: *mut ibv_ah_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the caller names a completion, its GRH, a context and a writable address.
        unsafe { not_null(address)?.write(from_completion(abi_context, port_num, wc, grh)?) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_ah_from_wc(pd: *mut ibv_pd, wc: *mut ibv_wc, grh: *mut ibv_grh, port_num: u8) -> *mut ibv_ah {
    // SAFETY: the caller names a PD of ours, a completion and its GRH; a PD names an open context.
    object(|| unsafe { ah::create(pd, &from_completion((*not_null(pd)?).context, port_num, wc, grh)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_goes_to_where_the_grh_says() {
        let wc = crate::convert::work_completion(&softband_ipc::ring::Cqe { source_lid: 5, service_level: 3, ..bytemuck::Zeroable::zeroed() });
        let plain = reply_address(&wc, None, 1);
        assert_eq!((plain.dlid, plain.sl, plain.is_global, plain.port_num), (5, 3, 0, 1));
        let grh = ibv_grh {
            version_tclass_flow: 0x6AB1_2345_u32.to_be(),
            paylen: 0,
            next_hdr: 0x1B,
            hop_limit: 64,
            sgid: ibv_gid { raw: [7; 16] },
            dgid: ibv_gid { raw: [8; 16] },
        };
        let global = reply_address(&wc, Some(&grh), 1);
        // SAFETY: any sixteen bytes are a GID.
        assert_eq!(unsafe { global.grh.dgid.raw }, [7; 16]);
        assert_eq!((global.grh.flow_label, global.grh.traffic_class, global.grh.hop_limit), (0x1_2345, 0xAB, 64));
    }

    #[test]
    fn a_header_of_ipv4_names_both_by_their_mapped_addresses() {
        let way = softband_wire::ethernet::Way { traffic_class: 0xAB, flow_label: 0, hop_limit: 9 };
        let (from, to) = (Gid::of_ipv4([10, 77, 0, 1]), Gid::of_ipv4([10, 77, 0, 2]));
        let grh = as_grh(softband_wire::ethernet::route_header(from, to, way, 32));
        // SAFETY: any sixteen bytes are a GID.
        assert_eq!(unsafe { (grh.sgid.raw, grh.dgid.raw) }, (from.0, to.0));
        assert_eq!((u32::from_be(grh.version_tclass_flow) >> TRAFFIC_CLASS_SHIFT, grh.hop_limit), (0xAB, 9));
    }
}

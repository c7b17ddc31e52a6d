//! Settings of a subnet manager.

use crate::link::{ArbitrationTables, Sl2Vl};
use crate::management::Routing;
use crate::switch::PacketLifetimes;
use softband_sim::SimDuration;
use softband_types::{Guid, Lmc, Mtu, OperationalVls, PKey};
use std::collections::BTreeMap;

/// Mapping of a port's service levels to lanes, and its arbitration tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortClasses {
    /// Weights of the lanes.
    pub tables: ArbitrationTables,
    /// Lane of each service level.
    pub sl2vl: Sl2Vl,
}

/// The administrator's settings of a subnet manager.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Nodes that come first, in this order, when the manager numbers LIDs and switches. All others
    /// follow by ascending GUID. The default is empty.
    pub order: Vec<Guid>,
    /// A link uses the minimum of this code and both ports' VLCap.
    pub max_op_vls: OperationalVls,
    /// LMC of the ports of HCAs. The default is 0.
    pub lmc: Lmc,
    /// Upper limit of the MTU of every link.
    pub mtu_max: Mtu,
    /// Engine that computes the routes.
    pub routing: Routing,
    /// Classes of ports of HCAs. `None`: the manager leaves their tables.
    pub hca: Option<PortClasses>,
    /// Classes of external ports of switches. `None`: the manager leaves their tables, unless the
    /// routing engine chooses lanes.
    pub switch: Option<PortClasses>,
    /// P_Key tables by the GUID of an HCA's port. All other ports are full members of the default
    /// partition.
    pub pkeys: BTreeMap<Guid, Vec<PKey>>,
    /// Limits for packets that wait in switches. The default is OpenSM's.
    pub lifetimes: PacketLifetimes,
    /// M_Key that the manager sends, and that it gives all ports. 0 protects nothing.
    pub m_key: u64,
    /// SM_Key, by which other managers know this one. The default is OpenSM's, 1.
    pub sm_key: u64,
    /// Priority among managers, from 0 to 15.
    pub priority: u8,
    /// Most requests under way at a time. The default is 16.
    pub window: usize,
    /// Time after which a request without an answer is sent again. The default is 200 ms.
    pub timeout: SimDuration,
    /// Number of times that a request is sent again. The default is 3.
    pub retries: u8,
    /// Most sweeps in a row. A sweep follows another if a node vanished. The default is 3.
    pub sweeps_max: u8,
    /// Time between the end of a sweep and the next. `None`, the default: only traps cause sweeps.
    pub sweep_interval: Option<SimDuration>,
}

impl Default for Configuration {
    /// Returns OpenSM's defaults, and no limit on lanes and MTU beyond those of the ports.
    fn default() -> Self {
        Self {
            order: Vec::new(),
            max_op_vls: OperationalVls::from_code(5).expect("code 5 is VL0-14"),
            lmc: Lmc::ZERO,
            mtu_max: Mtu::B4096,
            routing: Routing::default(),
            hca: None,
            switch: None,
            pkeys: BTreeMap::new(),
            lifetimes: PacketLifetimes::default(),
            m_key: 0,
            sm_key: 1,
            priority: 0,
            window: 16,
            timeout: SimDuration::from_micros(200_000),
            retries: 3,
            sweeps_max: 3,
            sweep_interval: None,
        }
    }
}

//! The component masks of records: fields that the SA compares in a request.

use crate::mad::codes::flags;

flags! {
    /// Fields of a record that the SA compares in a request (IBTA 15.2.1.1). Bit n is the field n
    /// of the record's table, and reserved fields count, too.
    pub struct ComponentMask(u64) {
        /// [`NodeRecord::lid`](super::NodeRecord::lid).
        NODE_LID = 1 << 0;
        /// [`NodeInfo::base_version`](crate::mad::NodeInfo::base_version) in NodeRecord.
        NODE_BASE_VERSION = 1 << 2;
        /// [`NodeInfo::class_version`](crate::mad::NodeInfo::class_version) in NodeRecord.
        NODE_CLASS_VERSION = 1 << 3;
        /// [`NodeInfo::node_type`](crate::mad::NodeInfo::node_type) in NodeRecord.
        NODE_NODE_TYPE = 1 << 4;
        /// [`NodeInfo::num_ports`](crate::mad::NodeInfo::num_ports) in NodeRecord.
        NODE_NUM_PORTS = 1 << 5;
        /// [`NodeInfo::system_image_guid`](crate::mad::NodeInfo::system_image_guid) in NodeRecord.
        NODE_SYSTEM_IMAGE_GUID = 1 << 6;
        /// [`NodeInfo::node_guid`](crate::mad::NodeInfo::node_guid) in NodeRecord.
        NODE_NODE_GUID = 1 << 7;
        /// [`NodeInfo::port_guid`](crate::mad::NodeInfo::port_guid) in NodeRecord.
        NODE_PORT_GUID = 1 << 8;
        /// [`NodeInfo::partition_cap`](crate::mad::NodeInfo::partition_cap) in NodeRecord.
        NODE_PARTITION_CAP = 1 << 9;
        /// [`NodeInfo::device_id`](crate::mad::NodeInfo::device_id) in NodeRecord.
        NODE_DEVICE_ID = 1 << 10;
        /// [`NodeInfo::revision`](crate::mad::NodeInfo::revision) in NodeRecord.
        NODE_REVISION = 1 << 11;
        /// [`NodeInfo::local_port_num`](crate::mad::NodeInfo::local_port_num) in NodeRecord.
        NODE_LOCAL_PORT_NUM = 1 << 12;
        /// [`NodeInfo::vendor_id`](crate::mad::NodeInfo::vendor_id) in NodeRecord.
        NODE_VENDOR_ID = 1 << 13;
        /// [`NodeRecord::node_description`](super::NodeRecord::node_description).
        NODE_NODE_DESCRIPTION = 1 << 14;
        /// [`PortInfoRecord::end_port_lid`](super::PortInfoRecord::end_port_lid).
        PORT_END_PORT_LID = 1 << 0;
        /// [`PortInfoRecord::port_num`](super::PortInfoRecord::port_num).
        PORT_PORT_NUM = 1 << 1;
        /// [`PortInfoRecord::options`](super::PortInfoRecord::options).
        PORT_OPTIONS = 1 << 2;
        /// [`PortInfo::m_key`](crate::mad::PortInfo::m_key) in PortInfoRecord.
        PORT_M_KEY = 1 << 3;
        /// [`PortInfo::gid_prefix`](crate::mad::PortInfo::gid_prefix) in PortInfoRecord.
        PORT_GID_PREFIX = 1 << 4;
        /// [`PortInfo::lid`](crate::mad::PortInfo::lid) in PortInfoRecord.
        PORT_LID = 1 << 5;
        /// [`PortInfo::master_sm_lid`](crate::mad::PortInfo::master_sm_lid) in PortInfoRecord.
        PORT_MASTER_SM_LID = 1 << 6;
        /// [`PortInfo::capability_mask`](crate::mad::PortInfo::capability_mask) in PortInfoRecord.
        PORT_CAPABILITY_MASK = 1 << 7;
        /// [`PortInfo::port_state`](crate::mad::PortInfo::port_state) in PortInfoRecord.
        PORT_PORT_STATE = 1 << 15;
        /// [`PortInfo::capability_mask2`](crate::mad::PortInfo::capability_mask2) in PortInfoRecord.
        PORT_CAPABILITY_MASK_2 = 1 << 53;
        /// [`SlToVlMappingTableRecord::lid`](super::SlToVlMappingTableRecord::lid).
        SL_TO_VL_LID = 1 << 0;
        /// [`SlToVlMappingTableRecord::input_port_num`](super::SlToVlMappingTableRecord::input_port_num).
        SL_TO_VL_INPUT_PORT_NUM = 1 << 1;
        /// [`SlToVlMappingTableRecord::output_port_num`](super::SlToVlMappingTableRecord::output_port_num).
        SL_TO_VL_OUTPUT_PORT_NUM = 1 << 2;
        /// [`SwitchInfoRecord::lid`](super::SwitchInfoRecord::lid).
        SWITCH_LID = 1 << 0;
        /// [`LinearForwardingTableRecord::lid`](super::LinearForwardingTableRecord::lid).
        LINEAR_LID = 1 << 0;
        /// [`LinearForwardingTableRecord::block_num`](super::LinearForwardingTableRecord::block_num).
        LINEAR_BLOCK_NUM = 1 << 1;
        /// [`MulticastForwardingTableRecord::lid`](super::MulticastForwardingTableRecord::lid).
        MULTICAST_LID = 1 << 0;
        /// [`MulticastForwardingTableRecord::position`](super::MulticastForwardingTableRecord::position).
        MULTICAST_POSITION = 1 << 1;
        /// [`MulticastForwardingTableRecord::block_num`](super::MulticastForwardingTableRecord::block_num).
        MULTICAST_BLOCK_NUM = 1 << 3;
        /// [`VlArbitrationTableRecord::lid`](super::VlArbitrationTableRecord::lid).
        VL_ARBITRATION_LID = 1 << 0;
        /// [`VlArbitrationTableRecord::output_port_num`](super::VlArbitrationTableRecord::output_port_num).
        VL_ARBITRATION_OUTPUT_PORT_NUM = 1 << 1;
        /// [`VlArbitrationTableRecord::block_num`](super::VlArbitrationTableRecord::block_num).
        VL_ARBITRATION_BLOCK_NUM = 1 << 2;
        /// [`SmInfoRecord::lid`](super::SmInfoRecord::lid).
        SM_LID = 1 << 0;
        /// [`SmInfo::guid`](crate::mad::SmInfo::guid) in SmInfoRecord.
        SM_GUID = 1 << 2;
        /// [`SmInfo::sm_key`](crate::mad::SmInfo::sm_key) in SmInfoRecord.
        SM_SM_KEY = 1 << 3;
        /// [`SmInfo::act_count`](crate::mad::SmInfo::act_count) in SmInfoRecord.
        SM_ACT_COUNT = 1 << 4;
        /// [`SmInfo::priority`](crate::mad::SmInfo::priority) in SmInfoRecord.
        SM_PRIORITY = 1 << 5;
        /// [`SmInfo::sm_state`](crate::mad::SmInfo::sm_state) in SmInfoRecord.
        SM_SM_STATE = 1 << 6;
        /// [`PKeyTableRecord::lid`](super::PKeyTableRecord::lid).
        P_KEY_TABLE_LID = 1 << 0;
        /// [`PKeyTableRecord::block_num`](super::PKeyTableRecord::block_num).
        P_KEY_TABLE_BLOCK_NUM = 1 << 1;
        /// [`PKeyTableRecord::port_num`](super::PKeyTableRecord::port_num).
        P_KEY_TABLE_PORT_NUM = 1 << 2;
        /// [`LinkRecord::from_lid`](super::LinkRecord::from_lid).
        LINK_FROM_LID = 1 << 0;
        /// [`LinkRecord::from_port`](super::LinkRecord::from_port).
        LINK_FROM_PORT = 1 << 1;
        /// [`LinkRecord::to_port`](super::LinkRecord::to_port).
        LINK_TO_PORT = 1 << 2;
        /// [`LinkRecord::to_lid`](super::LinkRecord::to_lid).
        LINK_TO_LID = 1 << 3;
        /// [`GuidInfoRecord::lid`](super::GuidInfoRecord::lid).
        GUID_LID = 1 << 0;
        /// [`GuidInfoRecord::block_num`](super::GuidInfoRecord::block_num).
        GUID_BLOCK_NUM = 1 << 1;
        /// [`ServiceRecord::service_id`](super::ServiceRecord::service_id).
        SERVICE_SERVICE_ID = 1 << 0;
        /// [`ServiceRecord::service_gid`](super::ServiceRecord::service_gid).
        SERVICE_SERVICE_GID = 1 << 1;
        /// [`ServiceRecord::service_p_key`](super::ServiceRecord::service_p_key).
        SERVICE_SERVICE_P_KEY = 1 << 2;
        /// [`ServiceRecord::service_lease`](super::ServiceRecord::service_lease).
        SERVICE_SERVICE_LEASE = 1 << 4;
        /// [`ServiceRecord::service_key`](super::ServiceRecord::service_key).
        SERVICE_SERVICE_KEY = 1 << 5;
        /// [`ServiceRecord::service_name`](super::ServiceRecord::service_name).
        SERVICE_SERVICE_NAME = 1 << 6;
        /// [`PathRecord::dgid`](super::PathRecord::dgid).
        PATH_DGID = 1 << 2;
        /// [`PathRecord::sgid`](super::PathRecord::sgid).
        PATH_SGID = 1 << 3;
        /// [`PathRecord::dlid`](super::PathRecord::dlid).
        PATH_DLID = 1 << 4;
        /// [`PathRecord::slid`](super::PathRecord::slid).
        PATH_SLID = 1 << 5;
        /// [`PathRecord::raw_traffic`](super::PathRecord::raw_traffic).
        PATH_RAW_TRAFFIC = 1 << 6;
        /// [`PathRecord::flow_label`](super::PathRecord::flow_label).
        PATH_FLOW_LABEL = 1 << 8;
        /// [`PathRecord::hop_limit`](super::PathRecord::hop_limit).
        PATH_HOP_LIMIT = 1 << 9;
        /// [`PathRecord::tclass`](super::PathRecord::tclass).
        PATH_TCLASS = 1 << 10;
        /// [`PathRecord::reversible`](super::PathRecord::reversible).
        PATH_REVERSIBLE = 1 << 11;
        /// [`PathRecord::numb_path`](super::PathRecord::numb_path).
        PATH_NUMB_PATH = 1 << 12;
        /// [`PathRecord::p_key`](super::PathRecord::p_key).
        PATH_P_KEY = 1 << 13;
        /// [`PathRecord::qos_class`](super::PathRecord::qos_class).
        PATH_QOS_CLASS = 1 << 14;
        /// [`PathRecord::sl`](super::PathRecord::sl).
        PATH_SL = 1 << 15;
        /// [`PathRecord::mtu_selector`](super::PathRecord::mtu_selector).
        PATH_MTU_SELECTOR = 1 << 16;
        /// [`PathRecord::mtu`](super::PathRecord::mtu).
        PATH_MTU = 1 << 17;
        /// [`PathRecord::rate_selector`](super::PathRecord::rate_selector).
        PATH_RATE_SELECTOR = 1 << 18;
        /// [`PathRecord::rate`](super::PathRecord::rate).
        PATH_RATE = 1 << 19;
        /// [`PathRecord::packet_life_time_selector`](super::PathRecord::packet_life_time_selector).
        PATH_PACKET_LIFE_TIME_SELECTOR = 1 << 20;
        /// [`PathRecord::packet_life_time`](super::PathRecord::packet_life_time).
        PATH_PACKET_LIFE_TIME = 1 << 21;
        /// [`PathRecord::service_id`](super::PathRecord::service_id), which counts as two.
        PATH_SERVICE_ID = 3;
        /// [`McMemberRecord::mgid`](super::McMemberRecord::mgid).
        MC_MEMBER_MGID = 1 << 0;
        /// [`McMemberRecord::port_gid`](super::McMemberRecord::port_gid).
        MC_MEMBER_PORT_GID = 1 << 1;
        /// [`McMemberRecord::q_key`](super::McMemberRecord::q_key).
        MC_MEMBER_Q_KEY = 1 << 2;
        /// [`McMemberRecord::mlid`](super::McMemberRecord::mlid).
        MC_MEMBER_MLID = 1 << 3;
        /// [`McMemberRecord::mtu_selector`](super::McMemberRecord::mtu_selector).
        MC_MEMBER_MTU_SELECTOR = 1 << 4;
        /// [`McMemberRecord::mtu`](super::McMemberRecord::mtu).
        MC_MEMBER_MTU = 1 << 5;
        /// [`McMemberRecord::tclass`](super::McMemberRecord::tclass).
        MC_MEMBER_TCLASS = 1 << 6;
        /// [`McMemberRecord::p_key`](super::McMemberRecord::p_key).
        MC_MEMBER_P_KEY = 1 << 7;
        /// [`McMemberRecord::rate_selector`](super::McMemberRecord::rate_selector).
        MC_MEMBER_RATE_SELECTOR = 1 << 8;
        /// [`McMemberRecord::rate`](super::McMemberRecord::rate).
        MC_MEMBER_RATE = 1 << 9;
        /// [`McMemberRecord::packet_life_time_selector`](super::McMemberRecord::packet_life_time_selector).
        MC_MEMBER_PACKET_LIFE_TIME_SELECTOR = 1 << 10;
        /// [`McMemberRecord::packet_life_time`](super::McMemberRecord::packet_life_time).
        MC_MEMBER_PACKET_LIFE_TIME = 1 << 11;
        /// [`McMemberRecord::sl`](super::McMemberRecord::sl).
        MC_MEMBER_SL = 1 << 12;
        /// [`McMemberRecord::flow_label`](super::McMemberRecord::flow_label).
        MC_MEMBER_FLOW_LABEL = 1 << 13;
        /// [`McMemberRecord::hop_limit`](super::McMemberRecord::hop_limit).
        MC_MEMBER_HOP_LIMIT = 1 << 14;
        /// [`McMemberRecord::scope`](super::McMemberRecord::scope).
        MC_MEMBER_SCOPE = 1 << 15;
        /// [`McMemberRecord::join_state`](super::McMemberRecord::join_state).
        MC_MEMBER_JOIN_STATE = 1 << 16;
        /// [`McMemberRecord::proxy_join`](super::McMemberRecord::proxy_join).
        MC_MEMBER_PROXY_JOIN = 1 << 17;
        /// [`MultiPathRecord::raw_traffic`](super::MultiPathRecord::raw_traffic).
        MULTI_PATH_RAW_TRAFFIC = 1 << 0;
        /// [`MultiPathRecord::flow_label`](super::MultiPathRecord::flow_label).
        MULTI_PATH_FLOW_LABEL = 1 << 2;
        /// [`MultiPathRecord::hop_limit`](super::MultiPathRecord::hop_limit).
        MULTI_PATH_HOP_LIMIT = 1 << 3;
        /// [`MultiPathRecord::tclass`](super::MultiPathRecord::tclass).
        MULTI_PATH_TCLASS = 1 << 4;
        /// [`MultiPathRecord::reversible`](super::MultiPathRecord::reversible).
        MULTI_PATH_REVERSIBLE = 1 << 5;
        /// [`MultiPathRecord::numb_path`](super::MultiPathRecord::numb_path).
        MULTI_PATH_NUMB_PATH = 1 << 6;
        /// [`MultiPathRecord::p_key`](super::MultiPathRecord::p_key).
        MULTI_PATH_P_KEY = 1 << 7;
        /// [`MultiPathRecord::qos_class`](super::MultiPathRecord::qos_class).
        MULTI_PATH_QOS_CLASS = 1 << 8;
        /// [`MultiPathRecord::sl`](super::MultiPathRecord::sl).
        MULTI_PATH_SL = 1 << 9;
        /// [`MultiPathRecord::mtu_selector`](super::MultiPathRecord::mtu_selector).
        MULTI_PATH_MTU_SELECTOR = 1 << 10;
        /// [`MultiPathRecord::mtu`](super::MultiPathRecord::mtu).
        MULTI_PATH_MTU = 1 << 11;
        /// [`MultiPathRecord::rate_selector`](super::MultiPathRecord::rate_selector).
        MULTI_PATH_RATE_SELECTOR = 1 << 12;
        /// [`MultiPathRecord::rate`](super::MultiPathRecord::rate).
        MULTI_PATH_RATE = 1 << 13;
        /// [`MultiPathRecord::packet_life_time_selector`](super::MultiPathRecord::packet_life_time_selector).
        MULTI_PATH_PACKET_LIFE_TIME_SELECTOR = 1 << 14;
        /// [`MultiPathRecord::packet_life_time`](super::MultiPathRecord::packet_life_time).
        MULTI_PATH_PACKET_LIFE_TIME = 1 << 15;
        /// [`MultiPathRecord::independence_selector`](super::MultiPathRecord::independence_selector).
        MULTI_PATH_INDEPENDENCE_SELECTOR = 1 << 17;
        /// [`MultiPathRecord::sgid_count`](super::MultiPathRecord::sgid_count).
        MULTI_PATH_SGID_COUNT = 1 << 19;
        /// [`MultiPathRecord::dgid_count`](super::MultiPathRecord::dgid_count).
        MULTI_PATH_DGID_COUNT = 1 << 20;
        /// Both parts of the service.
        MULTI_PATH_SERVICE_ID = 1 << 16 | 1 << 21;
        /// [`InformInfoRecord::subscriber_gid`](super::InformInfoRecord::subscriber_gid).
        INFORM_SUBSCRIBER_GID = 1 << 0;
        /// [`InformInfoRecord::inform_info_enum`](super::InformInfoRecord::inform_info_enum).
        INFORM_INFORM_INFO_ENUM = 1 << 1;
    }
}

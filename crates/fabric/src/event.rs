//! The events of the World. They contain only numbers, which refer to the World's slabs.

use softband_model::transport::Side;

/// An event of the World.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A doorbell has reached the HCA.
    Doorbell {
        post: u32,
    },
    /// The first WQE of a send queue that was idle is in the HCA.
    WqeFetched {
        qp_ref: u32,
    },
    /// A queue pair has entered RTS.
    QueueResumed {
        qp_ref: u32,
    },
    ReceivePosted {
        post: u32,
    },
    /// A processing engine may start the next message.
    EngineFree {
        hca: u32,
        engine: u16,
    },
    /// A throttled flow may send its next packet.
    InjectionDue {
        qp: u32,
        side: Side,
    },
    /// A throttled service level may send its next packet.
    LevelDue {
        port: u32,
        level: u8,
    },
    /// A packet's payload is in the HCA and has been processed. Packets for the link skip this
    /// event: they wait in their port's `tx_pending`.
    PacketReady {
        packet: u32,
    },
    /// A port may be able to send: its link is free, a packet is ready, or its receiver sent a
    /// message.
    PortDue {
        port: u32,
    },
    /// A packet of lane 15 may be able to leave a port.
    Lane15Due {
        port: u32,
    },
    /// A host's software sends a management packet.
    ManagementPosted {
        packet: u32,
    },
    /// A management packet has reached a node.
    ManagementArrival {
        packet: u32,
    },
    /// A node's agent has processed the packet before it.
    AgentDone {
        node: u32,
    },
    /// The subnet manager on a host begins, or a request of it is due.
    ManagerDue,
    /// A packet with a wrong key has reached a queue pair.
    KeyViolation {
        violation: u32,
    },
    /// A switch has discarded a packet of a foreign partition.
    ForeignAtSwitch {
        violation: u32,
    },
    /// A node's agent may send a trap, or repeat it.
    TrapsDue {
        node: u32,
    },
    /// A packet has waited long for credits at a switch's port.
    QueueWatch {
        port: u32,
    },
    /// A frame's first bit has reached an Ethernet port.
    FrameArrival {
        packet: u32,
    },
    HcaArrival {
        packet: u32,
    },
    /// A packet of the train that starts from an HCA's port reaches its receiver.
    TrainArrival {
        source: u32,
        train: u16,
    },
    /// A packet that the switch cannot forward has arrived.
    SwitchDiscard {
        packet: u32,
    },
    /// A packet would have arrived, but its link went down.
    LostOnCable {
        packet: u32,
    },
    /// A packet has arrived whose output link is down.
    DiscardedByPort {
        packet: u32,
        output: u8,
    },
    /// A packet with a bad CRC has arrived.
    Corrupted {
        packet: u32,
    },
    /// A port's link goes down, comes up, or retrains, according to the fault plan.
    LinkTurns {
        port: u32,
    },
    HostDies {
        host: u32,
    },
    /// A packet's last byte is in memory.
    InMemory {
        dma_write: u32,
    },
    /// A receive buffer's blocks are free and the flow-control message is due. Only Ethernet ports
    /// and senders in another partition need this event.
    BufferFree {
        port: u32,
        lane: u8,
        blocks: u16,
    },
    /// A raw frame of a host's kernel is in front of the bus.
    FramePosted {
        frame: u32,
    },
    Completed {
        completion: u32,
    },
    AckTimer {
        qp: u32,
    },
    ReceiverWaited {
        qp_ref: u32,
    },
    ReplyReady {
        qp: u32,
    },
    Report {
        notice: u32,
    },
    /// A wakeup that a caller of the World requested.
    Wakeup {
        token: u32,
    },
}

#[cfg(test)]
mod tests {
    #[test]
    fn events_are_small() {
        assert!(size_of::<super::Event>() <= 8);
    }
}

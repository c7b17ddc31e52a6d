//! What can happen. Numbers only: what they name lies in the World's slabs.

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
    /// A queue pair has come to RTS.
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
    /// A flow that was slowed down may send its next packet.
    InjectionDue {
        qp: u32,
        side: Side,
    },
    /// The same, of a service level.
    LevelDue {
        port: u32,
        level: u8,
    },
    /// A packet's payload is in the HCA and has been processed. Not of those that go to the link: they stand in its port's `tx_pending`.
    PacketReady {
        packet: u32,
    },
    /// A port can perhaps send: its link is free, a packet is ready, or it has heard of its receiver.
    PortDue {
        port: u32,
    },
    /// A switch's port has had a packet waiting for credits for long.
    QueueWatch {
        port: u32,
    },
    /// A frame's first bit has come to an Ethernet port.
    FrameArrival {
        packet: u32,
    },
    HcaArrival {
        packet: u32,
    },
    /// A packet that the switch cannot forward has come in.
    SwitchDiscard {
        packet: u32,
    },
    /// A packet would have come in whose link went down meanwhile.
    LostOnCable {
        packet: u32,
    },
    /// A packet has come in whose output's link is down.
    DiscardedByPort {
        packet: u32,
        output: u8,
    },
    /// A packet with a bad CRC has come in.
    Corrupted {
        packet: u32,
    },
    /// A port's link goes down, comes up, or trains anew: the plan of faults says which.
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
    /// A receive buffer's blocks are free and their flow-control packet is due, where somebody has to be told: on Ethernet, and in another part.
    BufferFree {
        port: u32,
        lane: u8,
        blocks: u16,
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
    /// Somebody outside asked for it.
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

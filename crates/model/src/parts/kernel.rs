//! Parameters of an operating system's kernel: the constants of TCP/IP that differ between
//! generations.

use softband_sim::SimDuration;

/// Rule by which a TCP sender declares segments lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Three segments above it were acknowledged selectively (RFC 6675).
    Count,
    /// A segment that was sent later has arrived (RFC 8985). A lost retransmission counts too.
    Rack,
}

/// Rule by which a TCP sender reduces its window during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateReduction {
    /// One segment less for every second acknowledgement.
    Halving,
    /// In proportion to the data that arrives (RFC 6937).
    Proportional,
}

/// Rule by which a TCP sender grows its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// One segment a round trip, half the window after a loss (RFC 5681).
    Reno,
    /// Binary search between the windows before and after the last loss (Xu, Harfoush, Rhee 2004).
    Bic,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
}

/// Rule of the first receive window for segments that are larger than Ethernet's 1,460 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindowRule {
    /// Three segments up to 4,380 bytes, then two.
    Steps,
    /// The bytes of as many segments of Ethernet in whole segments, at least two.
    Bytes,
}

/// Rule by which a receive buffer grows while the program reads (dynamic right-sizing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveGrowth {
    /// To twice the bytes that the program read in a round trip.
    Doubling,
    /// To twice these bytes, and more while they grow from round trip to round trip.
    Growth,
}

/// Events that a sender counts in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStart {
    /// The window grows by a segment for each acknowledgement, however many packets it covers.
    Acknowledgements,
    /// The window grows by the packets that arrived.
    Packets,
}

/// Answer to SYNs that find no room in the queue of half-open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynCookies {
    /// None: the SYN is lost.
    No,
    /// A SYN-ACK whose number holds the size of segments (RFC 4987, 3.6). Other options are lost.
    Plain,
    /// The same, with the other options in the timestamp.
    Options,
}

/// Sizes of a socket's buffer in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Size of a new socket's buffer.
    pub initial_bytes: u32,
    /// Size up to which the kernel enlarges it.
    pub max_bytes: u32,
}

/// Parameters of a kernel. The tables of the catalogue list them with units, sources and statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// Congestion window of a new connection in segments.
    pub initial_window: u32,
    /// Bytes that bound the first window between two and four segments (RFC 3390). `None` means that
    /// only the count of segments matters.
    pub initial_window_bytes: Option<u32>,
    /// Window that a new connection offers, in segments of its own MSS. `None` means its buffer.
    pub initial_receive_window: Option<u32>,
    /// Rule of that window for large segments.
    pub initial_receive_window_rule: ReceiveWindowRule,
    /// Retransmission timeout before the first measurement of the round trip.
    pub rto_initial: SimDuration,
    /// Least part of the retransmission timeout beyond the smoothed round trip.
    pub rto_min: SimDuration,
    /// Largest retransmission timeout.
    pub rto_max: SimDuration,
    /// Retransmissions of a SYN before `connect` fails with ETIMEDOUT.
    pub syn_retries: u32,
    /// First retransmissions of a SYN that do not double the timeout.
    pub syn_linear_timeouts: u32,
    /// Retransmissions of a SYN-ACK before the half-open connection ends.
    pub syn_ack_retries: u32,
    /// Retransmissions of data before the connection fails with ETIMEDOUT.
    pub retries: u32,
    /// Least delay of a delayed acknowledgement.
    pub delayed_ack_min: SimDuration,
    /// Largest delay of a delayed acknowledgement.
    pub delayed_ack_max: SimDuration,
    /// Acknowledgements without delay at the start of a connection, at most.
    pub quick_acks: u32,
    /// Rule of loss detection.
    pub loss_detection: LossDetection,
    /// Whether a sender probes for the loss of the last segments (RFC 8985, section 7).
    pub tail_loss_probe: bool,
    /// Rule of the window during recovery.
    pub rate_reduction: RateReduction,
    /// Rule of the window's growth.
    pub congestion_control: CongestionControl,
    /// Growth of the window in slow start.
    pub slow_start: SlowStart,
    /// Whether CUBIC ends slow start before the first loss (hybrid slow start).
    pub hybrid_slow_start: bool,
    /// Whether TCP offers timestamps (RFC 7323).
    pub timestamps: bool,
    /// Whether TCP offers selective acknowledgements (RFC 2018).
    pub selective_ack: bool,
    /// Whether TCP offers to scale its window (RFC 7323).
    pub window_scaling: bool,
    /// Receive buffer of a TCP socket.
    pub receive_buffer: BufferSizes,
    /// Growth of that buffer.
    pub receive_growth: ReceiveGrowth,
    /// Send buffer of a TCP socket.
    pub send_buffer: BufferSizes,
    /// Receive and send buffer of a UDP socket, and the most that a program may ask for any socket.
    pub datagram_buffer: BufferSizes,
    /// Share of a receive buffer that the kernel offers as window, in parts per million.
    pub window_share_ppm: u32,
    /// Bytes of a connection below TCP, in queues of an interface. `None` means no limit.
    pub small_queue_bytes: Option<u32>,
    /// Time for which these bytes suffice at the rate of the connection. It bounds them further, but
    /// not below two super-segments. `None` means no such bound.
    pub small_queue_time: Option<SimDuration>,
    /// Largest super-segment in bytes.
    pub super_segment_bytes: u32,
    /// Part of the window that a super-segment waits for: 1 of this number. 0 means no wait.
    pub super_segment_divisor: u32,
    /// Whether the kernel sums the bytes that a program sends while it copies them. Otherwise it reads
    /// them again, if no card sums them.
    pub checksum_with_copy: bool,
    /// Whether the driver of IPoIB uses the offloads of HCAs.
    pub ipoib_offloads: bool,
    /// Whether the driver of IPoIB joins received segments in datagram mode (GRO).
    pub ipoib_aggregation: bool,
    /// Packets in the backlog to which interrupts of IPoIB move them. `None`: they stay in the receive
    /// ring until a core takes them (NAPI).
    pub ipoib_backlog_packets: Option<u32>,
    /// Bytes from which a blocking call on a socket of SDP goes without a copy. `None`: all are copied.
    pub sdp_zcopy_threshold: Option<u32>,
    /// Packets in the queue of an Ethernet interface, in front of its ring.
    pub transmit_queue_packets: u32,
    /// Memory of fragments that wait for others, in bytes.
    pub fragment_memory_bytes: u32,
    /// Memory to which the kernel reduces it, the oldest first, when it is full. `None` means that new
    /// fragments are lost instead.
    pub fragment_memory_low_bytes: Option<u32>,
    /// Most connections that wait for `accept`.
    pub backlog_max: u32,
    /// Most half-open connections of a listening socket.
    pub syn_backlog_max: u32,
    /// Answer to SYNs beyond them.
    pub syn_cookies: SynCookies,
    /// Time that a closed connection stays in TIME_WAIT.
    pub time_wait: SimDuration,
    /// Memory of all TCP connections together, in bytes.
    pub tcp_memory_bytes: u32,
    /// Most closed sockets whose connections still end.
    pub orphans_max: u32,
    /// Most connections in TIME_WAIT.
    pub time_wait_max: u32,
    /// Time that a closed socket waits in FIN_WAIT2.
    pub fin_timeout: SimDuration,
    /// Idle time before the first keep-alive probe.
    pub keepalive_idle: SimDuration,
    /// Time between keep-alive probes.
    pub keepalive_interval: SimDuration,
    /// Keep-alive probes without answer that end a connection.
    pub keepalive_probes: u32,
    /// First ephemeral port.
    pub ephemeral_first: u16,
    /// Last ephemeral port.
    pub ephemeral_last: u16,
    /// Time between requests for a neighbour's link address.
    pub neighbour_retransmit: SimDuration,
    /// Requests for a neighbour's link address before its packets fail.
    pub neighbour_requests: u32,
    /// Packets that wait for a neighbour's link address.
    pub neighbour_queue_packets: u32,
    /// Time that a link address stays valid without confirmation.
    pub neighbour_reachable: SimDuration,
}

impl KernelPart {
    /// Returns the constants of Linux 6.1, the kernel of hosts that name none.
    pub fn linux_6_1() -> Self {
        let millis = |count: u64| SimDuration::from_micros(1_000 * count);
        let seconds = |count: u64| millis(1_000 * count);
        Self {
            name: "Linux 6.1".into(),
            initial_window: 10,
            initial_window_bytes: None,
            initial_receive_window: None,
            initial_receive_window_rule: ReceiveWindowRule::Bytes,
            rto_initial: seconds(1),
            rto_min: millis(200),
            rto_max: seconds(120),
            syn_retries: 6,
            syn_linear_timeouts: 0,
            syn_ack_retries: 5,
            retries: 15,
            delayed_ack_min: millis(40),
            delayed_ack_max: millis(200),
            quick_acks: 16,
            loss_detection: LossDetection::Rack,
            tail_loss_probe: true,
            rate_reduction: RateReduction::Proportional,
            congestion_control: CongestionControl::Cubic,
            slow_start: SlowStart::Packets,
            hybrid_slow_start: true,
            timestamps: true,
            selective_ack: true,
            window_scaling: true,
            receive_buffer: BufferSizes { initial_bytes: 131_072, max_bytes: 6_291_456 },
            receive_growth: ReceiveGrowth::Growth,
            send_buffer: BufferSizes { initial_bytes: 16_384, max_bytes: 4_194_304 },
            datagram_buffer: BufferSizes { initial_bytes: 212_992, max_bytes: 212_992 },
            window_share_ppm: 500_000,
            small_queue_bytes: Some(1_048_576),
            small_queue_time: Some(millis(1)),
            super_segment_bytes: 65_536,
            super_segment_divisor: 3,
            checksum_with_copy: false,
            ipoib_offloads: true,
            ipoib_aggregation: true,
            ipoib_backlog_packets: None,
            sdp_zcopy_threshold: Some(65_536),
            fragment_memory_bytes: 4_194_304,
            fragment_memory_low_bytes: None,
            transmit_queue_packets: 1_000,
            backlog_max: 4_096,
            syn_backlog_max: 4_096,
            syn_cookies: SynCookies::Options,
            time_wait: seconds(60),
            tcp_memory_bytes: 1_610_612_736,
            orphans_max: 65_536,
            time_wait_max: 180_000,
            fin_timeout: seconds(60),
            keepalive_idle: seconds(7_200),
            keepalive_interval: seconds(75),
            keepalive_probes: 9,
            ephemeral_first: 32_768,
            ephemeral_last: 60_999,
            neighbour_retransmit: seconds(1),
            neighbour_requests: 3,
            neighbour_queue_packets: 101,
            neighbour_reachable: seconds(30),
        }
    }
}

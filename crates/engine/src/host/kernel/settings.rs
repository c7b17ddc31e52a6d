//! Settings of a host's kernel that programs change (`/proc/sys/net`), as far as the modelled TCP/IP
//! has them. A change acts on later sockets, and on limits at once.

use softband_model::parts::{BufferSizes, CongestionControl, KernelPart};
use softband_sim::SimDuration;

/// Least size that Linux shows for buffers. The model has no lower limit.
const LEAST_BUFFER: u32 = 4096;
const MICROS_PER_SECOND: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Longest time of a setting in seconds, and most attempts (`MAX_TCP_KEEPIDLE`, `MAX_TCP_SYNCNT`).
const SECONDS_MAX: u64 = 32_767;
const ATTEMPTS_MAX: u64 = 127;

/// How a setting reads and changes a kernel.
struct Setting {
    name: &'static str,
    show: fn(&KernelPart) -> String,
    change: fn(&mut KernelPart, &[u64]) -> Option<()>,
}

fn seconds(span: SimDuration) -> String {
    (span.as_nanos() / NANOS_PER_SECOND).to_string()
}

fn to_span(values: &[u64]) -> Option<SimDuration> {
    let count = *values.first()?;
    (1..=SECONDS_MAX).contains(&count).then(|| SimDuration::from_micros(count * MICROS_PER_SECOND))
}

fn to_count(values: &[u64], most: u64) -> Option<u32> {
    values.first().filter(|count| **count <= most).map(|count| *count as u32)
}

fn sizes(buffer: BufferSizes) -> String {
    format!("{LEAST_BUFFER}\t{}\t{}", buffer.initial_bytes, buffer.max_bytes)
}

fn to_sizes(values: &[u64]) -> Option<BufferSizes> {
    let size = |place: usize| values.get(place).filter(|size| (1..=i32::MAX as u64).contains(*size)).map(|size| *size as u32);
    Some(BufferSizes { initial_bytes: size(1)?, max_bytes: size(2)? })
}

macro_rules! settings {
    ($($name:literal: $show:expr, $change:expr;)*) => {
        const SETTINGS: &[Setting] = &[$(Setting { name: $name, show: $show, change: $change }),*];
    };
}

settings! {
    "core/somaxconn": |kernel| kernel.backlog_max.to_string(), |kernel, to| { kernel.backlog_max = to_count(to, i32::MAX as u64)?; Some(()) };
    "ipv4/ip_local_port_range": |kernel| format!("{}\t{}", kernel.ephemeral_first, kernel.ephemeral_last), change_ports;
    "ipv4/tcp_fin_timeout": |kernel| seconds(kernel.fin_timeout), |kernel, to| { kernel.fin_timeout = to_span(to)?; Some(()) };
    "ipv4/tcp_keepalive_intvl": |kernel| seconds(kernel.keepalive_interval), |kernel, to| { kernel.keepalive_interval = to_span(to)?; Some(()) };
    "ipv4/tcp_keepalive_probes": |kernel| kernel.keepalive_probes.to_string(), |kernel, to| { kernel.keepalive_probes = to_count(to, ATTEMPTS_MAX)?; Some(()) };
    "ipv4/tcp_keepalive_time": |kernel| seconds(kernel.keepalive_idle), |kernel, to| { kernel.keepalive_idle = to_span(to)?; Some(()) };
    "ipv4/tcp_max_orphans": |kernel| kernel.orphans_max.to_string(), |kernel, to| { kernel.orphans_max = to_count(to, i32::MAX as u64)?; Some(()) };
    "ipv4/tcp_max_syn_backlog": |kernel| kernel.syn_backlog_max.to_string(), |kernel, to| { kernel.syn_backlog_max = to_count(to, i32::MAX as u64)?; Some(()) };
    "ipv4/tcp_max_tw_buckets": |kernel| kernel.time_wait_max.to_string(), |kernel, to| { kernel.time_wait_max = to_count(to, i32::MAX as u64)?; Some(()) };
    "ipv4/tcp_retries2": |kernel| kernel.retries.to_string(), |kernel, to| { kernel.retries = to_count(to, u64::from(u8::MAX))?; Some(()) };
    "ipv4/tcp_rmem": |kernel| sizes(kernel.receive_buffer), |kernel, to| { kernel.receive_buffer = to_sizes(to)?; Some(()) };
    "ipv4/tcp_sack": |kernel| u32::from(kernel.selective_ack).to_string(), |kernel, to| { kernel.selective_ack = to_count(to, 1)? != 0; Some(()) };
    "ipv4/tcp_syn_retries": |kernel| kernel.syn_retries.to_string(), |kernel, to| { kernel.syn_retries = to_count(to, ATTEMPTS_MAX).filter(|count| *count > 0)?; Some(()) };
    "ipv4/tcp_synack_retries": |kernel| kernel.syn_ack_retries.to_string(), |kernel, to| { kernel.syn_ack_retries = to_count(to, u64::from(u8::MAX))?; Some(()) };
    "ipv4/tcp_timestamps": |kernel| u32::from(kernel.timestamps).to_string(), |kernel, to| { kernel.timestamps = to_count(to, 2)? != 0; Some(()) };
    "ipv4/tcp_window_scaling": |kernel| u32::from(kernel.window_scaling).to_string(), |kernel, to| { kernel.window_scaling = to_count(to, 1)? != 0; Some(()) };
    "ipv4/tcp_wmem": |kernel| sizes(kernel.send_buffer), |kernel, to| { kernel.send_buffer = to_sizes(to)?; Some(()) };
}

fn change_ports(kernel: &mut KernelPart, to: &[u64]) -> Option<()> {
    let [first, last] = *to else { return None };
    let (first, last) = (u16::try_from(first).ok().filter(|port| *port > 0)?, u16::try_from(last).ok()?);
    (first <= last).then(|| (kernel.ephemeral_first, kernel.ephemeral_last) = (first, last))
}

const CONGESTION: &str = "ipv4/tcp_congestion_control";
const CONTROLS: [(&str, CongestionControl); 3] =
    [("reno", CongestionControl::Reno), ("bic", CongestionControl::Bic), ("cubic", CongestionControl::Cubic)];

/// Returns the names and the values of a kernel's settings.
pub(crate) fn all(kernel: &KernelPart) -> Vec<(&'static str, String)> {
    let control = CONTROLS.iter().find(|(_, control)| *control == kernel.congestion_control).map_or("", |(name, _)| name);
    let each = SETTINGS.iter().map(|setting| (setting.name, (setting.show)(kernel)));
    each.chain([(CONGESTION, control.to_owned())]).collect()
}

/// Gives a setting of a kernel a value. Fails with ENOENT for a setting that the model does not have,
/// or for an unknown rule, and with EINVAL for a value that Linux refuses as well.
pub(super) fn change(kernel: &mut KernelPart, name: &str, value: &str) -> Result<(), i32> {
    if name == CONGESTION {
        // Linux, too, does not find a rule of this name.
        let (_, control) = CONTROLS.iter().find(|(control, _)| *control == value.trim()).ok_or(libc::EINVAL)?;
        kernel.congestion_control = *control;
        return Ok(());
    }
    let setting = SETTINGS.iter().find(|setting| setting.name == name).ok_or(libc::ENOENT)?;
    let values: Option<Vec<u64>> = value.split_whitespace().map(|word| word.parse().ok()).collect();
    values.and_then(|values| (setting.change)(kernel, &values)).ok_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_changes_the_kernel_that_shows_it() {
        let mut kernel = KernelPart::linux_6_1();
        for (name, shown) in all(&kernel.clone()) {
            assert_eq!(change(&mut kernel, name, &format!("{shown}\n")), Ok(()), "{name}");
        }
        let same = KernelPart::linux_6_1();
        assert_eq!(all(&kernel), all(&same));
        assert_eq!(change(&mut kernel, "ipv4/tcp_keepalive_intvl", "71\n"), Ok(()));
        assert_eq!(kernel.keepalive_interval, SimDuration::from_micros(71_000_000));
        assert_eq!(change(&mut kernel, "ipv4/tcp_keepalive_intvl", "0\n"), Err(libc::EINVAL));
        assert_eq!(change(&mut kernel, "ipv4/tcp_congestion_control", "bbr\n"), Err(libc::EINVAL));
        assert_eq!(change(&mut kernel, "ipv4/tcp_low_latency", "1\n"), Err(libc::ENOENT));
    }
}

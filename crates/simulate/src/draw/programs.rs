//! Draws processes, their connections, and their actions.

use super::{Features, mtu_of};
use crate::dice::Dice;
use crate::plan::{Action, ConnectionPlan, End, FabricPlan, Flaw, Message, Operation, ProcessPlan, REGIONS, ReceivePlan, Step};
use softband_model::parts::HcaPart;
use softband_spec::FabricSpec;
use softband_types::QpType;

/// Most actions are within this time.
const WITHIN_NANOS: u64 = 300_000;
/// Largest datagram and other message, in bytes, so that a run stays short.
const LARGE_BYTES: u64 = 100_000;
/// Longer than any receive request, with the room for a route header.
const TOO_LONG_BYTES: u32 = 101_000;

pub(super) fn draw(dice: &mut Dice, features: &Features, fabric: &FabricPlan, spec: &FabricSpec) -> (Vec<ProcessPlan>, Vec<ConnectionPlan>) {
    let count = dice.within(2, 6);
    let processes: Vec<ProcessPlan> = (0..count).map(|number| draw_process(dice, features, fabric, spec, number as usize)).collect();
    let mtu_bytes = mtu_of(spec);
    let connections = (0..dice.within(1, 8)).map(|_| draw_connection(dice, features, spec, &processes, mtu_bytes)).collect();
    (processes, connections)
}

fn draw_process(dice: &mut Dice, features: &Features, fabric: &FabricPlan, spec: &FabricSpec, number: usize) -> ProcessPlan {
    let host = if number < 2 { number } else { dice.below(fabric.hosts() as u64) as usize };
    // Processes on different networks cannot reach each other, so all of a run use the same rail.
    let hca = if fabric.hcas_per_host() > 1 { number / 2 % fabric.hcas_per_host() } else { 0 };
    let offers = spec.hosts[host].hcas[hca].part.optional.max_srq > 0;
    ProcessPlan { host, hca, shares_receives: offers && features.shared_receives && dice.chance(50) }
}

fn draw_connection(dice: &mut Dice, features: &Features, spec: &FabricSpec, processes: &[ProcessPlan], mtu_bytes: u32) -> ConnectionPlan {
    let first = dice.below(processes.len() as u64) as usize;
    let reachable: Vec<usize> = (0..processes.len()).filter(|other| processes[*other].hca == processes[first].hca).collect();
    let others: Vec<usize> = reachable.iter().copied().filter(|other| processes[*other].host != processes[first].host).collect();
    // A few connections stay within a host, or within a process.
    let second = if others.is_empty() || dice.chance(15) { *dice.pick(&reachable) } else { *dice.pick(&others) };
    let mut transports = vec![QpType::Rc, QpType::Rc];
    transports.extend(features.unreliable.then_some(QpType::Uc));
    transports.extend(features.datagrams.then_some(QpType::Ud));
    let ends = [first, second];
    let part = |process: usize| &spec.hosts[processes[process].host].hcas[processes[process].hca].part;
    let offers_xrc = ends.iter().all(|end| part(*end).optional.max_xrcd > 0 && part(*end).optional.max_srq > 0);
    transports.extend((features.extended && offers_xrc).then_some([QpType::XrcSend; 2]).into_iter().flatten());
    let transport = *dice.pick(&transports);
    let path = if transport == QpType::Ud { mtu_bytes } else { *dice.pick(&[256, 512, 1_024, 2_048, 4_096]).min(&mtu_bytes) };
    let len_bytes = if transport == QpType::Ud { path } else { largest(features) };
    let receives = ends.map(|process| draw_receives(dice, features, part(process), len_bytes));
    let depth_max = part(first).max_qp_wr.min(part(second).max_qp_wr).min(64);
    ConnectionPlan {
        transport,
        ends,
        receives,
        service_level: dice.below(8) as u8,
        mtu_bytes: path,
        ack_timeout: if features.impatient { dice.within(1, 14) as u8 } else { dice.within(17, 18) as u8 },
        retry_count: if features.impatient { dice.below(8) as u8 } else { 7 },
        rnr_retry: if features.impatient { dice.below(8) as u8 } else { 7 },
        rnr_timer: dice.within(1, 12) as u8,
        rd_atomic: dice.within(1, u64::from(part(first).max_rd_atomic.min(part(second).max_rd_atomic)).max(1)) as u8,
        send_depth: if features.shallow_queues { dice.within(1, 4) as u32 } else { depth_max },
        signals_all: dice.chance(20),
        first_psn: dice.below(1 << 24) as u32,
    }
}

fn largest(features: &Features) -> u32 {
    if features.large_messages { LARGE_BYTES as u32 } else { 8_192 }
}

fn draw_receives(dice: &mut Dice, features: &Features, part: &HcaPart, len_bytes: u32) -> ReceivePlan {
    ReceivePlan {
        depth: if features.shallow_queues { dice.within(1, 4) as u32 } else { 32.min(part.max_qp_wr) },
        from_nanos: if features.stalls { dice.spread(WITHIN_NANOS) } else { 0 },
        lag_nanos: if features.stalls { dice.spread(20_000) } else { 100 },
        len_bytes,
        pieces: dice.within(1, u64::from(part.max_sge.min(3))) as u8,
    }
}

pub(super) fn actions(
    dice: &mut Dice,
    features: &Features,
    processes: &[ProcessPlan],
    connections: &[ConnectionPlan],
    spec: &FabricSpec,
) -> Vec<Action> {
    let mut actions = Vec::new();
    // A flood fills buffers, so that packets wait for credits.
    let (count, within) = if features.flood { (dice.within(100, 400), 10_000) } else { (dice.spread(200) + 5, WITHIN_NANOS) };
    for _ in 0..count {
        let connection = dice.below(connections.len() as u64) as usize;
        let side = if connections[connection].transport == QpType::XrcSend { 0 } else { dice.below(2) as usize };
        let end = End { connection, side };
        let at_nanos = 1_000 + dice.below(within);
        let plan = &connections[end.connection];
        let process = processes[plan.ends[end.side]];
        let part = &spec.hosts[process.host].hcas[process.hca].part;
        // A burst of equal posts fills queues.
        let burst = if dice.chance(20) { dice.spread(8) } else { 1 };
        let message = draw_message(dice, features, plan, part);
        actions.extend((0..burst).map(|_| Action { at_nanos, step: Step::Post { end, message } }));
    }
    let mut rare = |dice: &mut Dice, wanted: bool, most: u64, step: &dyn Fn(&mut Dice) -> Step| {
        for _ in 0..if wanted { dice.within(1, most) } else { 0 } {
            let at_nanos = 1_000 + dice.below(WITHIN_NANOS + WITHIN_NANOS / 4);
            actions.push(Action { at_nanos, step: step(dice) });
        }
    };
    let (process_count, connection_count) = (processes.len() as u64, connections.len() as u64);
    let end = |dice: &mut Dice| End { connection: dice.below(connection_count) as usize, side: dice.below(2) as usize };
    rare(dice, features.kills, 2, &|dice| Step::Kill { process: dice.below(process_count) as usize });
    rare(dice, features.deregistrations, 3, &|dice| Step::Deregister {
        process: dice.below(process_count) as usize,
        region: dice.below(REGIONS as u64) as usize,
    });
    rare(dice, features.reconnects, 4, &|dice| Step::Reconnect { connection: dice.below(connection_count) as usize });
    rare(dice, features.drains, 3, &|dice| Step::Drain { end: end(dice) });
    rare(dice, features.drains || features.flaws, 6, &|dice| Step::Resume { end: end(dice) });
    rare(dice, features.reconnects, 2, &|dice| Step::Break { end: end(dice) });
    rare(dice, features.reconnects && features.kills, 2, &|dice| Step::Destroy { end: end(dice) });
    actions
}

fn draw_message(dice: &mut Dice, features: &Features, plan: &ConnectionPlan, part: &HcaPart) -> Message {
    let mut operations = vec![Operation::Send];
    if plan.transport != QpType::Ud {
        operations.push(Operation::Write { region: dice.below(REGIONS as u64) as usize });
    }
    if plan.transport == QpType::Rc && features.windows && part.optional.max_mw > 0 {
        let region = dice.below(REGIONS as u64) as usize;
        operations.extend([Operation::Bind { region }, Operation::WriteWindow, Operation::WriteWindow]);
        operations.extend([Operation::Invalidate, Operation::SendInvalidate]);
    }
    if plan.transport.is_reliable() {
        operations.extend(features.reads.then_some([Operation::Read, Operation::ReadBack]).into_iter().flatten());
        operations.extend(features.atomics.then_some([Operation::FetchAdd, Operation::CompareSwap]).into_iter().flatten());
        operations.extend((features.atomics && part.optional.atomic_write).then_some(Operation::AtomicWrite));
    }
    let operation = *dice.pick(&operations);
    let is_atomic = matches!(operation, Operation::FetchAdd | Operation::CompareSwap | Operation::AtomicWrite);
    let most = if plan.transport == QpType::Ud { plan.mtu_bytes } else { largest(features) };
    let len_bytes = match dice.below(10) {
        _ if is_atomic => 8,
        _ if operation.is_local() => 0,
        0 => 0,
        1 | 2 => dice.below(u64::from(plan.mtu_bytes.min(most)) + 1) as u32,
        3 => plan.mtu_bytes.min(most),
        _ => dice.spread(u64::from(most)) as u32,
    };
    let flaw = if features.flaws && dice.chance(3) { *dice.pick(&[Flaw::LocalKey, Flaw::RemoteKey, Flaw::Length]) } else { Flaw::None };
    let (len_bytes, flaw) = match (flaw, operation) {
        (Flaw::Length, Operation::Send) if plan.transport != QpType::Ud => (TOO_LONG_BYTES, flaw),
        (Flaw::LocalKey, _) if len_bytes > 0 => (len_bytes, flaw),
        (Flaw::RemoteKey, Operation::Write { .. } | Operation::Read) if len_bytes > 0 => (len_bytes, flaw),
        _ => (len_bytes, Flaw::None),
    };
    let can_inline = !operation.expects_response() && !operation.is_local() && len_bytes <= part.max_inline_bytes && flaw != Flaw::LocalKey;
    Message {
        operation,
        len_bytes,
        pieces: if is_atomic { 1 } else { dice.within(1, u64::from(part.max_sge.min(3))) as u8 },
        signaled: dice.chance(60),
        solicited: dice.chance(20),
        fence: plan.transport.is_reliable() && dice.chance(20),
        inline: can_inline && dice.chance(30),
        immediate: (operation == Operation::Send || operation.writes()) && dice.chance(40),
        flaw,
    }
}

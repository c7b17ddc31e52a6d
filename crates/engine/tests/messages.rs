//! The engine neither panics nor hangs, regardless of a program's messages.

use proptest::prelude::*;
use softband_catalog::{Catalog, LoadOptions, load_fabric};
use softband_engine::harness::Harness;
use softband_ipc::calls::{Call, Cost, Message, Op, op};
use softband_spec::FabricSpec;
use std::path::Path;

fn spec() -> FabricSpec {
    spec_of("modern-pair")
}

fn spec_of(fabric: &str) -> FabricSpec {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    load_fabric(&root.join(format!("fabrics/{fabric}.toml")), &catalog, &LoadOptions::default()).expect("a fabric").spec
}

/// Generates words that name objects: mostly small numbers, sometimes extremes.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..8u32, 2 => 0..0x200u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn message(words: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(word(), 0..words).prop_map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// Generates numbers of calls: mostly of those after which the program goes on.
fn op() -> impl Strategy<Value = u32> {
    let goes_on = |op: &Op| !matches!(op, Op::ThreadExit | Op::ProcessExit);
    let going_on: Vec<Op> = Op::ALL.iter().copied().filter(goes_on).collect();
    let number = |op| op as u32;
    prop_oneof![8 => prop::sample::select(going_on).prop_map(number), 1 => prop::sample::select(Op::ALL).prop_map(number), 1 => any::<u32>()]
}

/// Generates numbers of calls on names, sockets and their waits.
fn socket_op() -> impl Strategy<Value = u32> {
    let is_of_sockets = |op: &Op| matches!(*op as u32, 30..=43 | 47..=50);
    let of_sockets: Vec<Op> = Op::ALL.iter().copied().filter(is_of_sockets).collect();
    prop::sample::select(of_sockets).prop_map(|op| op as u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_messages_is_survived(calls in prop::collection::vec((op(), message(60), message(80)), 1..120)) {
        let mut harness = Harness::new(&spec());
        for (op, request, posted) in calls {
            harness.call(op, &request, &posted);
            harness.step(50);
        }
    }

    #[test]
    fn any_sequence_of_messages_is_survived_on_a_modelled_network(calls in prop::collection::vec((socket_op(), message(24)), 1..120)) {
        let mut harness = Harness::new(&spec_of("ipoib"));
        for (op, request) in calls {
            harness.call(op, &request, &[]);
            harness.step(50);
        }
    }
}

fn refuses_a_short_request<C: Call>(harness: &mut Harness) {
    let is_empty = size_of::<<C::Request as Message>::Head>() == 0;
    if !is_empty && !matches!(C::COST, Cost::ControlVerbFirst) {
        assert_eq!(harness.call(C::OP as u32, &[1], &[]), libc::EPROTO, "{:?}", C::OP);
    }
}

#[test]
fn every_call_refuses_a_request_that_is_too_short() {
    macro_rules! each {
        ($($(#[$meta:meta])* $name:ident = $number:literal, $handler:ident($($request:ty)?) -> $reply:ty, $cost:expr, $paces:ident;)*) => {
            $(refuses_a_short_request::<op::$name>(&mut Harness::new(&spec()));)*
        };
    }
    softband_ipc::for_each_call!(each);
}

#[test]
fn a_queue_pair_driven_by_hand_reaches_its_states_and_refuses_nonsense() {
    use softband_ipc::calls::{CreateCq, CreateCqReply, Handle, Hca, ModifyQp, QpFields};
    let mut harness = Harness::new(&spec());
    let hca = bytemuck::bytes_of(&Hca { hca: 0, reserved: 0 }).to_vec();
    assert_eq!(harness.call(Op::AllocPd as u32, &hca, &[]), 0);
    let pd: Handle = bytemuck::pod_read_unaligned(&harness.reply()[..size_of::<Handle>()]);
    let cq = CreateCq { hca: 0, entries: 16, channel: 0, own_only: 0, cookie: 9 };
    assert_eq!(harness.call(Op::CreateCq as u32, bytemuck::bytes_of(&cq), &[]), 0);
    let cq: CreateCqReply = bytemuck::pod_read_unaligned(&harness.reply()[..size_of::<CreateCqReply>()]);
    let mut fields: QpFields = bytemuck::Zeroable::zeroed();
    (fields.qp_type, fields.pd, fields.send_cq, fields.recv_cq) = (2, pd.handle, cq.handle, cq.handle);
    (fields.max_send_wr, fields.max_recv_wr, fields.max_send_sge, fields.max_recv_sge) = (4, 4, 1, 1);
    assert_eq!(harness.call(Op::CreateQp as u32, bytemuck::bytes_of(&fields), &[]), 0);
    let made: QpFields = bytemuck::pod_read_unaligned(&harness.reply()[..size_of::<QpFields>()]);
    let mut modify = ModifyQp { mask: 1, reserved: 0, fields: made };
    modify.fields.state = 3;
    assert_eq!(harness.call(Op::ModifyQp as u32, bytemuck::bytes_of(&modify), &[]), libc::EINVAL, "RESET to RTS is no step");
    modify.fields.state = 1;
    (modify.mask, modify.fields.port) = (1 | 1 << 3 | 1 << 4 | 1 << 5, 1);
    assert_eq!(harness.call(Op::ModifyQp as u32, bytemuck::bytes_of(&modify), &[]), 0, "RESET to INIT");
    assert_eq!(harness.call(Op::DeallocPd as u32, bytemuck::bytes_of(&pd), &[]), libc::EBUSY, "the QP uses it");
}

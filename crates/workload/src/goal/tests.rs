use super::*;

const PING: &str = "num_ranks 2\n\nrank 0 {\nl1: calc 1000 cpu 1\nl2: send 8b to 1 tag 5 cpu 0 nic 0;\nl2 requires l1\n}\n\
                    rank 1 { // the other\n l1: recv 8b from 0 tag 5; l2: calc 7\n l2 irequires l1 }\n";

/// Returns the line and the message of the error, which must have a help text.
fn refused(text: &str) -> (u32, String) {
    let error = parse(text).unwrap_err();
    assert!(!error.help.is_empty());
    assert!(error.to_string().starts_with(&format!("{}: error: ", error.line)));
    (error.line, error.message)
}

#[test]
fn a_trace_is_read_with_all_its_options_and_orders() {
    let schedule = parse(PING).unwrap();
    let actions: Vec<_> = schedule.steps.iter().map(|step| (step.rank, step.action)).collect();
    let wanted = [
        (0, Action::Calculate { nanos: 1000, cpu: 1 }),
        (0, Action::Send { to: 1, bytes: 8, messages: 1, tag: 5 }),
        (1, Action::Receive { from: 0, tag: 5 }),
        (1, Action::Calculate { nanos: 7, cpu: 0 }),
    ];
    assert_eq!(actions, wanted);
    assert_eq!(schedule.order, [(0, 1, Wait::UntilDone), (2, 3, Wait::UntilBegun)]);
    assert_eq!(schedule.ranks, 2);
}

#[test]
fn a_trace_that_was_cut_off_anywhere_is_refused() {
    for end in (0..PING.trim_end().len()).filter(|end| PING.is_char_boundary(*end)) {
        let cut = &PING[..end];
        assert!(parse(cut).is_err(), "{cut}");
    }
    let (line, message) = refused("num_ranks 1\nrank 0 {\nl1: calc 5\n");
    assert_eq!((line, message.as_str()), (3, "the trace ends within rank 0, which began on line 2"));
}

#[test]
fn ranks_without_a_block_are_named_and_empty_blocks_will_do() {
    let pair = "num_ranks 4\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n";
    let wrong = parse(pair).unwrap_err();
    assert_eq!((wrong.line, wrong.message.as_str()), (7, "the trace ends, and ranks 2, 3 of num_ranks 4 have no block"));
    assert!(wrong.help.ends_with("`rank 2 { }`"), "{}", wrong.help);
    assert!(refused(&format!("{pair}rank 2 {{ }}")).1.contains("rank 3 of num_ranks 4 has"));
    assert!(refused("num_ranks 20").1.contains("ranks 0, 1, 2, 3, 4, 5, 6, 7, 12 more of"));
    assert!(parse(&format!("{pair}rank 2 {{ }}\nrank 3 {{}}")).is_ok());
}

#[test]
fn a_byte_order_mark_is_passed_over_and_a_binary_is_called_one() {
    assert_eq!(parse(&format!("\u{FEFF}{PING}")).map(|schedule| schedule.steps.len()), Ok(4));
    for text in ["\0\0\u{1}num_ranks 2", "num_ranks 2\nrank 0 {\u{1b}[31m }"] {
        let (_, message) = refused(text);
        assert_eq!(message, NO_TEXT);
    }
}

#[test]
fn what_is_wrong_on_a_line_is_told_with_the_line() {
    let cases = [
        ("rank 0 {}", 1, "num_ranks"),
        ("num_ranks none", 1, "`none` is not a number"),
        ("num_ranks 0", 1, "out of range"),
        ("num_ranks 2\nrank 2 {}", 2, "rank 2 is beyond num_ranks 2"),
        ("num_ranks 2\nrank 0 {\nl1: send 8b to 7 tag 1\n}", 3, "rank 7 is beyond num_ranks 2"),
        ("num_ranks 1\nrank 0 {}\nrank 0 {}", 3, "already, on line 2"),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1: calc 2 }", 4, "label l1 is there already, on line 3"),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l9 }", 4, "rank 0 has no label l9"),
        ("num_ranks 1\nrank 0 {\nl1: sleep 1 }", 3, "no step `sleep`"),
        ("num_ranks 1\nrank 0 {\nl1: send eight to 0 }", 3, "`eight` is not a size"),
        ("num_ranks 1\nrank 0 {\nl1: send 8b at 0 }", 3, "expected `to`, found `at`"),
        ("num_ranks 1\nrank 0 {\nl1 needs l2 }", 3, "`l1 needs`"),
        ("num_ranks 1\nrank 0 {\nl1: send 9999999999b to 0 }", 3, "too large"),
        ("num_ranks 1\nrank 0 {\nl1: calc -5 }", 3, "`-5` is not a number"),
        ("num_ranks 1\nrank 0 {\nl1: calc 5 tag 1 }", 3, "a calc has no tag"),
        ("num_ranks 2\nrank 0 {\nl1: recv 8b from -1 tag 1 }", 3, "any source and any tag are not supported"),
        ("num_ranks 2\nrank 0 {\nl1: recv 8b from 1 tag -1 }", 3, "any source and any tag are not supported"),
        ("num_ranks 2 /* cut\n off", 2, "the trace ends, and ranks 0, 1 of num_ranks 2 have no block"),
        ("num_ranks 1\nbank 0 {", 2, "`bank` where a rank's block begins"),
    ];
    for (text, line, what) in cases {
        let (at, message) = refused(text);
        assert!(at == line && message.contains(what), "{text}: {at}: {message}");
    }
}

#[test]
fn comments_and_sizes_stand_as_other_tools_write_them() {
    let plain = "num_ranks 2\nrank 0 { send 8b to 1 tag 5 }\nrank 1 { recv 8b from 0 tag 5 }\n";
    let other =
        "/* two\n * ranks */ num_ranks 2 // so many\nrank /* 9 */ 0 { send 8 b to 1 tag 5 } # done\nrank 1 { recv 8 B from 0 tag 5 /* } */ }\n";
    let steps = |text| parse(text).map(|schedule| format!("{:?}", schedule.steps)).map_err(|error| error.to_string());
    assert_eq!(steps(plain), steps(other));
    let (_, message) = refused(&"x".repeat(5_000));
    assert!(message.len() < 250, "{message}");
}

#[test]
fn a_trace_longer_than_simulated_time_is_refused_where_it_gets_too_long() {
    let of_hours = |hours: usize| format!("num_ranks 1\nrank 0 {{\n{}}}\n", "calc 3600000000000\n".repeat(hours));
    assert!(parse(&of_hours(2_400)).is_ok());
    let (line, message) = refused(&of_hours(2_401));
    assert_eq!((line, message.as_str()), (2_403, "all calculations together are too long"));
}

#[test]
fn a_cycle_of_orders_is_named_as_it_reads() {
    let text = "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\nc: calc 1\na requires c\nc irequires b\nb requires a\n}";
    assert_eq!(refused(text), (3, "steps of rank 0 wait for each other: a requires c irequires b requires a".into()));
}

#[test]
fn a_cycle_across_ranks_is_found_before_the_run_and_named_by_ranks_labels_and_lines() {
    let text = "num_ranks 2\nrank 0 {\nr: recv 8b from 1 tag 3\ns: send 8b to 1 tag 4\ns requires r\n}\n\
                rank 1 {\nr: recv 8b from 0 tag 4\nc: calc 5\ns: send 8b to 0 tag 3\nc requires r\ns irequires c\n}";
    let cycle = "r of rank 0 (line 3) receives from s of rank 1 (line 10) irequires c (line 9) requires r (line 8) \
                  receives from s of rank 0 (line 4) requires r of rank 0";
    assert_eq!(refused(text), (3, format!("ranks wait for each other: {cycle}")));
    // In this order, both ranks send first and can continue.
    assert!(parse(&text.replace("s requires r", "r requires s")).is_ok());
}

#[test]
fn long_cycles_are_named_by_their_first_steps() {
    let rank = |rank: u32| format!("rank {rank} {{\nr: recv 8b from {}\ns: send 8b to {}\ns requires r\n}}\n", (rank + 8) % 9, (rank + 1) % 9);
    let text = format!("num_ranks 9\n{}", (0..9).map(rank).collect::<String>());
    let (line, message) = refused(&text);
    assert!(line == 3 && message.ends_with(" requires ..."), "{message}");
}

#[test]
fn a_send_without_its_receive_is_named_and_so_is_a_receive_without_its_send() {
    let (line, message) = refused("num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 5\n}\nrank 1 {\nl1: recv 8b from 0 tag 6\n}");
    assert_eq!((line, message.as_str()), (3, "no rank receives the message that rank 0 sends to rank 1 with tag 5"));
    let (line, message) = refused("num_ranks 2\nrank 1 {\nl1: recv 8b from 0 tag 6\n}\nrank 0 { }");
    assert_eq!((line, message.as_str()), (3, "no rank sends the message that rank 1 receives from rank 0 with tag 6"));
}

#[test]
fn traces_with_words_changed_taken_out_or_doubled_are_answered_and_never_a_panic() {
    let words: Vec<&str> = PING.split_inclusive([' ', '\n']).collect();
    let mut random = softband_sim::RandomStream::new(1, 0);
    let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
    for round in 0..20_000 {
        let mut changed = words.clone();
        for _ in 0..=below(3) {
            let (at, other) = (below(changed.len()), words[below(words.len())]);
            match below(3) {
                0 => {
                    changed.remove(at);
                }
                1 => changed[at] = other,
                _ => changed.insert(at, other),
            }
        }
        let text = changed.concat();
        match parse(&text) {
            Ok(schedule) => assert_eq!(schedule.check(), Ok(()), "round {round}: {text}"),
            Err(error) => assert!(error.line as usize <= text.lines().count().max(1), "round {round}: {text}"),
        }
    }
}

use super::*;

/// Runs the machine over times that `time` gives to a group.
fn run(ranks: u32, time: impl Fn(&Test, &[u32]) -> f64) -> Localiser {
    let places = Places::of(&(0..ranks).collect::<Vec<_>>());
    let mut localiser = Localiser::new(places, Limits::default());
    while let Some(test) = localiser.ask() {
        let times = test.groups.iter().map(|group| time(&test, group)).collect();
        localiser.tell(test, times);
        assert!(localiser.asked() <= bound(ranks), "{ranks}");
    }
    localiser
}

/// 10 us for a small message and 1000 us for a large one, whoever sends it, by `slow` times the edge.
fn fabric(test: &Test, group: &[u32], slow: impl Fn(u32, u32) -> f64) -> f64 {
    let edges = if test.shape == Shape::Ring { group.len() } else { 1 };
    let edge = |at: usize| slow(group[at], group[(at + 1) % group.len()]);
    let worst = (0..edges).map(edge).fold(0.0, f64::max);
    if test.size == Size::Small { 10.0 } else { 1000.0 * worst }
}

fn blamed(localiser: &Localiser) -> Vec<Blame> {
    match localiser.verdict() {
        Verdict::Named { findings } => findings.into_iter().map(|finding| finding.blame).collect(),
        Verdict::NotLocalised { .. } | Verdict::Even => Vec::new(),
    }
}

#[test]
fn what_is_even_is_said_to_be() {
    for ranks in [0, 1, 2, 3, 8, 9, 64] {
        assert_eq!(
            run(ranks, |test, group| fabric(test, group, |_, _| 1.0)).verdict(),
            Verdict::Even,
            "{ranks}"
        );
    }
}

/// A search among `ranks` after rank 1 was told to be late; rank `late` is, in small messages.
fn told(ranks: u32, late: u32) -> Localiser {
    let mut localiser = Localiser::new(Places::of(&(0..ranks).collect::<Vec<_>>()), Limits::default());
    localiser.told_late(1);
    while let Some(test) = localiser.ask() {
        let time = |group: &Vec<u32>| {
            let small = test.size == Size::Small && group.contains(&late);
            fabric(&test, group, |_, _| 1.0) + if small { 200.0 } else { 0.0 }
        };
        let times = test.groups.iter().map(time).collect();
        localiser.tell(test, times);
    }
    assert!(localiser.asked() <= bound(ranks));
    localiser
}

#[test]
fn arrivals_are_one_more_confirmation_and_no_proof() {
    for ranks in [4, 9, 33] {
        let Verdict::Named { findings } = told(ranks, 1).verdict() else { panic!("{ranks}") };
        assert_eq!((findings.len(), findings[0].confirmations), (1, 3));
        assert_eq!(findings[0].blame, Blame::LateRank { rank: 1 });
        // Told of the wrong one, the search goes on as ever.
        let other = told(ranks, 2);
        let Verdict::Named { findings } = other.verdict() else { panic!("{ranks}") };
        assert_eq!((findings.len(), findings[0].confirmations), (1, 2), "{ranks}");
        assert_eq!(findings[0].blame, Blame::LateRank { rank: 2 });
        // Tests that show nothing do not make a name of it.
        let Verdict::NotLocalised { reasons } = told(ranks, ranks).verdict() else { panic!("{ranks}") };
        assert!(reasons[0].contains("late in the sweep's arrivals, not in tests"), "{reasons:?}");
    }
    assert_eq!(told(2, 2).verdict(), Verdict::Even);
}

#[test]
fn a_sender_is_named_among_any_number_of_ranks() {
    for ranks in [3, 4, 7, 8, 9, 16, 33] {
        let slow = |from: u32, _| if from == 2 { 2.5 } else { 1.0 };
        let localiser = run(ranks, |test, group| fabric(test, group, slow));
        assert_eq!(blamed(&localiser), [Blame::SlowSender { rank: 2 }], "{ranks} {localiser:?}");
        let Verdict::Named { findings } = localiser.verdict() else { panic!() };
        assert!((findings[0].ratio - 2.5).abs() < 1e-9 && (findings[0].excess_us - 1500.0).abs() < 1e-6);
        assert_eq!((findings[0].repeats, findings[0].confirmations), (9, 2));
    }
}

#[test]
fn links_that_noise_accuses_do_not_hide_a_slow_rank() {
    let localiser = run(4, |test, group| {
        let noisy =
            if [(3, 1), (1, 0)].contains(&(group[0], group[1])) && test.groups.len() > 1 { 1.5 } else { 1.0 };
        fabric(test, group, |from, _| if from == 2 { 10.0 } else { noisy })
    });
    assert_eq!(blamed(&localiser), [Blame::SlowSender { rank: 2 }], "{localiser:?}");
}

#[test]
fn a_link_whose_ends_no_split_parts_is_named() {
    for (ranks, from, to) in [(2, 1, 0), (3, 0, 2), (4, 3, 1), (16, 5, 10), (40, 0, 39)] {
        let slow = |a: u32, b: u32| if (a, b) == (from, to) { 1.25 } else { 1.0 };
        let localiser = run(ranks, |test, group| fabric(test, group, slow));
        assert_eq!(blamed(&localiser), [Blame::SlowLink { from, to }], "{ranks}");
    }
}

#[test]
fn a_late_rank_comes_first_and_a_slow_one_after_it() {
    for ranks in [5, 24] {
        let localiser = run(ranks, |test, group| {
            let late = if group.contains(&1) { 200.0 } else { 0.0 };
            late + fabric(test, group, |_, to| if to == 3 { 1.5 } else { 1.0 })
        });
        let names = [Blame::LateRank { rank: 1 }, Blame::SlowReceiver { rank: 3 }];
        assert_eq!(blamed(&localiser), names, "{ranks}");
    }
}

#[test]
fn of_few_ranks_one_is_named_since_the_others_are_too_few_to_compare() {
    let two_slow = |test: &Test, group: &[u32], first: f64, second: f64| {
        fabric(test, group, |from, _| [1.0, 1.0, first, second, 1.0][from as usize])
    };
    // Seen together with the first, or when it is gone.
    for second in [3.0, 1.3] {
        let localiser = run(4, |test, group| two_slow(test, group, 6.0, second));
        assert_eq!(blamed(&localiser), [Blame::SlowSender { rank: 2 }], "{second}");
        assert_eq!(localiser.unasked(), 3);
        let Verdict::Named { findings } = localiser.verdict() else { panic!("{second}") };
        assert!((findings[0].ratio - 6.0).abs() < 0.2, "compared with who is not accused: {findings:?}");
    }
    // Nearly alike: one is named, not none.
    let localiser = run(4, |test, group| two_slow(test, group, 2.5, 2.4));
    assert_eq!(blamed(&localiser), [Blame::SlowSender { rank: 2 }]);
    // Many suspects are no pattern, however few ranks there are beside them.
    let localiser =
        run(8, |test, group| fabric(test, group, |from, to| if from < 3 || to > 4 { 3.0 } else { 1.0 }));
    assert!(matches!(localiser.verdict(), Verdict::NotLocalised { .. }), "{localiser:?}");
    let localiser = run(5, |test, group| two_slow(test, group, 6.0, 3.0));
    assert_eq!(blamed(&localiser), [Blame::SlowSender { rank: 2 }, Blame::SlowSender { rank: 3 }]);
}

#[test]
fn a_gpu_by_itself_is_looked_at_however_few_are_left() {
    let mut localiser = Localiser::new(Places::of(&[0, 1, 2, 3]), Limits::default()).own_first();
    localiser.told_late(1);
    while let Some(test) = localiser.ask() {
        let time = |group: &Vec<u32>| match test.shape {
            Shape::Own => [30.0, 30.0, 30.0, 60.0][group[0] as usize],
            _ => fabric(&test, group, |_, _| 1.0) + if group.contains(&1) { 200.0 } else { 0.0 },
        };
        let times = test.groups.iter().map(time).collect();
        localiser.tell(test, times);
    }
    assert_eq!(blamed(&localiser), [Blame::LateRank { rank: 1 }, Blame::SlowGpu { rank: 3 }]);
}

#[test]
fn what_shows_in_company_only_is_not_localised() {
    // Rank 4 is slow while more than two pairs talk.
    for ranks in [8, 32] {
        let localiser = run(ranks, |test, group| {
            let crowd = test.groups.iter().map(Vec::len).sum::<usize>() > 4;
            fabric(test, group, |from, _| if from == 4 && crowd { 2.0 } else { 1.0 })
        });
        let Verdict::NotLocalised { reasons } = localiser.verdict() else { panic!("{localiser:?}") };
        assert!(
            reasons.iter().any(|why| why.contains("slow_sender [4]") && why.contains("not alone")),
            "{reasons:?}"
        );
    }
}

#[test]
fn what_shows_in_large_rings_only_is_not_localised() {
    let localiser = run(32, |test, group| {
        fabric(test, group, |from, _| if from == 4 && group.len() > 8 { 2.0 } else { 1.0 })
    });
    let Verdict::NotLocalised { reasons } = localiser.verdict() else { panic!("{localiser:?}") };
    assert!(reasons[0].contains("no pair shows why"), "{reasons:?}");
}

#[test]
fn a_rank_is_found_after_few_tests_and_all_pairs_end_the_search() {
    for bits in 4..=8 {
        let ranks = 1 << bits;
        let slow = |from: u32, _| if from == 3 { 1.5 } else { 1.0 };
        let places = Places::of(&(0..ranks).collect::<Vec<_>>());
        let mut localiser = Localiser::new(places, Limits::default());
        let mut named_after = None;
        while let Some(test) = localiser.ask() {
            let times = test.groups.iter().map(|group| fabric(&test, group, slow)).collect();
            localiser.tell(test, times);
            if named_after.is_none() && matches!(localiser.verdict(), Verdict::Named { .. }) {
                named_after = Some(localiser.asked());
            }
        }
        assert!(
            named_after.is_some_and(|after| after <= 60 + 6 * (bits as usize + 1)),
            "{ranks} {named_after:?}"
        );
        assert!(
            localiser.asked() <= 2 * ranks as usize + 80 + 12 * (bits as usize + 1),
            "{}",
            localiser.asked()
        );
    }
}

#[test]
fn when_stopped_it_says_why() {
    let places = Places::of(&(0..4).collect::<Vec<_>>());
    let mut localiser = Localiser::new(places, Limits::default());
    assert!(localiser.ask().is_some());
    localiser.stop("time is up");
    assert_eq!(localiser.ask(), None);
    assert_eq!(localiser.verdict(), Verdict::NotLocalised { reasons: vec!["time is up".to_owned()] });
}

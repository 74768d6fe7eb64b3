use proptest::prelude::*;

use super::*;

/// Two hosts: the other's clock runs `offset_ns` ahead at time 0 and gains `drift_ppm`; messages take
/// `floor_ns` and some more each way.
struct Hosts {
    offset_ns: f64,
    drift_ppm: f64,
    floor_ns: u64,
    noise: fastrand::Rng,
}

impl Hosts {
    fn truth(&self, own_ns: u64) -> f64 {
        self.offset_ns + self.drift_ppm * 1e-6 * own_ns as f64
    }

    /// A burst that starts at `at_ns`.
    fn burst(&mut self, at_ns: u64, count: usize) -> Vec<Ping> {
        let mut now = at_ns;
        (0..count)
            .map(|_| {
                let sent_ns = now;
                now += self.floor_ns + self.delay();
                let other_ns = (now as f64 + self.truth(now)).round() as u64;
                now += self.floor_ns + self.delay();
                Ping { sent_ns, other_ns, received_ns: now }
            })
            .collect()
    }

    /// Mostly little, sometimes a time slice; one way may be slower than the other.
    fn delay(&mut self) -> u64 {
        if self.noise.f64() < 0.05 { self.noise.u64(0..4_000_000) } else { self.noise.u64(0..2_000) }
    }
}

#[test]
fn the_error_is_half_the_fastest_round_trip_at_most() {
    let ping = |sent_ns, other_ns, received_ns| Ping { sent_ns, other_ns, received_ns };
    let point = Point::from_pings(&[ping(100, 1_050, 120), ping(200, 1_200, 300)]).unwrap();
    // other − own lies in 930..950 by the first, in 900..1000 by the second.
    assert_eq!(point, Point { at_ns: 200, offset_ns: 940.0, error_ns: 10.0, round_trip_ns: 20 });
    // A second trip that is slow one way narrows the bounds further.
    let point = Point::from_pings(&[ping(100, 1_050, 120), ping(200, 1_145, 300)]).unwrap();
    assert_eq!((point.offset_ns, point.error_ns), (937.5, 7.5));
    assert_eq!(Point::from_pings(&[]), None);
}

#[test]
fn contradicting_trips_leave_the_fastest() {
    let ping = |sent_ns, other_ns, received_ns| Ping { sent_ns, other_ns, received_ns };
    let point = Point::from_pings(&[ping(0, 5_000, 40), ping(100, 205, 110)]).unwrap();
    assert_eq!((point.offset_ns, point.error_ns), (100.0, 5.0));
}

#[test]
fn a_clock_behind_has_a_negative_offset() {
    let pings =
        [Ping { sent_ns: 1_000_000_000_000_000, other_ns: 5_000, received_ns: 1_000_000_000_000_020 }];
    let point = Point::from_pings(&pings).unwrap();
    assert_eq!((point.offset_ns, point.error_ns), (-999_999_999_995_010.0, 10.0));
}

#[test]
fn one_point_is_an_offset_without_drift_and_none_is_nothing() {
    let mut track = Track::default();
    assert_eq!(track.fit(), None);
    track.push(Point { at_ns: 50, offset_ns: 7.0, error_ns: 3.0, round_trip_ns: 6 });
    let fit = track.fit().unwrap();
    assert!((fit.offset_at(1_000_000) - 7.0).abs() < 1e-9, "{fit:?}");
    assert!((fit.error_ns - 3.0).abs() < 1e-9 && fit.drift_ppm.abs() < 1e-9, "{fit:?}");
}

#[test]
fn points_that_lie_off_the_line_widen_the_error() {
    let mut track = Track::default();
    for (at_ns, offset_ns) in [(0, 0.0), (1000, 100.0), (2000, 0.0)] {
        track.push(Point { at_ns, offset_ns, error_ns: 1.0, round_trip_ns: 2 });
    }
    // The line is flat at 33.3; the middle point is 66.7 away.
    let fit = track.fit().unwrap();
    assert!((fit.error_ns - 67.7).abs() < 0.1 && fit.drift_ppm.abs() < 1e-6, "{fit:?}");
}

#[test]
fn what_errors_alone_may_come_to_is_no_drift() {
    let mut track = Track::default();
    // 1 ms apart, 8 us between them, each known to 5 us: a drift of 8,000 ppm would be 8 ms after a second.
    for (at_ns, offset_ns) in [(0, 0.0), (1_000_000, 8_000.0)] {
        track.push(Point { at_ns, offset_ns, error_ns: 5_000.0, round_trip_ns: 10_000 });
    }
    let fit = track.fit().unwrap();
    assert!((fit.offset_at(1_000_000_000) - 4_000.0).abs() < 1e-6, "{fit:?}");
    assert!((fit.error_ns - 9_000.0).abs() < 1e-6, "{fit:?}");
}

#[test]
fn one_bad_burst_hides_no_drift() {
    let mut track = Track::default();
    // 20 ppm over 7 s; the first burst is bad.
    for second in 0..8_u64 {
        let error_ns = if second == 0 { 2e6 } else { 5_000.0 };
        let offset_ns = 20_000.0 * second as f64;
        track.push(Point { at_ns: second * 1_000_000_000, offset_ns, error_ns, round_trip_ns: 10_000 });
    }
    assert!(track.fit().is_some_and(|fit| (fit.drift_ppm - 20.0).abs() < 1e-6));
}

#[test]
fn drift_is_found_and_old_points_are_left_behind() {
    let mut hosts =
        Hosts { offset_ns: 3e9, drift_ppm: 40.0, floor_ns: 10_000, noise: fastrand::Rng::with_seed(4) };
    let mut track = Track::default();
    // Before, the clock was another one: 20 points that must not matter after 8 new ones.
    for at in 0..20 {
        track.push(Point { at_ns: at, offset_ns: -1e12, error_ns: 1.0, round_trip_ns: 2 });
    }
    for second in 1..=8_u64 {
        track.push(Point::from_pings(&hosts.burst(second * 1_000_000_000, 32)).unwrap());
    }
    let fit = track.fit().unwrap();
    assert!((fit.drift_ppm - 40.0).abs() < 2.0, "{fit:?}");
    assert!(fit.error_ns < 15_000.0, "{fit:?}");
}

proptest! {
    /// The stated error holds, whatever the clocks and the network do, from the first point to the last.
    #[test]
    fn the_truth_is_within_the_stated_error(
        offset_ns in 0.0..1e15_f64,
        drift_ppm in -100.0..100.0_f64,
        floor_ns in 200_u64..50_000,
        gaps_ms in prop::collection::vec(1_u64..2_000, 0..12),
        seed: u64,
    ) {
        let mut hosts = Hosts { offset_ns, drift_ppm, floor_ns, noise: fastrand::Rng::with_seed(seed) };
        let mut track = Track::default();
        let (mut at_ns, mut times) = (5_000_000_000_u64, Vec::new());
        for gap_ms in std::iter::once(0).chain(gaps_ms) {
            at_ns += gap_ms * 1_000_000;
            let pings = hosts.burst(at_ns, 24);
            let point = Point::from_pings(&pings).unwrap();
            // Within the burst itself the clocks drift apart as well.
            let slack_ns = drift_ppm.abs() * 1e-6 * (pings[23].received_ns - pings[0].sent_ns) as f64 + 1.0;
            prop_assert!((point.offset_ns - hosts.truth(point.at_ns)).abs() <= point.error_ns + slack_ns);
            prop_assert!(point.error_ns <= point.round_trip_ns as f64 / 2.0);
            times.push((point.at_ns, slack_ns));
            track.push(point);
            at_ns = pings[23].received_ns;
        }
        let times = &times[times.len().saturating_sub(KEPT)..];
        let slack_ns = times.iter().map(|(_, slack)| *slack).fold(0.0, f64::max);
        let (first, last) = (times[0].0, times[times.len() - 1].0);
        let fit = track.fit().unwrap();
        for step in 0..=10 {
            let own_ns = first + (last - first) / 10 * step;
            let truth = hosts.truth(own_ns);
            let bound_ns = fit.error_ns + slack_ns + 1.0;
            prop_assert!((fit.offset_at(own_ns) - truth).abs() <= bound_ns, "{fit:?} {truth}");
            // And back: the other clock's reading leads to the own one.
            let other_us = (own_ns as f64 + truth) / 1e3;
            let back_us = fit.to_own_us(other_us);
            prop_assert!((back_us - own_ns as f64 / 1e3).abs() <= bound_ns / 1e3 + 0.5, "{back_us} {own_ns}");
        }
    }
}

//! The matrix of all pairs as text: every line a comment, so that no reader takes one for a row of nccl-tests.

use std::fmt::Write as _;

use super::{Preamble, Site, table};
use crate::judge::{Link, Matrix};

/// Above so many ranks a matrix no longer fits a screen: only its parts are shown.
const WIDEST: usize = 32;

/// The matrices, and each rank's part.
pub fn table(matrix: &Matrix, sites: &[Site]) -> String {
    let ranks = matrix.send_ratio.len();
    let (small, large) = (matrix.small_bytes, matrix.large_bytes);
    let mut text = "#\n".to_owned();
    if ranks > WIDEST {
        text.push_str("# More ranks than fit a screen: the matrix is in --csv and --record\n#\n");
    } else {
        let mut square =
            |title: String, value: &dyn Fn(&Link) -> Option<f64>| text.push_str(&grid(&title, matrix, value));
        square(format!("Latency, us: {small} bytes both ways at once"), &|link| Some(link.latency_us));
        square(format!("Messages, 10^6 a second: {small} bytes one way"), &|link| {
            Some(link.messages_per_s / 1e6)
        });
        square(format!("One way, GB/s: {large} bytes beside other pairs"), &|link| Some(link.one_way_gbps));
        square(format!("Both ways, GB/s each: {large} bytes beside other pairs"), &|link| {
            Some(link.both_ways_gbps)
        });
        if matrix.links.iter().any(|link| link.alone_gbps.is_some()) {
            square(format!("Alone, GB/s: {large} bytes one way"), &|link| link.alone_gbps);
        }
    }
    let _ = writeln!(
        text,
        "# Parts of the one-way time (1 is like the others; a link's own part varies by {:.3})",
        matrix.noise_ratio
    );
    let _ = writeln!(text, "# {:>6} {:>8} {:>8}", "rank", "sends", "receives");
    for (rank, (send, recv)) in matrix.send_ratio.iter().zip(&matrix.recv_ratio).enumerate() {
        let place =
            sites.iter().find(|site| site.rank as usize == rank).map(table::place).unwrap_or_default();
        let _ = writeln!(text, "# {rank:>6} {send:>8.3} {recv:>8.3} {place}");
    }
    text
}

/// One figure of all pairs: a line for each sender, a column for each receiver.
fn grid(title: &str, matrix: &Matrix, value: &dyn Fn(&Link) -> Option<f64>) -> String {
    let ranks = matrix.send_ratio.len() as u32;
    let mut text = format!("# {title}; from \\ to\n# {:>6}", "");
    for to in 0..ranks {
        let _ = write!(text, " {to:>8}");
    }
    for from in 0..ranks {
        let _ = write!(text, "\n# {from:>6}");
        for to in 0..ranks {
            let link = matrix.links.iter().find(|link| (link.from, link.to) == (from, to));
            let _ = match link.and_then(value) {
                Some(value) => write!(text, " {value:>8.2}"),
                None => write!(text, " {:>8}", "-"),
            };
        }
    }
    text + "\n#\n"
}

/// The last lines.
pub fn footer(preamble: &Preamble) -> String {
    format!("#\n# Collective test concluded: {}\n#\n\n", preamble.program)
}

/// A line for each directed pair, below one of names; empty where nothing was measured. The last two say, in every line, what
/// was measured, and which faults were put in on purpose.
pub fn csv(preamble: &Preamble, matrix: &Matrix) -> String {
    let mut text = "from,to,latency_us,messages_per_s,one_way_gbps,both_ways_gbps,alone_gbps,link_ratio,\
                    backend,injected\n"
        .to_owned();
    let (backend, injected) = (preamble.backend.name(), preamble.injected.join(" "));
    for link in &matrix.links {
        let Link {
            from,
            to,
            latency_us,
            messages_per_s,
            one_way_gbps,
            both_ways_gbps,
            alone_gbps,
            link_ratio,
            times: _,
        } = link;
        let alone = alone_gbps.map(|rate| rate.to_string()).unwrap_or_default();
        let _ = writeln!(
            text,
            "{from},{to},{latency_us},{messages_per_s},{one_way_gbps},{both_ways_gbps},{alone},{link_ratio},\
             {backend},{injected}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::words::broken;

    fn matrix() -> Matrix {
        let link = |from, to, alone_gbps| Link {
            from,
            to,
            latency_us: 5.25,
            messages_per_s: 2e6,
            one_way_gbps: 40.0,
            both_ways_gbps: 30.0,
            alone_gbps,
            link_ratio: 1.0,
            times: None,
        };
        Matrix {
            small_bytes: 8,
            large_bytes: 1024,
            links: vec![link(0, 1, Some(41.5)), link(1, 0, None)],
            send_ratio: vec![1.0, 1.5],
            recv_ratio: vec![1.0, 1.0],
            noise_ratio: 1.01,
        }
    }

    #[test]
    fn the_table_is_comments_and_keeps_to_the_words() {
        let text = table(&matrix(), &[]);
        assert!(text.lines().all(|line| line.starts_with('#') && broken(line).is_none()), "{text}");
        assert!(text.contains("#      0        -    41.50\n#      1        -        -\n"), "{text}");
        assert!(text.contains("#      1    1.500    1.000"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        let mut preamble = fixture::preamble();
        let text = csv(&preamble, &matrix());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "0,1,5.25,2000000,40,30,41.5,1,nccl,");
        assert_eq!(lines[2], "1,0,5.25,2000000,40,30,,1,nccl,");
        assert!(lines.iter().all(|line| line.matches(',').count() == 9));
        preamble.injected = vec!["late:1:200us".to_owned(), "slow-link:1-6:40%".to_owned()];
        let text = csv(&preamble, &matrix());
        assert!(
            text.lines().skip(1).all(|line| line.ends_with(",nccl,late:1:200us slow-link:1-6:40%")),
            "{text}"
        );
    }
}

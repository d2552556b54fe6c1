//! Timing on a device.

use warpsmith::{Event, Result, Stream};

/// What the repetitions of one measurement say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Half of the repetitions took longer.
    pub median_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// One thing to measure.
pub type Work<'a> = Box<dyn FnMut(&Stream) -> Result<()> + 'a>;

/// Runs the works in turn, `repetitions` times after `warmups`, and times each by a pair of
/// events. Because they alternate, clocks and heat are the same for all.
///
/// # Errors
/// The first that a work or an event gives.
///
/// # Panics
/// Where `repetitions` is 0.
pub fn interleaved(
    stream: &Stream,
    warmups: usize,
    repetitions: usize,
    works: &mut [Work<'_>],
) -> Result<Vec<Times>> {
    assert!(repetitions > 0, "no repetition, no median");
    let mut times_ms = vec![Vec::with_capacity(repetitions); works.len()];
    for repetition in 0..warmups + repetitions {
        for (work, times_ms) in works.iter_mut().zip(&mut times_ms) {
            let start = stream.record()?;
            work(stream)?;
            let end = stream.record()?;
            let elapsed_ms = elapsed_ms(&start, &end)?;
            if repetition >= warmups {
                times_ms.push(elapsed_ms);
            }
        }
    }
    Ok(times_ms
        .iter_mut()
        .map(|times_ms| summary(times_ms))
        .collect())
}

fn elapsed_ms(start: &Event, end: &Event) -> Result<f64> {
    end.synchronize()?;
    start.elapsed_ms(end).map(f64::from)
}

fn summary(times_ms: &mut [f64]) -> Times {
    times_ms.sort_by(f64::total_cmp);
    let middle = times_ms.len() / 2;
    let median_ms = if times_ms.len() % 2 == 1 {
        times_ms[middle]
    } else {
        (times_ms[middle - 1] + times_ms[middle]) / 2.0
    };
    Times {
        median_ms,
        min_ms: times_ms[0],
        max_ms: times_ms[times_ms.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!(summary(&mut [3.0, 1.0, 2.0]).median_ms, 2.0);
        assert_eq!(summary(&mut [4.0, 1.0, 2.0, 3.0]).median_ms, 2.5);
        let one = summary(&mut [7.0]);
        assert_eq!((one.min_ms, one.median_ms, one.max_ms), (7.0, 7.0, 7.0));
    }
}

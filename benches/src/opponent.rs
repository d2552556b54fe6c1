//! The contestants of a comparison, and the choice of the fastest among several ways to compute a
//! case.

use crate::error::Result;
use crate::timing::{Launch, Schedule, Timer, Times};

/// After one run each, those that took this many times as long as the fastest are left out.
const HOPELESS: f64 = 1.3;
/// Repetitions by which the rest are compared.
const REPETITIONS: usize = 9;

/// One way to compute a case.
pub struct Opponent<'a> {
    /// The library's name.
    pub name: String,
    /// The algorithm or kernel that it chose.
    pub choice: Option<String>,
    /// Enqueues one run.
    pub launch: Launch<'a>,
}

/// Measures all and returns the fastest; those that refuse to run are left out. `None` if none is
/// left. The `choice` of the result says how many there were.
///
/// # Errors
/// As [`Timer::interleaved`].
pub fn fastest<'a>(
    timer: &Timer,
    copies: usize,
    all: Vec<Opponent<'a>>,
) -> Result<Option<Opponent<'a>>> {
    let (mut all, count) = promising(timer, copies, all)?;
    if all.len() > 1 {
        let (mut works, names) = split(all);
        let schedule = timer.plan(REPETITIONS, copies, &mut works)?;
        let times = timer.interleaved(&schedule, &mut works)?.times;
        all = by_time(&times, join(works, names));
    }
    Ok(all.into_iter().next().map(|fastest| Opponent {
        choice: fastest.choice.map(|choice| format!("{choice} of {count}")),
        ..fastest
    }))
}

/// Those that run, the fastest first, without those that a single run shows to be much slower than
/// the fastest; and the number of those that run.
///
/// # Errors
/// As [`Timer::interleaved`].
pub fn promising<'a>(
    timer: &Timer,
    copies: usize,
    mut all: Vec<Opponent<'a>>,
) -> Result<(Vec<Opponent<'a>>, usize)> {
    all.retain_mut(|opponent| (opponent.launch)(0).is_ok());
    timer.stream().synchronize()?;
    let count = all.len();
    if count < 2 {
        return Ok((all, count));
    }
    let (mut works, names) = split(all);
    let schedule = Schedule {
        warmups: 1,
        repetitions: 1,
        launches: 1,
        copies,
    };
    let times = timer.interleaved(&schedule, &mut works)?.times;
    Ok((by_time(&times, join(works, names)), count))
}

/// Names and choices, in the order of the launches.
pub type Names = Vec<(String, Option<String>)>;

/// Splits contestants into launches, as a timer takes them, and names.
pub fn split(all: Vec<Opponent<'_>>) -> (Vec<Launch<'_>>, Names) {
    let parts = all
        .into_iter()
        .map(|opponent| (opponent.launch, (opponent.name, opponent.choice)));
    parts.unzip()
}

impl std::fmt::Debug for Opponent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opponent({}, {:?})", self.name, self.choice)
    }
}

fn join(works: Vec<Launch<'_>>, names: Names) -> Vec<Opponent<'_>> {
    let joined = works.into_iter().zip(names);
    let opponent = |(launch, (name, choice))| Opponent {
        name,
        choice,
        launch,
    };
    joined.map(opponent).collect()
}

/// Sorts by time, the fastest first, and leaves out those that are much slower than it.
fn by_time<'a>(times: &[Times], all: Vec<Opponent<'a>>) -> Vec<Opponent<'a>> {
    let medians = times.iter().map(|times| times.median_ms);
    let limit = HOPELESS * medians.clone().fold(f64::INFINITY, f64::min);
    let mut timed: Vec<(f64, Opponent<'a>)> = medians.zip(all).collect();
    timed.retain(|(ms, _)| *ms <= limit);
    timed.sort_by(|x, y| x.0.total_cmp(&y.0));
    timed.into_iter().map(|(_, opponent)| opponent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BenchError;
    use std::time::Duration;

    fn waiting(name: &str, ms: Option<u64>) -> Opponent<'static> {
        Opponent {
            name: name.into(),
            choice: Some(name.into()),
            launch: Box::new(move |_| match ms {
                Some(ms) => {
                    std::thread::sleep(Duration::from_millis(ms));
                    Ok(())
                }
                None => Err(BenchError::NoCase { only: "x".into() }),
            }),
        }
    }

    #[test]
    fn the_fastest_wins_and_who_refuses_is_left_out() -> Result<()> {
        let device = warpsmith::Device::emulator()?;
        let timer = Timer::new(&device.default_stream())?;
        let all = vec![
            // So long that no pause of a busy machine makes up for it: c runs once to stay.
            waiting("a", Some(300)),
            waiting("b", None),
            waiting("c", Some(1)),
        ];
        let winner = fastest(&timer, 1, all)?.and_then(|winner| winner.choice);
        assert_eq!(winner.as_deref(), Some("c of 2"));
        assert!(fastest(&timer, 1, vec![waiting("b", None)])?.is_none());
        Ok(())
    }
}

//! Whether something else was running while a round was measured.
//!
//! Readings of the machine are taken before a round and all through it. What they show together is a [`Window`]; what in
//! it is too much is a [`Cause`]. A round with a cause is discarded whole, all arms of it: nobody picks samples. What
//! a system does not say is unknown, and discards nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is still no contention. Constants: a bundle records them, and no option changes them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processor time of others over the whole window, as a fraction of all processors.
    pub other_share: f64,
    /// Processor time of others in any stretch of `burst_seconds`, in processors.
    pub burst: f64,
    /// The length of such a stretch, in seconds.
    pub burst_seconds: f64,
    /// Memory that is available at the least, as a fraction of all.
    pub least_memory: f64,
    /// Time in which somebody waited for memory, as a fraction of the window.
    pub stalled: f64,
    /// Bytes a second that are swapped in or out.
    pub swapped: f64,
    /// Times that the processor was throttled for its heat.
    pub throttled: u64,
    /// Use of the GPU before the round, in percent.
    pub gpu: f64,
    /// Other virtual machines that run on a host, as processors that they use count among the others' time already.
    pub virtual_machines: u64,
}

/// The limits of this version.
pub const LIMITS: Limits = Limits {
    other_share: 0.10,
    burst: 0.5,
    burst_seconds: 2.0,
    least_memory: 0.05,
    stalled: 0.05,
    swapped: 1_048_576.0,
    throttled: 0,
    gpu: 10.0,
    virtual_machines: 0,
};

/// What the machine says at one moment. Counters run from an arbitrary start; what is not known is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    /// When, in seconds.
    pub at: f64,
    /// How many processors there are.
    pub processors: f64,
    /// Seconds that all processors were busy, for whomever; on a virtual machine also what its host took away.
    pub busy: Option<f64>,
    /// Seconds of that for the measured processes and for whoever measures.
    pub own: f64,
    /// Load average of a minute.
    pub load: Option<f64>,
    /// Memory that is available, as a fraction of all.
    pub memory: Option<f64>,
    /// Seconds in which somebody waited for memory.
    pub stalled: Option<f64>,
    /// Bytes swapped in and out.
    pub swapped: Option<f64>,
    /// How often the processor was throttled for its heat.
    pub throttled: Option<u64>,
    /// Frequency of the first processor, in MHz.
    pub frequency: Option<f64>,
    /// Use of the GPU, in percent.
    pub gpu: Option<f64>,
    /// Virtual machines that run here.
    pub virtual_machines: Option<u64>,
}

/// What readings show together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// From the first reading to the last, in seconds.
    pub seconds: f64,
    /// How many processors there are.
    pub processors: f64,
    /// Processor time of others, in processors.
    pub other: Option<f64>,
    /// The most of it in a stretch, in processors.
    pub burst: Option<f64>,
    /// Load average of a minute at the end. It counts the measured processes, too, so nothing is judged by it.
    pub load: Option<f64>,
    /// The least memory that was available, as a fraction of all.
    pub memory: Option<f64>,
    /// Time in which somebody waited for memory, as a fraction.
    pub stalled: Option<f64>,
    /// Bytes swapped a second.
    pub swapped: Option<f64>,
    /// Times that the processor was throttled.
    pub throttled: Option<u64>,
    /// The lowest frequency, in MHz. Idle processors are slow, so nothing is judged by it.
    pub frequency: Option<f64>,
    /// Use of the GPU at the beginning, in percent.
    pub gpu: Option<f64>,
    /// The most virtual machines.
    pub virtual_machines: Option<u64>,
}

/// What was too much.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Others used the processors.
    Processors(f64),
    /// Others used them for a while.
    Burst(f64),
    /// Memory was short.
    Memory(f64),
    /// Somebody waited for memory.
    Stalled(f64),
    /// Memory was swapped.
    Swapped(f64),
    /// The processor was throttled.
    Throttled(u64),
    /// Somebody else used the GPU.
    Gpu(f64),
    /// Other virtual machines ran.
    VirtualMachines(u64),
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| share * 100.0;
        match self {
            Self::Processors(used) => write!(out, "others used {used:.2} processors"),
            Self::Burst(used) => {
                write!(out, "others used {used:.2} processors for {} s", LIMITS.burst_seconds)
            }
            Self::Memory(share) => write!(out, "{:.1} % of the memory were available", percent(share)),
            Self::Stalled(share) => {
                write!(out, "programs waited for memory {:.1} % of the time", percent(share))
            }
            Self::Swapped(rate) => write!(out, "{:.1} MiB a second were swapped", rate / 1_048_576.0),
            Self::Throttled(times) => write!(out, "the processor was throttled {times} times"),
            Self::Gpu(percent) => write!(out, "somebody else used {percent:.0} % of the GPU"),
            Self::VirtualMachines(count) => write!(out, "{count} virtual machines ran here"),
        }
    }
}

/// Sums up readings, in the order of time; none for fewer than two.
pub fn window(readings: &[Reading]) -> Option<Window> {
    let (first, last) = (readings.first()?, readings.last()?);
    let seconds = last.at - first.at;
    if readings.len() < 2 || seconds <= 0.0 {
        return None;
    }
    let grown = |of: fn(&Reading) -> Option<f64>| Some(((of(last)? - of(first)?) / seconds).max(0.0));
    let least = |of: fn(&Reading) -> Option<f64>| readings.iter().filter_map(of).reduce(f64::min);
    Some(Window {
        seconds,
        processors: last.processors,
        other: others(first, last),
        burst: burst(readings),
        load: last.load,
        memory: least(|reading| reading.memory),
        stalled: grown(|reading| reading.stalled),
        swapped: grown(|reading| reading.swapped),
        throttled: first.throttled.zip(last.throttled).map(|(first, last)| last.saturating_sub(first)),
        frequency: least(|reading| reading.frequency),
        gpu: first.gpu,
        virtual_machines: readings.iter().filter_map(|reading| reading.virtual_machines).max(),
    })
}

/// Processors that others used between two readings.
fn others(first: &Reading, last: &Reading) -> Option<f64> {
    let seconds = last.at - first.at;
    let busy = last.busy? - first.busy?;
    (seconds > 0.0).then(|| ((busy - (last.own - first.own)) / seconds).max(0.0))
}

/// The most in any stretch that is as long as it has to be.
fn burst(readings: &[Reading]) -> Option<f64> {
    let stretches = readings.iter().enumerate().filter_map(|(index, first)| {
        let long_enough = |last: &&Reading| last.at - first.at >= LIMITS.burst_seconds;
        others(first, readings.iter().skip(index).find(long_enough)?)
    });
    stretches.reduce(f64::max)
}

/// What of a window is too much. On a guest and for a program that uses none, `gpu` is simply not known.
pub fn causes(window: &Window) -> Vec<Cause> {
    let limits = LIMITS;
    let mut causes = Vec::new();
    let above = |value: Option<f64>, limit: f64| value.filter(|value| *value > limit);
    causes
        .extend(above(window.other, limits.other_share * window.processors.max(1.0)).map(Cause::Processors));
    if causes.is_empty() {
        causes.extend(above(window.burst, limits.burst).map(Cause::Burst));
    }
    causes.extend(window.memory.filter(|share| *share < limits.least_memory).map(Cause::Memory));
    causes.extend(above(window.stalled, limits.stalled).map(Cause::Stalled));
    causes.extend(above(window.swapped, limits.swapped).map(Cause::Swapped));
    causes.extend(window.throttled.filter(|times| *times > limits.throttled).map(Cause::Throttled));
    causes.extend(above(window.gpu, limits.gpu).map(Cause::Gpu));
    causes.extend(
        window.virtual_machines.filter(|count| *count > limits.virtual_machines).map(Cause::VirtualMachines),
    );
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second each, in which others use so many of two processors, and the measured processes one.
    fn readings(others: &[f64]) -> Vec<Reading> {
        let mut now = Reading { processors: 2.0, busy: Some(5.0), memory: Some(0.5), ..Reading::default() };
        let mut all = vec![now];
        for other in others {
            now = Reading {
                at: now.at + 1.0,
                busy: Some(now.busy.unwrap() + 1.0 + other),
                own: now.own + 1.0,
                ..now
            };
            all.push(now);
        }
        all
    }

    fn found(readings: &[Reading]) -> Vec<Cause> {
        causes(&window(readings).unwrap())
    }

    #[test]
    fn processor_time_of_others_counts_and_ones_own_does_not() {
        assert_eq!(found(&readings(&[0.0; 8])), []);
        assert_eq!(found(&readings(&[0.2; 8])), []);
        assert!(
            matches!(found(&readings(&[0.3; 8]))[..], [Cause::Processors(used)] if (used - 0.3).abs() < 1e-9)
        );
    }

    #[test]
    fn a_burst_counts_although_the_whole_is_quiet() {
        let mut quiet = vec![0.0; 60];
        quiet[30] = 0.9;
        assert_eq!(found(&readings(&quiet)), []);
        quiet[31] = 0.9;
        assert!(matches!(found(&readings(&quiet))[..], [Cause::Burst(used)] if (used - 0.9).abs() < 1e-9));
    }

    #[test]
    fn each_other_cause_has_its_limit() {
        let change = |edit: fn(&mut Reading)| {
            let mut all = readings(&[0.0, 0.0]);
            all.iter_mut().for_each(|reading| {
                reading.stalled = Some(0.0);
                reading.swapped = Some(0.0);
                reading.throttled = Some(4);
                reading.gpu = Some(1.0);
            });
            edit(all.last_mut().unwrap());
            found(&all)
        };
        assert_eq!(change(|_| {}), []);
        assert_eq!(change(|last| last.memory = Some(0.04)), [Cause::Memory(0.04)]);
        assert_eq!(change(|last| last.stalled = Some(0.2)), [Cause::Stalled(0.1)]);
        assert_eq!(change(|last| last.swapped = Some(4_194_304.0)), [Cause::Swapped(2_097_152.0)]);
        assert_eq!(change(|last| last.throttled = Some(5)), [Cause::Throttled(1)]);
        assert_eq!(change(|last| last.virtual_machines = Some(2)), [Cause::VirtualMachines(2)]);
        // The program itself uses the GPU: only what was there before it counts.
        assert_eq!(change(|last| last.gpu = Some(99.0)), []);
        let mut busy = readings(&[0.0]);
        busy[0].gpu = Some(50.0);
        assert_eq!(found(&busy), [Cause::Gpu(50.0)]);
    }

    #[test]
    fn what_is_not_known_discards_nothing() {
        let silent = |at| Reading { at, processors: 2.0, ..Reading::default() };
        let window = window(&[silent(0.0), silent(3.0)]).unwrap();
        assert_eq!((window.other, window.burst, causes(&window)), (None, None, vec![]));
        assert_eq!(super::window(&[silent(0.0)]), None);
        assert_eq!(super::window(&[]), None);
    }
}

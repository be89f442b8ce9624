//! Random numbers of the operators that ask for some. A seed gives the same numbers on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::HashMap;

/// Where a run takes its random numbers from.
#[derive(Debug, Default)]
pub struct Random {
    /// Of the whole run, for nodes that have none.
    seed: Option<u64>,
    /// How often numbers of a seed were asked for: a node in a loop gets others each time.
    asked: HashMap<u64, u64>,
}

impl Random {
    /// Numbers that follow from a seed, or that nobody can foresee.
    pub fn new(seed: Option<u64>) -> Random {
        Random { seed, asked: HashMap::new() }
    }

    /// The numbers of a node, which follow from its seed where it has one.
    ///
    /// # Errors
    /// Where the system has no random numbers to give.
    pub fn stream(&mut self, seed: Option<f64>) -> Result<Stream, String> {
        let bits = match (seed, self.seed) {
            (Some(seed), _) => seed.to_bits(),
            (None, Some(seed)) => seed,
            (None, None) => {
                let mut bytes = [0; 8];
                getrandom::fill(&mut bytes).map_err(|error| format!("the system has no random numbers: {error}"))?;
                u64::from_le_bytes(bytes)
            }
        };
        let asked = self.asked.entry(bits).or_default();
        let mut generator = ChaCha8Rng::seed_from_u64(bits);
        generator.set_stream(*asked);
        *asked += 1;
        Ok(Stream(Box::new(generator)))
    }
}

/// The numbers of one node.
#[derive(Clone, Debug)]
pub struct Stream(Box<ChaCha8Rng>);

impl Stream {
    /// At least 0 and below 1, in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * f64::from_bits(0x3CA0_0000_0000_0000)
    }

    /// Of mean 0 and standard deviation 1, by Box and Muller's method. `libm` computes alike everywhere.
    pub fn normal(&mut self) -> f64 {
        // The logarithm is not to be that of 0.
        let (radius, angle) = (1.0 - self.uniform(), self.uniform());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(std::f64::consts::TAU * angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_everywhere() {
        let first = |seed| Random::new(seed).stream(None).unwrap().0.next_u64();
        assert_eq!(first(Some(7)), first(Some(7)));
        assert_ne!(first(Some(7)), first(Some(8)));
        assert_ne!(first(None), first(None));
        let mut random = Random::new(Some(7));
        assert_ne!(random.stream(None).unwrap().uniform(), random.stream(None).unwrap().uniform());
        let of_node = |random: &mut Random| random.stream(Some(2.0)).unwrap().uniform();
        let first = of_node(&mut Random::new(None));
        assert_eq!(of_node(&mut random), first);
        assert_ne!(of_node(&mut random), first);
    }

    /// The mean and the variance of 100,000 numbers are within five standard errors.
    #[test]
    fn moments() {
        const COUNT: usize = 100_000;
        let moments = |mut draw: Box<dyn FnMut() -> f64>| {
            let numbers: Vec<f64> = (0..COUNT).map(|_| draw()).collect();
            let mean = numbers.iter().sum::<f64>() / COUNT as f64;
            (mean, numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / COUNT as f64)
        };
        let mut stream = Random::new(Some(1)).stream(None).unwrap();
        let (mean, variance) = moments(Box::new(move || stream.uniform()));
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / COUNT as f64).sqrt(), "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / COUNT as f64).sqrt(), "{variance}");
        let mut stream = Random::new(Some(2)).stream(None).unwrap();
        let (mean, variance) = moments(Box::new(move || stream.normal()));
        assert!(mean.abs() < 5.0 / (COUNT as f64).sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / COUNT as f64).sqrt(), "{variance}");
    }
}

//! How the memory that the kernels of a graph may take beyond its constants is divided among the steps.

use smallvec::SmallVec;

/// A faster way to compute a step, which takes memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workspace {
    /// Beyond the constants.
    pub bytes: usize,
    /// Multiplications of float32 that it takes as long as, and fewer than what would compute the step without it.
    pub taken: usize,
    pub saved: usize,
}

/// The ways of a step, of which it can have one.
pub type Workspaces = SmallVec<[Workspace; 2]>;

/// What any graph may take.
pub const LEAST_BUDGET: usize = 16 << 20;

/// Bytes for a graph with so many bytes of constants: with what fills up panels it stays below 1.3 times as many.
pub fn budget_beside(constants: usize) -> usize {
    (constants / 100 * 29).max(LEAST_BUDGET)
}

/// Parts of the budget, at most; what is offered takes whole ones.
const PARTS: usize = 1024;

/// Chooses at most one of each step's workspaces, so that the most is saved in so many bytes.
pub fn divide_budget(budget: usize, steps: &[Workspaces]) -> Vec<Option<usize>> {
    let part = budget.div_ceil(PARTS).max(1);
    let parts = budget / part;
    // By the parts that may be taken: the most that the steps before save in them, and for each step how it does its share.
    let mut most = vec![0usize; parts + 1];
    let mut ways: Vec<Vec<Option<usize>>> = Vec::new();
    for workspaces in steps {
        let mut way = Vec::new();
        if !workspaces.is_empty() {
            way.resize(parts + 1, None);
            let before = most.clone();
            for (number, workspace) in workspaces.iter().enumerate() {
                let taken = workspace.bytes.div_ceil(part);
                for all in taken..=parts {
                    let saved = before[all - taken].saturating_add(workspace.saved);
                    if saved > most[all] {
                        (most[all], way[all]) = (saved, Some(number));
                    }
                }
            }
        }
        ways.push(way);
    }
    let mut left = parts;
    let one = |(way, workspaces): (&Vec<Option<usize>>, &Workspaces)| {
        let number = (*way.get(left)?)?;
        left -= workspaces[number].bytes.div_ceil(part);
        Some(number)
    };
    let mut chosen: Vec<Option<usize>> = ways.iter().zip(steps).rev().map(one).collect();
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspaces(list: &[(usize, usize)]) -> Workspaces {
        list.iter().map(|&(bytes, saved)| Workspace { bytes, taken: 0, saved }).collect()
    }

    #[test]
    fn the_most_is_saved() {
        // What saves most for its bytes is not taken where it keeps out two others.
        let steps = [workspaces(&[(600, 70)]), workspaces(&[(500, 50)]), workspaces(&[]), workspaces(&[(500, 45)])];
        assert_eq!(divide_budget(1024, &steps), [None, Some(0), None, Some(0)]);
        assert_eq!(divide_budget(1100, &steps), [Some(0), Some(0), None, None]);
        assert_eq!(divide_budget(1600, &steps), [Some(0), Some(0), None, Some(0)]);
        assert_eq!(divide_budget(499, &steps), [None; 4]);
        // One of each step's.
        let steps = [workspaces(&[(100, 10), (300, 15)]), workspaces(&[(100, 10), (300, 20)])];
        assert_eq!(divide_budget(1024, &steps), [Some(1), Some(1)]);
        assert_eq!(divide_budget(450, &steps), [Some(0), Some(1)]);
        assert_eq!(divide_budget(250, &steps), [Some(0), Some(0)]);
        assert_eq!(divide_budget(120, &steps[..1]), [Some(0)]);
        assert_eq!(divide_budget(1 << 40, &steps), [Some(1), Some(1)]);
        assert_eq!(divide_budget(0, &steps), [None, None]);
    }

    #[test]
    fn what_is_chosen_fits() {
        let mut seed = 5usize;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..50 {
            let steps: Vec<Workspaces> = (0..next(9))
                .map(|_| (0..next(3)).map(|_| Workspace { bytes: next(5000), taken: 0, saved: 1 + next(100) }).collect())
                .collect();
            let budget = next(12_000);
            let chosen = divide_budget(budget, &steps);
            let taken: usize = chosen.iter().zip(&steps).filter_map(|(way, workspaces)| Some(workspaces[(*way)?].bytes)).sum();
            assert!(taken <= budget, "{taken} of {budget}");
        }
    }
}
